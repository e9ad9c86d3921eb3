"""Rows -> the sections of a report: one for each experiment and scale that there are runs for. Needs no JAX."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from gtrxl.experiments.catalogue import EXPERIMENTS, RUNS, Experiment
from gtrxl.report.figures import Picture
from gtrxl.report.rivals import scoreboard
from gtrxl.report.rows import Found, Row, usable
from gtrxl.report.verdicts import Comparison, sentence
from gtrxl.report.views import VIEWS as PAPERS_VIEWS
from gtrxl.report.views import Table

VIEWS = {**PAPERS_VIEWS, "rivals": scoreboard}


@dataclasses.dataclass(frozen=True)
class ReportSection:
    """One experiment at one scale."""

    experiment: Experiment
    scale: str
    picture: Picture
    table: Table
    verdict: str
    comparisons: tuple[Comparison, ...]
    facts: tuple[tuple[str, str], ...]
    """What was run."""
    left_out: tuple[str, ...]
    """Runs that are there but not averaged, each with the reason."""
    missing: str
    """Runs that are planned but not there."""
    data: Iterable[Sequence[Any]]
    """What the figure is drawn from, a header first."""

    @property
    def name(self) -> str:
        """Of its place in the page, and of its files."""
        return f"{self.experiment.id}-{self.scale}"


def sections(found: Found) -> list[ReportSection]:
    """Every experiment that there are runs for, at every scale, in the order of the paper."""
    made = []
    for experiment in EXPERIMENTS.values():
        rows = found.of(experiment.runs)
        for scale in dict.fromkeys(row["scale"] for row in rows):
            section = _section(experiment, scale, [row for row in rows if row["scale"] == scale])
            if section is not None:
                made.append(section)
    return made


def _section(experiment: Experiment, scale: str, rows: Sequence[Row]) -> ReportSection | None:
    wanted = [row for row in rows if not experiment.models or row["model"] in experiment.models]
    shown, left = usable(wanted)
    if not shown:
        return None
    made = VIEWS[experiment.view](experiment, shown)
    return ReportSection(
        experiment=experiment,
        scale=scale,
        picture=made.picture,
        table=made.table,
        verdict=sentence(made.comparisons),
        comparisons=tuple(made.comparisons),
        facts=_facts(experiment, scale, shown),
        left_out=(*left, *made.left_out),
        missing=_missing(experiment, scale, wanted),
        data=made.data,
    )


def _facts(experiment: Experiment, scale: str, rows: Sequence[Row]) -> tuple[tuple[str, str], ...]:
    commits = sorted({str(commit) for row in rows for commit in row.get("commits") or ()})
    seconds = sum(row.get("seconds") or 0.0 for row in rows)
    seeds = {row["draw"]: row["seed"] for row in rows}
    tasks = ", ".join(dict.fromkeys(row["task"] for row in rows))
    frames = sum(row["frames"] for row in rows)
    return (
        ("command", f"gtrxl reproduce {experiment.id} --scale {scale}"),
        ("runs", f"{len(rows)}, with {len(seeds)} draws of seed and hyperparameters, the same for every model"),
        ("seeds", ", ".join(str(seeds[draw]) for draw in sorted(seeds))),
        ("task", tasks),
        ("time", f"{_long(seconds)} of runs, {frames:,} frames"),
        ("commit", ", ".join(commits) or "not known"),
    )


def _long(seconds: float) -> str:
    return next(
        (f"{seconds / unit:.3g} {word}" for unit, word in ((3600, "hours"), (60, "minutes")) if seconds >= unit),
        f"{seconds:.3g} seconds",
    )


def _missing(experiment: Experiment, scale: str, rows: Sequence[Row]) -> str:
    """Planned runs that have not begun, by model and task."""
    planned = RUNS[experiment.runs].scales.get(scale)  # pyright: ignore[reportArgumentType]
    if planned is None:
        return ""
    begun = {(row["model"], row["goal"], row["draw"]) for row in rows}
    models = [model.label for model in planned.models if not experiment.models or model.label in experiment.models]
    told, count = [], 0
    for goal in planned.goals:
        for model in models:
            left = [n for n in range(planned.draws) if (model, goal.label or goal.task, n) not in begun]
            count += len(left)
            if left:
                where = f" on {goal.label or goal.task}" if len(planned.goals) > 1 else ""
                told.append(f"{model}{where} (draw{'s' * (len(left) > 1)} {', '.join(map(str, left))})")
    return f"{count} of {len(planned.goals) * len(models) * planned.draws}: {'; '.join(told)}" if told else ""
