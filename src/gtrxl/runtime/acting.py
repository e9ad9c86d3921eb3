"""Acting inside the compiled program: B streams of a task, stepped by an agent for T steps.

B streams, T steps. Observations are arrays, or dicts of them; actions too.

Every observation an agent sees is a step of its stream, the last one of an episode too: there the action leads nowhere (`valid`
is false), the value is what a truncated episode is bootstrapped from, and the next step begins a new episode. So the memory,
the learner and the task agree on what a step is, and no observation is lost.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray, PyTree

from gtrxl.agent.agent import Agent
from gtrxl.agent.policies import Policy
from gtrxl.cores import State
from gtrxl.envs.contract import Task


class Situation(eqx.Module):
    """Where B streams stand before their next action."""

    task: State
    observation: PyTree
    reset: Bool[Array, " B"]
    """This observation begins an episode."""

    final: Bool[Array, " B"]
    """This observation ends one."""

    score: Float[Array, " B"]
    """The rewards of this episode so far."""

    steps: Int[Array, " B"]
    limit: Int[Array, " B"]
    """The episode is cut here. The first episode of a stream is cut at random, so that streams do not end all at once."""


class Unroll(eqx.Module):
    """What happened in T steps of B streams: all fields have [B, T] in front, or [B] for a single step."""

    observation: PyTree
    reset: Bool[Array, "*n"]
    action: PyTree
    behaviour: Policy
    value: Float[Array, "*n"]
    reward: Float[Array, "*n"]
    terminated: Bool[Array, "*n"]
    """The action ended the episode for good."""

    valid: Bool[Array, "*n"]
    """False where the observation is an episode's last."""


class Ended(eqx.Module):
    """The episodes that ended in T steps: how many, and their scores summed, squared and summed, least and most."""

    count: Float[Array, "*n"]
    total: Float[Array, "*n"]
    squares: Float[Array, "*n"]
    least: Float[Array, "*n"]
    most: Float[Array, "*n"]
    steps: Float[Array, "*n"]


UNCUT = 2**30


def begin(task: Task, keys: Key[Array, " B"]) -> Situation:
    """B streams at the start of an episode; `keys` has one for each."""

    def one(key: PRNGKeyArray) -> tuple[State, PyTree, Array]:
        task_key, limit_key = jax.random.split(key)
        state, observation = task.reset(task_key)
        return state, observation, jax.random.randint(limit_key, (), 1, task.episode_steps + 1)

    state, observation, limit = jax.vmap(one)(keys)
    streams = len(limit)
    return Situation(
        task=state,
        observation=observation,
        reset=jnp.ones(streams, bool),
        final=jnp.zeros(streams, bool),
        score=jnp.zeros(streams),
        steps=jnp.zeros(streams, jnp.int32),
        limit=limit,
    )


def act(
    agent: Agent, task: Task, memory: State, situation: Situation, *, keys: Key[Array, " B"], steps: int
) -> tuple[State, Situation, Unroll, Ended]:
    """T steps of every stream, from a prepared memory; `keys` has one for each stream."""

    def draw(key: PRNGKeyArray) -> tuple[PyTree, Key[Array, " T"]]:
        noise_key, reset_key = jax.random.split(key)
        return agent.head.noise(noise_key, (steps,)), jax.random.split(reset_key, steps)

    noise, reset_keys = jax.vmap(draw, out_axes=1)(keys)  # [T, B, A], [T, B]

    def one(carry: tuple[State, Situation], random: tuple[PyTree, Key[Array, " B"]]):
        memory, now = carry
        noise, reset_keys = random
        policy, value, memory = agent.step(now.observation, memory, reset=now.reset)
        action = policy.sample(noise)
        task_state, step = jax.vmap(task.step)(now.task, action)
        score, lasted = now.score + step.reward, now.steps + 1
        ends = step.terminated | step.truncated | (lasted >= now.limit)
        following = Situation(
            task=task_state,
            observation=step.observation,
            reset=jnp.zeros_like(ends),
            final=ends,
            score=score,
            steps=lasted,
            limit=now.limit,
        )
        following = jax.lax.cond(jnp.any(now.final), lambda: _restart(task, now, following, reset_keys), lambda: following)
        valid = ~now.final
        counted = valid & ends & (now.limit == UNCUT)
        record = Unroll(
            observation=now.observation,
            reset=now.reset,
            action=action,
            behaviour=policy,
            value=value[:, 0],
            reward=jnp.where(valid, step.reward, 0.0),
            terminated=step.terminated & valid,
            valid=valid,
        )
        return (memory, following), (record, (counted, score, lasted))

    (memory, situation), (unroll, (counted, score, lasted)) = jax.lax.scan(one, (memory, situation), (noise, reset_keys))
    weight = counted.astype(jnp.float32)
    ended = Ended(
        count=jnp.sum(weight),
        total=jnp.sum(weight * score),
        squares=jnp.sum(weight * jnp.square(score)),
        least=jnp.min(jnp.where(counted, score, jnp.inf)),
        most=jnp.max(jnp.where(counted, score, -jnp.inf)),
        steps=jnp.sum(weight * lasted),
    )
    return memory, situation, jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), unroll), ended


def _restart(task: Task, now: Situation, following: Situation, keys: Key[Array, " B"]) -> Situation:
    """New episodes for the streams whose last observation was final; the others go on."""
    state, observation = jax.vmap(task.reset)(keys)
    fresh = Situation(
        task=state,
        observation=observation,
        reset=jnp.ones_like(now.final),
        final=jnp.zeros_like(now.final),
        score=jnp.zeros_like(now.score),
        steps=jnp.zeros_like(now.steps),
        limit=jnp.full_like(now.limit, UNCUT),
    )
    return jax.tree.map(lambda new, old: jnp.where(_like(now.final, new), new, old), fresh, following)


def _like(flag: Bool[Array, " B"], leaf: Array) -> Bool[Array, "B *ones"]:
    return flag.reshape(flag.shape + (1,) * (leaf.ndim - 1))
