"""Small problems whose optimum is known, and a compiled loop that learns them with a table.

S states, A actions, B streams, T steps.

A state that ends an episode is entered like any other: its step is the episode's last observation, not valid, and the next step
starts again in state 0. A time limit does the same with the discount left as it is.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from gtrxl.algorithms import Inputs, kl_categorical
from tests.algorithms import batches

S, A, B, T = 5, 3, 32, 8
DISCOUNT = 0.9


class Problem(NamedTuple):
    """Tables: where an action leads, what it pays, how noisily, and which states end the episode."""

    following: jax.Array  # [S, A]
    reward: jax.Array  # [S, A]
    noise: jax.Array
    ends: jax.Array  # [S]
    limit: jax.Array  # steps until an episode is cut


def bandit(scale=1.0):
    """One choice, then the end: three arms of unit noise, the middle one is best by 0.5."""
    reward = jnp.zeros((S, A)).at[0].set(jnp.array([0.0, 1.0, 0.5]) * scale)
    ends = jnp.arange(S) == S - 1
    return Problem(jnp.full((S, A), S - 1, jnp.int32), reward, jnp.float32(scale), ends, jnp.int32(100))


def chain():
    """Left, right, or stop. Stopping pays 0.2 at once; the right end, four steps away, pays 1: worth 0.9^3 from the start."""
    states = jnp.arange(S, dtype=jnp.int32)
    following = jnp.stack([jnp.maximum(states - 1, 0), jnp.minimum(states + 1, S - 1), jnp.full((S,), S - 1, jnp.int32)], axis=1)
    reward = jnp.zeros((S, A)).at[S - 2, 1].set(1.0).at[:, 2].set(0.2)
    return Problem(following, reward, jnp.float32(0.0), states == S - 1, jnp.int32(6))


def value_iteration(problem, sweeps=200):
    """The best possible values and actions, in float64; a state that ends has no value."""
    following, reward, ends = (np.asarray(x) for x in (problem.following, problem.reward, problem.ends))
    value, q = np.zeros(S), np.zeros((S, A))
    for _ in range(sweeps):
        q = reward + DISCOUNT * np.where(ends[following], 0.0, value[following])
        value = np.where(ends, 0.0, q.max(axis=1))
    return value, q.argmax(axis=1)


def policy_value(problem, logits, sweeps=200):
    """The exact values of a table policy."""
    policy = np.asarray(jax.nn.softmax(logits), np.float64)
    following, reward, ends = (np.asarray(x) for x in (problem.following, problem.reward, problem.ends))
    value = np.zeros(S)
    for _ in range(sweeps):
        q = reward + DISCOUNT * np.where(ends[following], 0.0, value[following])
        value = np.where(ends, 0.0, (policy * q).sum(axis=1))
    return value


def unroll(problem, logits, world, key):
    """T steps of B streams: states before and after each, actions, rewards, discounts, which steps count."""

    def step(carry, key):
        state, age = carry
        act, pay = jax.random.split(key)
        last = problem.ends[state] | (age >= problem.limit)
        action = jax.random.categorical(act, logits[state])
        after = problem.following[state, action]
        reward = problem.reward[state, action] + problem.noise * jax.random.normal(pay, (B,))
        discount = jnp.where(problem.ends[after], 0.0, DISCOUNT)
        after, age = jnp.where(last, 0, after), jnp.where(last, 0, age + 1)
        return (after, age), (state, action, reward, discount, ~last)

    world, steps = jax.lax.scan(step, world, jax.random.split(key, T))
    return world, tuple(jnp.moveaxis(x, 0, 1) for x in steps)


@eqx.filter_jit
def learn(learner, problem, updates, key):
    """Tables after so many batches, and the report of each batch's last update. With a target network: it acts."""
    online = {"logits": jnp.zeros((S, A)), "value": jnp.zeros(S)}
    multipliers = learner.multipliers(("categorical",))
    clip = optax.clip_by_global_norm(learner.max_grad_norm) if learner.max_grad_norm else optax.identity()
    optimiser = optax.chain(clip, optax.adam(learner.learning_rate))
    multiplier_optimiser = optax.adam(learner.multiplier_rate)

    def loss(free, batch):
        table, multipliers = free
        states, last_state, action, reward, discount, valid, acted = batch
        seen = jnp.concatenate([states, last_state[:, None]], axis=1)
        new, old = (jax.nn.log_softmax(x["logits"][states]) for x in (table, acted))
        taken = action[..., None]
        inputs = Inputs(
            reward=reward,
            discount=discount,
            valid=valid,
            log_prob=jnp.take_along_axis(new, taken, axis=-1)[..., 0],
            behaviour_log_prob=jnp.take_along_axis(old, taken, axis=-1)[..., 0],
            entropy=-jnp.sum(jnp.exp(new) * new, axis=-1),
            kl={"categorical": kl_categorical(old_logits=old, logits=new)},
            value=table["value"][seen],
            behaviour_value=acted["value"][seen],
            shift=jnp.zeros(reward.shape[0]),
            scale=jnp.ones(reward.shape[0]),
        )
        return learner.loss(multipliers, inputs)

    def update(carry, batch):
        online, multipliers, opts = carry
        (_, report), (slopes, by_multipliers) = jax.value_and_grad(loss, has_aux=True)((online, multipliers), batch)
        change, opt = optimiser.update(slopes, opts[0])
        multiplier_change, multiplier_opt = multiplier_optimiser.update(by_multipliers, opts[1])
        multipliers = learner.project(optax.apply_updates(multipliers, multiplier_change))
        return (optax.apply_updates(online, change), multipliers, (opt, multiplier_opt)), report

    def one_batch(carry, at):
        (online, multipliers, opts), target, world = carry
        step, key = at
        (state, age), (states, action, reward, discount, valid) = unroll(problem, target["logits"], world, key)
        parts = learner.minibatches
        whole = (states, state, action, reward, discount, valid)
        split = jax.tree.map(lambda x: x.reshape(parts, B // parts, *x.shape[1:]), whole)
        acted = jax.tree.map(lambda x: jnp.broadcast_to(x[None], (parts, *x.shape)), target)

        def epoch(carry, _):
            return jax.lax.scan(update, carry, (*split, acted))

        carry, report = jax.lax.scan(epoch, (online, multipliers, opts), None, learner.epochs)
        target = batches.target_after(online=carry[0], target=target, step=step + 1, period=learner.target_period)
        return (carry, target, (state, age)), jax.tree.map(lambda x: x[-1, -1], report)

    world = (jnp.zeros(B, jnp.int32), jnp.zeros(B, jnp.int32))
    opts = (optimiser.init(online), multiplier_optimiser.init(multipliers))
    steps = (jnp.arange(updates), jax.random.split(key, updates))
    ((online, multipliers, _), _, _), reports = jax.lax.scan(one_batch, ((online, multipliers, opts), online, world), steps)
    return online, multipliers, reports
