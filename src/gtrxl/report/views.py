"""Rows of an experiment -> its figure, table, data and comparisons. Needs no JAX."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gtrxl.experiments.catalogue import Experiment
from gtrxl.report import figures, paper
from gtrxl.report.rows import Row, diverged_at, normalised, score
from gtrxl.report.statistics import Summary, ranked, summary
from gtrxl.report.verdicts import Comparison, compare, compare_shares

Table = list[list[str]]
"""Rows of cells; the first is the header."""


@dataclasses.dataclass(frozen=True)
class Made:
    """What a view makes of runs."""

    picture: figures.Picture
    table: Table
    data: Iterable[Sequence[Any]]
    """What the figure is drawn from, all of it; the first row is the header."""
    comparisons: list[Comparison]
    left_out: tuple[str, ...] = ()
    """Runs that are in no average, each with the reason."""


@dataclasses.dataclass(frozen=True)
class Curves:
    """All points of all curves, made as they are asked for: there can be millions."""

    rows: Sequence[Row]

    def __iter__(self) -> Iterator[Sequence[Any]]:
        """Header, then points."""
        yield ["model", "task", "run", "draw", "frames", "return", "episodes"]
        for row in self.rows:
            about = [row["model"], row["task"], row["run"], row["draw"]]
            for point in row["curve"]:
                yield about + point


def _models(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Rows by model, in the order in which models come."""
    grouped: dict[str, list[Row]] = {}
    for row in rows:
        grouped.setdefault(row["model"], []).append(row)
    order = [*figures.COLOURS, *grouped]
    return {model: grouped[model] for model in sorted(grouped, key=order.index)}


def _scored(rows: Sequence[Row], *, share: float = 1.0, scaled: bool = False) -> list[tuple[Row, float]]:
    """The runs that have a score, with it."""
    found = []
    for row in rows:
        value = score(row, share=share)
        if value is not None and scaled:
            value = normalised(row, value)
        if value is not None:
            found.append((row, value))
    return found


def _scores(rows: Sequence[Row], *, share: float = 1.0, scaled: bool = False) -> list[float]:
    return [value for _, value in _scored(rows, share=share, scaled=scaled)]


def _scoreless(rows: Sequence[Row]) -> tuple[str, ...]:
    return tuple(f"{row['run']} (no episode ended)" for row in rows if score(row) is None)


def _scaled(rows: Sequence[Row]) -> bool:
    """Whether scores can be put on the scale from random (0) to perfect memory (100)."""
    return all(normalised(row, 0.0) is not None for row in rows)


def _levels(rows: Sequence[Row]) -> dict[str, float]:
    return dict(rows[0].get("scores") or {})


def _kept(rows: Sequence[Row]) -> str:
    """The worst report after a run had arrived, as a share of its best: of all runs that did arrive."""
    known = [row["steadiness"] for row in rows if row.get("steadiness") is not None]
    return f"{min(known):.2f} ({len(known)} arrived)" if known else "-"


def _interval(of: Summary) -> str:
    return f"{of.iqm:z.1f} [{of.low:z.1f}, {of.high:z.1f}]"


def _mean(of: Summary) -> str:
    return f"{of.mean:z.1f} ± {of.error:z.1f}" if of.count > 1 else f"{of.mean:z.1f}"


def _with_splits(rows: Sequence[Row]) -> list[Row]:
    """Each run, and once more for each split of its tasks, with the split's curve."""
    splits = dict.fromkeys(split for row in rows for split in row.get("splits") or ())
    shown = list(rows)
    for split in splits:
        for row in rows:
            if split in (row.get("splits") or {}):
                task = f"{row['task']} ({split})"
                shown.append({**row, "goal": f"{split} levels", "task": task, "curve": row["splits"][split]})
    return shown


def _learning(experiment: Experiment, rows: Sequence[Row]) -> Made:
    """Learning curves, and a table of final scores beside the paper's; on several levels, also of each split by itself."""
    shown = _with_splits(rows)
    panels, levels = _curve_panels(shown)
    scaled = _scaled(shown)
    unit = "score of 100" if scaled else "return"
    several = len(panels) > 1
    header = ["model", "runs", f"{unit}, mean ± error", "interquartile mean", "100-capped", "paper", "paper, capped"]
    table: Table = [["levels"] * several + header]
    comparisons: list[Comparison] = []
    for goal in panels:
        here = [row for row in shown if row["goal"] == goal]
        scores = {model: _scores(runs, scaled=scaled) for model, runs in _models(here).items()}
        told = paper.ABLATION if experiment.id in ("gates", "final") and goal == rows[0]["goal"] else {}
        table += [[goal] * several + cells for cells in _final_scores(scores, told, scaled=scaled)]
        comparisons += [compare(*pair, scores, where=goal if several else "") for pair in experiment.pairs]
    return Made(_curves(shown, panels, levels), table, Curves(shown), comparisons, _scoreless(rows))


