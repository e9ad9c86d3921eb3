"""The small parts cores are made of: linear maps, layer norm, and what is done with rows that are not finite.

D_in, D_out widths.

Parameters are float32; a core computes in its `dtype` by casting them where they are used.
"""

import math
from functools import partial
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

M = TypeVar("M", bound=eqx.Module)
NORM_EPSILON = 1e-5
INIT_VARIANCE = 1 / 3
"""What a new linear map makes of inputs of variance 1."""


def uniform_init(key: PRNGKeyArray, shape: tuple[int, ...], *, fan_in: int) -> Array:
    """Uniform in +-1/sqrt(fan_in): a linear map of unit inputs then has outputs of variance `INIT_VARIANCE`."""
    limit = 1 / math.sqrt(fan_in)
    return jax.random.uniform(key, shape, jnp.float32, -limit, limit)


def with_variance(new: M, variance: float) -> M:
    """A new module whose linear maps make `variance` of inputs of variance 1; what is not a matrix stays as it is."""
    factor = math.sqrt(variance / INIT_VARIANCE)
    return jax.tree.map(lambda leaf: leaf * factor if leaf.ndim == 2 else leaf, new)


def along_last(vector: Float[Array, " D"], like: Float[Array, "..."]) -> Float[Array, "*ones D"]:
    """The vector in the type of `like`, with as many axes, so that it applies along the last one."""
    return vector.astype(like.dtype).reshape((1,) * (like.ndim - 1) + vector.shape)


def flat_matmul(x: Float[Array, "*n D_in"], weight: Float[Array, "D_in D_out"]) -> Float[Array, "*n D_out"]:
    """x @ weight as one product of two matrices. With more axes, XLA's CPU backend transposes whole activations for the
    weight's gradient."""
    return (x.reshape(-1, x.shape[-1]) @ weight).reshape(*x.shape[:-1], weight.shape[1])


class Linear(eqx.Module):
    """y = x @ weight + bias, for any number of leading axes."""

    weight: Float[Array, "D_in D_out"]
    bias: Float[Array, " D_out"]

    def __init__(self, input_size: int, output_size: int, *, key: PRNGKeyArray):
        self.weight = uniform_init(key, (input_size, output_size), fan_in=input_size)
        self.bias = jnp.zeros((output_size,), jnp.float32)

    def __call__(self, x: Float[Array, "*n D_in"]) -> Float[Array, "*n D_out"]:
        return flat_matmul(x, self.weight.astype(x.dtype)) + along_last(self.bias, x)


def standardise(x: Float[Array, "*n D"]) -> Float[Array, "*n D"]:
    """Zero mean and unit variance along the last axis, computed in float32: layer norm before its scale and offset."""
    x32 = x.astype(jnp.float32)
    centred = x32 - jnp.mean(x32, axis=-1, keepdims=True)
    variance = jnp.mean(jnp.square(centred), axis=-1, keepdims=True)
    return (centred * jax.lax.rsqrt(variance + NORM_EPSILON)).astype(x.dtype)


class LayerNorm(eqx.Module):
    """standardise(x) * scale + offset along the last axis."""

    scale: Float[Array, " D"]
    offset: Float[Array, " D"]

    def __init__(self, size: int):
        self.scale = jnp.ones((size,), jnp.float32)
        self.offset = jnp.zeros((size,), jnp.float32)

    def __call__(self, x: Float[Array, "*n D"]) -> Float[Array, "*n D"]:
        return standardise(x) * along_last(self.scale, x) + along_last(self.offset, x)


# A row that is not finite (an input, a remembered step) must spoil what sees it, and nothing else. Masks and resets hide it from
# the rest, but 0 * nan is not zero, in sums and in their gradients. So cores compute with zeros in its place, keep in mind which
# steps have seen it, and these give nan.

BEYOND = 3e38
"""What a gradient is multiplied by that comes back to a spoilt row: zero stays zero, all else becomes too large for a float."""


def spoilt_rows(x: Float[Array, "*n D"]) -> Bool[Array, "*n"]:
    """Which rows hold a number that is not finite, or numbers that cannot be added up."""
    return ~jnp.isfinite(jnp.sum(x, axis=-1))


@partial(jax.custom_jvp, nondiff_argnums=(2,))
def replaced(x: Float[Array, "*n D"], spoilt: Bool[Array, "*n"], by: float) -> Float[Array, "*n D"]:
    """x with another number in the rows that are spoilt. Where no loss asks for such a row its gradient stays zero."""
    return jnp.where(spoilt[..., None], jnp.asarray(by, x.dtype), x)


@replaced.defjvp
def _replaced_jvp(by: float, primals: tuple[Array, Array], tangents: tuple[Array, Any]) -> tuple[Array, Array]:
    (x, spoilt), (moved, _) = primals, tangents
    return replaced(x, spoilt, by), moved * jnp.where(spoilt, BEYOND, 1.0).astype(moved.dtype)[..., None]
