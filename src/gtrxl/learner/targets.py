"""The target network: a copy of the online one, taken every so many learner steps."""

from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

Network = TypeVar("Network")


def target_due(step: Int[Array, ""] | int, period: int) -> Bool[Array, ""]:
    """Whether learner step `step` (the number of updates made so far) is one that copies."""
    return jnp.asarray(step) % period == 0


def update_target(*, online: Network, target: Network, step: Int[Array, ""] | int, period: int) -> Network:
    """The target after `step` updates: the online network if a copy is due, else as it was."""
    due = target_due(step, period)
    return jax.tree.map(lambda new, old: jnp.where(due, new, old) if eqx.is_array(new) else new, online, target)