def _final_scores(scores: Mapping[str, Sequence[float]], theirs: Mapping[str, paper.Score], *, scaled: bool) -> Table:
    """A line for each model: how many runs, what they come to, and what the paper has."""
    lines: Table = []
    for model, found in scores.items():
        if not found:
            continue
        whole = summary(found)
        capped = _mean(summary([min(value, 100.0) for value in found])) if scaled else "-"
        told = theirs.get(model)
        beside = ["-", "-"] if told is None else [paper.told(*told[:2]), paper.told(*told[2:])]
        lines.append([model, str(whole.count), _mean(whole), _interval(whole), capped, *beside])
    return lines


def _curves(rows: Sequence[Row], panels: Mapping[str, Any], levels: Mapping[str, Any]) -> figures.Picture:
    picture = figures.curves(panels, levels, label="return")
    zero = " A run whose loss diverged counts as 0 from there on." * any(row["status"] == "diverged" for row in rows)
    dotted = " Dotted: what scripted players score." * any(levels.values())
    return dataclasses.replace(picture, caption=picture.caption + zero + dotted)


def _line(row: Row) -> list[list[int | float]]:
    """A run's curve; 0 from where its loss diverged, as its score is."""
    at = diverged_at(row)
    if at is None:
        return row["curve"]
    return [*(point for point in row["curve"] if point[0] < at), [at, 0.0, 0], [max(at + 1, row["planned_frames"]), 0.0, 0]]


def _curve_panels(rows: Sequence[Row]) -> tuple[dict[str, dict[str, list[Any]]], dict[str, dict[str, float]]]:
    panels: dict[str, dict[str, list[Any]]] = {}
    levels: dict[str, dict[str, float]] = {}
    for goal in dict.fromkeys(row["goal"] for row in sorted(rows, key=lambda row: row.get("dial") or 0.0)):
        here = [row for row in rows if row["goal"] == goal]
        panels[goal] = {model: [_line(row) for row in runs] for model, runs in _models(here).items()}
        levels[goal] = _levels(here)
    return panels, levels


def _sizes(experiment: Experiment, rows: Sequence[Row]) -> Made:
    """Curves for each size, and the final score against the size."""
    panels, levels = _curve_panels(rows)
    table: Table = [["model", "size", "runs", "return, mean ± error", "interquartile mean", "of 100", "diverged", "kept, worst"]]
    comparisons: list[Comparison] = []
    groups: dict[str, list[figures.Spread]] = {}
    for goal in panels:
        here = [row for row in rows if row["goal"] == goal]
        scores = {model: _scores(runs) for model, runs in _models(here).items()}
        for model, found in scores.items():
            if not found:
                continue
            whole = summary(found)
            of_hundred = normalised(here[0], whole.mean)
            table.append(
                [
                    model,
                    goal,
                    str(whole.count),
                    _mean(whole),
                    _interval(whole),
                    "-" if of_hundred is None else f"{of_hundred:.0f}",
                    str(sum(row["status"] == "diverged" for row in _models(here)[model])),
                    _kept(_models(here)[model]),
                ]
            )
            error = 0.0 if whole.count < 2 else whole.error
            groups.setdefault(model, []).append((here[0].get("dial") or 0.0, whole.mean, whole.mean - error, whole.mean + error))
        comparisons += [compare(*pair, scores, where=goal) for pair in experiment.pairs]
    in_order = sorted(rows, key=lambda row: row.get("dial") or 0.0)
    places = {row.get("dial") or 0.0: row["goal"].removesuffix(f" {experiment.axis}") for row in in_order}
    caption = "First, the final score: mean and standard error. Then the curves of each size. "
    wide = max(places) >= 8 * min(places) > 0
    size = figures.against(
        groups, x=experiment.axis, y="return", caption=caption, places=places, logarithmic=wide, among=1 + len(panels)
    )
    lines = _curves(rows, panels, levels)
    picture = figures.Picture(size.panels + lines.panels, lines.legend, caption + lines.caption)
    return Made(picture, table, Curves(rows), comparisons, _scoreless(rows))


