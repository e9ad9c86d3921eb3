"""A trained agent in a loop of your own: load it, step an environment by hand, collect the returns.

    gtrxl train t-maze:corridor=10 --steps 300k --run runs/maze
    python examples/evaluation_loop.py runs/maze

`gtrxl eval RUN` does the same for many episodes at once. Write the loop yourself when you want to look at every step, or to play
in an environment that is not the one of the training. It is the same for Gymnasium tasks (gym:ID, env:module.function).
"""

import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import gtrxl
from gtrxl.evaluation.trained_agent import TrainedAgent


def play(agent: TrainedAgent, env: gymnasium.Env, *, seed: int) -> float:
    """The return of one episode."""
    observation, _ = env.reset(seed=seed)
    state = agent.initial_state(seed)  # the memory is empty again: every episode begins with a state of its own
    rewards, over = [0.0], False
    while not over:
        action, state = agent.act(observation, state, reward=rewards[-1])
        observation, reward, terminated, truncated, _ = env.step(action)
        rewards.append(float(reward))
        over = terminated or truncated
    return sum(rewards)


def main(run: Path | str, *, id: str = "gtrxl/TMaze-v0", episodes: int = 100, **arguments: Any) -> list[float]:
    """Plays episodes in what `gymnasium.make(id, **arguments)` gives."""
    agent = gtrxl.load(run)
    env = gymnasium.make(id, **arguments)
    returns = [play(agent, env, seed=seed) for seed in range(episodes)]
    env.close()
    error = np.std(returns) / np.sqrt(episodes)
    print(f"{id} with {arguments or 'its usual settings'}: {np.mean(returns):.2f} +- {error:.2f} over {episodes} episodes")
    return returns


if __name__ == "__main__":
    for corridor in (10, 20):  # as long as in training, and longer
        main(sys.argv[1], corridor=corridor)
