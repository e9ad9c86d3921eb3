"""ProofofMemory, the task that CleanRL's PPO with Transformer-XL is shown on, written anew from its rules.

    gtrxl train env:proof_of_memory.make --from benchmarks --steps 25000

A line from -1 to 1 in steps of 0.2, a goal at each end, one good and one bad. The agent begins at one of -0.4, -0.2, 0, 0.2, 0.4.
It sees the left goal (1 good, -1 bad), its place, and the right goal. The first two actions lead nowhere and pay nothing; the
first three observations show the goals, all later ones have 0 there. From then on action 1 moves right, 0 left. The good goal
pays 1.6, the bad one costs as much, every other step costs 0.1; both goals end the episode, and the clock does after 16 steps.
So who remembers gets 1.6 - 0.1 x (steps to the goal - 1): 1.0 to 1.4, and 1.2 on average; without memory it is a coin's toss.
"""

from typing import Any

import gymnasium
import numpy as np

CELLS = 5
"""From the middle to a goal."""
SHOWN = 2
"""Actions before the goals are hidden."""
LIMIT = 16


class ProofOfMemory(gymnasium.Env[np.ndarray, Any]):
    """Two goals are shown, then hidden; walk to the good one."""

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Draws the place and the side of the good goal."""
        super().reset(seed=seed)
        self.cell = int(self.np_random.integers(-2, 3))
        self.good = 1 if self.np_random.integers(2) else -1
        self.steps = 0
        return self._seen(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """One cell, once the goals are hidden."""
        self.steps += 1
        if self.steps <= SHOWN:
            return self._seen(), 0.0, False, False, {}
        self.cell += 1 if action == 1 else -1
        arrived = abs(self.cell) == CELLS
        reward = (1.6 if self.cell * self.good > 0 else -1.6) if arrived else -0.1
        return self._seen(), reward, arrived, not arrived and self.steps >= LIMIT, {}

    def _seen(self) -> np.ndarray:
        shown = self.good if self.steps <= SHOWN else 0
        return np.array([-shown, self.cell / CELLS, shown], np.float32)


def make() -> gymnasium.Env[np.ndarray, Any]:
    """One of it."""
    return ProofOfMemory()
