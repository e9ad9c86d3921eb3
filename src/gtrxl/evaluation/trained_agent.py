"""A trained agent that acts in one stream, whatever its task. E episodes."""

import abc
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree, UInt8

from gtrxl.cores import State
from gtrxl.networks.agent import Agent
from gtrxl.networks.policies import Policy
from gtrxl.runs.errors import RunError

OTHER = 1_000_003
"""Part of every seed of an evaluation, so that no episode of the training is played again."""


class Thought(eqx.Module):
    """What an agent keeps from step to step: its memory, the randomness of its policy, and whether an episode begins."""

    memory: State
    key: PRNGKeyArray
    begins: Bool[Array, ""]


class Ends(NamedTuple):
    """The scores that a task's returns are compared with; None where they are not known."""

    random: float | None = None
    best: float | None = None
    best_is: str | None = None
    """Whose score the best is."""


class TrainedAgent(eqx.Module):
    """A trained agent and the task it plays.

    agent = gtrxl.load("runs/first")
    state = agent.initial_state()
    action, state = agent.act(observation, state)      # until the episode ends; then begin with a new initial state
    """

    agent: eqx.AbstractVar[Agent]
    task: eqx.AbstractVar[Any]

    def begin_thought(self, seed: int) -> Any:
        """Before the first step of an episode. With `think` it is all that another form of the same network has to give."""
        return begin_thought(self.agent, seed)

    def think(self, observation: PyTree, thought: Any, *, greedy: bool) -> tuple[PyTree, Any]:
        """One step of one stream: what the policy does for an observation as the network sees it, and what is kept."""
        return think(self.agent, observation, thought, greedy)

    @abc.abstractmethod
    def initial_state(self, seed: int = 0) -> Any:
        """The state at the start of an episode."""

    @abc.abstractmethod
    def act(self, observation: Any, state: Any, *, reward: float = 0.0, greedy: bool = False) -> tuple[Any, Any]:
        """The action for an observation, and the next state; `greedy` takes the likeliest action instead of drawing one. `reward`
        is what the last action brought, for agents that were trained to be told."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """Of its task."""

    @property
    def scored(self) -> str:
        """Of what it is scored on: its task, unless there are levels kept for that."""
        return self.name

    @property
    @abc.abstractmethod
    def usual_episodes(self) -> int:
        """How many episodes give a fair score of its task in a fair time."""

    @abc.abstractmethod
    def returns(self, *, episodes: int, seed: int = 0, greedy: bool = False) -> Float[np.ndarray, " E"]:
        """The scores of whole episodes."""

    @abc.abstractmethod
    def ends(self, *, episodes: int, seed: int) -> Ends:
        """What its returns are compared with; a random score that nobody knows is measured over at most so many episodes."""

    @abc.abstractmethod
    def film(self, *, seed: int, greedy: bool, secret: bool) -> tuple[list[UInt8[np.ndarray, "H W 3"]], list[float]]:
        """One episode as pictures, and its rewards; `secret` also shows what is hidden from the agent, where there is such."""


def check_state(state: Any, part: str) -> None:
    """Raises unless it is of the kind that has this part."""
    if not hasattr(state, part):
        got = type(state).__name__
        raise RunError(f"state must be what initial_state or the last act of this agent gave, got {got}; act gives a pair")


def begin_thought(agent: Agent, seed: int) -> Thought:
    """Before the first step of an episode."""
    return Thought(memory=empty_memory(agent, 1), key=jax.random.key(seed), begins=jnp.ones((), bool))


@eqx.filter_jit
def empty_memory(agent: Agent, streams: int) -> State:
    """Of streams that have seen nothing, prepared."""
    return agent.prepare(agent.initial_state(streams))


@eqx.filter_jit
def think(agent: Agent, observation: PyTree, state: Thought, greedy: bool) -> tuple[PyTree, Thought]:
    """One step of one stream: what the policy does, and what is kept."""
    key, noise_key = jax.random.split(state.key)
    alone = jax.tree.map(lambda leaf: leaf[None], observation)
    policy, _, memory = agent.step(alone, state.memory, reset=state.begins[None])
    action = jax.tree.map(lambda leaf: leaf[0], choose(agent, policy, noise_key, 1, greedy))
    return action, Thought(memory=memory, key=key, begins=jnp.zeros((), bool))


def choose(agent: Agent, policy: Policy, key: PRNGKeyArray, streams: int, greedy: bool) -> PyTree:
    """What the policy of so many streams does."""
    return policy.mode() if greedy else policy.sample(agent.head.noise(key, (streams,)))
