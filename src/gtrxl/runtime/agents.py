"""The trained agent of a run: load it to act with it, or play whole episodes for a score. E episodes."""

import dataclasses
import math
import os
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from jaxtyping import Float

from gtrxl.envs.catalogue import make_task
from gtrxl.envs.host import HostTask, is_host
from gtrxl.envs.scores import reference_scores
from gtrxl.runtime import hosting, playing
from gtrxl.runtime.config import Config
from gtrxl.runtime.errors import RunError
from gtrxl.runtime.host_player import HostPlayer
from gtrxl.runtime.playing import AnyPlayer, Player
from gtrxl.runtime.runs import Which, read_config, restore_agent

EnvFn = Callable[[], gymnasium.Env]

RANDOM_EPISODES = 100
"""Episodes that a Gymnasium task's random score is taken over, at most."""


def load(run: str | os.PathLike[str], which: Which | int = "best", *, env_fn: EnvFn | None = None) -> AnyPlayer:
    """The trained agent of a run: of its best checkpoint, its last, or the one of an update.

    `env_fn` is the function that the run was trained with, where it cannot be imported by its name.
    """
    config = read_config(run)
    if not is_host(config.task):
        _, agent, _ = restore_agent(run, which)
        return Player(agent=agent, task=make_task(config.task))
    task = host_task(config, env_fn)
    spaces = task.spaces()
    _, agent, _ = restore_agent(run, which, spaces=spaces)
    return HostPlayer(agent=agent, task=task, spaces=spaces)


def host_task(config: Config[Any], env_fn: EnvFn | None = None) -> HostTask:
    """The Gymnasium task of these settings; `env_fn` makes it if it is given."""
    if env_fn is None:
        return config.host_task
    return HostTask.of(env_fn, mask_velocity=config.gym.mask_velocity, previous=config.gym.previous)


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Scores of whole episodes.

    `interval` holds the mean with 95 % confidence; `normalised` is 0 for the random policy, 100 for a perfect memory. Of a
    Gymnasium task the random score is measured, and the other two are not known: None.
    """

    task: str
    mean_return: float
    interval: tuple[float, float]
    std: float
    episodes: int
    random: float
    best: float | None
    normalised: float | None
    seed: int
    update: int


def evaluate(
    run: str | os.PathLike[str],
    *,
    episodes: int = 256,
    seed: int = 0,
    which: Which | int = "best",
    greedy: bool = False,
    task: str | None = None,
    env_fn: EnvFn | None = None,
) -> Evaluation:
    """Plays whole episodes that were not in the training; `task` plays another one with the same spaces (a longer corridor)."""
    if episodes < 2:
        raise RunError(f"episodes must be at least 2, got {episodes}; an interval needs a spread")
    config = read_config(run)
    score = _host_scores if is_host(config.task) else _scores
    scores, random, best, update = score(
        config, run, which, task, env_fn=env_fn, how={"episodes": episodes, "seed": seed, "greedy": greedy}
    )
    mean, std = float(scores.mean()), float(scores.std(ddof=1))
    error = 1.96 * std / math.sqrt(episodes)
    return Evaluation(
        task=config.task if task is None else task,
        mean_return=mean,
        interval=(mean - error, mean + error),
        std=std,
        episodes=episodes,
        random=random,
        best=best,
        normalised=None if best is None else 100 * (mean - random) / (best - random),
        seed=seed,
        update=update,
    )


Scored = tuple[Float[np.ndarray, " E"], float, float | None, int]
"""The returns, the random score, the best if it is known, and the update that the agent is of."""


def _scores(
    config: Config[Any], run: Any, which: Which | int, other: str | None, *, env_fn: EnvFn | None, how: dict[str, Any]
) -> Scored:
    if env_fn is not None:
        raise RunError(f"env_fn is for Gymnasium tasks, got one for {config.task}; leave it out")
    task, trained_on = make_task(config.task if other is None else other), make_task(config.task)
    _same(task, trained_on, config.task, other)
    _, agent, update = restore_agent(run, which)
    reference = reference_scores(task)
    return playing.returns(agent, task, **how), reference.random, reference.best, update


def _host_scores(
    config: Config[Any], run: Any, which: Which | int, other: str | None, *, env_fn: EnvFn | None, how: dict[str, Any]
) -> Scored:
    trained_on = host_task(config, env_fn)
    spaces = trained_on.spaces()
    task = trained_on
    if other is not None:
        task = HostTask.parse(other, mask_velocity=config.gym.mask_velocity, previous=config.gym.previous)
        if task.spaces() != spaces:
            raise RunError(f"task must have the spaces of {config.task}, got {other}; change only what leaves them alone")
    _, agent, update = restore_agent(run, which, spaces=spaces)
    few = min(how["episodes"], RANDOM_EPISODES)
    random = float(hosting.random_returns(task, episodes=few, seed=how["seed"]).mean())
    return hosting.returns(agent, task, **how), random, None, update


def _same(task: Any, trained_on: Any, name: str, other: str | None) -> None:
    if (task.observation_space, task.action_space) != (trained_on.observation_space, trained_on.action_space):
        raise RunError(
            f"task must have the spaces of {name}, got {other}: {task.observation_space} and {task.action_space}; "
            "change only what leaves them alone, such as the length of an episode"
        )
