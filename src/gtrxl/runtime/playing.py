"""A trained agent at play: acting step by step from Python, whole episodes for a score, one episode for a picture.

E episodes, O numbers in an observation.
"""

import dataclasses
import math
import os
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from gtrxl.agent.agent import Agent
from gtrxl.agent.policies import Policy
from gtrxl.cores import State
from gtrxl.envs.catalogue import make_task
from gtrxl.envs.contract import Task
from gtrxl.envs.scores import reference_scores
from gtrxl.runtime.errors import RunError
from gtrxl.runtime.runs import Which, restore_agent

AT_ONCE = 128
"""Episodes played side by side."""

OTHER = 1_000_003
"""Added to the seed of an evaluation, so that no episode of the training is played again."""


class Thought(eqx.Module):
    """What a player keeps from step to step: its memory, the randomness of its policy, and whether an episode begins."""

    memory: State
    key: PRNGKeyArray
    begins: Bool[Array, ""]


class Player(eqx.Module):
    """A trained agent that acts in one stream.

    player = gtrxl.load("runs/first")
    state = player.initial_state()
    action, state = player.act(observation, state)      # until the episode ends; then begin with a new initial state
    """

    agent: Agent
    task: Task = eqx.field(static=True)

    def initial_state(self, seed: int = 0) -> Thought:
        """The state at the start of an episode."""
        return Thought(memory=_empty(self.agent), key=jax.random.key(seed), begins=jnp.ones((), bool))

    def act(self, observation: Any, state: Thought, *, greedy: bool = False) -> tuple[np.ndarray, Thought]:
        """The action for an observation, and the next state; `greedy` takes the likeliest action instead of drawing one."""
        observation = jnp.asarray(observation, jnp.float32)
        wanted = self.task.observation_space.shape
        if observation.shape != wanted:
            raise RunError(
                f"an observation must have shape {list(wanted)}, got {list(observation.shape)}; this agent plays one stream"
            )
        action, state = _act(self.agent, observation, state, greedy)
        return np.asarray(action), state


@eqx.filter_jit
def _empty(agent: Agent) -> State:
    return agent.prepare(agent.initial_state(1))


@eqx.filter_jit
def _act(agent: Agent, observation: Float[Array, " O"], state: Thought, greedy: bool) -> tuple[Array, Thought]:
    key, noise_key = jax.random.split(state.key)
    policy, _, memory = agent.step(observation[None], state.memory, reset=state.begins[None])
    return _choose(agent, policy, noise_key, greedy)[0], Thought(memory=memory, key=key, begins=jnp.zeros((), bool))


def _choose(agent: Agent, policy: Policy, key: PRNGKeyArray, greedy: bool) -> Array:
    if greedy:
        return policy.mode()
    streams = jax.tree.leaves(policy)[0].shape[0]
    return policy.sample(agent.head.noise(key, (streams,)))


def load(run: str | os.PathLike[str], which: Which | int = "best") -> Player:
    """The trained agent of a run: of its best checkpoint, its last, or the one of an update."""
    config, agent, _ = restore_agent(run, which)
    return Player(agent=agent, task=make_task(config.task))


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Scores of whole episodes.

    `interval` holds the mean with 95 % confidence; `normalised` is 0 for the random policy, 100 for a perfect memory.
    """

    task: str
    mean_return: float
    interval: tuple[float, float]
    std: float
    episodes: int
    random: float
    best: float
    normalised: float
    seed: int
    update: int


def evaluate(
    run: str | os.PathLike[str],
    *,
    episodes: int = 256,
    seed: int = 0,
    which: Which | int = "best",
    greedy: bool = False,
    task: str | None = None,
) -> Evaluation:
    """Plays whole episodes that were not in the training; `task` plays another one with the same spaces (a longer corridor)."""
    if episodes < 2:
        raise RunError(f"episodes must be at least 2, got {episodes}; an interval needs a spread")
    config, agent, update = restore_agent(run, which)
    played = make_task(config.task if task is None else task)
    trained_on = make_task(config.task)
    if (played.observation_space, played.action_space) != (trained_on.observation_space, trained_on.action_space):
        raise RunError(
            f"task must have the spaces of {config.task}, got {task}: {played.observation_space} and {played.action_space}; "
            "change only what leaves them alone, such as the length of an episode"
        )
    scores = returns(agent, played, episodes=episodes, seed=seed, greedy=greedy)
    mean, std = float(scores.mean()), float(scores.std(ddof=1))
    error = 1.96 * std / math.sqrt(episodes)
    reference = reference_scores(played)
    return Evaluation(
        task=config.task if task is None else task,
        mean_return=mean,
        interval=(mean - error, mean + error),
        std=std,
        episodes=episodes,
        random=reference.random,
        best=reference.best,
        normalised=reference.normalised(mean),
        seed=seed,
        update=update,
    )


def returns(agent: Agent, task: Task, *, episodes: int, seed: int = 0, greedy: bool = False) -> Float[np.ndarray, " E"]:
    """The scores of `episodes` episodes."""
    streams = min(AT_ONCE, episodes)
    played = []
    for number in range(math.ceil(episodes / streams)):
        key = jax.random.fold_in(jax.random.key(seed + OTHER), number)
        played.append(np.asarray(_episodes(agent, task, key, streams, greedy)))
    return np.concatenate(played)[:episodes].astype(np.float64)


@eqx.filter_jit
def _episodes(agent: Agent, task: Task, key: PRNGKeyArray, streams: int, greedy: bool) -> Float[Array, " E"]:
    reset_key, act_key = jax.random.split(key)
    state, observation = jax.vmap(task.reset)(jax.random.split(reset_key, streams))
    memory = agent.prepare(agent.initial_state(streams))

    def step(carry: Any, now: tuple[Array, PRNGKeyArray]):
        memory, state, observation, playing, score = carry
        number, key = now
        policy, _, memory = agent.step(observation, memory, reset=jnp.broadcast_to(number == 0, playing.shape))
        state, after = jax.vmap(task.step)(state, _choose(agent, policy, key, greedy))
        score = score + jnp.where(playing, after.reward, 0.0)
        return (memory, state, after.observation, playing & ~(after.terminated | after.truncated), score), None

    start = (memory, state, observation, jnp.ones(streams, bool), jnp.zeros(streams))
    steps = (jnp.arange(task.episode_steps), jax.random.split(act_key, task.episode_steps))
    (_, _, _, _, score), _ = jax.lax.scan(step, start, steps)
    return score


def episode(player: Player, *, seed: int = 0, greedy: bool = False) -> tuple[list[State], list[float]]:
    """The task's states in one episode, first to last, and the rewards between them."""
    reset = jax.jit(player.task.reset)
    step = jax.jit(player.task.step)
    state, observation = reset(jax.random.key(seed + OTHER))
    thought, states, rewards = player.initial_state(seed), [state], []
    for _ in range(player.task.episode_steps):
        action, thought = player.act(observation, thought, greedy=greedy)
        state, after = step(state, jnp.asarray(action))
        observation = after.observation
        states.append(state)
        rewards.append(float(after.reward))
        if after.terminated or after.truncated:
            break
    return states, rewards
