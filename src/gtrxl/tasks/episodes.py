"""Whole episodes of a player: the returns of many, or everything about one.

E episodes, T steps.
"""

import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key, PRNGKeyArray, PyTree

from gtrxl.tasks.contract import State, Task
from gtrxl.tasks.errors import in_range
from gtrxl.tasks.players.player import Player

SIDE_BY_SIDE = 1024
"""Episodes that are played together: enough to keep a machine busy, few enough for its caches."""


def returns(task: Task, player: Player, key: PRNGKeyArray, *, episodes: int) -> Float[np.ndarray, " E"]:
    """The return of each of `episodes` episodes."""
    in_range("episodes", episodes, least=1, hint="a thousand or more give a mean worth having")
    keys = jax.random.split(key, episodes)
    parts = [_returns(task, player, keys[first : first + SIDE_BY_SIDE]) for first in range(0, episodes, SIDE_BY_SIDE)]
    return np.concatenate([np.asarray(part) for part in parts])


class Episode(NamedTuple):
    """One episode: `states` has T + 1 entries, the first before any action; `actions` and `rewards` have T."""

    states: list[State]
    actions: list[Any]
    rewards: list[float]


def record(task: Task, player: Player, key: PRNGKeyArray) -> Episode:
    """Plays one episode and keeps all of it."""
    first, states, actions, rewards, alive = in_numpy(_recorded(task, player, key))
    steps = int(alive.sum())
    unstacked, taken = ([jax.tree.map(lambda leaf: leaf[t], tree) for t in range(steps)] for tree in (states, actions))
    return Episode([first, *unstacked], taken, rewards[:steps].tolist())


def in_numpy(tree: PyTree) -> PyTree:
    """The same in NumPy, but for random keys, which it does not have."""

    def plain(leaf: Any) -> Any:
        return leaf if jax.dtypes.issubdtype(getattr(leaf, "dtype", np.float32), jax.dtypes.prng_key) else np.asarray(leaf)

    return jax.tree.map(plain, tree)


class _Going(eqx.Module):
    """An episode under way."""

    state: State
    notes: State
    observation: PyTree
    """None for a player that does not look."""
    alive: Array
    total: Float[Array, ""]


def _begin(task: Task, player: Player, key: PRNGKeyArray) -> _Going:
    state, observation = task.reset(key)
    return _Going(state, player.begin(state), observation if player.looks else None, jnp.ones((), bool), jnp.float32(0))


def _go_on(task: Task, player: Player, going: _Going, key: PRNGKeyArray) -> tuple[_Going, tuple[State, PyTree, Array, Array]]:
    notes, action = player.act(going.notes, going.observation, key)
    state, observation, reward, ended = _step(task, going.state, action, looks=player.looks)
    total = going.total + jnp.where(going.alive, reward, 0.0)
    return _Going(state, notes, observation, going.alive & ~ended, total), (state, action, reward, going.alive)


def _step(task: Task, state: State, action: PyTree, *, looks: bool) -> tuple[State, PyTree, Float[Array, ""], Bool[Array, ""]]:
    """The next state, what is seen of it, the reward, and whether that was the end. Where nobody looks, no picture is drawn."""
    if not looks:
        state, reward, terminated, truncated = task.advance(state, action)
        return state, None, reward, terminated | truncated
    state, step = task.step(state, action)
    return state, step.observation, step.reward, step.terminated | step.truncated


@functools.partial(jax.jit, static_argnums=(0, 1))
def _returns(task: Task, player: Player, keys: Key[Array, " E"]) -> Float[Array, " E"]:
    def one(key: PRNGKeyArray) -> Float[Array, ""]:
        reset_key, act_key = jax.random.split(key)
        act_keys = jax.random.split(act_key, task.episode_steps)
        end, _ = jax.lax.scan(
            lambda going, act_key: (_go_on(task, player, going, act_key)[0], None), _begin(task, player, reset_key), act_keys
        )
        return end.total

    return jax.vmap(one)(keys)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _recorded(task: Task, player: Player, key: PRNGKeyArray) -> tuple[State, State, PyTree, Array, Array]:
    reset_key, act_key = jax.random.split(key)
    going = _begin(task, player, reset_key)
    act_keys = jax.random.split(act_key, task.episode_steps)
    _, (states, actions, rewards, alive) = jax.lax.scan(functools.partial(_go_on, task, player), going, act_keys)
    return going.state, states, actions, rewards, alive
