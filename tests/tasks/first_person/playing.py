"""Scripted players and batches of first-person levels, compiled once for each task and length."""

import functools
from typing import NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gtrxl.tasks.first_person.level import Level, LevelState, World
from gtrxl.tasks.players.scripted import perfect_memory

L = TypeVar("L", bound=Level)


def blind(kind: type[L], **arguments: int) -> L:
    """A level whose pictures are black: its rules are the same, and compile in less time."""

    def picture(self: Level, world: World, *, height: int, width: int) -> jax.Array:
        return jnp.zeros((height, width, 3), jnp.uint8)

    return type(kind.__name__, (kind,), {"picture": picture, "__module__": kind.__module__})(**arguments)  # pyright: ignore[reportReturnType]


@functools.partial(jax.jit, static_argnums=0)
def start(task: Level, key: jax.Array) -> LevelState:
    """The state that an episode begins with."""
    return task.reset(key)[0]


@functools.partial(jax.jit, static_argnums=0)
def one_step(task: Level, state: LevelState, action: jax.Array) -> tuple[LevelState, jax.Array]:
    """The next state and the reward."""
    state, reward, _, _ = task.advance(state, action)
    return state, reward


def plain(state: LevelState) -> LevelState:
    """The same state, all of whose arrays have a type of their own: what a test has put into it needs no new program."""
    return jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)), state)


def moved(state: LevelState, place) -> LevelState:
    """The same state with the body elsewhere."""
    return eqx.tree_at(lambda of: of.world.body.place, state, jnp.asarray(place, jnp.float32))


@functools.partial(jax.jit, static_argnums=0)
def built(task: Level, key: jax.Array) -> World:
    """64 worlds as episodes begin with them."""
    return jax.vmap(task.build)(jax.random.split(key, 64))


class Played(NamedTuple):
    """256 episodes of the player with a perfect memory."""

    keys: jax.Array
    actions: np.ndarray
    rewards: np.ndarray
    last: LevelState
    """The states after the last step."""


@functools.cache
def played(task: Level, steps: int) -> Played:
    """So many steps of a batch of 256; played once for each task."""
    player = perfect_memory(task)

    def step(notes, _):
        notes, action = player.act(notes, None, jax.random.key(0))
        return notes, (action, notes.state.reward)

    def one(key: jax.Array):
        return jax.lax.scan(step, player.begin(task.reset(key)[0]), None, length=steps)

    keys = jax.random.split(jax.random.key(0), 256)
    notes, (actions, rewards) = jax.jit(jax.vmap(one))(keys)
    return Played(keys, np.asarray(actions), np.asarray(rewards), notes.state)


def same_alone_and_in_a_batch(task: Level, batch: Played, *, steps: int) -> None:
    """Asserts that an episode does not depend on the 255 others beside it, whatever is restarted in it."""
    for stream in (0, 255):
        state = start(task, batch.keys[stream])
        for time in range(steps):
            state, reward = one_step(task, state, batch.actions[stream, time])
            assert float(reward) == batch.rewards[stream, time]
        for one, many in zip(jax.tree.leaves(state), jax.tree.leaves(batch.last), strict=True):
            if jnp.issubdtype(one.dtype, jnp.floating):
                np.testing.assert_allclose(one, many[stream], atol=1e-4)
            else:
                np.testing.assert_array_equal(one, many[stream])
