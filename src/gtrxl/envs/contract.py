"""What every task promises: two pure functions for one stream, and the spaces they speak in.

    state, observation = task.reset(key)
    state, step = task.step(state, action)      step: observation, reward, terminated, truncated

1. Both are pure and have fixed shapes: they run under `jit`, `vmap` and `scan`; the same key and actions give the same episode.
2. After an end (`terminated` or `truncated`) the observation is the episode's last. Nothing is reset behind your back:
   the caller calls `reset` with a fresh key.
3. `terminated` says that nothing can follow; `truncated` that only the clock ran out, so that a learner bootstraps.
4. A task is a frozen record of whole numbers: hashable, so that a compiled program can take it as a constant.
"""

import abc
from typing import Any, ClassVar

import equinox as eqx
import gymnasium
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

State = Any
"""A pytree of arrays with fixed shapes; each task has its own named record."""


class Step(eqx.Module):
    """What an action led to."""

    observation: PyTree
    """What `observation_space` says."""
    reward: Float[Array, "*stream"]
    terminated: Bool[Array, "*stream"]
    truncated: Bool[Array, "*stream"]


class Task(abc.ABC):
    """The base of every task; a subclass is a frozen dataclass."""

    episode_steps: int
    """No episode is longer than this."""

    name: ClassVar[str]
    """What the catalogue calls it."""

    @property
    @abc.abstractmethod
    def observation_space(self) -> gymnasium.Space:
        """A vector of float32, or a Dict of what `ObservationSpec.of` takes: pictures, texts and a vector."""

    @property
    @abc.abstractmethod
    def action_space(self) -> gymnasium.Space:
        """Whole numbers from 0, a vector in [-1, 1], or a Dict of "discrete" (MultiDiscrete, K choices: int32 [K]) and
        "continuous" (a vector in [-1, 1])."""

    @abc.abstractmethod
    def reset(self, key: PRNGKeyArray) -> tuple[State, PyTree]:
        """Begins an episode; all that is random in it comes from `key`."""

    @abc.abstractmethod
    def step(self, state: State, action: Array) -> tuple[State, Step]:
        """Takes one action."""
