"""The part of a row that is about episodes: of one task, or of each of several and of all together. N tasks."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gtrxl.algorithms.popart import PopArt
from gtrxl.gym.stream import FinishedEpisode
from gtrxl.runs.tasks import RunTasks
from gtrxl.training.rollout import Ended


@dataclasses.dataclass(frozen=True)
class TaskEpisodes:
    """The episodes of one task since the last row; None where there were none."""

    count: int
    steps: float
    """Of all of them together."""
    mean: float | None = None
    std: float | None = None
    least: float | None = None
    most: float | None = None

    def row(self) -> dict[str, Any]:
        """As it stands in a row."""
        return {
            "return_mean": self.mean,
            "return_std": self.std,
            "return_min": self.least,
            "return_max": self.most,
            "episodes": self.count,
            "episode_steps": self.steps / self.count if self.count else None,
        }


def ended_episodes(ended: Ended, tasks: int) -> list[TaskEpisodes]:
    """What the compiled program counted: sums over its episodes, of each task."""
    fields = [np.atleast_1d(np.asarray(getattr(ended, name))) for name in ("count", "total", "squares", "least", "most", "steps")]
    found = []
    for n in range(tasks):
        count, total, squares, least, most, steps = (float(field[n]) for field in fields)
        if not count:
            found.append(TaskEpisodes(0, steps))
            continue
        mean = total / count
        std = math.sqrt(max(0.0, squares / count - mean**2))
        found.append(TaskEpisodes(int(count), steps, mean, std, least, most))
    return found


def finished_episodes(finished: Sequence[FinishedEpisode], tasks: int) -> list[TaskEpisodes]:
    """What actors sent: the episodes one by one."""
    found = []
    for n in range(tasks):
        mine = [episode for episode in finished if episode.task == n]
        scores, steps = np.array([episode.score for episode in mine]), float(sum(episode.steps for episode in mine))
        if not mine:
            found.append(TaskEpisodes(0, steps))
            continue
        ends = float(scores.min()), float(scores.max())
        found.append(TaskEpisodes(len(mine), steps, float(scores.mean()), float(scores.std()), *ends))
    return found


class EpisodeRows:
    """Makes the part of a row that is about episodes. `before` are the rows that the run has already: of several tasks the latest
    return of each is kept, because not every one of them ends an episode between two reports."""

    def __init__(self, tasks: RunTasks, before: Sequence[Mapping[str, Any]] = ()):
        self._tasks, self._scales = tasks, tasks.scales
        self._latest: dict[str, float] = {}
        for row in before:
            self._keep(row.get("tasks", {}))

    def row(self, episodes: Sequence[TaskEpisodes], popart: PopArt) -> dict[str, Any]:
        """The episodes since the last row, task by task."""
        if not self._scales.several:
            return episodes[0].row()
        tasks = {}
        for n, (name, mine) in enumerate(zip(self._scales.names, episodes, strict=True)):
            of = mine.row()
            tasks[name] = {
                **{field: of[field] for field in ("return_mean", "return_std", "episodes", "episode_steps")},
                "normalised": self._scales.task_of_100(name, mine.mean),
                "value_mean": float(popart.mean[n]),
                "value_scale": float(popart.scale[n]),
            }
        self._keep(tasks)
        count, steps = sum(mine.count for mine in episodes), sum(mine.steps for mine in episodes)
        return {
            **TaskEpisodes(count, steps, mean=self._scales.mean(self._latest) if count else None).row(),
            "tasks": tasks,
            **self._tasks.beside(self._latest),
        }

    def _keep(self, tasks: Mapping[str, Any]) -> None:
        self._latest |= {name: row["return_mean"] for name, row in tasks.items() if row["return_mean"] is not None}
