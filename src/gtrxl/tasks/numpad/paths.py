"""The hidden sequences of Numpad: paths of king's moves over N x N pads that visit no pad twice.

N pads on a side, P = N * N pads, L numbers in a sequence, S sequences.
"""

import functools

import numpy as np
from jaxtyping import Bool, Int8


@functools.cache
def neighbours(size: int) -> Bool[np.ndarray, "P P"]:
    """Which pads a king's move leads to from each pad (never to itself)."""
    row, column = np.divmod(np.arange(size * size), size)
    near = np.maximum(np.abs(row[:, None] - row), np.abs(column[:, None] - column)) == 1
    near.setflags(write=False)
    return near


@functools.cache
def paths(size: int, length: int) -> Int8[np.ndarray, "S L"]:
    """Every such path of `length` pads, in lexicographic order. The largest here, 4 x 4 with 13 pads, has over a million."""
    near = neighbours(size)
    pads = size * size
    grown = np.arange(pads, dtype=np.int8)[:, None]
    visited = np.eye(pads, dtype=bool)
    for _ in range(length - 1):
        which, pad = np.nonzero(near[grown[:, -1]] & ~visited)
        grown = np.concatenate([grown[which], pad[:, None].astype(np.int8)], axis=1)
        visited = visited[which]
        visited[np.arange(len(pad)), pad] = True
    grown.setflags(write=False)
    return grown


@functools.cache
def orders(size: int, length: int) -> Int8[np.ndarray, "S P"]:
    """The same paths the other way round: for each pad its place in the sequence, or -1 when it is not in it."""
    sequences = paths(size, length)
    order = np.full((len(sequences), size * size), -1, np.int8)
    np.put_along_axis(order, sequences.astype(np.int64), np.arange(length, dtype=np.int8)[None], axis=1)
    order.setflags(write=False)
    return order