def _ranks(experiment: Experiment, rows: Sequence[Row]) -> Made:
    """Runs from best to worst at some shares of the budget."""
    models = _models(rows)
    panels, table = {}, [["model", "share of the budget", "runs", "best", "median", "worst", "interquartile mean"]]
    data: list[list[Any]] = [["share", "model", "rank", "return"]]
    scores: dict[str, list[float]] = {}
    for share in experiment.measures:
        title = f"{share:.0%} of the budget"
        panels[title] = {}
        for model, runs in models.items():
            scores[model] = _scores(runs, share=share)
            if not scores[model]:
                continue
            order = ranked(scores[model])
            panels[title][model] = order
            whole = summary(order)
            table.append(
                [
                    model,
                    f"{share:.0%}",
                    str(whole.count),
                    f"{order[0]:z.1f}",
                    f"{np.median(order):z.1f}",
                    f"{order[-1]:z.1f}",
                    _interval(whole),
                ]
            )
            data += [[share, model, rank, value] for rank, value in enumerate(order, 1)]
    comparisons = [compare(*pair, scores) for pair in experiment.pairs]
    return Made(figures.ranks(panels, _levels(rows), label="return"), table, data, comparisons, _scoreless(rows))


def _divergence(experiment: Experiment, rows: Sequence[Row]) -> Made:
    """The share of runs whose loss was not finite at some point."""
    shares, table = {}, [["model", "runs", "diverged", "percent", "paper, percent"]]
    flags: dict[str, list[bool]] = {}
    for model, runs in _models(rows).items():
        flags[model] = [row["status"] == "diverged" for row in runs]
        shares[model] = 100 * sum(flags[model]) / len(runs)
        table.append([model, str(len(runs)), str(sum(flags[model])), f"{shares[model]:.0f}", f"{paper.DIVERGED.get(model, '-')}"])
    data = [["model", "run", "diverged at frames"], *([row["model"], row["run"], diverged_at(row)] for row in rows)]
    comparisons = [compare_shares(*pair, flags, relation="diverges more often than") for pair in experiment.pairs]
    theirs = {model: percent for model, percent in paper.DIVERGED.items() if model in shares}
    return Made(figures.bars(shares, theirs, x="percent of runs that diverged"), table, data, comparisons)


def _parameters(experiment: Experiment, rows: Sequence[Row]) -> Made:
    """Score against the number of parameters."""
    scaled = _scaled(rows)
    table: Table = [
        ["model", "parameters", "runs", "score, mean ± error", "interquartile mean", "paper: parameters", "paper: score"]
    ]
    groups: dict[str, list[figures.Spread]] = {}
    scores: dict[str, list[float]] = {}
    data: list[list[Any]] = [["model", "parameters", "run", "score"]]
    for model, runs in _models(rows).items():
        scored = _scored(runs, scaled=scaled)
        scores[model] = [value for _, value in scored]
        size = runs[0].get("parameters")
        if not scores[model] or not size:
            continue
        whole = summary(scores[model])
        groups[model] = [(size, whole.iqm, whole.low, whole.high)]
        theirs = paper.ABLATION.get(model)
        told = "-" if theirs is None else paper.told(*theirs[:2])
        millions = f"{paper.PARAMETERS[model]:g} M" if model in paper.PARAMETERS else "-"
        table.append([model, f"{size:,}", str(whole.count), _mean(whole), _interval(whole), millions, told])
        data += [[model, size, row["run"], value] for row, value in scored]
    comparisons = [compare(*pair, scores) for pair in experiment.pairs]
    caption = "Interquartile means with 95 % intervals."
    picture = figures.against(groups, x="parameters", y="score of 100" if scaled else "return", caption=caption)
    uncounted = tuple(f"{row['run']} (how many parameters is not known)" for row in rows if not row.get("parameters"))
    return Made(picture, table, data, comparisons, (*_scoreless(rows), *uncounted))


def _draws(experiment: Experiment, rows: Sequence[Row]) -> Made:
    """The samples themselves, each once."""
    del experiment
    drawn = {row["draw"]: row for row in sorted(rows, key=lambda row: row["draw"])}
    names = sorted({name for row in drawn.values() for name in row.get("bounds") or {}})
    values = {name: [row["bounds"][name] for row in drawn.values() if name in (row.get("bounds") or {})] for name in names}
    table: Table = [["hyperparameter", "draws", "least", "most"]]
    table += [[name, str(len(found)), f"{min(found):.2e}", f"{max(found):.2e}"] for name, found in values.items()]
    data: list[list[Any]] = [["draw", "seed", *names]]
    data += [[number, row["seed"], *((row.get("bounds") or {}).get(name) for name in names)] for number, row in drawn.items()]
    return Made(figures.scatter(values), table, data, [])


