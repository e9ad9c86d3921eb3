"""What a run on actors reports: one row of all its tasks, and of each of them where there are several."""

import dataclasses
import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from gtrxl.envs.host import HostTask
from gtrxl.envs.human import splits
from gtrxl.runtime.conductor import Conductor, Learning, Tally
from gtrxl.runtime.config import Config
from gtrxl.runtime.packets import Episode


class HostRows:
    """Makes the rows of a run. `before` are those it has already: of several tasks the latest score of each is kept, because not
    every one of them ends an episode between two reports."""

    def __init__(self, config: Config[Any], task: HostTask, before: Sequence[dict[str, Any]] = ()):
        self._config = config
        self._tasks = task.tasks
        self._latest: dict[str, float] = {}
        for row in before:
            self._keep(row.get("tasks", {}))

    def row(self, learning: Learning, tally: Tally, conductor: Conductor) -> dict[str, Any]:
        """What happened since the last one."""
        updates, config = int(learning.updates), self._config
        scores = np.array([episode.score for episode in tally.ended])
        some = len(scores) > 0
        row = {
            "frames": updates * config.streams * config.unroll,
            "updates": updates,
            "task": config.task,
            "return_mean": float(scores.mean()) if some else None,
            "return_std": float(scores.std()) if some else None,
            "return_min": float(scores.min()) if some else None,
            "return_max": float(scores.max()) if some else None,
            "episodes": len(scores),
            "episode_steps": float(np.mean([episode.steps for episode in tally.ended])) if some else None,
            **{name: total / tally.updates for name, total in tally.metrics.items()},
            "memory_staleness": None,
            "gate_openness": None if tally.openness is None else np.asarray(tally.openness, np.float64).round(6).tolist(),
            "actors": config.fleet.actors,
            **dataclasses.asdict(conductor.losses),
            "lag_mean": float(np.mean(tally.lags)) if tally.lags else None,
            "lag_max": max(tally.lags, default=None),
            "task_share": tally.in_task / tally.acting if tally.acting else None,
            "waiting": tally.waiting / max(time.monotonic() - tally.begun, 1e-9),
            "queue": len(conductor.queue),
        }
        return row | self._several(learning, tally.ended) if len(self._tasks) > 1 else row

    def _several(self, learning: Learning, ended: list[Episode]) -> dict[str, Any]:
        """Each task by itself, and what they come to together. Returns of different tasks cannot be compared: `return_mean` is
        the mean of their scores between a random policy and a human, where those are known."""
        popart = learning.trained.popart
        mean, scale = np.asarray(popart.mean), np.asarray(popart.scale)
        rows = {}
        for n, task in enumerate(self._tasks):
            mine = [episode for episode in ended if episode.task == n]
            scores = np.array([episode.score for episode in mine])
            found = float(scores.mean()) if len(scores) else None
            rows[task.name] = {
                "return_mean": found,
                "return_std": float(scores.std()) if len(scores) else None,
                "episodes": len(scores),
                "episode_steps": float(np.mean([episode.steps for episode in mine])) if mine else None,
                "normalised": None if found is None else normalised(task, found),
                "value_mean": float(mean[n]),
                "value_scale": float(scale[n]),
            }
        self._keep(rows)
        whole = together(self._tasks, self._latest)
        unknown = dict.fromkeys(("return_std", "return_min", "return_max"))
        return {"tasks": rows, **unknown, **(whole if ended else whole | {"return_mean": None})}

    def _keep(self, rows: dict[str, Any]) -> None:
        self._latest |= {name: row["return_mean"] for name, row in rows.items() if row["return_mean"] is not None}


def normalised(task: HostTask, score: float) -> float | None:
    """0 for a random policy and 100 for a human; None where nobody was asked."""
    if task.scale is None:
        return None
    random, human = task.scale
    return 100 * (score - random) / (human - random)


def together(tasks: Sequence[HostTask], scores: dict[str, float]) -> dict[str, Any]:
    """One number for the mean returns of several tasks, by their names: None until each has one. Of DMLab-30 also the
    human-normalised means, for each split that is whole."""
    each = [scores.get(task.name) for task in tasks]
    known = [score for score in each if score is not None]
    scaled = [normalised(task, score) for task, score in zip(tasks, each, strict=True) if score is not None]
    in_one = [score for score in scaled if score is not None]
    compared = in_one if len(in_one) == len(scaled) else known
    human = splits({task.id: scores[task.name] for task in tasks if task.scale is not None and task.name in scores})
    return {
        "return_mean": math.fsum(compared) / len(compared) if len(known) == len(tasks) else None,
        **({"human_normalised": {name: dataclasses.asdict(found) for name, found in human.items()}} if human else {}),
    }


def normalised_return(task: HostTask, score: float) -> float | None:
    """The `return_mean` of a row, 0 for a random policy and 100 for a human: that of several tasks is so already."""
    if len(task.tasks) > 1:
        return score if all(each.scale for each in task.tasks) else None
    return normalised(task, score)


def lines(task: HostTask) -> dict[str, float]:
    """The scores to compare the `return_mean` of a row with, by name; none where nobody has published them."""
    if any(each.scale is None for each in task.tasks):
        return {}
    if len(task.tasks) > 1:
        return {"human": 100.0, "random": 0.0}
    random, human = task.scale or (0.0, 0.0)
    return {"human": human, "random": random}
