"""Agents, tasks and compiled ways to run them, small enough for tests. B streams, T steps."""

import dataclasses
import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gtrxl import VMPO, Memory, Net, defaults, make_task
from gtrxl.networks.agent import Agent
from gtrxl.training.building import make_agent
from gtrxl.training.rollout import Ended, Situation, Unroll, act, begin
from gtrxl.training.update import Update

ENDS = "t-maze:corridor=2,patience=1"
"""Ends for good at the turn, or by the clock after 3 steps."""
CUT = "grid-numpad:episode_steps=4"
"""Ends by the clock alone."""

NET = Net(layers=1, width=8, heads=2, head_dim=4, mlp=8, memory=4, torso=8, hidden=8)
B, T = 4, 6
UPDATE = Update(learner=VMPO(learning_rate=1e-2, lam=0.7, target_period=2), discount=0.9, popart_step=1e-2)


@functools.cache
def random_agent(
    task: str, core: str = "gtrxl-gru", *, net: Net = NET, seed: int = 0, spread: float = 0.5, values: int = 1
) -> Agent:
    """Every weight random and none small, so that policy, value and memory are not constant. Compiles nothing."""
    random = np.random.default_rng(seed)
    config = dataclasses.replace(defaults(task=task, core=core), net=net)
    shapes = eqx.filter_eval_shape(lambda key: make_agent(config, make_task(task), key, values=values), jax.random.key(0))

    def filled(leaf: Any) -> Any:
        return jnp.asarray(spread * random.standard_normal(leaf.shape), leaf.dtype) if hasattr(leaf, "shape") else leaf

    return jax.tree.map(filled, shapes)


@functools.partial(jax.jit, static_argnums=0)
def start(task, key):
    """B streams before their first step, and the key of each."""
    return begin(task, jax.random.split(key, B))


@eqx.filter_jit
def acted(agent, task, memory, situation, keys) -> tuple[Any, Situation, Unroll, Ended]:
    """`act` from a plain memory to a plain one."""
    fast, situation, unroll, ended = act(agent, task, agent.prepare(memory), situation, keys=keys, steps=T)
    return agent.plain(fast, streams=B), situation, unroll, ended


@eqx.filter_jit
def updated(update, trained, batch, key):
    return update(trained, batch, key)


@eqx.filter_jit
def unrolled(agent, observations, memory, resets):
    return agent.unroll(observations, memory, resets=resets)


def filled(memory):
    """A memory with zeros in the slots of a transformer's that hold nothing, which may hold anything."""
    if not isinstance(memory, Memory):
        return memory
    slots = np.arange(memory.inputs.shape[2])[None] >= memory.inputs.shape[2] - np.asarray(memory.filled)[:, None]
    return Memory(inputs=jnp.where(slots[:, None, :, None], memory.inputs, 0.0), filled=memory.filled)


def assert_trees_close(ours, theirs, *, rtol=1e-4, atol=1e-5):
    for x, y in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(x, y, rtol=rtol, atol=atol)
