"""What an agent is shown and what it may do, as plain sizes: all that a network must know of a task's spaces.

O numbers, H height, W width or words, C channels, A numbers in an action.
"""

import dataclasses
import math
from typing import Any, Literal

import gymnasium
import numpy as np

from gtrxl.tasks.errors import TaskError

VECTOR = "vector"
"""Where the numbers are in an observation that has pictures or text besides."""
LARGEST = 100_000
"""Possible values of a whole number that are still told apart one by one."""


@dataclasses.dataclass(frozen=True)
class ObservationSpec:
    """The parts of an observation: numbers in one vector, pictures and texts by name.

    An observation of numbers alone is that vector, float32 [O]. Any other is a dict: "vector", pictures as uint8 [H, W, C], texts
    as int32 [W] of word buckets.
    """

    vector: int
    """Numbers; 0 for none."""
    images: tuple[tuple[str, tuple[int, int, int]], ...] = ()
    texts: tuple[tuple[str, int], ...] = ()
    measured: tuple[tuple[int, int], ...] = ()
    """Where in the vector there are numbers of no known size: first, and one past the last."""

    @classmethod
    def of(cls, space: gymnasium.Space) -> "ObservationSpec":
        """Of a compiled task's space: a vector of floats, or a Dict of "vector" (floats), pictures (uint8 [H, W, C]) and texts
        (int32 [W])."""
        entries = dict(space.spaces) if isinstance(space, gymnasium.spaces.Dict) else {VECTOR: space}
        vector, images, texts = 0, [], []
        for name, part in entries.items():
            shape, dtype = part.shape, part.dtype
            if not isinstance(part, gymnasium.spaces.Box) or shape is None or dtype is None:
                raise _unreadable(name, part)
            if name == VECTOR and len(shape) == 1 and dtype.kind == "f":
                vector = shape[0]
            elif name != VECTOR and len(shape) == 3 and dtype == np.uint8:
                images.append((name, shape))
            elif name != VECTOR and len(shape) == 1 and dtype == np.int32:
                texts.append((name, shape[0]))
            else:
                raise _unreadable(name, part)
        return cls(vector=vector, images=tuple(images), texts=tuple(texts))

    @property
    def only_vector(self) -> bool:
        """The observation is an array, not a dict."""
        return not self.images and not self.texts

    def zeros(self, *leading: int) -> Any:
        """An observation of zeros, with these axes in front: NumPy arrays of the right shapes and types."""
        vector = np.zeros((*leading, self.vector), np.float32)
        if self.only_vector:
            return vector
        parts: dict[str, np.ndarray] = {VECTOR: vector} if self.vector else {}
        parts |= {name: np.zeros((*leading, *shape), np.uint8) for name, shape in self.images}
        return parts | {name: np.zeros((*leading, words), np.int32) for name, words in self.texts}


@dataclasses.dataclass(frozen=True)
class ActionSpec:
    """The parts of an action: choices, each one of so many, and numbers in [-1, 1].

    `categorical` actions are one whole number, `gaussian` ones float32 [A]; `hybrid` ones are a dict: "discrete" int32 [K] and
    "continuous" float32 [A], those of them that exist.
    """

    kind: Literal["categorical", "gaussian", "hybrid"]
    discrete: tuple[int, ...] = ()
    """How many values each choice has."""
    continuous: int = 0

    def __post_init__(self):
        if not self.discrete and not self.continuous:
            raise TaskError("an action must have a choice or a number in it, got none; there is nothing to learn")
        for choices in self.discrete:
            if not 1 <= choices <= LARGEST:
                raise TaskError(f"a choice must be among 1 to {LARGEST} values, got {choices}; split it into several")

    @property
    def noise(self) -> int:
        """How many random numbers an action is drawn from."""
        return sum(self.discrete) + self.continuous


def numbers_in(shape: tuple[int, ...]) -> int:
    """How many there are in an array of this shape."""
    return math.prod(shape)


def _unreadable(name: str, space: gymnasium.Space) -> TaskError:
    return TaskError(
        f"a compiled task shows floats with one axis, or a Dict of 'vector', pictures (uint8, 3 axes) and texts (int32, 1 axis), "
        f"got {space} as {name!r}; shape its observations so"
    )
