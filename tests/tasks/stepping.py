"""Episodes of given actions, compiled once for each task and length."""

import functools

import gymnasium
import jax
import jax.numpy as jnp

from gtrxl.tasks.contract import State, Step, Task


@functools.partial(jax.jit, static_argnums=0)
def run(task: Task, state: State, actions: jax.Array) -> tuple[State, Step]:
    """Takes the actions one after the other, ends or not; the states and steps that they lead to, stacked."""

    def body(state: State, action: jax.Array) -> tuple[State, tuple[State, Step]]:
        state, step = task.step(state, action)
        return state, (state, step)

    return jax.lax.scan(body, state, actions)[1]


@functools.partial(jax.jit, static_argnums=0)
def begin(task: Task, key: jax.Array) -> tuple[State, jax.Array]:
    """The compiled `reset`."""
    return task.reset(key)


def random_actions(task: Task, key: jax.Array, steps: int) -> jax.Array:
    """So many actions, drawn uniformly."""
    space = task.action_space
    if isinstance(space, gymnasium.spaces.Discrete):
        return jax.random.randint(key, (steps,), 0, int(space.n), jnp.int32)
    return jax.random.uniform(key, (steps, *(space.shape or ())), minval=-1.0, maxval=1.0)
