"""Agents of every kind with random weights, none small, and observations of what they are shown. B streams, T steps."""

import dataclasses
import functools
from typing import Any

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from gtrxl import Net, defaults
from gtrxl.evaluation.loading import agents_of
from gtrxl.evaluation.restored import Restored
from gtrxl.evaluation.trained_agent import TrainedAgent
from gtrxl.gym.spaces import Spaces
from gtrxl.torch.agents.building import seen_by
from gtrxl.training.building import make_agent

NET = Net(layers=2, width=8, heads=2, head_dim=4, mlp=8, memory=4, torso=8, hidden=8, channels="tiny")
KINDS = {
    "numbers": "grid-numpad:episode_steps=6",
    "continuous": "numpad:episode_steps=6",
    "picture, words, hybrid": "memory-maze:height=16,width=16",
    "gymnasium, all parts": f"env:{__name__}:AllParts",
    "two tasks": "t-maze:corridor=2+t-maze:corridor=3",
}


class AllParts(gymnasium.Env):
    """Observations and actions with a part of every kind. Pays for the first choice, and ends after a while."""

    observation_space = spaces.Dict(
        {
            "speed": spaces.Box(-np.inf, np.inf, (2,), np.float32),
            "gear": spaces.Discrete(3),
            "view": spaces.Box(0, 255, (9, 8, 3), np.uint8),
            "order": spaces.Text(9),
        }
    )
    action_space = spaces.Dict({"gear": spaces.MultiDiscrete([3, 2]), "wheel": spaces.Box(-2, 3, (2,), np.float32)})

    def reset(self, *, seed: int | None = None, options: Any = None):
        super().reset(seed=seed, options=options)
        self.steps = 0
        return self._seen(), {}

    def step(self, action: Any):
        self.steps += 1
        reward = float(action["gear"][0] == 0) + float(np.sum(action["wheel"])) / 8
        return self._seen(), reward, self.steps == 5 + self.np_random.integers(3), self.steps >= 7, {}

    def _seen(self) -> dict[str, Any]:
        random = self.np_random
        return {
            "speed": 100 * random.standard_normal(2).astype(np.float32),
            "gear": random.integers(3),
            "view": random.integers(0, 256, (9, 8, 3), np.uint8),
            "order": "stop" if random.random() < 0.5 else "",
        }


@functools.cache
def restored(kind: str, core: str = "gtrxl-gru", *, seed: int = 0, **net: Any) -> Restored:
    """An agent as a run's checkpoint would give it."""
    config = dataclasses.replace(defaults(task=KINDS[kind], core=core), net=dataclasses.replace(NET, **net))
    if kind.startswith("gymnasium"):
        config = dataclasses.replace(config, gym=dataclasses.replace(config.gym, previous="action+reward", widest_noise=1.5))
    tasks = config.tasks
    shapes = eqx.filter_eval_shape(lambda: make_agent(config, tasks.shown, jax.random.key(0), values=len(tasks)))
    random = np.random.default_rng(seed + (3 if kind == "two tasks" else 0))  # whose agent does not always do the same

    def filled(where: Any, leaf: Any) -> Any:
        if not hasattr(leaf, "shape"):
            return leaf
        name = jax.tree_util.keystr(where)
        drawn = (0.01 if name == ".policy.output.bias" else 0.5) * random.standard_normal(
            leaf.shape
        )  # no action is the best of all
        return jnp.asarray(100 + drawn if name.endswith(".variance") else drawn, leaf.dtype)

    return Restored(config, tasks, jax.tree_util.tree_map_with_path(filled, shapes), 3)


def jax_player(found: Restored) -> TrainedAgent:
    """What `gtrxl.load` would give."""
    return agents_of(found.agent, found.config, found.tasks)[0]


def observed(found: Restored, steps: int, *, seed: int = 0) -> list[Any]:
    """What a user would show the agent, step by step."""
    shown = found.tasks.shown
    if isinstance(shown, Spaces):
        env = AllParts()
        first, *_ = env.reset(seed=seed)
        return [first, *(env._seen() for _ in range(steps - 1))]
    seen = network_inputs(found, steps, seed=seed)
    return [jax.tree.map(lambda part, t=t: part[t], seen) for t in range(steps)]


def network_inputs(found: Restored, *leading: int, seed: int = 0) -> Any:
    """What the network itself is given, with these axes in front."""
    random = np.random.default_rng(seed)

    def drawn(zeros: np.ndarray) -> np.ndarray:
        if zeros.dtype == np.uint8:
            return random.integers(0, 256, zeros.shape, np.uint8)
        if zeros.dtype == np.int32:
            return np.sort(random.integers(-5, 1000, zeros.shape), axis=-1)[..., ::-1].astype(np.int32).copy()
        return 2 * random.standard_normal(zeros.shape).astype(np.float32)

    return jax.tree.map(drawn, seen_by(found.agent).zeros(*leading))
