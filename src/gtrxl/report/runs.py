"""Folders of runs -> what is compared of them: settings that differ, curves, late returns. Reads JSON; needs no JAX.

Runs that differ in their seeds alone are one group. What tells groups apart is as few settings as do: where the core differs, the
sizes that go with it are no more to say, and are named beside.
"""

import dataclasses
import functools
import json
import math
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gtrxl.report.errors import ReportError
from gtrxl.report.learning_curves import points_of
from gtrxl.runs import sealed
from gtrxl.runs.errors import RunError
from gtrxl.runs.metrics import check_whole, read, read_result
from gtrxl.runs.scores import late, steadiness
from gtrxl.tasks import scale

FIRST = ("task", "core", "algorithm")
"""Settings that are looked at first for what tells runs apart, and are always told where they differ."""
ENDED = ("finished", "diverged")
BESIDE = ("seed", "devices", "fleet", "reports", "checkpoint_every")
"""Settings that may differ between runs of one group: the seed, where it was done, how often it was looked at."""


@dataclasses.dataclass(frozen=True)
class RunRecord:
    """One run as its folder has it."""

    folder: Path
    settings: dict[str, Any]
    """By their names on the command line: learner.learning-rate."""
    status: str
    """`finished`, `stopped`, `diverged`, `failed`; `unfinished` of one that is under way or was killed; `not begun`."""
    frames: int
    late_return: float | None
    """Mean return late in training; None if no episode ended there."""
    of_100: float | None
    """The same between a random policy (0) and the best that is known (100); None where these are not known."""
    steadiness: float | None
    """The worst report after it had arrived, as a share of its best; None if it never did."""
    frames_per_second: float | None
    points: tuple[tuple[float, float], ...]
    """(frames, return) of its curve."""
    levels: dict[str, float] = dataclasses.field(default_factory=dict)
    """Scores to compare its returns with, by name, where they are known."""

    @property
    def name(self) -> str:
        """Of its folder."""
        return self.folder.absolute().name

    @property
    def task(self) -> str:
        """What it learns."""
        return str(self.settings.get("task", "?"))

    @property
    def planned(self) -> int:
        """Frames that it was made for."""
        steps = self.settings.get("steps")
        return steps if isinstance(steps, int) and steps > 0 else max(self.frames, 1)

    @property
    def standing(self) -> str:
        """The status, how far a run is that has not finished, and why there is no return."""
        share = f" at {100 * min(self.frames / self.planned, 1.0):.0f} %"
        status = self.status if self.status in ("finished", "not begun") else self.status + share
        return status + (", no episode ended" if self.frames and self.late_return is None else "")

    def as_dict(self) -> dict[str, Any]:
        """What the table has of it, as plain data."""
        named = {name: self.settings.get(name) for name in (*FIRST, "seed")}
        found = {"run": str(self.folder), **named, "status": self.status, "frames": self.frames, "planned_frames": self.planned}
        numbers = {"return": self.late_return, "of_100": self.of_100, "steadiness": self.steadiness}
        numbers |= {"frames_per_second": self.frames_per_second}
        return {**found, **numbers, "points": [list(point) for point in self.points]}


@dataclasses.dataclass(frozen=True)
class Group:
    """Runs with the same settings but for the seed."""

    settings: dict[str, Any]
    """Those that tell it from the other groups."""
    runs: tuple[RunRecord, ...]

    @property
    def task(self) -> str:
        """What they learn."""
        return self.runs[0].task

    def label(self, *, without: Sequence[str] = ()) -> str:
        """What tells it from the others, in words."""
        told = [f"{_short(name)} {said(value)}" for name, value in self.settings.items() if name not in without]
        return ", ".join(told) or (self.runs[0].name if len(self.runs) == 1 else f"{len(self.runs)} runs")

    @property
    def counted(self) -> tuple[RunRecord, ...]:
        """The runs that are averaged: those that have ended; all of them as long as none has."""
        return tuple(run for run in self.runs if run.status in ENDED) or self.runs

    @property
    def returns(self) -> list[float]:
        """Late returns of the runs that are averaged, where they have one."""
        return [run.late_return for run in self.counted if run.late_return is not None]

    @property
    def of_100(self) -> float | None:
        """The mean of the same."""
        return _mean(run.of_100 for run in self.counted)

    @property
    def steadiness(self) -> float | None:
        """The least of them: one run that loses what it had is one too many."""
        return min((run.steadiness for run in self.counted if run.steadiness is not None), default=None)

    @property
    def frames_per_second(self) -> float | None:
        """The mean of the runs that have one."""
        return _mean(run.frames_per_second for run in self.runs)

    def median_curve(self) -> list[tuple[float, float]]:
        """At each frame where a run has a point, the median of the runs that had begun and not ended there."""
        curves = [np.asarray(run.points, np.float64) for run in self.runs if run.points]
        if len(curves) < 2:
            return [(float(x), float(y)) for curve in curves for x, y in curve]
        found = []
        for at in sorted({float(x) for curve in curves for x in curve[:, 0]}):
            here = [float(np.interp(at, curve[:, 0], curve[:, 1])) for curve in curves if curve[0, 0] <= at <= curve[-1, 0]]
            found.append((at, statistics.median(here)))
        return found

    def as_dict(self) -> dict[str, Any]:
        """As plain data."""
        returns = self.returns
        pooled = {"mean": _mean(returns), "least": min(returns, default=None), "most": max(returns, default=None)}
        speed = self.frames_per_second
        told = {"settings": self.settings, "return": pooled, "of_100": self.of_100, "steadiness": self.steadiness}
        told |= {"frames_per_second": speed}
        return {**told, "runs": [run.as_dict() for run in self.runs]}


