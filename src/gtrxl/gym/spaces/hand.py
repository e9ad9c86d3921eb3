"""What a policy draws -> a Gymnasium action of any kind, and the same action as numbers for the next observation.

K choices, A numbers in an action, F numbers that tell of it.
"""

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from jaxtyping import Float

from gtrxl.tasks.errors import TaskError
from gtrxl.tasks.specs import ActionSpec, numbers_in

NO_BOUND = 1e18
"""A bound as far out as this is none: some tasks write the largest float instead of infinity."""


@dataclasses.dataclass(frozen=True)
class Choice:
    """Discrete, MultiDiscrete or MultiBinary: whole numbers, each from its start."""

    shape: tuple[int, ...]
    counts: tuple[int, ...]
    starts: tuple[int, ...]
    dtype: str

    @functools.cached_property
    def _starts(self) -> np.ndarray:
        return np.array(self.starts, np.int64)

    def make(self, chosen: np.ndarray) -> Any:
        """The space's member."""
        member = (chosen + self._starts).astype(self.dtype).reshape(self.shape)
        return member if self.shape else member[()]


@dataclasses.dataclass(frozen=True)
class Stretch:
    """A Box: numbers in [-1, 1] are clipped and stretched between two bounds. With a lower bound alone -1 stands for it, with an
    upper one 1 does, and nothing is stretched; with none they are taken as they are."""

    shape: tuple[int, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    dtype: str

    @functools.cached_property
    def clips(self) -> tuple[np.ndarray, np.ndarray]:
        """How far each number may go."""
        below, above = self._bounded
        return np.where(below, -1.0, -np.inf), np.where(above, 1.0, np.inf)

    @functools.cached_property
    def _bounded(self) -> tuple[np.ndarray, np.ndarray]:
        return np.array(self.low) > -NO_BOUND, np.array(self.high) < NO_BOUND

    @functools.cached_property
    def line(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Least, most, middle and slope."""
        below, above = self._bounded
        low, high = np.where(below, self.low, -NO_BOUND), np.where(above, self.high, NO_BOUND)
        both = below & above
        one_sided = np.where(below, low + 1, np.where(above, high - 1, 0.0))
        return low, high, np.where(both, (low + high) / 2, one_sided), np.where(both, (high - low) / 2, 1.0)

    def make(self, numbers: np.ndarray) -> np.ndarray:
        """The space's member."""
        low, high, middle, slope = self.line
        member = np.clip(middle + slope * np.clip(numbers, *self.clips), low, high)
        if np.dtype(self.dtype).kind in "iub":
            member = np.rint(member)
        return member.astype(self.dtype).reshape(self.shape)


Leaf = Choice | Stretch


@dataclasses.dataclass(frozen=True)
class _Group:
    """A Dict (with keys) or a Tuple (without)."""

    keys: tuple[str, ...] | None
    members: tuple[Any, ...]


@dataclasses.dataclass(frozen=True)
class Hand:
    """How an agent acts on a task.

    `hand.to_task(action)` takes what the policy of `hand.spec` gives for one stream. `hand.features(action)` is what the agent is
    told of it afterwards, `hand.nothing` what it is told before its first.
    """

    spec: ActionSpec
    tree: Leaf | _Group

    @classmethod
    def of(cls, space: gymnasium.Space) -> "Hand":
        """The hand for an action space."""
        tree = _tree(space, "action")
        leaves = list(_leaves(tree))
        discrete = tuple(count for leaf in leaves if isinstance(leaf, Choice) for count in leaf.counts)
        continuous = sum(len(leaf.low) for leaf in leaves if isinstance(leaf, Stretch))
        kind = "categorical" if isinstance(space, spaces.Discrete) else "gaussian" if isinstance(space, spaces.Box) else "hybrid"
        return cls(spec=ActionSpec(kind, discrete=discrete, continuous=continuous), tree=tree)

    @property
    def nothing(self) -> Float[np.ndarray, " F"]:
        """No action yet."""
        return np.zeros(self.spec.noise, np.float32)

    def to_task(self, action: Any) -> Any:
        """A member of the action space."""
        if self._one is not None and isinstance(action, np.integer):
            return self._one.type(int(action) + self._one_start)
        discrete, continuous = self._apart(action)
        if not np.isfinite(continuous).all():
            raise TaskError(
                f"an action must be finite, got {continuous.tolist()}; the agent has diverged: lower the learning rate"
            )
        made = []
        k = a = 0
        for leaf in self.leaves:
            if isinstance(leaf, Choice):
                made.append(leaf.make(discrete[k : k + len(leaf.counts)]))
                k += len(leaf.counts)
            else:
                made.append(leaf.make(continuous[a : a + len(leaf.low)]))
                a += len(leaf.low)
        return built(self.tree, iter(made))

    def features(self, action: Any) -> Float[np.ndarray, " F"]:
        """Choices one-hot, then numbers, clipped where the task has bounds."""
        discrete, continuous = self._apart(action)
        told = self.nothing
        first, least, most = self._layout
        told[first + discrete] = 1.0
        if len(continuous):
            told[len(told) - len(continuous) :] = np.clip(continuous, least, most)
        return told

    def tell(self, action: Any, to: np.ndarray) -> None:
        """Writes the `features` of an action over zeros."""
        if self._one is not None and isinstance(action, np.integer):
            to[action] = 1.0
        else:
            to[:] = self.features(action)

    @functools.cached_property
    def _one(self) -> np.dtype | None:
        """What a space of one choice is made of; None for all other spaces. Most tasks have one, and it is quickly made."""
        return np.dtype(self.tree.dtype) if isinstance(self.tree, Choice) and not self.tree.shape else None

    @functools.cached_property
    def _one_start(self) -> int:
        return self.leaves[0].starts[0] if isinstance(self.leaves[0], Choice) else 0

    @functools.cached_property
    def leaves(self) -> tuple[Leaf, ...]:
        """The parts of an action, in the order in which a policy gives them."""
        return tuple(_leaves(self.tree))

    @functools.cached_property
    def _layout(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        counts = np.array(self.spec.discrete, np.int64)
        clips = [leaf.clips for leaf in self.leaves if isinstance(leaf, Stretch)]
        least, most = (np.concatenate([clip[side] for clip in clips]) if clips else np.zeros(0) for side in (0, 1))
        return np.cumsum(counts) - counts, least, most

    def _apart(self, action: Any) -> tuple[np.ndarray, np.ndarray]:
        """The choices and the numbers of an action, each with one axis."""
        kind = self.spec.kind
        discrete = action if kind == "categorical" else action.get("discrete", ()) if kind == "hybrid" else ()
        continuous = action if kind == "gaussian" else action.get("continuous", ()) if kind == "hybrid" else ()
        both = np.asarray(discrete, np.int64).reshape(-1), np.asarray(continuous, np.float64).reshape(-1)
        if (len(both[0]), len(both[1])) != (len(self.spec.discrete), self.spec.continuous):
            raise TaskError(
                f"an action must have {len(self.spec.discrete)} choices and {self.spec.continuous} numbers, "
                f"got {len(both[0])} and {len(both[1])}; it is for another task"
            )
        return both


def _tree(space: gymnasium.Space, place: str) -> Leaf | _Group:
    if isinstance(space, spaces.Dict):
        return _Group(tuple(space.spaces), tuple(_tree(part, f"{place}[{key!r}]") for key, part in space.spaces.items()))
    if isinstance(space, spaces.Tuple):
        return _Group(None, tuple(_tree(part, f"{place}[{i}]") for i, part in enumerate(space.spaces)))
    dtype = str(space.dtype)
    if isinstance(space, spaces.Discrete):
        return Choice((), (int(space.n),), (int(space.start),), dtype)
    if isinstance(space, spaces.MultiDiscrete):
        counts, starts = space.nvec.reshape(-1).tolist(), space.start.reshape(-1).tolist()
        return Choice(space.nvec.shape, tuple(counts), tuple(starts), dtype)
    if isinstance(space, spaces.MultiBinary):
        size = numbers_in(space.shape)
        return Choice(space.shape, (2,) * size, (0,) * size, dtype)
    if isinstance(space, spaces.Box):
        low, high = (np.asarray(bound, np.float64).reshape(-1).tolist() for bound in (space.low, space.high))
        return Stretch(space.shape, tuple(low), tuple(high), dtype)
    raise TaskError(
        f"{place} must be Discrete, MultiDiscrete, MultiBinary, Box, or a Dict or Tuple of them, "
        f"got {' '.join(str(space).split())}; wrap the task in a gymnasium.ActionWrapper"
    )


def _leaves(tree: Leaf | _Group) -> Iterator[Leaf]:
    if isinstance(tree, _Group):
        for member in tree.members:
            yield from _leaves(member)
    else:
        yield tree


def built(tree: Leaf | _Group, made: Iterator[Any]) -> Any:
    """A member of the action space, of members of its parts."""
    if not isinstance(tree, _Group):
        return next(made)
    members = tuple(built(member, made) for member in tree.members)
    return members if tree.keys is None else dict(zip(tree.keys, members, strict=True))
