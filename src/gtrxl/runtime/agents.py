"""The trained agent of a run: load it to act with it, or play whole episodes for a score. E episodes."""

import dataclasses
import math
import os
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from jaxtyping import Float

from gtrxl.envs.catalogue import spell
from gtrxl.envs.contract import Task
from gtrxl.envs.host import LAB, HostTask, is_host
from gtrxl.envs.human import splits
from gtrxl.envs.scores import known_scores
from gtrxl.envs.sets import in_words, make_tasks
from gtrxl.runtime import hosting, playing
from gtrxl.runtime.config import Config
from gtrxl.runtime.errors import RunError
from gtrxl.runtime.host_player import HostPlayer
from gtrxl.runtime.playing import AnyPlayer, Player
from gtrxl.runtime.runs import Which, read_config, restore_agent

EnvFn = Callable[[], gymnasium.Env]

HOST_EPISODES = 256
"""Episodes that a Gymnasium task's score is taken over, unless others are asked for."""
RANDOM_EPISODES = 100
"""Episodes that a Gymnasium task's random score is taken over, at most."""


def load(
    run: str | os.PathLike[str], which: Which | int = "best", *, task: str | None = None, env_fn: EnvFn | None = None
) -> AnyPlayer:
    """The trained agent of a run: of its best checkpoint, its last, or the one of an update.

    `task` is the one it shall play: another with the same spaces, or one of those it was trained on (the first, if left out).
    `env_fn` is the function that the run was trained with, where it cannot be imported by its name.
    """
    config = read_config(run)
    if not is_host(config.task):
        chosen = _tasks(config, task)[0]
        _, agent, _ = restore_agent(run, which)
        return Player(agent=agent, task=chosen)
    trained_on = host_task(config, env_fn)
    spaces = trained_on.spaces()
    chosen = _host_tasks(config, trained_on, task)[0]
    _, agent, _ = restore_agent(run, which, spaces=spaces)
    return HostPlayer(agent=agent, task=chosen, spaces=spaces)


def host_task(config: Config[Any], env_fn: EnvFn | None = None) -> HostTask:
    """The Gymnasium task of these settings; `env_fn` makes it if it is given."""
    if env_fn is None:
        return config.host_task
    return HostTask.of(env_fn, mask_velocity=config.gym.mask_velocity, previous=config.gym.previous)


@dataclasses.dataclass(frozen=True)
class TaskScore:
    """Scores of whole episodes of one task.

    `interval` holds the mean with 95 % confidence; `normalised` is 0 for the random policy, 100 for a perfect memory. Of a
    Gymnasium task the random score is measured, and the other two are not known: None. Of DeepMind Lab's levels the random score
    is the published one, and the best a human's.
    """

    mean_return: float
    interval: tuple[float, float]
    std: float
    episodes: int
    random: float | None
    best: float | None
    normalised: float | None


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Scores of whole episodes; the fields are those of `TaskScore`.

    Of several tasks `tasks` has each, and the others are about all of them: `mean_return` is the mean over the tasks of their
    normalised scores, between `random` 0 and `best` 100 (of their returns, and these None, where a task has no scale), `std` the
    spread between tasks, `episodes` those of all.
    """

    task: str
    mean_return: float
    interval: tuple[float, float]
    std: float
    episodes: int
    random: float | None
    best: float | None
    normalised: float | None
    seed: int
    update: int
    tasks: dict[str, TaskScore] | None = None
    human_normalised: dict[str, Any] | None = None
    """Of DMLab-30: the mean and the mean of scores no larger than 100, for each of the paper's splits that was played whole."""


def evaluate(
    run: str | os.PathLike[str],
    *,
    episodes: int | None = None,
    seed: int = 0,
    which: Which | int = "best",
    greedy: bool = False,
    task: str | None = None,
    env_fn: EnvFn | None = None,
) -> Evaluation:
    """Plays whole episodes that were not in the training; `task` plays another one with the same spaces (a longer corridor), or
    only one of several. `episodes` are those of each task: 256, of pictures 32, if left out."""
    if episodes is not None and episodes < 2:
        raise RunError(f"episodes must be at least 2, got {episodes}; an interval needs a spread")
    config = read_config(run)
    play = _host_scores if is_host(config.task) else _scores
    tasks, update = play(config, run, which, task, env_fn=env_fn, how={"episodes": episodes, "seed": seed, "greedy": greedy})
    name = config.task if task is None else task
    if len(tasks) == 1:
        only = next(iter(tasks.values()))
        return Evaluation(task=name, **dataclasses.asdict(only), seed=seed, update=update)
    return _together(name, tasks, seed=seed, update=update)


