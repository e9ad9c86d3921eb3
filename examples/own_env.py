"""A Gymnasium environment of your own, made by a function: nothing has to be registered.

    python examples/own_env.py
    gtrxl train env:own_env.make --from examples

It is stepped by actors in processes of this machine, whatever it is written in; a learner learns from what they send.
"""

from typing import Any

import gymnasium
import numpy as np

import gtrxl


class Password(gymnasium.Env):
    """A digit is shown once, then a question mark for some steps. At the last one, naming the digit pays 1."""

    def __init__(self, *, digits: int = 3, wait: int = 5):
        self.digits, self.wait = digits, wait
        self.observation_space = gymnasium.spaces.Discrete(digits + 1)
        self.action_space = gymnasium.spaces.Discrete(digits)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.int64, dict[str, Any]]:
        """Draws the digit."""
        super().reset(seed=seed)
        self._digit, self._left = self.np_random.integers(self.digits), self.wait
        return self._digit, {}

    def step(self, action: np.int64) -> tuple[np.int64, float, bool, bool, dict[str, Any]]:
        """Waits; the last action is the answer."""
        self._left -= 1
        over = self._left == 0
        return np.int64(self.digits), float(over and action == self._digit), over, False, {}


def make() -> gymnasium.Env:
    """Called in every actor."""
    return Password()


def main(*, episodes: int = 100, **changes: Any) -> gtrxl.Run:
    """Trains and scores."""
    run = gtrxl.train(env_fn=make, **changes)
    score = gtrxl.evaluate(run.folder, env_fn=make, episodes=episodes)
    print(f"{run.config.task}: {100 * score.mean_return:.0f} % right; 33 % needs no memory")
    return run


if __name__ == "__main__":
    main(steps=150_000)
