"""What the returns of a run's tasks are compared with. N tasks.

Returns of different tasks cannot be compared. So the `return_mean` of several tasks is the mean over them of their scores, 0 for
a random policy and 100 for the best there is a score of. Where a task has no such scale, it is the plain mean of the returns. It
is None until each task has ended an episode.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from gtrxl.tasks.scale import Scale


class TaskScales:
    """The tasks of a run by name, and the scale of each; None where nobody has measured one."""

    def __init__(self, scales: Mapping[str, Scale | None]):
        self.scales = dict(scales)
        self.names = list(scales)

    @property
    def several(self) -> bool:
        """Whether a run has more than one task."""
        return len(self.names) > 1

    @property
    def known(self) -> bool:
        """Whether every task has a scale."""
        return all(scale is not None for scale in self.scales.values())

    @property
    def lines(self) -> dict[str, float]:
        """The levels to compare a `return_mean` with, by name; none where they are not known."""
        first = self.scales[self.names[0]]
        if first is None or not self.known:
            return {}
        return {first.best_is: 100.0, "random": 0.0} if self.several else first.lines

    def of_100(self, return_mean: float | None) -> float | None:
        """A row's `return_mean` between random (0) and best (100); that of several tasks is so already. None if not known."""
        if return_mean is None or not self.known:
            return None
        return return_mean if self.several else self.task_of_100(self.names[0], return_mean)

    def task_of_100(self, name: str, return_mean: float | None) -> float | None:
        """The same of one task's mean return."""
        scale = self.scales[name]
        return None if scale is None or return_mean is None else scale.of_100(return_mean)

    def mean(self, returns: Mapping[str, float | None]) -> float | None:
        """One number for the mean returns of all tasks, by name: None until each has one."""
        found = [returns.get(name) for name in self.names]
        each = [self.task_of_100(name, score) for name, score in zip(self.names, found, strict=True)] if self.known else found
        known = [score for score in each if score is not None]
        return math.fsum(known) / len(known) if len(known) == len(each) else None


def late(rows: Sequence[Mapping[str, Any]]) -> float | None:
    """The mean return of the episodes in the last tenth of the rows; None if no episode ended in them."""
    last = [row for row in last_tenth(rows) if row["return_mean"] is not None]
    episodes = sum(row["episodes"] for row in last)
    return sum(row["return_mean"] * row["episodes"] for row in last) / episodes if episodes else None


FAIR = 20
"""Episodes whose mean tells one agent from another; a report of a short run may have one or none."""


def recent(rows: Sequence[Mapping[str, Any]]) -> float | None:
    """The mean return of the newest episodes: of the last report, and of as many before it as it takes to have 20 of them.
    None if none ended.

    >>> recent([{"return_mean": 500.0, "episodes": 1}, {"return_mean": 20.0, "episodes": 19}])
    44.0
    >>> recent([{"return_mean": 500.0, "episodes": 1}, {"return_mean": 20.0, "episodes": 20}])
    20.0
    """
    total, episodes = 0.0, 0
    for row in reversed(rows):
        if row["return_mean"] is not None:
            total, episodes = total + row["return_mean"] * row["episodes"], episodes + row["episodes"]
        if episodes >= FAIR:
            break
    return total / episodes if episodes else None


HELD, REPORTS = 0.95, 5
"""A run has arrived when so many reports in a row are at this share of its best."""


def steadiness(rows: Sequence[Mapping[str, Any]]) -> float | None:
    """What a run keeps of what it reached: the worst report after it arrived, as a share of its best; 1 never fell.

    It has arrived once five reports in a row are at 95 % of the best of all. None if it never has, if nothing was reported
    after that, or if returns are not all positive, where a share of the best would mean nothing.

    >>> steadiness([{"return_mean": float(x)} for x in (1, 9.5, 10, 10, 10, 10, 4, 10)])
    0.4
    """
    returns = [row["return_mean"] for row in rows if row["return_mean"] is not None]
    best = max(returns, default=0.0)
    if best <= 0 or min(returns) < 0:
        return None
    for arrived in range(REPORTS, len(returns)):
        if min(returns[arrived - REPORTS : arrived]) >= HELD * best:
            return min(returns[arrived:]) / best
    return None


def late_tasks(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Of a run on several tasks: each one's mean return and score over the episodes in the last tenth of the rows; None where
    none ended."""
    last = [row["tasks"] for row in last_tenth(rows) if "tasks" in row]
    found: dict[str, dict[str, Any]] = {}
    for name in last[0] if last else ():
        parts = [row[name] for row in last if row[name]["episodes"]]
        episodes = sum(part["episodes"] for part in parts)
        found[name] = {"episodes": episodes}
        for field in ("return_mean", "normalised"):
            known = bool(parts) and all(part[field] is not None for part in parts)
            found[name][field] = sum(part[field] * part["episodes"] for part in parts) / episodes if known else None
    return found


def last_tenth(rows: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """What counts as late in a run."""
    return rows[-max(1, len(rows) // 10) :]
