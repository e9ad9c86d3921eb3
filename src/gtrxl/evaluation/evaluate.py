"""Whole episodes of a trained agent, for a score. E episodes."""

import dataclasses
import math
import os
from typing import Any

import numpy as np
from jaxtyping import Float

from gtrxl.evaluation.loading import agents_of, restore_agent
from gtrxl.evaluation.trained_agent import Ends
from gtrxl.gym.dmlab.human import splits
from gtrxl.gym.dmlab.levels import LAB
from gtrxl.runs.errors import RunError
from gtrxl.runs.folder import Which
from gtrxl.tasks.scale import of_100
from gtrxl.training.session import EnvFn


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
    best_is: str | None
    """Whose score the best is: a perfect memory's, or a human's."""
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
    best_is: str | None
    """Whose score the best is: a perfect memory's, or a human's."""
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
    trust: bool = False,
    **given: Any,
) -> Evaluation:
    """Plays whole episodes that were not in the training; `task` plays another one with the same spaces (a longer corridor), or
    only one of several. `episodes` are those of each task: 256, of pictures 32, if left out. The rest is as in `load`."""
    if episodes is not None and episodes < 2:
        raise RunError(f"episodes must be at least 2, got {episodes}; an interval needs a spread")
    restored = restore_agent(run, which, env_fn=env_fn, trust=trust, **given)
    tasks, scored = {}, {}
    for agent in agents_of(restored.agent, restored.config, restored.tasks, task):
        number = episodes or agent.usual_episodes
        returns = agent.returns(episodes=number, seed=seed, greedy=greedy)
        tasks[agent.scored] = _score(returns, agent.ends(episodes=number, seed=seed))
        scored[agent.name] = agent.scored
    name = restored.config.task if task is None else task
    name = scored.get(name, name)
    if len(tasks) == 1:
        only = next(iter(tasks.values()))
        return Evaluation(task=name, **dataclasses.asdict(only), seed=seed, update=restored.update)
    return _of_several(name, tasks, seed=seed, update=restored.update)


def _of_several(name: str, tasks: dict[str, TaskScore], *, seed: int, update: int) -> Evaluation:
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
        best_is=next(iter(tasks.values())).best_is if scaled else None,
        normalised=mean if scaled else None,
        seed=seed,
        update=update,
        tasks=tasks,
        human_normalised={split: dataclasses.asdict(found) for split, found in human.items()} or None,
    )


def _score(scores: Float[np.ndarray, " E"], ends: Ends) -> TaskScore:
    mean, std = float(scores.mean()), float(scores.std(ddof=1))
    error = 1.96 * std / math.sqrt(len(scores))
    return TaskScore(
        mean_return=mean,
        interval=(mean - error, mean + error),
        std=std,
        episodes=len(scores),
        **ends._asdict(),
        normalised=None if ends.random is None or ends.best is None else of_100(mean, random=ends.random, best=ends.best),
    )
