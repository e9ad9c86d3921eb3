"""Text as numbers: words -> stable buckets. W words.

It does not depend on Python's `hash()`, which differs from one process to the next.
"""

import zlib

import numpy as np
from jaxtyping import Int

BUCKETS = 1000
NO_WORD = -1
"""The id that fills the rest of a short text."""


def buckets_of(text: str, *, words: int) -> Int[np.ndarray, " W"]:
    """CRC-32 of each lower-cased word modulo `BUCKETS`, then `NO_WORD`; words past `words` are dropped."""
    found = [zlib.crc32(word.encode()) % BUCKETS for word in text.lower().split()[:words]]
    return np.array(found + [NO_WORD] * (words - len(found)), np.int32)
