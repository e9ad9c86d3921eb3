"""A Gymnasium observation of any kind -> arrays of fixed shapes for a network, checked part by part.

O numbers, H height, W width or words, C channels.

Numbers of all kinds go into one vector: flattened Boxes as they are, whole numbers one-hot, then the previous action and its
reward where the agent is told of them. Pictures and texts stay apart.
"""

import abc
import dataclasses
import functools
import math
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces

from gtrxl.gym.spaces.hand import Hand
from gtrxl.gym.spaces.views import ObservationView
from gtrxl.tasks.errors import TaskError
from gtrxl.tasks.specs import LARGEST, VECTOR, ObservationSpec, numbers_in
from gtrxl.tasks.words import buckets_of

Previous = Literal["none", "action", "action+reward"]
Path = tuple[str | int, ...]

LEAST_SIDE = 8
"""A picture is at least as high and as wide; what is smaller is a table of numbers."""
MOST_WORDS = 32
"""Words that are read of a text."""


class _PartError(TaskError):
    """A part of an observation that is not what its space says."""

    def __init__(self, rule: str):
        super().__init__(f"{rule}; the task breaks its own observation_space")
        self.rule = rule


@dataclasses.dataclass(frozen=True)
class Part(abc.ABC):
    """One leaf of an observation space; `path` leads to it."""

    path: Path

    @property
    def place(self) -> str:
        return "observation" + "".join(f"[{key!r}]" for key in self.path)

    def wrong(self, rule: str, got: str) -> TaskError:
        """The error of this part."""
        return _PartError(f"{self.place} must {rule}, got {got}")

    def find(self, observation: Any) -> Any:
        """This part of a whole observation."""
        for depth, key in enumerate(self.path):
            kind = Mapping if isinstance(key, str) else (tuple, list)
            if not isinstance(observation, kind):
                what = "a dict" if isinstance(key, str) else "a tuple"
                raise dataclasses.replace(self, path=self.path[:depth]).wrong(f"be {what}", _said(observation))
            try:
                observation = observation[key]  # pyright: ignore[reportCallIssue, reportArgumentType]
            except (KeyError, IndexError):
                have = list(observation) if isinstance(observation, Mapping) else f"{len(observation)} of them"
                raise _PartError(f"{self.place} is missing, got {have}") from None
        return observation


@dataclasses.dataclass(frozen=True)
class NumberPart(Part):
    """A part that goes into the vector."""

    @functools.cached_property
    @abc.abstractmethod
    def size(self) -> int:
        """How many numbers it is there."""

    @abc.abstractmethod
    def write(self, value: Any, to: np.ndarray) -> None:
        """Fills zeros."""


@dataclasses.dataclass(frozen=True)
class Numbers(NumberPart):
    """A Box or MultiBinary, flattened."""

    shape: tuple[int, ...]
    measured: bool = False
    """They may be of any size: floats."""

    @functools.cached_property
    def size(self) -> int:
        return numbers_in(self.shape)

    def write(self, value: Any, to: np.ndarray) -> None:
        array = _array(value)
        if array.dtype.kind not in "biuf":
            raise self.wrong("hold numbers", _said(value))
        if array.shape != self.shape:
            raise self.wrong(f"have shape {list(self.shape)}", _said(value))
        if array.dtype == np.float32:
            to[:] = array.reshape(-1)
        else:
            with np.errstate(over="ignore"):
                to[:] = array.reshape(-1)
        if not np.isfinite(to).all():
            where = np.argwhere(~np.isfinite(to.reshape(self.shape)))[0].tolist()
            raise self.wrong("be finite in float32", f"{array[tuple(where)]} at {where}")


