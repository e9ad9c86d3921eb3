"""The external memory: rows that are found by content, written one a step. R rows, Z numbers of what is written, K keys.

A row, W = 2 Z wide, is [z, what came after z]: its retroactive half is a fading sum of what was written in later rows. At step t,
with w the row that is written (one-hot) and v the trace of the rows written before:

    M <- M + w [z, 0] + v [0, z]
    v <- gamma v + (1 - gamma) w

Rows are written in order while there are empty ones; then the row that was read least is given up: both of its halves, its trace
and its usage begin anew. Usage is the sum of the weights that a row was read with. A new row begins with the usage of the one
that was read most, so that it is not the next to go (our choice: sources say only "read least").
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

EPSILON = 1e-6
"""Below the square of a length: an empty row is as far from every key as one at a right angle."""


class Rows(eqx.Module):
    """What is remembered. All zeros is a memory that holds nothing."""

    content: Float[Array, "*B R W"]
    trace: Float[Array, "*B R"]
    """How much of what is written next goes into each row's retroactive half."""
    usage: Float[Array, "*B R"]
    filled: Int[Array, "*B"]


def empty(rows: int, width: int, dtype: jnp.dtype) -> Rows:
    """Nothing remembered; `width` is Z."""
    zeros = jnp.zeros(rows, jnp.float32)
    return Rows(content=jnp.zeros((rows, 2 * width), dtype), trace=zeros, usage=zeros, filled=jnp.int32(0))


def weights(content: Float[Array, "R W"], keys: Float[Array, "K W"], strengths: Float[Array, " K"]) -> Float[Array, "K R"]:
    """softmax over the rows of strength * cos(key, row)."""
    content, keys = content.astype(jnp.float32), keys.astype(jnp.float32)
    along_rows, along_keys = (jax.lax.rsqrt(jnp.sum(jnp.square(x), axis=1) + EPSILON) for x in (content, keys))
    cosine = (keys @ content.T) * along_keys[:, None] * along_rows[None]
    return jax.nn.softmax(strengths.astype(jnp.float32)[:, None] * cosine, axis=1)


def read(content: Float[Array, "R W"], by: Float[Array, "K R"]) -> Float[Array, " KW"]:
    """What each key found, side by side."""
    return (by.astype(content.dtype) @ content).reshape(-1)


def used(rows: Rows, by: Float[Array, "K R"]) -> Rows:
    """The same after it was read so; no gradient."""
    return eqx.tree_at(lambda of: of.usage, rows, rows.usage + jax.lax.stop_gradient(jnp.sum(by, axis=0)))


def written(rows: Rows, z: Float[Array, " Z"], *, gamma: float) -> Rows:
    """The same with z in one more row, and in the retroactive half of those before it."""
    size = rows.usage.shape[0]
    place = jnp.where(rows.filled < size, rows.filled, jnp.argmin(rows.usage).astype(jnp.int32))
    here = jnp.arange(size) == place
    w, trace = here.astype(jnp.float32), jnp.where(here, 0.0, rows.trace)
    content = jnp.where(here[:, None], 0, rows.content)
    add = jnp.concatenate([w[:, None] * z.astype(jnp.float32)[None], trace[:, None] * z.astype(jnp.float32)[None]], axis=1)
    return Rows(
        content=content + add.astype(content.dtype),
        trace=gamma * trace + (1 - gamma) * w,
        usage=jnp.where(here, jnp.max(rows.usage), rows.usage),
        filled=jnp.minimum(rows.filled + 1, size),
    )
