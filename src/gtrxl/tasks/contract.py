"""What every task promises: two pure functions for one stream, and the spaces they speak in.

    state, observation = task.reset(key)
    state, step = task.step(state, action)      step: observation, reward, terminated, truncated

1. Both are pure and have fixed shapes: they run under `jit`, `vmap` and `scan`; the same key and actions give the same episode.
2. After an end (`terminated` or `truncated`) the observation is the episode's last. Nothing is reset behind your back:
   the caller calls `reset` with a fresh key.
3. `terminated` says that nothing can follow; `truncated` that only the clock ran out, so that a learner bootstraps.
4. A task is a frozen record of whole numbers: hashable, so that a compiled program can take it as a constant.

`gtrxl.testing.check_task` checks these on anyone's task. All that comes after them here is optional: what one task can do better
than another is a method with a default, and nobody asks for a task's class.

H rows, W columns.
"""

import abc
from typing import Any, ClassVar

import equinox as eqx
import gymnasium
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree, UInt8

from gtrxl.tasks.controls import Controls, numbered
from gtrxl.tasks.defaults import TaskDefaults, looking_back
from gtrxl.tasks.drawing.observed import picture_of
from gtrxl.tasks.errors import TaskError
from gtrxl.tasks.players.player import Player
from gtrxl.tasks.scale import Scale

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

    costly_observation: ClassVar[bool] = False
    """Whether observations take most of the time, as pictures do. Then `advance` and `observe` are the two halves of a step, and
    what nobody looks at is not made."""
    quickly_scored: ClassVar[bool] = True
    """Whether a thousand episodes of its players take seconds: then its scores are measured where none are kept."""
    steps_a_second: ClassVar[float | None] = None
    """Of a task that runs in real time: the page that people play on shows a clock then."""
    frames_apart: ClassVar[int] = 1
    """Steps between two pictures of an episode that is watched."""

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
    def step(self, state: State, action: PyTree) -> tuple[State, Step]:
        """Takes one action."""

    def advance(self, state: State, action: PyTree) -> tuple[State, Float[Array, ""], Bool[Array, ""], Bool[Array, ""]]:
        """A step without its observation: the next state, reward, terminated, truncated."""
        state, step = self.step(state, action)
        return state, step.reward, step.terminated, step.truncated

    def observe(self, state: State) -> PyTree:
        """What the agent is shown of a state; of a task with a `costly_observation`."""
        raise TaskError(
            f"{type(self).__name__} shows its observations in reset and step alone; "
            "a task with costly_observation = True has a method `observe(state)`"
        )

    def own_name(self) -> str | None:
        """What it is called in a run's settings, where that is not its class's place and its numbers."""
        return None

    def player(self) -> Player | None:
        """The player with a perfect memory: it sees what an agent sees, knows the rules and forgets nothing. None: nobody has
        written one."""
        return None

    def told_player(self) -> Player | None:
        """The same, told at the start what is hidden; None where there is nothing to find out."""
        return None

    def scored_as(self) -> "Task":
        """The task whose kept scores are this one's too."""
        return self

    def scale(self) -> Scale | None:
        """The scores that returns are compared with, if the task knows them itself. None: `scores.scale_of` looks for kept ones,
        or measures them with its player."""
        return None

    def defaults(self) -> TaskDefaults:
        """Settings to learn it with."""
        return TaskDefaults(memory=looking_back(self.episode_steps))

    def controls(self) -> Controls:
        """The buttons that people play it with."""
        return numbered(self.action_space)

    def draw(self, state: State, *, observation: PyTree = None, secret: bool = False) -> UInt8[np.ndarray, "H W 3"]:
        """A picture of a state for people; its leaves are NumPy arrays. `secret` adds what is hidden from the agent.

        A task that does not say how it is drawn shows the observation, or, where there is none at hand, the state."""
        if observation is None and self.costly_observation:
            observation = self.observe(state)
        return picture_of(state if observation is None else observation)

    def view(self, state: State, *, height: int, width: int) -> UInt8[np.ndarray, "H W 3"] | None:
        """What the agent's eyes see, at any size; None of a task that is not seen through eyes."""
        return None

    def instruction(self, state: State) -> str:
        """What is said to the agent, in words."""
        return ""

    def interest(self, state: State) -> float:
        """How much a state tells about the task: the first of the most telling ones is its picture."""
        return 0.0