@dataclasses.dataclass(frozen=True)
class Choices(NumberPart):
    """Discrete or MultiDiscrete: whole numbers, each from its start, one-hot side by side."""

    shape: tuple[int, ...]
    counts: tuple[int, ...]
    starts: tuple[int, ...]

    @functools.cached_property
    def size(self) -> int:
        return sum(self.counts)

    @functools.cached_property
    def _table(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        counts, starts = np.array(self.counts, np.int64), np.array(self.starts, np.int64)
        return counts, starts, np.cumsum(counts) - counts

    def write(self, value: Any, to: np.ndarray) -> None:
        if not self.shape and (type(value) is int or isinstance(value, np.integer)):  # what most tasks show, without a detour
            at = int(value) - self.starts[0]
            if 0 <= at < self.counts[0]:
                to[at] = 1.0
                return
        array = _array(value)
        if array.dtype.kind not in "iu":
            raise self.wrong("be whole" if self.shape else "be a whole number", _said(value))
        if array.shape != self.shape and not (array.size == 1 and not self.shape):
            raise self.wrong(f"have shape {list(self.shape)}", _said(value))
        counts, starts, first = self._table
        index = array.reshape(-1).astype(np.int64) - starts
        outside = (index < 0) | (index >= counts)
        if outside.any():
            i = int(np.argmax(outside))
            raise self.wrong(f"be from {starts[i]} to {starts[i] + counts[i] - 1}", str(array.reshape(-1)[i]))
        to[first + index] = 1.0


@dataclasses.dataclass(frozen=True)
class Picture(Part):
    """uint8 [H, W, C], [C, H, W] or [H, W]; always [H, W, C] afterwards."""

    shape: tuple[int, ...]

    @property
    def name(self) -> str:
        return _name("image", self.path)

    @functools.cached_property
    def hwc(self) -> tuple[int, int, int]:
        a, b, *c = self.shape
        return (a, b, 1) if not c else (a, b, c[0]) if _is_last(self.shape) else (b, c[0], a)

    def read(self, value: Any) -> np.ndarray:
        array = _array(value)
        if array.dtype != np.uint8:
            raise self.wrong("be uint8", _said(value))
        if array.shape != self.shape:
            raise self.wrong(f"have shape {list(self.shape)}", _said(value))
        if len(self.shape) == 3 and not _is_last(self.shape):
            array = np.moveaxis(array, 0, -1)
        return np.array(array.reshape(self.hwc))  # a task may write into its own array again


@dataclasses.dataclass(frozen=True)
class Words(Part):
    """Text, as word buckets."""

    words: int

    @property
    def name(self) -> str:
        return _name("text", self.path)

    def read(self, value: Any) -> np.ndarray:
        if not isinstance(value, str):
            raise self.wrong("be text", _said(value))
        return buckets_of(value, words=self.words)


@dataclasses.dataclass(frozen=True)
class Lens:
    """How an agent sees a task: `lens(observation, action=..., reward=...)` gives what `lens.spec` describes.

    `action` is the one taken before, as the policy gave it; None at the start of an episode.
    """

    spec: ObservationSpec
    parts: tuple[Part, ...]
    hand: Hand
    previous: Previous
    # What follows says nothing of what the agent is shown in the end.
    views: tuple[ObservationView, ...] = dataclasses.field(default=(), compare=False)
    """What observations go through first."""
    takes: str = dataclasses.field(default="", compare=False)
    """In words what it is given, if a user gives it; empty if a task does."""

    @classmethod
    def of(
        cls,
        space: gymnasium.Space,
        *,
        hand: Hand,
        previous: Previous = "action",
        views: tuple[ObservationView, ...] = (),
        raw: gymnasium.Space | None = None,
    ) -> "Lens":
        """The lens for an observation space; `hand` is that of the action space.

        A lens that users look through is given `raw`, the space of what they have, and the `views` that lead from there to
        `space`; it takes members of either.
        """
        parts = tuple(_parts(space, ()))
        told = {"none": 0, "action": hand.spec.noise, "action+reward": hand.spec.noise + 1}[previous]
        spec = ObservationSpec(
            vector=sum(part.size for part in parts if isinstance(part, NumberPart)) + told,
            images=tuple((part.name, part.hwc) for part in parts if isinstance(part, Picture)),
            texts=tuple((part.name, part.words) for part in parts if isinstance(part, Words)),
            measured=_measured(parts, reward_at=None if previous != "action+reward" else told - 1),
        )
        if not spec.vector and spec.only_vector:
            raise TaskError(f"observations must have something in them, got {space}; without any, set previous to 'action'")
        takes = "" if raw is None else _in_words(raw)
        return cls(spec=spec, parts=parts, hand=hand, previous=previous, views=views, takes=takes)

    def __call__(self, observation: Any, *, action: Any = None, reward: float = 0.0) -> Any:
        """One observation as arrays; a part that is not what the space says raises a `TaskError` that names it."""
        seen = observation
        for view in self.views:
            seen = view(seen)
        try:
            return self._read(seen, action=action, reward=reward)
        except _PartError as error:
            if not self.takes:
                raise
            raise TaskError(
                f"an observation must be {self.takes}, got {_member(observation)} ({error.rule}); "
                "give what the environment's reset and step return"
            ) from error

    def _read(self, observation: Any, *, action: Any, reward: float) -> Any:
        vector = np.zeros(self.spec.vector, np.float32)
        others: dict[str, np.ndarray] = {}
        at = 0
        for part in self.parts:
            value = part.find(observation)
            if isinstance(part, NumberPart):
                part.write(value, vector[at : at + part.size])
                at += part.size
            elif isinstance(part, Picture | Words):
                others[part.name] = part.read(value)
        if self.previous != "none" and action is not None:
            self.hand.tell(action, vector[at : at + self.hand.spec.noise])
            if self.previous == "action+reward":
                if not math.isfinite(reward):
                    raise TaskError(f"a reward must be finite, got {reward}; the task's step gave it")
                vector[-1] = reward
        if self.spec.only_vector:
            return vector
        return {VECTOR: vector, **others} if self.spec.vector else others


def _measured(parts: tuple[Part, ...], *, reward_at: int | None) -> tuple[tuple[int, int], ...]:
    """Where the floats are, and the reward, which comes so far after the last of the parts."""
    ranges, at = [], 0
    for part in parts:
        if isinstance(part, NumberPart):
            if isinstance(part, Numbers) and part.measured and part.size:
                ranges.append((at, at + part.size))
            at += part.size
    return tuple(ranges) if reward_at is None else (*ranges, (at + reward_at, at + reward_at + 1))


def _parts(space: gymnasium.Space, path: Path) -> Iterator[Part]:
    if isinstance(space, spaces.Dict):
        for key, part in space.spaces.items():
            yield from _parts(part, (*path, key))
    elif isinstance(space, spaces.Tuple):
        for i, part in enumerate(space.spaces):
            yield from _parts(part, (*path, i))
    elif isinstance(space, spaces.Box):
        yield Picture(path, space.shape) if _is_picture(space) else Numbers(path, space.shape, space.dtype.kind == "f")
    elif isinstance(space, spaces.MultiBinary):
        yield Numbers(path, space.shape)
    elif isinstance(space, spaces.Discrete):
        yield _choices(path, space, (), [int(space.n)], [int(space.start)])
    elif isinstance(space, spaces.MultiDiscrete):
        yield _choices(path, space, space.nvec.shape, space.nvec.reshape(-1).tolist(), space.start.reshape(-1).tolist())
    elif isinstance(space, spaces.Text):
        yield Words(path, min(MOST_WORDS, (int(space.max_length) + 1) // 2))
    elif space.dtype is not None and space.dtype.kind == "U":  # MiniGrid's missions
        yield Words(path, MOST_WORDS)
    else:
        place = "observation" + "".join(f"[{key!r}]" for key in path)
        raise TaskError(
            f"{place} must be Box, Discrete, MultiDiscrete, MultiBinary, Text, or a Dict or Tuple of them, got {_said(space)}; "
            "wrap the task in a gymnasium.ObservationWrapper"
        )


def _choices(path: Path, space: gymnasium.Space, shape: tuple[int, ...], counts: list[int], starts: list[int]) -> Choices:
    part = Choices(path, shape=shape, counts=tuple(counts), starts=tuple(starts))
    if part.size > LARGEST:
        raise TaskError(
            f"{part.place} must have at most {LARGEST} values in all, got {_said(space)}; give it as numbers in a Box"
        )
    return part


def _is_picture(space: spaces.Box) -> bool:
    if space.dtype != np.uint8 or len(space.shape) not in (2, 3):
        return False
    if len(space.shape) == 2:
        return min(space.shape) >= LEAST_SIDE
    return _is_last(space.shape) or (space.shape[0] in (1, 3, 4) and min(space.shape[1:]) >= LEAST_SIDE)


def _is_last(shape: tuple[int, ...]) -> bool:
    return shape[-1] in (1, 3, 4) and min(shape[:2]) >= LEAST_SIDE


def _name(kind: str, path: Path) -> str:
    return f"{kind}:{'/'.join(map(str, path))}" if path else kind


def _array(value: Any) -> np.ndarray:
    try:
        return np.asarray(value)
    except ValueError:  # lists of unequal lengths
        return np.array(None, object)


def _in_words(space: gymnasium.Space) -> str:
    """What a member of a space looks like."""
    if isinstance(space, spaces.Dict):
        return "a dict of " + ", ".join(f"{key}: {_in_words(part)}" for key, part in space.spaces.items())
    if isinstance(space, spaces.Tuple):
        return "a tuple of " + ", ".join(map(_in_words, space.spaces))
    if isinstance(space, spaces.Discrete):
        return f"a whole number from {space.start} to {space.start + space.n - 1}"
    if isinstance(space, spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary):
        return f"{space.dtype} of shape {list(space.shape)}"
    return "text"


def _member(value: Any) -> str:
    """What was given instead."""
    if isinstance(value, Mapping):
        return "a dict of " + ", ".join(f"{key}: {_member(part)}" for key, part in value.items())
    if isinstance(value, tuple):
        return "a tuple of " + ", ".join(map(_member, value))
    return _said(value)


def _said(value: Any) -> str:
    """A value in few words, on one line."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} of shape {list(value.shape)}"
    text = " ".join(f"{value!r}".split())
    kind = "" if isinstance(value, str | gymnasium.Space) else f" ({type(value).__name__})"
    return (text if len(text) <= 120 else text[:117] + "...") + kind