@dataclasses.dataclass(frozen=True)
class Compared:
    """Runs in groups, with what they have in common and what else differs."""

    groups: tuple[Group, ...]
    common: dict[str, Any]
    """Settings of `FIRST` that all runs share."""
    telling: tuple[str, ...]
    """Settings that tell the groups apart."""
    following: tuple[str, ...]
    """Settings that differ too, always along with the telling ones."""
    left_out: tuple[str, ...]
    """Folders that are no runs, each with the reason."""

    @property
    def runs(self) -> tuple[RunRecord, ...]:
        """All of them."""
        return tuple(run for group in self.groups for run in group.runs)

    @property
    def tasks(self) -> tuple[str, ...]:
        """What is learned: curves of different tasks have no axis in common."""
        return tuple(dict.fromkeys(group.task for group in self.groups))

    def as_dict(self) -> dict[str, Any]:
        """As plain data."""
        names = {"common": self.common, "telling": list(self.telling), "following": list(self.following)}
        return {**names, "groups": [group.as_dict() for group in self.groups], "left_out": list(self.left_out)}


def compare_runs(folders: Sequence[Path]) -> Compared:
    """Reads runs and sorts them into groups. A folder of runs stands for all runs in it; what is no run is left out by name."""
    found, left = _folders(folders)
    runs: list[RunRecord] = []
    for folder in found:
        try:
            runs.append(read_record(folder))
        except (ReportError, RunError) as error:
            left.append(str(error))
    if not runs:
        why = f": {left[0]}" if left else ""
        raise ReportError(f"compare must be given folders of runs, got none{why}; `gtrxl train` and `gtrxl sweep` make them")
    telling, following = _differing(runs)
    groups: dict[str, list[RunRecord]] = {}
    for run in runs:
        groups.setdefault(_key(run, telling), []).append(run)
    sorted_groups = tuple(
        Group({name: group[0].settings.get(name) for name in telling}, tuple(sorted(group, key=_seed)))
        for group in groups.values()
    )
    common = {name: runs[0].settings.get(name) for name in FIRST if name not in telling}
    return Compared(sorted_groups, common, telling, following, tuple(left))


def read_record(folder: Path) -> RunRecord:
    """One run. It may be under way, and need not have begun."""
    begun = (folder / "config.json").exists()
    result = read_result(folder) if begun else {}  # before the rows, which may become more
    settings = _settings(folder / ("config.json" if begun else "planned.json"))
    file = folder / "metrics.jsonl"
    rows = [_filled(row) for row in read(file) if isinstance(row.get("frames"), int)] if begun and file.exists() else []
    check_whole(folder, rows, result)
    mean = late(rows)
    of_100, levels = _on_scale(settings.get("task"), mean, rows, result)
    speeds = [row["frames_per_second"] for row in rows if isinstance(row.get("frames_per_second"), int | float)]
    return RunRecord(
        folder=folder,
        settings=settings,
        status=str(result.get("status", "unfinished" if begun else "not begun")),
        frames=rows[-1]["frames"] if rows else 0,
        late_return=mean,
        of_100=of_100,
        steadiness=steadiness(rows),
        frames_per_second=statistics.median(speeds) if speeds else None,
        points=tuple((float(frames), float(score)) for frames, _, score in points_of(rows)),
        levels=levels,
    )


