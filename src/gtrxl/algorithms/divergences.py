"""How far a policy has moved: KL(old || new) for logits, and in two parts for Gaussians. A actions or action dimensions.

A Gaussian here is diagonal, given by its mean and its scale, the standard deviation. Its KL splits into what the mean moved,
measured by the old covariance, and what the covariance moved with the mean standing still (Song et al. 2019, appendix), so
that each can have its own bound: a small step for the covariance keeps exploration alive.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def kl_categorical(*, old_logits: Float[Array, "*n A"], logits: Float[Array, "*n A"]) -> Float[Array, "*n"]:
    """KL(old || new) of two categorical distributions. Actions that both forbid (logits of -inf) count nothing."""
    old, new = jax.nn.log_softmax(old_logits), jax.nn.log_softmax(logits)
    # A forbidden action has probability zero, and 0 * (-inf + inf) would be NaN.
    return jnp.sum(jnp.exp(old) * jnp.where(jnp.isneginf(old), 0.0, old - new), axis=-1)


def kl_mean(*, old_mean: Float[Array, "*n A"], old_scale: Float[Array, "*n A"], mean: Float[Array, "*n A"]) -> Float[Array, "*n"]:
    """1/2 (mu - mu_old)^T Sigma_old^-1 (mu - mu_old): the mean moves, the old covariance measures."""
    return 0.5 * jnp.sum(jnp.square((mean - old_mean) / old_scale), axis=-1)


def kl_covariance(*, old_scale: Float[Array, "*n A"], scale: Float[Array, "*n A"]) -> Float[Array, "*n"]:
    """1/2 [tr(Sigma^-1 Sigma_old) - A + log(|Sigma| / |Sigma_old|)]: the covariance moves, the mean stands still."""
    log_ratio = 2 * (jnp.log(old_scale) - jnp.log(scale))
    # expm1: near the old covariance the three terms cancel to nearly nothing.
    return 0.5 * jnp.sum(jnp.expm1(log_ratio) - log_ratio, axis=-1)
