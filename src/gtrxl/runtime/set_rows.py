"""What a run in the compiled program reports of its episodes: of one task, or of each of several and of all together. N tasks.

Returns of different tasks cannot be compared. So the `return_mean` of a set is the mean over its tasks of their scores,
normalised: 0 for a random policy and 100 for a perfect memory. Of each task the latest one counts, because not every task ends
an episode between two reports. Where a task has no scale, it is the plain mean of the tasks' returns. None until each has ended
an episode.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from gtrxl.envs.catalogue import spell
from gtrxl.envs.contract import Task
from gtrxl.envs.scores import Scores, known_scores
from gtrxl.learner.popart import PopArt
from gtrxl.runtime.acting import Ended


class Scale:
    """The tasks of a run, and what their returns are compared with."""

    def __init__(self, tasks: Sequence[Task]):
        self.names = [spell(task) for task in tasks]
        self.scores: dict[str, Scores | None] = {name: known_scores(task) for name, task in zip(self.names, tasks, strict=True)}

    @property
    def several(self) -> bool:
        """Whether this is a set."""
        return len(self.names) > 1

    @property
    def lines(self) -> dict[str, float]:
        """The levels to compare a `return_mean` with, by name; none where they are not known."""
        if any(score is None for score in self.scores.values()):
            return {}
        if self.several:
            return {"perfect memory": 100.0, "random": 0.0}
        only = self.scores[self.names[0]]
        assert only is not None
        named = {"perfect memory": only.best, "no memory": only.memoryless, "random": only.random}
        return {name: score for name, score in named.items() if score is not None}

    def normalised(self, score: float | None) -> float | None:
        """A `return_mean` between random (0) and perfect memory (100); that of a set is so already. None if that is not known."""
        if score is None or any(known is None for known in self.scores.values()):
            return None
        return score if self.several else self.of(self.names[0], score)

    def of(self, name: str, score: float | None) -> float | None:
        """The same of one task's mean return."""
        known = self.scores[name]
        return None if known is None or score is None else known.normalised(score)

    def together(self, returns: Mapping[str, float | None]) -> float | None:
        """One number for the mean returns of all tasks, by name: None until each has one."""
        found = [returns.get(name) for name in self.names]
        scaled = [self.of(name, score) for name, score in zip(self.names, found, strict=True)]
        each = found if any(score is None for score in self.scores.values()) else scaled
        known = [score for score in each if score is not None]
        return math.fsum(known) / len(known) if len(known) == len(each) else None


class EpisodeRows:
    """Makes the part of a row that is about episodes. `before` are the rows that the run has already."""

    def __init__(self, scale: Scale, before: Sequence[Mapping[str, Any]] = ()):
        self._scale = scale
        self._latest: dict[str, float] = {}
        for row in before:
            self._keep(row.get("tasks", {}))

    def row(self, ended: Ended, popart: PopArt) -> dict[str, Any]:
        """The episodes since the last row."""
        if not self._scale.several:
            return _episodes(ended)
        tasks = {}
        for n, name in enumerate(self._scale.names):
            of = _episodes(jax.tree.map(lambda leaf, n=n: leaf[n], ended))
            tasks[name] = {
                **{field: of[field] for field in ("return_mean", "return_std", "episodes", "episode_steps")},
                "normalised": self._scale.of(name, of["return_mean"]),
                "value_mean": float(popart.mean[n]),
                "value_scale": float(popart.scale[n]),
            }
        self._keep(tasks)
        episodes = sum(row["episodes"] for row in tasks.values())
        steps = float(np.sum(ended.steps))
        return {
            "return_mean": self._scale.together(self._latest) if episodes else None,
            **dict.fromkeys(("return_std", "return_min", "return_max")),
            "episodes": episodes,
            "episode_steps": steps / episodes if episodes else None,
            "tasks": tasks,
        }

    def _keep(self, tasks: Mapping[str, Any]) -> None:
        self._latest |= {name: row["return_mean"] for name, row in tasks.items() if row["return_mean"] is not None}


def late_tasks(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Of a set's rows: each task's mean return and score over the episodes in the last tenth of them; None where none ended."""
    last = [row["tasks"] for row in rows[-max(1, len(rows) // 10) :] if "tasks" in row]
    found: dict[str, dict[str, Any]] = {}
    for name in last[0] if last else ():
        parts = [row[name] for row in last if row[name]["episodes"]]
        episodes = sum(part["episodes"] for part in parts)
        found[name] = {"episodes": episodes}
        for field in ("return_mean", "normalised"):
            known = bool(parts) and all(part[field] is not None for part in parts)
            found[name][field] = sum(part[field] * part["episodes"] for part in parts) / episodes if known else None
    return found


def _episodes(ended: Ended) -> dict[str, Any]:
    """Of one task."""
    episodes = int(ended.count)
    mean = float(ended.total) / episodes if episodes else None
    spread = math.sqrt(max(0.0, float(ended.squares) / episodes - mean**2)) if mean is not None else None
    return {
        "return_mean": mean,
        "return_std": spread,
        "return_min": float(ended.least) if episodes else None,
        "return_max": float(ended.most) if episodes else None,
        "episodes": episodes,
        "episode_steps": float(ended.steps) / episodes if episodes else None,
    }
