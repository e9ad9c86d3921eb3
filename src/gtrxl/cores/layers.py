"""The small parts cores are made of: linear maps and layer norm. D_in, D_out widths.

Parameters are float32; a core computes in its `dtype` by casting them where they are used.
"""

import math
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

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
