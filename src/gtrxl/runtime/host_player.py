"""A trained agent at play in a Gymnasium task: raw observations in, the task's own actions out."""

from typing import Any

import equinox as eqx
import jax
import numpy as np

from gtrxl.agent.agent import Agent
from gtrxl.envs.host import HostTask
from gtrxl.envs.spaces import Spaces
from gtrxl.runtime.playing import AnyPlayer, Thought, begin_thought, think


class HostThought(eqx.Module):
    """What a player keeps from step to step: its thought, and the action it took last."""

    thought: Thought
    action: Any
    """As the policy gave it; None at the start of an episode."""


class HostPlayer(AnyPlayer):
    """A trained agent that acts in one Gymnasium environment, `player.task.make()`.

    player = gtrxl.load("runs/cart-pole")
    state = player.initial_state()
    action, state = player.act(observation, state)      # until the episode ends; then begin with a new initial state
    """

    agent: Agent
    task: HostTask = eqx.field(static=True)
    spaces: Spaces = eqx.field(static=True)

    def initial_state(self, seed: int = 0) -> HostThought:
        """The state at the start of an episode."""
        return HostThought(thought=begin_thought(self.agent, seed), action=None)

    def act(self, observation: Any, state: HostThought, *, reward: float = 0.0, greedy: bool = False) -> tuple[Any, HostThought]:
        """The task's action for an observation as the task gave it, and the next state; `reward` is what the last action brought,
        for agents that were trained to be told."""
        seen = self.spaces.lens(observation, action=state.action, reward=reward)
        action, thought = think(self.agent, seen, state.thought, greedy)
        action = jax.tree.map(np.asarray, action)
        return self.spaces.hand.to_task(action), HostThought(thought=thought, action=action)
