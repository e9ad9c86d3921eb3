"""An agent at play in a compiled task: acting step by step from Python, whole episodes for a score, one episode for a picture.

E episodes.
"""

import abc
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from gtrxl.agent.agent import Agent
from gtrxl.agent.policies import Policy
from gtrxl.cores import State
from gtrxl.envs.contract import Task
from gtrxl.envs.specs import ObservationSpec
from gtrxl.runtime.errors import RunError

AT_ONCE, PICTURES_AT_ONCE = 128, 16
"""Episodes played side by side; fewer where pictures are seen, which take their room and their time."""
EPISODES, PICTURE_EPISODES = 256, 32
"""Episodes that a score is taken over, unless others are asked for."""

OTHER = 1_000_003
"""Added to the seed of an evaluation, so that no episode of the training is played again."""


class Thought(eqx.Module):
    """What a player keeps from step to step: its memory, the randomness of its policy, and whether an episode begins."""

    memory: State
    key: PRNGKeyArray
    begins: Bool[Array, ""]


class AnyPlayer(eqx.Module):
    """A trained agent that acts in one stream, whatever its task."""

    agent: eqx.AbstractVar[Agent]
    task: eqx.AbstractVar[Any]

    @abc.abstractmethod
    def initial_state(self, seed: int = 0) -> Any:
        """The state at the start of an episode."""

    @abc.abstractmethod
    def act(self, observation: Any, state: Any, *, reward: float = 0.0, greedy: bool = False) -> tuple[Any, Any]:
        """The action for an observation, and the next state."""


class Player(AnyPlayer):
    """A trained agent that acts in one stream of a compiled task.

    player = gtrxl.load("runs/first")
    state = player.initial_state()
    action, state = player.act(observation, state)      # until the episode ends; then begin with a new initial state
    """

    agent: Agent
    task: Task = eqx.field(static=True)

    def initial_state(self, seed: int = 0) -> Thought:
        """The state at the start of an episode."""
        return begin_thought(self.agent, seed)

    def act(self, observation: Any, state: Thought, *, reward: float = 0.0, greedy: bool = False) -> tuple[Any, Thought]:
        """The action for an observation, and the next state; `greedy` takes the likeliest action instead of drawing one. Compiled
        tasks show the reward in their observations; `reward` is not looked at."""
        del reward
        wanted = ObservationSpec.of(self.task.observation_space).zeros()
        if isinstance(wanted, dict) and (not isinstance(observation, dict) or set(observation) != set(wanted)):
            raise RunError(
                f"an observation must be a dict of {', '.join(wanted)}, got {type(observation).__name__}; see the task"
            )
        if isinstance(wanted, dict):
            observation = {name: _checked(observation[name], part) for name, part in wanted.items()}
        else:
            observation = _checked(observation, wanted)
        action, state = think(self.agent, observation, state, greedy)
        return jax.tree.map(np.asarray, action), state


def _checked(given: Any, wanted: np.ndarray) -> Array:
    array = jnp.asarray(given, wanted.dtype)
    if array.shape != wanted.shape:
        raise RunError(
            f"an observation must have shape {list(wanted.shape)}, got {list(array.shape)}; this agent plays one stream"
        )
    return array


def begin_thought(agent: Agent, seed: int) -> Thought:
    """Before the first step of an episode."""
    return Thought(memory=_empty(agent), key=jax.random.key(seed), begins=jnp.ones((), bool))


@eqx.filter_jit
def _empty(agent: Agent) -> State:
    return agent.prepare(agent.initial_state(1))


@eqx.filter_jit
def think(agent: Agent, observation: PyTree, state: Thought, greedy: bool) -> tuple[PyTree, Thought]:
    """One step of one stream: what the policy does, and what is kept."""
    key, noise_key = jax.random.split(state.key)
    alone = jax.tree.map(lambda leaf: leaf[None], observation)
    policy, _, memory = agent.step(alone, state.memory, reset=state.begins[None])
    action = jax.tree.map(lambda leaf: leaf[0], _choose(agent, policy, noise_key, greedy))
    return action, Thought(memory=memory, key=key, begins=jnp.zeros((), bool))


def _choose(agent: Agent, policy: Policy, key: PRNGKeyArray, greedy: bool) -> PyTree:
    if greedy:
        return policy.mode()
    streams = jax.tree.leaves(policy)[0].shape[0]
    return policy.sample(agent.head.noise(key, (streams,)))


def usual_episodes(task: Task) -> int:
    """How many episodes give a fair score of a task in a fair time."""
    return PICTURE_EPISODES if _pictures(task) else EPISODES


def _pictures(task: Task) -> bool:
    return bool(ObservationSpec.of(task.observation_space).images)


def returns(agent: Agent, task: Task, *, episodes: int, seed: int = 0, greedy: bool = False) -> Float[np.ndarray, " E"]:
    """The scores of `episodes` episodes."""
    streams = min(PICTURES_AT_ONCE if _pictures(task) else AT_ONCE, episodes)
    played = []
    for number in range(math.ceil(episodes / streams)):
        key = jax.random.fold_in(jax.random.key(seed + OTHER), number)
        played.append(np.asarray(play(agent, task, key, streams, greedy)[0]))
    return np.concatenate(played)[:episodes].astype(np.float64)


@eqx.filter_jit
def play(agent: Agent, task: Task, key: PRNGKeyArray, streams: int, greedy: bool) -> tuple[Float[Array, " E"], State]:
    """One episode of every stream: their scores, and the task's states that they began with."""
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

    first = state
    start = (memory, state, observation, jnp.ones(streams, bool), jnp.zeros(streams))
    steps = (jnp.arange(task.episode_steps), jax.random.split(act_key, task.episode_steps))
    (_, _, _, _, score), _ = jax.lax.scan(step, start, steps)
    return score, first


def episode(player: Player, *, seed: int = 0, greedy: bool = False) -> tuple[list[State], list[float]]:
    """The task's states in one episode, first to last, and the rewards between them."""
    reset = jax.jit(player.task.reset)
    step = jax.jit(player.task.step)
    state, observation = reset(jax.random.key(seed + OTHER))
    thought, states, rewards = player.initial_state(seed), [state], []
    for _ in range(player.task.episode_steps):
        action, thought = player.act(observation, thought, greedy=greedy)
        state, after = step(state, jax.tree.map(jnp.asarray, action))
        observation = after.observation
        states.append(state)
        rewards.append(float(after.reward))
        if after.terminated or after.truncated:
            break
    return states, rewards