def _filled(row: dict[str, Any]) -> dict[str, Any]:
    """A row with what is read of it; a return without an episode that it is of counts for nothing."""
    episodes, seconds, mean = (row.get(name) for name in ("episodes", "seconds", "return_mean"))
    known = isinstance(episodes, int) and episodes > 0 and isinstance(mean, int | float)
    seconds = seconds if isinstance(seconds, int | float) else 0.0
    return {**row, "seconds": seconds, "return_mean": mean if known else None, "episodes": episodes if known else 0}


def said(value: Any) -> str:
    """A setting's value in few characters."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)


def short_names(names: Sequence[str]) -> list[str]:
    """The last parts of settings' names, where they are not ambiguous."""
    shorts = [_short(name) for name in names]
    return [short if shorts.count(short) == 1 else name for name, short in zip(names, shorts, strict=True)]


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _folders(given: Sequence[Path]) -> tuple[list[Path], list[str]]:
    found: dict[Path, Path] = {}
    left = []
    for folder in given:
        if _is_run(folder):
            found.setdefault(folder.resolve(), folder)
            continue
        inside = [each for each in sorted(folder.iterdir()) if _is_run(each)] if folder.is_dir() else []
        for each in inside:
            found.setdefault(each.resolve(), each)
        if not inside:
            why = "it has no config.json" if folder.is_dir() else "it is a file" if folder.exists() else "there is no such folder"
            left.append(f"{folder} is no run: {why}")
    return list(found.values()), left


def _is_run(folder: Path) -> bool:
    return (folder / "config.json").exists() or (folder / "planned.json").exists()


def _settings(file: Path) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in _object(file).items():
        if isinstance(value, dict):
            flat |= {f"{name}.{part}".replace("_", "-"): each for part, each in value.items()}
        else:
            flat[name.replace("_", "-")] = value
    return flat


def _object(file: Path) -> dict[str, Any]:
    return sealed.read(file, remedy="the run is left out")


def _differing(runs: Sequence[RunRecord]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The settings that tell the runs apart, and those that differ along with them."""
    names = dict.fromkeys((*FIRST, *(name for run in runs for name in run.settings)))
    beside = tuple(name.replace("_", "-") for name in BESIDE)
    differ = [name for name in names if name.partition(".")[0] not in beside and _values(runs, name) > 1]
    telling: list[str] = []
    for name in differ:
        if name in FIRST or len({_key(run, [*telling, name]) for run in runs}) > len({_key(run, telling) for run in runs}):
            telling.append(name)
    return tuple(telling), tuple(name for name in differ if name not in telling)


def _values(runs: Sequence[RunRecord], name: str) -> int:
    """How many values a setting has. One that some runs lack came to be between them: that is no difference."""
    return len({json.dumps(run.settings[name], sort_keys=True) for run in runs if name in run.settings})


def _key(run: RunRecord, names: Iterable[str]) -> str:
    return json.dumps([run.settings.get(name) for name in names], sort_keys=True)


def _seed(run: RunRecord) -> tuple[int, str]:
    seed = run.settings.get("seed")
    return (seed if isinstance(seed, int) else 0, run.name)


def _mean(values: Iterable[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return statistics.fmean(found) if found else None


def _on_scale(
    task: Any, mean: float | None, rows: Sequence[dict[str, Any]], result: dict[str, Any]
) -> tuple[float | None, dict[str, float]]:
    """A late return of 100, and the levels to compare with; None and none where they are not known."""
    known, tasks = _kept().get(task), rows[-1].get("tasks") if rows else None
    of_100, levels = result.get("normalised"), {}
    if isinstance(tasks, dict):  # the return of several tasks is of 100 where each of them has a scale
        scaled = [of.get("normalised") for of in tasks.values() if of.get("return_mean") is not None]
        if scaled and None not in scaled:
            of_100, levels = mean, {"best": 100.0, "random": 0.0}
    elif known is not None:
        named = {"perfect memory": known["best"], "no memory": known.get("memoryless"), "random": known["random"]}
        levels = {name: float(score) for name, score in named.items() if score is not None}
        of_100 = None if mean is None else scale.of_100(mean, random=known["random"], best=known["best"])
    return (float(of_100) if isinstance(of_100, int | float) and math.isfinite(of_100) else None), levels


@functools.cache
def _kept() -> dict[str, dict[str, Any]]:
    """The reference scores of the tasks that there are any of."""
    file = Path(scale.__file__).with_name("scores.json")
    return json.loads(file.read_text("utf-8")) if file.exists() else {}
