"""Tasks that misbehave. `gtrxl train env:attacks.tasks.raises --from benchmarks` learns one of them.

Gymnasium tasks fail now and then, at steps that differ from stream to stream, so that whole unrolls come in between.
"""

import contextlib
import dataclasses
import os
import time
from pathlib import Path
from typing import Any, ClassVar

import equinox as eqx
import gymnasium
import jax.numpy as jnp
import numpy as np
from gymnasium.spaces import Box, Discrete

from gtrxl.tasks.contract import Step
from gtrxl.tasks.t_maze import TMaze

PACE = "GTRXL_FAULTS_PACE"
"""Names a file with the seconds that a step takes as long as it is there: what keeps a run under way until it was attacked."""
RARELY = 100
"""Steps of a stream between two failures, about."""


class Line(gymnasium.Env):
    """Shows how far an episode of 8 steps is and pays for action 1."""

    def __init__(self) -> None:
        self.observation_space, self.action_space = Box(-1.0, 1.0, (2,), np.float32), Discrete(2)
        self.steps = 0
        self.lived = 0
        """Steps of this process's own, over all episodes."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """At the beginning of the line."""
        super().reset(seed=seed)
        if seed is not None:
            self.due = RARELY // 2 + seed % RARELY
        self.steps = 0
        return self.see(), {}

    def step(self, action: Any) -> Any:
        """One further."""
        self.steps += 1
        self.lived += 1
        file = os.environ.get(PACE)
        if file:
            with contextlib.suppress(OSError, ValueError):
                time.sleep(float(Path(file).read_text()))
        return self.see(), float(action), False, self.steps >= 8, {}

    def see(self) -> np.ndarray:
        """How far it is."""
        return np.array([self.steps / 8, 1.0], np.float32)

    @property
    def is_due(self) -> bool:
        """Whether it fails now."""
        return self.lived >= self.due


class Failing(Line):
    """Does `habit` when it is due, and is as good as new when it is made again."""

    def __init__(self, habit: str, *, always: bool = False) -> None:
        super().__init__()
        self.habit, self.always = habit, always

    def step(self, action: Any) -> Any:
        """One further, or not."""
        observation, reward, terminated, truncated, info = super().step(action)
        if self.always or self.is_due:
            if self.habit == "raises":
                raise KeyError("the third door")
            if self.habit == "hangs":
                time.sleep(1000)
            if self.habit == "exits":
                os._exit(7)
            if self.habit == "nan-reward":
                reward = float("nan")
            if self.habit == "nan-observation":
                observation = observation * np.nan
        return observation, reward, terminated, truncated, info


def paced() -> gymnasium.Env:
    """Never fails."""
    return Line()


def raises() -> gymnasium.Env:
    """Raises now and then."""
    return Failing("raises")


def hangs() -> gymnasium.Env:
    """Does not return now and then."""
    return Failing("hangs")


def exits() -> gymnasium.Env:
    """Ends its process now and then."""
    return Failing("exits")


def nan_reward() -> gymnasium.Env:
    """Pays what is no number now and then."""
    return Failing("nan-reward")


def nan_observation() -> gymnasium.Env:
    """Shows what is no number now and then."""
    return Failing("nan-observation")


def always_raises() -> gymnasium.Env:
    """Never gets anywhere."""
    return Failing("raises", always=True)


def always_nan() -> gymnasium.Env:
    """Pays nothing that is a number."""
    return Failing("nan-reward", always=True)


@dataclasses.dataclass(frozen=True)
class SickMaze(TMaze):
    """A T-maze, compiled, whose rewards or observations are no numbers when the episode's secret and step say so."""

    infinite: int = 0
    """Rewards: 0 pays NaN, 1 infinity."""
    shown: int = 0
    """0 spoils rewards, 1 observations."""
    name: ClassVar[str] = "sick-maze"
    quickly_scored: ClassVar[bool] = False

    def step(self, state: Any, action: Any) -> tuple[Any, Step]:
        """As the maze does, with something that is no number at an episode's end."""
        state, step = super().step(state, action)
        sick = jnp.where(step.terminated | step.truncated, jnp.inf if self.infinite else jnp.nan, 0.0)
        if self.shown:
            return state, eqx.tree_at(lambda of: of.observation, step, step.observation + sick)
        return state, eqx.tree_at(lambda of: of.reward, step, step.reward + sick)
