"""A bandit with a continuous action, and a compiled loop that learns it with V-MPO. B streams, T steps.

Two action dimensions, a reward that falls with the squared distance from a goal, one step per episode; the policy is one mean
and one scale.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from gtrxl.algorithms import Inputs, kl_covariance, kl_mean
from tests.algorithms import batches

B, T = 32, 4
GOAL = (1.0, -1.0)


def everywhere(x, steps=T):
    """The same for every step of the batch."""
    return jnp.broadcast_to(x, (B, steps, *x.shape))


def log_prob(table, action):
    z = (action - everywhere(table["mean"])) * everywhere(jnp.exp(-table["log_scale"]))
    return jnp.sum(-0.5 * jnp.square(z) - everywhere(table["log_scale"]), axis=-1)


def inputs(table, acted, action):
    """What a learner is told, when `acted` acted and `table` learns."""
    old_scale, scale = jnp.exp(acted["log_scale"]), jnp.exp(table["log_scale"])
    return Inputs(
        reward=-jnp.sum(jnp.square(action - everywhere(jnp.array(GOAL))), axis=-1),
        discount=jnp.zeros((B, T)),
        valid=jnp.ones((B, T), bool),
        log_prob=log_prob(table, action),
        behaviour_log_prob=log_prob(acted, action),
        entropy=everywhere(jnp.sum(table["log_scale"])),
        kl={
            "mean": everywhere(kl_mean(old_mean=acted["mean"], old_scale=old_scale, mean=table["mean"])),
            "covariance": everywhere(kl_covariance(old_scale=old_scale, scale=scale)),
        },
        value=everywhere(table["value"], T + 1),
        behaviour_value=everywhere(acted["value"], T + 1),
        shift=jnp.zeros(B),
        scale=jnp.ones(B),
    )


@eqx.filter_jit
def learn(learner, updates, key):
    """The table and the multipliers after so many updates, and the report of each."""
    optimiser, multiplier_optimiser = optax.adam(learner.learning_rate), optax.adam(learner.multiplier_rate)

    def loss(free, acted, action):
        return learner.loss(free[1], inputs(free[0], acted, action))

    def update(carry, at):
        online, target, multipliers, opts = carry
        step, key = at
        action = everywhere(target["mean"]) + everywhere(jnp.exp(target["log_scale"])) * jax.random.normal(key, (B, T, 2))
        (_, report), (slopes, by_multipliers) = jax.value_and_grad(loss, has_aux=True)((online, multipliers), target, action)
        change, opt = optimiser.update(slopes, opts[0])
        multiplier_change, multiplier_opt = multiplier_optimiser.update(by_multipliers, opts[1])
        online = eqx.apply_updates(online, change)
        multipliers = learner.project(optax.apply_updates(multipliers, multiplier_change))
        target = batches.target_after(online=online, target=target, step=step + 1, period=learner.target_period)
        return (online, target, multipliers, (opt, multiplier_opt)), report

    table = {"mean": jnp.zeros(2), "log_scale": jnp.zeros(2), "value": jnp.zeros(())}
    multipliers = learner.multipliers(("mean", "covariance"))
    start = (table, table, multipliers, (optimiser.init(table), multiplier_optimiser.init(multipliers)))
    steps = (jnp.arange(updates), jax.random.split(key, updates))
    (found, _, multipliers, _), reports = jax.lax.scan(update, start, steps)
    return found, multipliers, reports
