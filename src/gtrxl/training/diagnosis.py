"""What is looked at between reports, on a few streams: how stale the memory is, how far the gates stand open.

S streams, H + T steps of their trail, L layers.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from gtrxl.cores.streams import openness as gate_openness
from gtrxl.networks.agent import Agent
from gtrxl.training.device_loop import Trail


def staleness(agent: Agent, trail: Trail, *, unroll: int) -> Float[Array, ""]:
    """KL between acting with a memory made anew by these weights and acting with the stored one, mean over S streams and T steps.

    The stored memory was written by earlier weights. The new one is made from what the stream saw in the H steps before.
    """
    streams = trail.reset.shape[0]
    late = jax.tree.map(lambda leaf: leaf[:, -unroll:], trail.observation)
    stored, _, _ = agent.unroll(late, trail.memory, resets=trail.reset[:, -unroll:])
    anew, _, _ = agent.unroll(trail.observation, agent.initial_state(streams), resets=trail.reset)
    parts = stored.kl_from(jax.tree.map(lambda leaf: leaf[:, -unroll:], anew))
    return jnp.mean(sum(parts.values(), jnp.zeros(())))


def openness(agent: Agent, trail: Trail, *, unroll: int) -> Float[Array, "L 2"] | None:
    """How far each layer's two gates stand open (0 passes the stream unchanged); None for cores without gates."""
    xs = agent.torso(jax.tree.map(lambda leaf: leaf[:, -unroll:], trail.observation))
    return gate_openness(agent.core, xs, trail.memory, trail.reset[:, -unroll:])
