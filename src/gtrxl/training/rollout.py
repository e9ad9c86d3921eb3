"""Acting inside the compiled program: B streams of one task or of several, stepped by an agent for T steps.

B streams, T steps, N tasks. Observations are arrays, or dicts of them; actions too.

Stream i plays task i % N. The streams of one task are stepped together, and what they show is put together again in the order of
the streams: the agent never knows which task is which.

Every observation an agent sees is a step of its stream, the last one of an episode too: there the action leads nowhere (`valid`
is false), the value is what a truncated episode is bootstrapped from, and the next step begins a new episode. So the memory,
the learner and the task agree on what a step is, and no observation is lost.
"""

import functools
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray, PyTree

from gtrxl.cores import State
from gtrxl.networks.agent import Agent
from gtrxl.networks.policies import Policy
from gtrxl.tasks.contract import Step, Task

Tasks = Task | tuple[Task, ...]
"""One task, or several with the same spaces."""


class Situation(eqx.Module):
    """Where B streams stand before their next action."""

    task: State
    """Of all streams; of several tasks a tuple, with B / N streams in each."""
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
    """As the agent that acts gives it: in training, in reward units."""

    reward: Float[Array, "*n"]
    terminated: Bool[Array, "*n"]
    """The action ended the episode for good."""

    valid: Bool[Array, "*n"]
    """False where the observation is an episode's last."""


class Ended(eqx.Module):
    """The episodes that ended in T steps: how many, and their scores summed, squared and summed, least and most.

    Of several tasks each field has N in the end, one number for each.
    """

    count: Float[Array, "*n"]
    total: Float[Array, "*n"]
    squares: Float[Array, "*n"]
    least: Float[Array, "*n"]
    most: Float[Array, "*n"]
    steps: Float[Array, "*n"]

    def and_others(self, others: "Ended") -> "Ended":
        """These and others."""
        return Ended(
            count=self.count + others.count,
            total=self.total + others.total,
            squares=self.squares + others.squares,
            least=jnp.minimum(self.least, others.least),
            most=jnp.maximum(self.most, others.most),
            steps=self.steps + others.steps,
        )


UNCUT = 2**30


def tasks_of(task: Tasks) -> tuple[Task, ...]:
    """As a tuple."""
    return task if isinstance(task, tuple) else (task,)


def played(task: Tasks, streams: int) -> Int[Array, " B"] | None:
    """Which task each stream plays; None if there is only one."""
    number = len(tasks_of(task))
    return None if number == 1 else jnp.arange(streams, dtype=jnp.int32) % number


def own_value(value: Float[Array, "B *t N"], task: Int[Array, " B"] | None) -> Float[Array, "B *t"]:
    """Of one value for each task, that of the task which a stream plays; None is the first for all."""
    if task is None:
        return value[..., 0]
    chosen = jnp.broadcast_to(task.reshape(-1, *[1] * (value.ndim - 1)), (*value.shape[:-1], 1))
    return jnp.take_along_axis(value, chosen, axis=-1)[..., 0]


def begin(task: Tasks, keys: Key[Array, " B"]) -> Situation:
    """B streams at the start of an episode; `keys` has one for each."""

    def one(task: Task, key: PRNGKeyArray) -> tuple[State, PyTree, Array]:
        task_key, limit_key = jax.random.split(key)
        state, observation = task.reset(task_key)
        return state, observation, jax.random.randint(limit_key, (), 1, task.episode_steps + 1)

    groups = [
        jax.vmap(functools.partial(one, each))(mine) for each, mine in zip(tasks_of(task), _shared_out(task, keys), strict=True)
    ]
    streams = len(keys)
    return Situation(
        task=_all_states(task, [state for state, _, _ in groups]),
        observation=_in_order([observation for _, observation, _ in groups]),
        reset=jnp.ones(streams, bool),
        final=jnp.zeros(streams, bool),
        score=jnp.zeros(streams),
        steps=jnp.zeros(streams, jnp.int32),
        limit=_in_order([limit for _, _, limit in groups]),
    )


