"""V-MPO (Song et al. 2019) term by term. Arrays hold one number for each step of the whole batch, in any shape.

D is the batch, every step that is `valid`; `chosen` marks the half of it with the largest advantages. The loss is the plain sum
of policy, temperature, KL and value losses. All of them are written for the global array: under a sharded `jit`, the
half is the half of the batch on all devices.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, UInt32

from gtrxl.learner import masked

FLOOR = 1e-8
"""What multipliers are projected to be at least, after each update."""

Scalar = Float[Array, ""]
Multipliers = dict[str, Float[Array, ""]]
"""eta, and one alpha for each part of the KL, by name: `eta`, `alpha_categorical`, ..."""


def top_half(advantage: Float[Array, "*n"], valid: Bool[Array, "*n"]) -> Bool[Array, "*n"]:
    """The valid steps whose advantage is at least the middle one: half of them, rounded up.

    Steps that tie with the middle one are all in, so that no step is preferred for its place in the batch, and a batch that is
    repeated has its half repeated.
    """
    # Bisection over the bits finds the middle one in 32 counts. Against sorting it is ten times faster on a CPU, and a batch
    # that is spread over devices exchanges one number per count instead of being gathered.
    half = (jnp.sum(valid) + 1) // 2
    rank = jnp.where(valid, _ordered_bits(advantage), 0)

    def next_bit(i: Array, middle: Array) -> Array:
        higher = middle | (jnp.uint32(1 << 31) >> i.astype(jnp.uint32))
        return jnp.where(jnp.sum(rank >= higher) >= half, higher, middle)

    return valid & (rank >= jax.lax.fori_loop(0, 32, next_bit, jnp.uint32(0)))


def _ordered_bits(x: Float[Array, "*n"]) -> UInt32[Array, "*n"]:
    """Whole numbers above zero in the order of x."""
    one_zero = jnp.where(x == 0, 0.0, x)  # -0.0 equals 0.0, but its bits do not
    bits = jax.lax.bitcast_convert_type(one_zero.astype(jnp.float32), jnp.uint32)
    sign = jnp.uint32(1 << 31)
    return jnp.where(bits >= sign, ~bits, bits | sign)


def _below_best(advantage: Float[Array, "*n"], chosen: Bool[Array, "*n"]) -> tuple[Float[Array, "*n"], Scalar]:
    """Chosen advantages less the largest of them (at most zero, so that no exponential overflows), and the largest."""
    best = jnp.max(jnp.where(chosen, advantage, -jnp.inf))
    best = jnp.where(jnp.any(chosen), best, 0.0)
    return jnp.where(chosen, advantage - best, 0.0), best


def sample_weights(advantage: Float[Array, "*n"], *, eta: Scalar, chosen: Bool[Array, "*n"]) -> Float[Array, "*n"]:
    """psi: a softmax of advantage / eta over the chosen steps, zero elsewhere. It adds up to one and has no gradient."""
    advantage, eta = jax.lax.stop_gradient((advantage, eta))
    below, _ = _below_best(advantage, chosen)
    weight = jnp.where(chosen, jnp.exp(below / eta), 0.0)
    return weight / jnp.maximum(jnp.sum(weight), 1.0)  # the best has weight one: the sum is less only if there is none


def policy_loss(*, log_prob: Float[Array, "*n"], weight: Float[Array, "*n"]) -> Scalar:
    """L_pi = - sum of psi * log pi(a|s). A sum, not a mean: the weights already add up to one."""
    return -jnp.sum(weight * jnp.where(weight > 0, log_prob, 0.0))


def temperature_loss(advantage: Float[Array, "*n"], *, eta: Scalar, chosen: Bool[Array, "*n"], epsilon: float | Scalar) -> Scalar:
    """L_eta = eta * epsilon + eta * log(mean of exp(advantage / eta) over the chosen steps). Its gradient is eta's alone."""
    below, best = _below_best(jax.lax.stop_gradient(advantage), chosen)
    total = jnp.sum(jnp.where(chosen, jnp.exp(below / eta), 0.0))
    size = jnp.sum(chosen)
    # eta * log(exp(best / eta)) = best: what was taken out for safety comes back without eta.
    log_mean = jnp.log(jnp.where(size > 0, total, 1.0)) - jnp.log(jnp.maximum(size, 1))
    return eta * (epsilon + log_mean) + best


def kl_loss(kl: Float[Array, "*n"], *, alpha: Scalar, epsilon: float | Scalar, valid: Bool[Array, "*n"]) -> Scalar:
    """L_alpha = mean over D of alpha * (epsilon - sg[KL]) + sg[alpha] * KL.

    The policy is pulled back by alpha times its KL from the target; alpha grows while the KL is over its bound.
    """
    moved = masked.mean(kl, valid)
    return alpha * (epsilon - jax.lax.stop_gradient(moved)) + jax.lax.stop_gradient(alpha) * moved


def value_loss(*, value: Float[Array, "*n"], target: Float[Array, "*n"], valid: Bool[Array, "*n"]) -> Scalar:
    """L_V = half the mean over D of (V - G)^2; the target has no gradient."""
    return 0.5 * masked.mean(jnp.square(masked.only(value - jax.lax.stop_gradient(target), valid)), valid)


def project(multipliers: Multipliers) -> Multipliers:
    """Multipliers as they may be: at least 1e-8."""
    return jax.tree.map(lambda x: jnp.maximum(x, FLOOR), multipliers)
