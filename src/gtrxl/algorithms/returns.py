"""What the future brought: n-step and lambda-returns, advantages, V-trace. T steps of one stream, any axes in front.

Step t has an observation s_t and an action a_t; `reward[t]` and `discount[t]` follow the action. The discount is zero where the
action ended the episode for good. Where a time limit cut it, the discount stays, and step t + 1 holds the final observation
with `valid` false: its value continues the return, its action counts nowhere, and the step after it starts a new episode.
`value` has one entry more than there are steps, for the observation after the last.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def _backwards(*, first: Float[Array, "*B T"], decay: Float[Array, "*B T"], last: Float[Array, "*B"]) -> Float[Array, "*B T"]:
    """y_t = first_t + decay_t * y_{t+1}, from y_T = last."""

    def step(y: Array, at: tuple[Array, Array]) -> tuple[Array, Array]:
        y = at[0] + at[1] * y
        return y, y

    in_time = (jnp.moveaxis(first, -1, 0), jnp.moveaxis(decay, -1, 0))
    return jnp.moveaxis(jax.lax.scan(step, last, in_time, reverse=True)[1], 0, -1)


def returns(
    *,
    reward: Float[Array, "*B T"],
    discount: Float[Array, "*B T"],
    value: Float[Array, "*B T+1"],
    valid: Bool[Array, "*B T"],
    lam: float = 1.0,
) -> Float[Array, "*B T"]:
    """G_t = r_t + discount_t ((1 - lam) V_{t+1} + lam G_{t+1}), with G_T = V_T, and G_t = V_t at steps that are not valid.

    `lam` 1 is the paper's n-step return to the end of the unroll, 0 looks one step ahead.
    """
    now, following = value[..., :-1], value[..., 1:]
    first = jnp.where(valid, reward + discount * (1 - lam) * following, now)
    return _backwards(first=first, decay=jnp.where(valid, discount * lam, 0.0), last=value[..., -1])


def advantages(
    *,
    reward: Float[Array, "*B T"],
    discount: Float[Array, "*B T"],
    value: Float[Array, "*B T+1"],
    valid: Bool[Array, "*B T"],
    lam: float = 1.0,
) -> Float[Array, "*B T"]:
    """`returns` less the value: zero at steps that are not valid. With `lam` below one this is GAE (Schulman et al. 2016)."""
    return returns(reward=reward, discount=discount, value=value, valid=valid, lam=lam) - value[..., :-1]


def vtrace(
    *,
    reward: Float[Array, "*B T"],
    discount: Float[Array, "*B T"],
    value: Float[Array, "*B T+1"],
    valid: Bool[Array, "*B T"],
    log_ratio: Float[Array, "*B T"],
    lam: float = 1.0,
    rho_bar: float = 1.0,
    c_bar: float = 1.0,
) -> tuple[Float[Array, "*B T"], Float[Array, "*B T"]]:
    """V-trace (Espeholt et al. 2018): targets for the value, and advantages for the policy gradient.

    `log_ratio` is log pi(a|s) - log mu(a|s), the learner's policy against the one that acted. Where the two agree, the
    targets are `returns` and the advantages `advantages`, with the same `lam`.
    """
    now, following = value[..., :-1], value[..., 1:]
    ratio = jnp.exp(jnp.where(valid, log_ratio, 0.0))
    rho, c = jnp.minimum(ratio, rho_bar), lam * jnp.minimum(ratio, c_bar)
    surprise = jnp.where(valid, rho * (reward + discount * following - now), 0.0)
    correction = _backwards(first=surprise, decay=jnp.where(valid, discount * c, 0.0), last=jnp.zeros_like(value[..., -1]))
    after = jnp.concatenate([correction[..., 1:], jnp.zeros_like(value[..., -1:])], axis=-1)
    advantage = jnp.where(valid, rho * (reward + discount * (following + lam * after) - now), 0.0)
    return now + correction, advantage
