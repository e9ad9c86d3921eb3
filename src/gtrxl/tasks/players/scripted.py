"""Players of any task: one that is random, and the one with a perfect memory that the task brings along."""

import dataclasses
from typing import ClassVar

import gymnasium
import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray, PyTree

from gtrxl.tasks.contract import State, Task
from gtrxl.tasks.errors import TaskError
from gtrxl.tasks.players.player import Player


@dataclasses.dataclass(frozen=True)
class RandomPlayer(Player):
    """Every action as likely as every other, whatever it sees."""

    task: Task

    looks: ClassVar[bool] = False

    def begin(self, state: State) -> None:
        """Nothing."""

    def act(self, notes: None, observation: PyTree, key: PRNGKeyArray) -> tuple[None, PyTree]:
        """One of the actions, or a vector in [-1, 1], or a dict of both."""
        return None, random_action(self.task, key)


def random_action(task: Task, key: PRNGKeyArray) -> PyTree:
    """Drawn uniformly from the actions of a task."""
    return _drawn(task.action_space, key)


def _drawn(space: gymnasium.Space, key: PRNGKeyArray) -> PyTree:
    if isinstance(space, gymnasium.spaces.Dict):
        keys = jax.random.split(key, len(space.spaces))
        return {name: _drawn(part, each) for (name, part), each in zip(space.spaces.items(), keys, strict=True)}
    if isinstance(space, gymnasium.spaces.Discrete):
        return jax.random.randint(key, (), 0, int(space.n))
    if isinstance(space, gymnasium.spaces.MultiDiscrete):
        return jax.random.randint(key, space.shape, 0, jnp.asarray(space.nvec, jnp.int32))
    assert space.shape is not None
    return jax.random.uniform(key, space.shape, minval=-1.0, maxval=1.0)


def perfect_memory(task: Task) -> Player:
    """The player with a perfect memory: it sees what an agent sees and knows the rules, and forgets nothing."""
    player = task.player()
    if player is None:
        raise TaskError(f"a player is written for the tasks of the catalogue, got {task!r}; write your own `Player` for it")
    return player
