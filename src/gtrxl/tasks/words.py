"""Text as numbers: words -> stable buckets. W words.

Every word that instructions are known to use has a bucket of its own, so that no two instructions look the same; any other word
goes by its hash. It does not depend on Python's `hash()`, which differs from one process to the next.
"""

import types
import zlib
from collections.abc import Iterable, Mapping

import numpy as np
from jaxtyping import Int

BUCKETS = 1000
"""As many as the paper has."""
NO_WORD = -1
"""The id that fills the rest of a short text."""

_OURS = """
    red green blue yellow magenta cyan orange white purple brown
    ball cube cone pillar ring cross diamond apple cake car cassette hat tv pad flag
    a an collect find get go is matches not object one pick take that the to touch up
"""
"""Of our first levels. They stand first, and so keep the buckets that agents were trained with."""
_DMLAB = """
    apple2 balloon banana bottle can chair cherries cow flower fork fridge guitar hair_brush hammer ice_lolly jug key knife ladder
    mug pencil pig pincer plant saxophone shoe spoon suitcase tennis_racket tomato toothbrush tree wine_glass zebra
    hair brush ice lolly tennis racket wine glass
    black grey pink fence
    in room near every all objects are any anything most
    red? green? blue? yellow? magenta? cyan? orange? white? purple? brown? black?
    bot shooter gun shield mushroom rock cactus shrub
"""
"""Of the language levels of DMLab-30: its shapes, with and without the line between two words, its colours, its sentences; and
what else stands about in ours."""
VOCABULARY: tuple[str, ...] = (*_OURS.split(), *_DMLAB.split())
"""The words that have a bucket of their own. New ones go to the end: those before them then stay where they are."""


def buckets_of(text: str, *, words: int) -> Int[np.ndarray, " W"]:
    """The bucket of each lower-cased word, then `NO_WORD`; words past `words` are dropped."""
    found = [PLACES[word] if word in PLACES else _hash(word) for word in text.lower().split()[:words]]
    return np.array(found + [NO_WORD] * (words - len(found)), np.int32)


def _hash(word: str) -> int:
    return zlib.crc32(word.encode()) % BUCKETS


def _placed(words: Iterable[str]) -> Mapping[str, int]:
    """Each word's bucket: that of its hash, or where an earlier word has that, the next one that is free."""
    taken: dict[int, str] = {}
    for word in words:
        place = _hash(word)
        while place in taken:
            place = (place + 1) % BUCKETS
        taken[place] = word
    return types.MappingProxyType({word: place for place, word in taken.items()})


PLACES: Mapping[str, int] = _placed(VOCABULARY)
"""Each known word's bucket."""
