"""Episodes of first-person tasks without pictures."""

from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp

from gtrxl.tasks.first_person.level import Level, LevelState, World
from gtrxl.tasks.players.scripted import random_action

Kind = TypeVar("Kind", bound=Level)


def blind(kind: type[Kind], **arguments: int) -> Kind:
    """A level whose pictures are black: its rules are the same, and compile in less time."""

    def picture(self: Level, world: World, *, height: int, width: int) -> jax.Array:
        return jnp.zeros((height, width, 3), jnp.uint8)

    unseeing: Any = type(kind.__name__, (kind,), {"picture": picture, "__module__": kind.__module__})
    return unseeing(**arguments)


class Journey(NamedTuple):
    """T steps: the states before them and after them, and what they paid."""

    before: LevelState
    after: LevelState
    reward: jax.Array


def journey(task: Level, key: jax.Array, *, steps: int, visits: int) -> Journey:
    """An episode of random actions. Before each of the first `visits` of them the body is put on the next object."""
    reset_key, act_key = jax.random.split(key)

    def step(state: LevelState, given: tuple[jax.Array, jax.Array]):
        time, key = given
        places, body = state.world.scene.objects.place, state.world.body.place
        place = jnp.where(time < visits, places[jnp.minimum(time, places.shape[0] - 1)], body)
        after, reward, _, _ = task.advance(moved(state, place), random_action(task, key))
        return after, Journey(state, after, reward)

    first = task.reset(reset_key)[0]
    return jax.lax.scan(step, first, (jnp.arange(steps), jax.random.split(act_key, steps)))[1]


def moved(state: LevelState, place: jax.Array) -> LevelState:
    """The same state with the body elsewhere."""
    return eqx.tree_at(lambda of: of.world.body.place, state, place)
