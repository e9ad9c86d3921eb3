"""A trained agent in a Gymnasium task: raw observations in, the task's own actions out. E episodes."""

import functools
from typing import Any

import equinox as eqx
import gymnasium
import jax
import numpy as np
from jaxtyping import Float, UInt8

from gtrxl.evaluation import gym_episodes
from gtrxl.evaluation.trained_agent import OTHER, Ends, TrainedAgent, check_state
from gtrxl.gym.isolated import IsolatedEnv
from gtrxl.gym.spaces import Spaces
from gtrxl.gym.task import GymTask
from gtrxl.networks.agent import Agent
from gtrxl.runs.errors import RunError, first_line

EPISODES = 256
"""Episodes that a score is taken over, unless others are asked for."""
RANDOM_EPISODES = 100
"""Episodes that a random score is taken over, at most."""
MOST_STEPS = 2000
"""An episode that has no end is filmed this far."""
FILMED = 288
"""Rows of a film, about; pictures of at most half of that are enlarged."""


class GymThought(eqx.Module):
    """What an agent keeps from step to step: its thought, and the action it took last."""

    thought: Any
    action: Any
    """As the policy gave it; None at the start of an episode."""


class GymAgent(TrainedAgent):
    """A trained agent that acts in one Gymnasium environment: `agent.task.make()`, or what `gymnasium.make` gives for its id."""

    agent: Agent
    task: GymTask = eqx.field(static=True)
    spaces: Spaces = eqx.field(static=True)

    def initial_state(self, seed: int = 0) -> GymThought:
        """The state at the start of an episode."""
        return GymThought(thought=self.begin_thought(seed), action=None)

    def act(self, observation: Any, state: GymThought, *, reward: float = 0.0, greedy: bool = False) -> tuple[Any, GymThought]:
        """The task's action for an observation as the task gave it, and the next state."""
        check_state(state, "thought")
        seen = self.spaces.lens(observation, action=state.action, reward=reward)
        action, thought = self.think(seen, state.thought, greedy=greedy)
        action = jax.tree.map(np.asarray, action)
        return self.spaces.hand.to_task(action), GymThought(thought=thought, action=action)

    @property
    def name(self) -> str:
        """Of its task."""
        return self.task.name

    @property
    def scored(self) -> str:
        """Of what it is scored on."""
        return self.task.scored

    @property
    def usual_episodes(self) -> int:
        """The same for all: how long they take is not known."""
        return EPISODES

    def returns(self, *, episodes: int, seed: int = 0, greedy: bool = False) -> Float[np.ndarray, " E"]:
        """The scores of whole episodes, on the levels that are kept for it where there are such."""
        return gym_episodes.returns(self.agent, self.task.held_out(), episodes=episodes, seed=seed, greedy=greedy)

    def ends(self, *, episodes: int, seed: int) -> Ends:
        """What was published; else the random score is measured."""
        scale = self.task.scale_of()
        if scale is not None:
            return Ends(scale.random, scale.best, scale.best_is)
        few = min(episodes, RANDOM_EPISODES)
        return Ends(float(gym_episodes.random_returns(self.task.held_out(), episodes=few, seed=seed).mean()))

    def film(self, *, seed: int, greedy: bool, secret: bool) -> tuple[list[UInt8[np.ndarray, "H W 3"]], list[float]]:
        """One episode as the task itself draws it, and its rewards."""
        del secret
        env = (functools.partial(IsolatedEnv, self.task) if self.task.alone else self.task.make)(render_mode="rgb_array")
        try:
            observation, _ = env.reset(seed=seed + OTHER)
            state, frames, rewards, over = self.initial_state(seed), [self._drawn(env)], [], False
            while not over:
                action, state = self.act(observation, state, reward=rewards[-1] if rewards else 0.0, greedy=greedy)
                observation, reward, terminated, truncated, _ = env.step(action)
                rewards.append(float(reward))
                frames.append(self._drawn(env))
                over = terminated or truncated or len(rewards) >= MOST_STEPS
        finally:
            env.close()
        return frames, rewards

    def _drawn(self, env: gymnasium.Env) -> UInt8[np.ndarray, "H W 3"]:
        try:
            picture: Any = env.render()
        except gymnasium.error.DependencyNotInstalled as error:
            raise RunError(f"{self.name} cannot draw itself: {first_line(error)}") from error
        except NotImplementedError:
            picture = None
        if not isinstance(picture, np.ndarray) or picture.ndim != 3:
            raise RunError(
                f"{self.name} must draw itself as an array (render_mode rgb_array), got {type(picture).__name__}; "
                "an episode of it cannot be shown"
            )
        return enlarged(picture[..., :3].astype(np.uint8))


def enlarged(picture: UInt8[np.ndarray, "h w 3"]) -> UInt8[np.ndarray, "H W 3"]:
    """A small picture with every pixel as a square, large enough to be looked at."""
    times = max(1, FILMED // picture.shape[0])
    return picture.repeat(times, axis=0).repeat(times, axis=1)
