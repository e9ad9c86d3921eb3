"""Tasks of a few steps for other people's trainers."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

import gtrxl.cores
from gtrxl.cores import Transformer

TRANSFORMERS = [name for name, entry in gtrxl.cores.CORES.items() if entry.kind is Transformer]
CORES = [*TRANSFORMERS, "lstm", "gru", "none", "mingru", "lru", "mamba2", "mlstm", "agalite", "rl-mem"]
"""Those whose states a trainer has to keep: of the linear ones and of those with rows one for each kind of state."""
SPACES = {
    "vector": spaces.Box(-1.0, 1.0, (3,), np.float32),
    "picture": spaces.Box(0, 255, (3, 36, 36), np.uint8),
    "dict": spaces.Dict({"where": spaces.Box(-1.0, 1.0, (2,), np.float32), "what": spaces.Discrete(3)}),
    "number": spaces.Discrete(4),
}


class Noise(gymnasium.Env):
    """Observations and rewards are noise. Episodes have 2 to 9 steps; every other one ends, the others only run out of time."""

    def __init__(self, sees: str = "vector", does: spaces.Space | None = None):
        self.observation_space: Any = SPACES[sees]
        self.action_space = spaces.Discrete(3) if does is None else does
        self._episodes = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict]:
        """A new episode."""
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self._episodes += 1
        self._left = int(self.np_random.integers(2, 10))
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        """One step of noise."""
        assert self.action_space.contains(action)
        self._left -= 1
        over = self._left == 0
        cut = over and self._episodes % 2 == 0
        return self.observation_space.sample(), float(self.np_random.normal()), over and not cut, cut, {}
