"""A trained agent that acts through PyTorch: the calls of `gtrxl.load`'s agents, and the same actions for the same seeds.

Random numbers are drawn by JAX, as in training: a policy's action is a function of its numbers and of noise
(`gtrxl.networks.policies`), so the same key gives the same action, whoever multiplied the matrices. B streams, E episodes.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import torch
from jaxtyping import Bool, Float, PRNGKeyArray, PyTree
from torch import Tensor

from gtrxl.evaluation import gym_episodes
from gtrxl.evaluation.compiled import CompiledAgent, in_turns
from gtrxl.evaluation.gym_agent import GymAgent
from gtrxl.networks.policies import Head as NoiseHead
from gtrxl.tasks.contract import Task
from gtrxl.tasks.specs import ActionSpec
from gtrxl.torch.networks.agent import Agent


class Thought(NamedTuple):
    """What an agent keeps from step to step: its memory, the randomness of its policy, and whether an episode begins."""

    memory: Any
    key: PRNGKeyArray
    begins: bool


class TorchCompiledAgent(CompiledAgent):
    """A trained agent that acts in one stream of a compiled task. `module` is the network; `agent` has its shapes alone."""

    module: Agent = eqx.field(static=True)

    def begin_thought(self, seed: int) -> Thought:
        """Before the first step of an episode."""
        return begin_thought(self.module, seed)

    def think(self, observation: PyTree, thought: Thought, *, greedy: bool) -> tuple[PyTree, Thought]:
        """One step of one stream."""
        return think(self.module, observation, thought, greedy=greedy)

    def returns(self, *, episodes: int, seed: int = 0, greedy: bool = False) -> Float[np.ndarray, " E"]:
        """The scores of whole episodes: those that `gtrxl.load`'s agent plays."""

        def play(key: PRNGKeyArray, streams: int) -> Float[np.ndarray, " B"]:
            return _play(self.module, self.task, key, streams, greedy=greedy)

        return in_turns(play, self.task, episodes=episodes, seed=seed)


class TorchGymAgent(GymAgent):
    """A trained agent that acts in one Gymnasium environment. `module` is the network; `agent` has its shapes alone."""

    module: Agent = eqx.field(static=True)

    def begin_thought(self, seed: int) -> Thought:
        """Before the first step of an episode."""
        return begin_thought(self.module, seed)

    def think(self, observation: PyTree, thought: Thought, *, greedy: bool) -> tuple[PyTree, Thought]:
        """One step of one stream."""
        return think(self.module, observation, thought, greedy=greedy)

    def returns(self, *, episodes: int, seed: int = 0, greedy: bool = False) -> Float[np.ndarray, " E"]:
        """The scores of whole episodes: those that `gtrxl.load`'s agent plays."""

        def act(seen: PyTree, memory: Any, reset: Bool[np.ndarray, " B"], key: PRNGKeyArray) -> tuple[PyTree, Any]:
            noise = None if greedy else _noise(self.module.head.spec, len(reset))(key)
            return _act(self.module, seen, memory, reset, noise)

        begin = functools.partial(empty_memory, self.module)
        return gym_episodes.returns_of(begin, act, self.task.held_out(), episodes=episodes, seed=seed)


def begin_thought(module: Agent, seed: int) -> Thought:
    """Before the first step of an episode."""
    return Thought(memory=empty_memory(module, 1), key=jax.random.key(seed), begins=True)


@torch.no_grad()
def empty_memory(module: Agent, streams: int) -> Any:
    """Of streams that have seen nothing, prepared."""
    return module.prepare(module.initial_state(streams))


def think(module: Agent, observation: PyTree, thought: Thought, *, greedy: bool) -> tuple[PyTree, Thought]:
    """One step of one stream: what the policy does, and what is kept."""
    key, noise = _next(module.head.spec)(thought.key)
    alone = jax.tree.map(lambda leaf: np.asarray(leaf)[None], observation)
    reset = np.array([thought.begins])
    action, memory = _act(module, alone, thought.memory, reset, None if greedy else noise)
    return jax.tree.map(lambda leaf: leaf[0], action), Thought(memory=memory, key=key, begins=False)


@torch.no_grad()
def _act(
    module: Agent, observation: PyTree, memory: Any, reset: Bool[np.ndarray, " B"], noise: PyTree | None
) -> tuple[PyTree, Any]:
    """The actions of all streams, likeliest without noise, and the next memory."""
    device = next(module.parameters()).device
    seen = jax.tree.map(lambda leaf: _tensor(leaf, device), observation)
    policy, _, memory = module.step(seen, memory, reset=_tensor(reset, device))
    if noise is None:
        action = module.head.mode(policy)
    else:
        action = module.head.sample(policy, jax.tree.map(lambda leaf: _tensor(leaf, device), noise))
    return jax.tree.map(lambda leaf: leaf.cpu().numpy(), action), memory


def _play(module: Agent, task: Task, key: PRNGKeyArray, streams: int, *, greedy: bool) -> Float[np.ndarray, " B"]:
    """One episode of every stream: their scores. The task runs in JAX, as in `gtrxl.evaluation.compiled.play`."""
    reset_key, act_key = jax.random.split(key)
    reset, step, noise = _many(task, "reset"), _many(task, "step"), _noise(module.head.spec, streams)
    state, observation = reset(jax.random.split(reset_key, streams))
    memory, playing, score = empty_memory(module, streams), np.ones(streams, bool), np.zeros(streams, np.float32)
    for number, key in enumerate(jax.random.split(act_key, task.episode_steps)):
        begins = np.full(streams, number == 0)
        action, memory = _act(module, observation, memory, begins, None if greedy else noise(key))
        state, after = step(state, jax.tree.map(jnp.asarray, action))
        score += np.where(playing, np.asarray(after.reward), 0)
        playing &= ~np.asarray(after.terminated | after.truncated)
        observation = after.observation
        if not playing.any():
            break
    return score


@functools.lru_cache(maxsize=64)
def _many(task: Task, call: str) -> Callable[..., Any]:
    return jax.jit(jax.vmap(getattr(task, call)))


@functools.lru_cache(maxsize=64)
def _noise(spec: ActionSpec, streams: int) -> Callable[[PRNGKeyArray], Any]:
    """What the actions of so many streams are drawn from, compiled once."""
    return jax.jit(lambda key: NoiseHead(spec).noise(key, (streams,)))


@functools.lru_cache(maxsize=64)
def _next(spec: ActionSpec) -> Callable[[PRNGKeyArray], tuple[PRNGKeyArray, Any]]:
    """The key of the next step, and the noise of this one."""

    def draw(key: PRNGKeyArray) -> tuple[PRNGKeyArray, Any]:
        key, noise_key = jax.random.split(key)
        return key, NoiseHead(spec).noise(noise_key, (1,))

    return jax.jit(draw)


def _tensor(array: Any, device: torch.device) -> Tensor:
    return torch.from_numpy(np.array(array)).to(device)