def _horizon(experiment: Experiment, rows: Sequence[Row]) -> Made:
    """How often each core is right, against how far back it must remember; what a step and a memory cost."""
    groups: dict[str, list[figures.Spread]] = {}
    table: Table = [["model", "steps to remember", "runs", "solved (95 %)", "interquartile mean", "frames/s", "bytes of memory"]]
    comparisons: list[Comparison] = []
    data: list[list[Any]] = [["steps", "model", "run", "return", "frames per second", "bytes"]]
    for dial in sorted({row.get("dial") or 0.0 for row in rows}):
        here = [row for row in rows if (row.get("dial") or 0.0) == dial]
        scores = {model: _scores(runs) for model, runs in _models(here).items()}
        comparisons += [compare(*pair, scores, where=here[0]["goal"]) for pair in experiment.pairs]
        for model, runs in _models(here).items():
            scored = _scored(runs)
            found = [value for _, value in scored]
            if not found:
                continue
            whole = summary(found)
            groups.setdefault(model, []).append((dial, whole.iqm, whole.low, whole.high))
            speeds = sorted(row["frames_per_second"] for row in runs if row.get("frames_per_second"))
            speed = f"{speeds[len(speeds) // 2]:,.0f}" if speeds else "-"
            bytes_ = runs[0].get("state_bytes")
            solved = f"{sum(value >= 0.95 for value in found)} of {len(found)}"
            size = "-" if bytes_ is None else f"{bytes_:,}"
            table.append(
                [
                    model,
                    f"{dial:g}",
                    str(whole.count),
                    solved,
                    f"{whole.iqm:.2f} [{whole.low:.2f}, {whole.high:.2f}]",
                    speed,
                    size,
                ]
            )
            data += [[dial, model, row["run"], value, row.get("frames_per_second"), bytes_] for row, value in scored]
    places = {dial: f"{dial:g}" for dial in sorted({row.get("dial") or 0.0 for row in rows})}
    caption = "Interquartile means with 95 % intervals; models beside each other where they are alike."
    picture = figures.against(
        groups, x="steps to remember", y="share of right turns", caption=caption, places=places, logarithmic=True
    )
    return Made(picture, table, data, comparisons, _scoreless(rows))


SOLVED = 90.0
"""Of 100: a run that ends here has solved its task."""


def _rates(experiment: Experiment, rows: Sequence[Row]) -> Made:
    """Each run's score against the learning rate that it drew; how many diverged, how many solved the task, up to which rate."""
    table: Table = [
        ["model", "runs", "diverged", "solved (90 of 100)", "highest rate that solved it", "interquartile mean", "kept, worst"]
    ]
    data: list[list[Any]] = [["model", "run", "learning rate", "return", "diverged at frames"]]
    points: dict[str, list[tuple[float, float]]] = {}
    scores: dict[str, list[float]] = {}
    flags: dict[str, list[bool]] = {}
    for model, runs in _models(rows).items():
        scored = _scored(runs)
        if not scored:
            continue
        scores[model] = [value for _, value in scored]
        flags[model] = [row["status"] == "diverged" for row in runs]
        points[model] = sorted((row["bounds"]["learning_rate"], value) for row, value in scored)
        solved = [row["bounds"]["learning_rate"] for row, value in scored if (normalised(row, value) or 0.0) >= SOLVED]
        highest = f"{max(solved):.1e}" if solved else "-"
        arrived = f"{len(solved)} of {len(scored)}"
        table.append(
            [model, str(len(runs)), str(sum(flags[model])), arrived, highest, _interval(summary(scores[model])), _kept(runs)]
        )
        data += [[model, row["run"], row["bounds"]["learning_rate"], value, diverged_at(row)] for row, value in scored]
    comparisons = [compare(*pair, scores) for pair in experiment.pairs]
    comparisons += [
        compare_shares(other, model, flags, relation="diverges more often than")
        for model, other in experiment.pairs
        if other in ("TrXL-I", "GTrXL (Output)")
    ]
    caption = "Every point is a run; a run whose loss diverged is at 0."
    picture = figures.cloud(points, _levels(rows), x="learning rate", y="return", caption=caption)
    return Made(picture, table, data, comparisons, _scoreless(rows))


VIEWS: Mapping[str, Callable[[Experiment, Sequence[Row]], Made]] = {
    "curves": _learning,
    "sizes": _sizes,
    "ranks": _ranks,
    "divergence": _divergence,
    "parameters": _parameters,
    "draws": _draws,
    "horizon": _horizon,
    "rates": _rates,
}
