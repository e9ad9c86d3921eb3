"""Open country, drawn by a key: gentle hills inside a ring of cliffs.

R rows and C columns of cells, P waves.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from gtrxl.tasks.first_person.land.heights import CLIMB

RIM = 2
"""Cells of the ring of cliffs."""
WAVES = 4
SLOPE = 0.2
"""The highest step between two cells of the country: less than one can climb."""
CLIFF = 1.4
"""How much higher the cliffs are than the highest hill, or up to half of it more."""

assert SLOPE < CLIMB


def country(side: int) -> Bool[np.ndarray, "R C"]:
    """The cells inside the cliffs of a map with so many of them along a side."""
    inside = np.zeros((side + 2 * RIM, side + 2 * RIM), bool)
    inside[RIM:-RIM, RIM:-RIM] = True
    return inside


def hills(key: PRNGKeyArray, side: int) -> Float[Array, "R C"]:
    """How high the ground is: a sum of waves, as steep as can be walked everywhere, and the cliffs."""
    long_key, way_key, begin_key, cliff_key = jax.random.split(key, 4)
    y, x = (jnp.asarray(each, jnp.float32) for each in np.indices((side + 2 * RIM, side + 2 * RIM)))
    length = jax.random.uniform(long_key, (WAVES,), minval=7.0, maxval=18.0)
    way = jax.random.uniform(way_key, (WAVES,), maxval=2 * np.pi)
    begin = jax.random.uniform(begin_key, (WAVES,), maxval=2 * np.pi)
    turns = 2 * np.pi / length
    phase = turns[:, None, None] * (jnp.cos(way)[:, None, None] * x[None] + jnp.sin(way)[:, None, None] * y[None])
    high = jnp.sum(length[:, None, None] * jnp.cos(phase + begin[:, None, None]), 0)
    steepest = jnp.maximum(jnp.max(jnp.abs(jnp.diff(high, axis=0))), jnp.max(jnp.abs(jnp.diff(high, axis=1))))
    high = high * (SLOPE / steepest)
    cliff = jnp.max(high) + CLIFF * (1 + 0.5 * jax.random.uniform(cliff_key, high.shape))
    return jnp.where(jnp.asarray(country(side)), high, cliff)


def bands(ground: Float[Array, "R C"], *, count: int) -> Int[Array, "R C"]:
    """Which of so many bands of height each cell is in; the cliffs count with the highest."""
    inside = ground[RIM:-RIM, RIM:-RIM]
    low, high = jnp.min(inside), jnp.max(inside)
    return jnp.clip(((ground - low) / jnp.maximum(high - low, 1e-6) * count).astype(jnp.int32), 0, count - 1)
