"""The scoreboard of memories: who scores what at equal frames and at equal time, and what it costs. Needs no JAX."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from gtrxl.experiments.records import Experiment
from gtrxl.report import figures
from gtrxl.report.rows import Row, normalised, score
from gtrxl.report.statistics import summary
from gtrxl.report.verdicts import Comparison, compare
from gtrxl.report.views import Made, Table

SOLVED = 90.0
"""Of 100, by the interquartile mean: a corridor that was learned."""


def scoreboard(experiment: Experiment, rows: Sequence[Row]) -> Made:
    """A row for each task and model, one for each model that was tried on all tasks, and a point for it."""
    tasks = list(dict.fromkeys(row["goal"] for row in rows))
    models = list(dict.fromkeys(row["model"] for row in rows))
    models.sort(key=[*figures.COLOURS, *models].index)
    table: Table = [["task", "model", "runs", "of 100", "of 100, equal time", "frames/s", "parameters", "bytes of state"]]
    data: list[list[Any]] = [["task", "model", "run", "of 100", "of 100 at equal time", "seconds", "frames per second"]]
    comparisons: list[Comparison] = []
    whole: dict[str, dict[str, tuple[float, float, float]]] = {}
    for task in tasks:
        here = {model: [row for row in rows if row["goal"] == task and row["model"] == model] for model in models}
        here = {model: runs for model, runs in here.items() if runs}
        limit = min(seconds_of(runs) for runs in here.values())
        scores = {model: [found for row in runs if (found := of_100(row)) is not None] for model, runs in here.items()}
        comparisons += [compare(*pair, scores, where=task) for pair in experiment.pairs]
        for model, runs in here.items():
            timed = [found for row in runs if (found := of_100(row, share=share_of(row, limit))) is not None]
            if not scores[model]:
                continue
            speeds = [row["frames_per_second"] for row in runs if row.get("frames_per_second")]
            speed = statistics.median(speeds) if speeds else None
            table.append(
                [
                    task,
                    model,
                    str(len(scores[model])),
                    _interval(scores[model]),
                    _interval(timed) if timed else "-",
                    _number(speed),
                    _number(runs[0].get("parameters")),
                    _number(runs[0].get("state_bytes")),
                ]
            )
            data += [
                [task, model, row["run"], of_100(row), of_100(row, share=share_of(row, limit)), row.get("seconds"), speed]
                for row in runs
            ]
            cost = 1e6 / speed if speed else 0.0
            whole.setdefault(model, {})[task] = (summary(scores[model]).iqm, summary(timed).iqm if timed else 0.0, cost)
    everywhere = [model for model in models if len(whole.get(model, ())) == len(tasks)]
    points = {}
    for model in everywhere:
        means = [statistics.fmean(parts) for parts in zip(*whole[model].values(), strict=True)]
        points[model] = [(means[2], means[0])]
        far = farthest(rows, whole[model])
        table.append(["all", model, "", f"{means[0]:.1f}", f"{means[1]:.1f}", "", "", f"longest corridor {far or 'none'}"])
    caption = "Mean of all tasks' scores against the seconds that a million frames of training take. One point for each core."
    picture = figures.cloud(points, {}, x="seconds for a million frames", y="of 100", caption=caption)
    left = tuple(f"{row['run']} (no episode ended)" for row in rows if score(row) is None)
    return Made(picture, table, data, comparisons, left)


def of_100(row: Row, *, share: float = 1.0) -> float | None:
    """From random (0) to perfect memory (100)."""
    found = score(row, share=share)
    return None if found is None else normalised(row, found)


def seconds_of(runs: Sequence[Row]) -> float:
    """How long a model's runs take, in the middle."""
    return statistics.median(row.get("seconds") or 0.0 for row in runs)


def share_of(row: Row, limit: float) -> float:
    """The share of its frames that a run had done after so many seconds: all, if it did not take as long."""
    seconds = row.get("seconds") or 0.0
    return 1.0 if seconds <= limit else limit / seconds


def farthest(rows: Sequence[Row], found: Mapping[str, tuple[float, float, float]]) -> int | None:
    """The longest corridor whose score says that it was learned."""
    dials = {row["goal"]: row["dial"] for row in rows if row.get("dial")}
    return max(
        (int(dials[task]) for task, (at_frames, _, _) in found.items() if task in dials and at_frames >= SOLVED), default=None
    )


def _interval(scores: Sequence[float]) -> str:
    of = summary(scores)
    return f"{of.iqm:z.1f} [{of.low:z.1f}, {of.high:z.1f}]"


def _number(value: int | float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"
