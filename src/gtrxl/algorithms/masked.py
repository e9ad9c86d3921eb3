"""Statistics over the steps that count. A step that does not count may hold anything, even NaN, and changes nothing."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def only(x: Float[Array, "*n"], valid: Bool[Array, "*n"]) -> Float[Array, "*n"]:
    """x where it counts, zero elsewhere; no gradient reaches what does not count."""
    return jnp.where(valid, x, 0.0)


def mean(x: Float[Array, "*n"], valid: Bool[Array, "*n"]) -> Float[Array, ""]:
    """The mean of x over the steps that count; zero if none does."""
    return jnp.sum(only(x, valid)) / jnp.maximum(jnp.sum(valid), 1)


def variance(x: Float[Array, "*n"], valid: Bool[Array, "*n"]) -> Float[Array, ""]:
    """The variance of x over the steps that count; zero if none does."""
    return mean(jnp.square(x - mean(x, valid)), valid)


def explained_variance(
    *, prediction: Float[Array, "*n"], target: Float[Array, "*n"], valid: Bool[Array, "*n"]
) -> Float[Array, ""]:
    """1 - Var[target - prediction] / Var[target]: one is perfect, zero is no better than a constant."""
    spread = variance(target, valid)
    return jax.lax.stop_gradient(1 - variance(target - prediction, valid) / jnp.maximum(spread, 1e-8))
