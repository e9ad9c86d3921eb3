"""PopArt (van Hasselt et al. 2016; Hessel et al. 2019): values learned in units of their own spread, one set for each task.

N tasks, D width of the value head's input, B streams, T steps. The value head's N outputs live in normalised space. When the
statistics move, `preserve` moves the head with them, so that the values in reward units stay what they were.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from gtrxl.algorithms.errors import count

STEP, LOWER, UPPER = 1e-4, 1e-2, 1e6


class PopArt(eqx.Module):
    """Mean and variance of each task's returns, and the scale that follows: the standard deviation within its bounds."""

    mean: Float[Array, " N"]
    variance: Float[Array, " N"]
    scale: Float[Array, " N"]


def init(tasks: int) -> PopArt:
    """Mean zero, scale one: normalised space is reward units until something was seen."""
    count("tasks", tasks, hint="one task has one set of statistics")
    # Three arrays, not one array three times: a training loop may donate its buffers.
    return PopArt(mean=jnp.zeros((tasks,)), variance=jnp.ones((tasks,)), scale=jnp.ones((tasks,)))


def update(
    stats: PopArt,
    targets: Float[Array, "B T"],
    valid: Bool[Array, "B T"],
    task: Int[Array, " B"] | None = None,
    *,
    step: float = STEP,
    lower: float = LOWER,
    upper: float = UPPER,
) -> PopArt:
    """Statistics after a batch of returns in reward units; `task` says which task each stream plays (None: the first).

    Each return moves its task's running mean and second moment by `step`; n of them together move it by 1 - (1 - step)^n
    towards their mean, which is the same up to their order, and safe for any n. A task without returns keeps its statistics.
    """
    tasks = stats.mean.shape[0]
    task = jnp.zeros((targets.shape[0],), jnp.int32) if task is None else task
    member = (task[:, None] == jnp.arange(tasks)[None])[:, None, :] & valid[:, :, None]  # [B, T, N]
    seen = jnp.sum(member, axis=(0, 1))
    share = 1.0 / jnp.maximum(seen, 1)
    from_mean = jnp.where(member, targets[:, :, None] - stats.mean[None, None], 0.0)
    offset = jnp.sum(from_mean, axis=(0, 1)) * share
    spread = jnp.sum(jnp.where(member, jnp.square(from_mean - offset[None, None]), 0.0), axis=(0, 1)) * share
    weight = -jnp.expm1(seen * jnp.log1p(-step))
    # The second moment's running mean, written around the mean: in float32, E[x^2] - E[x]^2 loses a small spread.
    mean = stats.mean + weight * offset
    variance = (1 - weight) * stats.variance + weight * spread + weight * (1 - weight) * jnp.square(offset)
    new = PopArt(mean=mean, variance=variance, scale=jnp.clip(jnp.sqrt(variance), lower, upper))
    return jax.lax.stop_gradient(new)


def preserve(
    weight: Float[Array, "D N"], bias: Float[Array, " N"], *, old: PopArt, new: PopArt
) -> tuple[Float[Array, "D N"], Float[Array, " N"]]:
    """The value head x @ weight + bias under new statistics: its outputs in reward units are what they were."""
    ratio = old.scale / new.scale
    return weight * ratio[None], bias * ratio + (old.mean - new.mean) / new.scale


def in_reward_units(
    weight: Float[Array, "D N"], bias: Float[Array, " N"], stats: PopArt
) -> tuple[Float[Array, "D N"], Float[Array, " N"]]:
    """The value head without its statistics: its outputs are in reward units."""
    return preserve(weight, bias, old=stats, new=init(len(stats.mean)))
