"""A task that a person plays: one episode at a time, step by step, with the picture and the numbers to show."""

import base64
import functools
import io
from collections.abc import Set
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, PRNGKeyArray, PyTree, UInt8
from PIL import Image

from gtrxl.tasks.contract import State, Task
from gtrxl.tasks.drawing.pictures import frame
from gtrxl.tasks.making import about, spell
from gtrxl.tasks.scores import load

HEIGHT, WIDTH = 240, 320
"""Of a first-person picture that is shown to a person."""


class Game:
    """Episode after episode of a task. The episode of a seed is the first one of Gymnasium's `reset(seed=...)`."""

    def __init__(self, task: Task, *, seed: int = 0, height: int = HEIGHT, width: int = WIDTH):
        self.task, self.controls = task, task.controls()
        self._height, self._width = height, width
        self.best: float | None = None
        """The highest score of an episode so far, unfinished ones too."""
        self.finished = 0
        """Episodes that were played to their end."""
        self._episode = 0
        self.begin(seed)

    def begin(self, seed: int) -> None:
        """The episode of a seed, from its start."""
        self.seed = seed % 2**32
        self._episode += 1
        self._state, self._observation = _begin(self.task, jax.random.key(self.seed))
        self._score, self._reward, self._elapsed, self._over = 0.0, 0.0, 0, False

    def step(self, held: Set[str]) -> None:
        """What the buttons say. Nothing happens after the end, or if they say nothing."""
        action = None if self._over else self.controls.action(held, step=self._elapsed)
        if action is None:
            return
        self._state, self._observation, reward, over = _step(self.task, self._state, action)
        self._reward, self._over = float(reward), bool(over)
        self._score, self._elapsed = self._score + self._reward, self._elapsed + 1
        self.best = self._score if self.best is None else max(self.best, self._score)
        self.finished += self._over

    def about(self) -> dict[str, Any]:
        """What does not change: the task, its buttons, and the scores to compare with."""
        name = spell(self.task)
        known = load().get(name)
        return {
            "task": name,
            "about": about(self.task),
            "buttons": [
                {"name": each.name, "sign": each.sign, "keys": each.keys, "changes": each.changes}
                for each in self.controls.buttons
            ],
            "pace": self.controls.pace,
            "columns": self.controls.columns,
            "random": None if known is None else known.random,
            "perfect": None if known is None else known.best,
            "clock": self.task.steps_a_second,
        }

    def view(self) -> dict[str, Any]:
        """What is shown now."""
        return {
            "picture": _data_url(self.picture()),
            "instruction": self.task.instruction(self._state),
            "score": self._score,
            "reward": self._reward,
            "elapsed": self._elapsed,
            "steps": self.task.episode_steps,
            "episode": self._episode,
            "seed": self.seed,
            "best": self.best,
            "over": self._over,
        }

    def picture(self) -> UInt8[np.ndarray, "H W 3"]:
        """What a person sees: what the agent sees, larger; or the task from above."""
        seen = self.task.view(self._state, height=self._height, width=self._width)
        return frame(self.task, self._state, observation=self._observation) if seen is None else seen


def _data_url(picture: UInt8[np.ndarray, "H W 3"]) -> str:
    file = io.BytesIO()
    Image.fromarray(picture).save(file, "PNG", compress_level=1)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


@functools.partial(jax.jit, static_argnums=0)
def _begin(task: Task, key: PRNGKeyArray) -> tuple[State, PyTree]:
    """The first state, and what is seen of it if that costs nothing."""
    state, observation = task.reset(jax.random.split(key)[1])
    return state, None if task.costly_observation else observation


@functools.partial(jax.jit, static_argnums=0)
def _step(task: Task, state: State, action: PyTree) -> tuple[State, PyTree, Array, Array]:
    if task.costly_observation:
        state, reward, terminated, truncated = task.advance(state, action)
        return state, None, reward, terminated | truncated
    state, step = task.step(state, action)
    return state, step.observation, step.reward, step.terminated | step.truncated