def _together(name: str, tasks: dict[str, TaskScore], *, seed: int, update: int) -> Evaluation:
    """Several tasks as one."""
    scaled = all(score.normalised is not None for score in tasks.values())
    means, errors = [], []
    for score in tasks.values():
        error = (score.interval[1] - score.interval[0]) / 2
        if score.normalised is not None and score.best is not None and score.random is not None and scaled:
            means.append(score.normalised)
            errors.append(100 * error / abs(score.best - score.random))
        else:
            means.append(score.mean_return)
            errors.append(error)
    mean, error = float(np.mean(means)), math.sqrt(math.fsum(each**2 for each in errors)) / len(errors)
    # Of DeepMind Lab's own levels alone: our re-creations bear the same names, and people never played those.
    lab = {each.removeprefix(LAB).partition(":")[0]: score.mean_return for each, score in tasks.items() if each.startswith(LAB)}
    human = splits(lab) if scaled else {}
    return Evaluation(
        task=name,
        mean_return=mean,
        interval=(mean - error, mean + error),
        std=float(np.std(means)),
        episodes=sum(score.episodes for score in tasks.values()),
        random=0.0 if scaled else None,
        best=100.0 if scaled else None,
        normalised=mean if scaled else None,
        seed=seed,
        update=update,
        tasks=tasks,
        human_normalised={split: dataclasses.asdict(found) for split, found in human.items()} or None,
    )


def _score(scores: Float[np.ndarray, " E"], *, random: float | None, best: float | None) -> TaskScore:
    mean, std = float(scores.mean()), float(scores.std(ddof=1))
    error = 1.96 * std / math.sqrt(len(scores))
    return TaskScore(
        mean_return=mean,
        interval=(mean - error, mean + error),
        std=std,
        episodes=len(scores),
        random=random,
        best=best,
        normalised=None if random is None or best is None else 100 * (mean - random) / (best - random),
    )


Scored = tuple[dict[str, TaskScore], int]
"""Each task's scores by its name, and the update that the agent is of."""


def _scores(
    config: Config[Any], run: Any, which: Which | int, other: str | None, *, env_fn: EnvFn | None, how: dict[str, Any]
) -> Scored:
    if env_fn is not None:
        raise RunError(f"env_fn is for Gymnasium tasks, got one for {config.task}; leave it out")
    tasks = _tasks(config, other)
    _, agent, update = restore_agent(run, which)
    found = {}
    for task in tasks:
        known = known_scores(task)
        episodes = how["episodes"] or playing.usual_episodes(task)
        returns = playing.returns(agent, task, episodes=episodes, seed=how["seed"], greedy=how["greedy"])
        found[spell(task)] = _score(returns, random=known and known.random, best=known and known.best)
    return found, update


def _host_scores(
    config: Config[Any], run: Any, which: Which | int, other: str | None, *, env_fn: EnvFn | None, how: dict[str, Any]
) -> Scored:
    trained_on = host_task(config, env_fn)
    tasks = _host_tasks(config, trained_on, other)
    _, agent, update = restore_agent(run, which, spaces=trained_on.spaces())
    how = how | {"episodes": how["episodes"] or HOST_EPISODES}
    found = {}
    for task in tasks:
        random, best = task.scale or (None, None)
        if random is None:
            few = min(how["episodes"], RANDOM_EPISODES)
            random = float(hosting.random_returns(task.held_out(), episodes=few, seed=how["seed"]).mean())
        found[task.name] = _score(hosting.returns(agent, task.held_out(), **how), random=random, best=best)
    return found, update


def _tasks(config: Config[Any], other: str | None) -> tuple[Task, ...]:
    """The tasks of a run, or another one for its agent."""
    trained_on = make_tasks(config.task)
    if other is None:
        return trained_on
    tasks = make_tasks(other)
    for task in tasks:
        _same(task, trained_on[0], config.task, other)
    return tasks


def _host_tasks(config: Config[Any], trained_on: HostTask, other: str | None) -> tuple[HostTask, ...]:
    if other is None:
        return trained_on.tasks
    task = HostTask.parse(other, mask_velocity=config.gym.mask_velocity, previous=config.gym.previous)
    if task.spaces() != trained_on.spaces():
        raise RunError(f"task must have the spaces of {config.task}, got {other}; change only what leaves them alone")
    return task.tasks


def _same(task: Task, trained_on: Task, name: str, other: str) -> None:
    if (task.observation_space, task.action_space) != (trained_on.observation_space, trained_on.action_space):
        raise RunError(
            f"task must have the spaces of {name}, got {other}: {in_words(task.observation_space)} to see, "
            f"{in_words(task.action_space)} to act; change only what leaves them alone, such as the length of an episode"
        )