def act(
    agent: Agent, task: Tasks, memory: State, situation: Situation, *, keys: Key[Array, " B"], steps: int
) -> tuple[State, Situation, Unroll, Ended]:
    """T steps of every stream, from a prepared memory; `keys` has one for each stream."""
    plays = played(task, len(keys))

    def draw(key: PRNGKeyArray) -> tuple[PyTree, Key[Array, " T"]]:
        noise_key, reset_key = jax.random.split(key)
        return agent.head.noise(noise_key, (steps,)), jax.random.split(reset_key, steps)

    noise, reset_keys = jax.vmap(draw, out_axes=1)(keys)  # [T, B, A], [T, B]

    def one(carry: tuple[State, Situation], random: tuple[PyTree, Key[Array, " B"]]):
        memory, now = carry
        noise, reset_keys = random
        policy, value, memory = agent.step(now.observation, memory, reset=now.reset)
        action = policy.sample(noise)
        moves = [
            _moved(each, state, *mine)
            for each, state, mine in zip(
                tasks_of(task),
                _each_state(task, now.task),
                _shared_out(task, (action, now.final, reset_keys)),
                strict=True,
            )
        ]
        step = _in_order([step for _, step in moves])
        score, lasted = now.score + step.reward, now.steps + 1
        ends = step.terminated | step.truncated | (lasted >= now.limit)
        following = Situation(
            task=_all_states(task, [state for state, _ in moves]),
            observation=step.observation,
            reset=now.final,
            final=ends & ~now.final,
            score=jnp.where(now.final, 0.0, score),
            steps=jnp.where(now.final, 0, lasted),
            limit=jnp.where(now.final, UNCUT, now.limit),
        )
        valid = ~now.final
        counted = valid & ends & (now.limit == UNCUT)
        record = Unroll(
            observation=now.observation,
            reset=now.reset,
            action=action,
            behaviour=policy,
            value=own_value(value, plays),
            reward=jnp.where(valid, step.reward, 0.0),
            terminated=step.terminated & valid,
            valid=valid,
        )
        return (memory, following), (record, (counted, score, lasted))

    (memory, situation), (unroll, ended) = jax.lax.scan(one, (memory, situation), (noise, reset_keys))
    return memory, situation, jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), unroll), _ended(*ended, len(tasks_of(task)))


def _ended(counted: Bool[Array, "T B"], score: Float[Array, "T B"], lasted: Int[Array, "T B"], tasks: int) -> Ended:
    """The episodes of each task, over all steps and its streams."""
    if tasks > 1:
        counted, score, lasted = (leaf.reshape(leaf.shape[0], -1, tasks) for leaf in (counted, score, lasted))
    weight, over = counted.astype(jnp.float32), (0, 1)
    return Ended(
        count=jnp.sum(weight, over),
        total=jnp.sum(weight * score, over),
        squares=jnp.sum(weight * jnp.square(score), over),
        least=jnp.min(jnp.where(counted, score, jnp.inf), over),
        most=jnp.max(jnp.where(counted, score, -jnp.inf), over),
        steps=jnp.sum(weight * lasted, over),
    )


def _moved(task: Task, state: State, action: PyTree, final: Bool[Array, " b"], keys: Key[Array, " b"]) -> tuple[State, Step]:
    """One step of a task's own streams. Where the last observation was final the step leads nowhere, and a new episode begins."""

    def renewed(going: PyTree, begin: Callable[[PRNGKeyArray], PyTree]) -> PyTree:
        def fresh() -> PyTree:
            return jax.tree.map(lambda new, old: jnp.where(_like(final, new), new, old), jax.vmap(begin)(keys), going)

        return jax.lax.cond(jnp.any(final), fresh, lambda: going)  # to begin an episode may cost more than a step

    if task.costly_observation:  # one is enough: of where a stream is in the end
        state, reward, terminated, truncated = jax.vmap(task.advance)(state, action)
        state = renewed(state, lambda key: task.reset(key)[0])
        return state, Step(observation=jax.vmap(task.observe)(state), reward=reward, terminated=terminated, truncated=truncated)
    state, step = jax.vmap(task.step)(state, action)
    state, observation = renewed((state, step.observation), task.reset)
    return state, Step(observation=observation, reward=step.reward, terminated=step.terminated, truncated=step.truncated)


def _shared_out(task: Tasks, tree: PyTree) -> list[PyTree]:
    """What belongs to the streams of each task."""
    number = len(tasks_of(task))
    return [tree] if number == 1 else [jax.tree.map(lambda leaf: leaf[n::number], tree) for n in range(number)]


def _in_order(trees: list[PyTree]) -> PyTree:
    """What `_shared_out` shared out, in the order of the streams again."""
    if len(trees) == 1:
        return trees[0]
    return jax.tree.map(lambda *of: jnp.stack(of, axis=1).reshape(-1, *of[0].shape[1:]), *trees)


def _each_state(task: Tasks, states: State) -> tuple[State, ...]:
    return states if isinstance(task, tuple) else (states,)


def _all_states(task: Tasks, states: list[State]) -> State:
    """Those of one task as they are, so that it is stored as it always was."""
    return tuple(states) if isinstance(task, tuple) else states[0]


def _like(flag: Bool[Array, " B"], leaf: Array) -> Bool[Array, "B *ones"]:
    return flag.reshape(flag.shape + (1,) * (leaf.ndim - 1))
