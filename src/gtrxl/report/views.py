"""Rows of an experiment -> its section of a report: figure, table, data, and what holds. Needs no JAX."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gtrxl.experiments.catalogue import EXPERIMENTS, Experiment
from gtrxl.report import figures, paper
from gtrxl.report.rows import Found, Row, normalised, score, usable
from gtrxl.report.statistics import Summary, ranked, summary
from gtrxl.report.verdicts import Comparison, compare, sentence

Table = list[list[str]]
"""Rows of cells; the first is the header."""


@dataclasses.dataclass(frozen=True)
class Section:
    """One experiment at one scale."""

    experiment: Experiment
    scale: str
    figure: str
    """SVG."""
    table: Table
    verdict: str
    comparisons: tuple[Comparison, ...]
    facts: tuple[tuple[str, str], ...]
    """What was run."""
    left_out: tuple[str, ...]
    data: Table
    """What the figure is drawn from."""


def sections(found: Found) -> list[Section]:
    """Every experiment that there are runs for, at every scale, in the order of the paper."""
    made = []
    for experiment in EXPERIMENTS.values():
        rows = found.of(experiment.runs)
        for scale in dict.fromkeys(row["scale"] for row in rows):
            section = _section(experiment, scale, [row for row in rows if row["scale"] == scale])
            if section is not None:
                made.append(section)
    return made


def _section(experiment: Experiment, scale: str, rows: Sequence[Row]) -> Section | None:
    ended, left = usable(rows)
    shown = [row for row in ended if not experiment.models or row["model"] in experiment.models]
    if not shown:
        return None
    figure, table, data, comparisons = VIEWS[experiment.view](experiment, shown)
    return Section(
        experiment=experiment,
        scale=scale,
        figure=figure,
        table=table,
        verdict=sentence(comparisons),
        comparisons=tuple(comparisons),
        facts=_facts(experiment, scale, shown),
        left_out=tuple(left),
        data=data,
    )


def _facts(experiment: Experiment, scale: str, rows: Sequence[Row]) -> tuple[tuple[str, str], ...]:
    commits = sorted({commit for row in rows for commit in row.get("commits", [])})
    seconds = sum(row.get("seconds", 0.0) for row in rows)
    draws = len({row["draw"] for row in rows})
    tasks = ", ".join(dict.fromkeys(row["task"] for row in rows))
    frames = sum(row["frames"] for row in rows)
    return (
        ("command", f"gtrxl reproduce {experiment.id} --scale {scale}"),
        ("runs", f"{len(rows)}, with {draws} draws of seed and hyperparameters, the same for every model"),
        ("task", tasks),
        ("time", f"{seconds / 3600:.2f} hours of runs, {frames / 1e6:.4g} M frames"),
        ("commit", ", ".join(commits) or "not known"),
    )


Made = tuple[str, Table, Table, list[Comparison]]


def _models(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Rows by model, in the order in which models come."""
    grouped: dict[str, list[Row]] = {}
    for row in rows:
        grouped.setdefault(row["model"], []).append(row)
    order = [*figures.COLOURS, *grouped]
    return {model: grouped[model] for model in sorted(grouped, key=order.index)}


def _scores(rows: Sequence[Row], *, share: float = 1.0, scaled: bool = False) -> list[float]:
    found = []
    for row in rows:
        value = score(row, share=share)
        if value is not None and scaled:
            value = normalised(row, value)
        if value is not None:
            found.append(value)
    return found


def _scaled(rows: Sequence[Row]) -> bool:
    """Whether scores can be put on the scale from random (0) to perfect memory (100)."""
    return all(normalised(row, 0.0) is not None for row in rows)


def _levels(rows: Sequence[Row]) -> dict[str, float]:
    return dict(rows[0].get("scores") or {})


def _interval(of: Summary) -> str:
    return f"{of.iqm:.1f} [{of.low:.1f}, {of.high:.1f}]"


def _mean(of: Summary) -> str:
    return f"{of.mean:.1f} ± {of.error:.1f}" if of.count > 1 else f"{of.mean:.1f}"


def _curve_data(rows: Sequence[Row]) -> Table:
    data: Table = [["model", "task", "run", "draw", "frames", "return", "episodes"]]
    for row in rows:
        for frames, mean, episodes in row["curve"]:
            data.append([row["model"], row["task"], row["run"], str(row["draw"]), f"{frames:g}", f"{mean:g}", f"{episodes:g}"])
    return data


def _learning(experiment: Experiment, rows: Sequence[Row]) -> Made:
    """Learning curves, and a table of final scores beside the paper's."""
    panels, levels = _curve_panels(rows)
    scaled = _scaled(rows)
    scores = {model: _scores(runs, scaled=scaled) for model, runs in _models(rows).items()}
    unit = "score of 100" if scaled else "return"
    table: Table = [["model", "runs", f"{unit}, mean ± error", "interquartile mean", "100-capped", "paper", "paper, capped"]]
    for model, found in scores.items():
        if not found:
            continue
        whole = summary(found)
        capped = _mean(summary([min(value, 100.0) for value in found])) if scaled else "-"
        theirs = paper.ABLATION.get(model) if experiment.id in ("gates", "final") else None
        told = (
            ["-", "-"]
            if theirs is None
            else [f"{theirs[0]} ± {theirs[1]}", "-" if theirs[2] is None else f"{theirs[2]} ± {theirs[3]}"]
        )
        table.append([model, str(whole.count), _mean(whole), _interval(whole), capped, *told])
    comparisons = [compare(*pair, scores) for pair in experiment.pairs]
    return figures.curves(panels, levels, label="return"), table, _curve_data(rows), comparisons


def _curve_panels(rows: Sequence[Row]) -> tuple[dict[str, dict[str, list[Any]]], dict[str, dict[str, float]]]:
    panels: dict[str, dict[str, list[Any]]] = {}
    levels: dict[str, dict[str, float]] = {}
    for goal in dict.fromkeys(row["goal"] for row in rows):
        here = [row for row in rows if row["goal"] == goal]
        panels[goal] = {model: [row["curve"] for row in runs] for model, runs in _models(here).items()}
        levels[goal] = _levels(here)
    return panels, levels


def _sizes(experiment: Experiment, rows: Sequence[Row]) -> Made:
    """Curves for each size, and the final score against the size."""
    panels, levels = _curve_panels(rows)
    table: Table = [["size", "model", "runs", "return, mean ± error", "interquartile mean", "of 100"]]
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
                    goal,
                    model,
                    str(whole.count),
                    _mean(whole),
                    _interval(whole),
                    "-" if of_hundred is None else f"{of_hundred:.0f}",
                ]
            )
            error = 0.0 if whole.count < 2 else whole.error
            groups.setdefault(model, []).append((here[0].get("dial") or 0.0, whole.mean, whole.mean - error, whole.mean + error))
        for pair in experiment.pairs:
            made = compare(*pair, scores)
            comparisons.append(dataclasses.replace(made, higher=f"{made.higher} on {goal}"))
    size = figures.against(groups, x="size of the pad", y="return")
    return size + figures.curves(panels, levels, label="return"), table, _curve_data(rows), comparisons


def _ranks(experiment: Experiment, rows: Sequence[Row]) -> Made:
    """Runs from best to worst at some shares of the budget."""
    models = _models(rows)
    panels, table, data = {}, [["share of the budget", "model", "runs", "best", "median", "worst", "interquartile mean"]], []
    data = [["share", "model", "rank", "return"]]
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
            middle = order[len(order) // 2]
            table.append(
                [
                    f"{share:.0%}",
                    model,
                    str(whole.count),
                    f"{order[0]:.1f}",
                    f"{middle:.1f}",
                    f"{order[-1]:.1f}",
                    _interval(whole),
                ]
            )
            data += [[f"{share:g}", model, str(rank), f"{value:g}"] for rank, value in enumerate(order, 1)]
    comparisons = [compare(*pair, scores) for pair in experiment.pairs]
    return figures.ranks(panels, _levels(rows), label="return"), table, data, comparisons


def _divergence(experiment: Experiment, rows: Sequence[Row]) -> Made:
    """The share of runs whose loss was not finite at some point."""
    shares, table = {}, [["model", "runs", "diverged", "percent", "paper, percent"]]
    flags: dict[str, list[float]] = {}
    for model, runs in _models(rows).items():
        flags[model] = [float(row["status"] == "diverged") for row in runs]
        shares[model] = 100 * sum(flags[model]) / len(runs)
        table.append(
            [model, str(len(runs)), f"{sum(flags[model]):.0f}", f"{shares[model]:.0f}", f"{paper.DIVERGED.get(model, '-')}"]
        )
    data = [["model", "run", "diverged at frames"]]
    data += [[row["model"], row["run"], str(row.get("diverged_at_frames") or "")] for row in rows]
    comparisons = [compare(*pair, flags) for pair in experiment.pairs]
    return figures.bars(shares, y="percent of runs that diverged"), table, data, comparisons


def _parameters(experiment: Experiment, rows: Sequence[Row]) -> Made:
    """Score against the number of parameters."""
    scaled = _scaled(rows)
    table: Table = [
        ["model", "parameters", "runs", "score, mean ± error", "interquartile mean", "paper: parameters", "paper: score"]
    ]
    groups, scores, data = {}, {}, [["model", "parameters", "run", "score"]]
    for model, runs in _models(rows).items():
        scores[model] = _scores(runs, scaled=scaled)
        size = runs[0].get("parameters")
        if not scores[model] or not size:
            continue
        whole = summary(scores[model])
        groups[model] = [(size, whole.iqm, whole.low, whole.high)]
        theirs = paper.ABLATION.get(model)
        told = "-" if theirs is None else f"{theirs[0]} ± {theirs[1]}"
        millions = f"{paper.PARAMETERS[model]:g} M" if model in paper.PARAMETERS else "-"
        table.append([model, f"{size:,}", str(whole.count), _mean(whole), _interval(whole), millions, told])
        data += [[model, str(size), row["run"], f"{value:g}"] for row, value in zip(runs, scores[model], strict=False)]
    comparisons = [compare(*pair, scores) for pair in experiment.pairs]
    return figures.against(groups, x="parameters", y="score", joined=False), table, data, comparisons


def _draws(experiment: Experiment, rows: Sequence[Row]) -> Made:
    """The samples themselves, each once."""
    del experiment
    drawn = {row["draw"]: row for row in rows}
    names = sorted({name for row in drawn.values() for name in row.get("bounds", {})})
    values = {name: [drawn[number]["bounds"].get(name) for number in sorted(drawn)] for name in names}
    table: Table = [["hyperparameter", "draws", "least", "most"]]
    table += [[name, str(len(found)), f"{min(found):.2e}", f"{max(found):.2e}"] for name, found in values.items()]
    data: Table = [["draw", "seed", *names]]
    data += [[str(n), str(drawn[n]["seed"]), *(f"{drawn[n]['bounds'].get(name):g}" for name in names)] for n in sorted(drawn)]
    return figures.scatter(values), table, data, []


def _horizon(experiment: Experiment, rows: Sequence[Row]) -> Made:
    """How often each core is right, against how far back it must remember; what a step and a memory cost."""
    groups: dict[str, list[figures.Spread]] = {}
    table: Table = [["steps to remember", "model", "runs", "solved (95 %)", "interquartile mean", "frames/s", "bytes of memory"]]
    pooled: dict[str, list[float]] = {}
    data: Table = [["steps", "model", "run", "return", "frames per second", "bytes"]]
    for dial in sorted({row.get("dial") or 0.0 for row in rows}):
        here = [row for row in rows if (row.get("dial") or 0.0) == dial]
        for model, runs in _models(here).items():
            found = _scores(runs)
            if not found:
                continue
            whole = summary(found)
            pooled.setdefault(model, []).extend(found)
            groups.setdefault(model, []).append((dial, whole.iqm, whole.low, whole.high))
            speeds = sorted(row["frames_per_second"] for row in runs if row.get("frames_per_second"))
            speed = f"{speeds[len(speeds) // 2]:,.0f}" if speeds else "-"
            bytes_ = runs[0].get("state_bytes")
            solved = f"{sum(value >= 0.95 for value in found)} of {len(found)}"
            size = "-" if bytes_ is None else f"{bytes_:,}"
            table.append(
                [
                    f"{dial:g}",
                    model,
                    str(whole.count),
                    solved,
                    f"{whole.iqm:.2f} [{whole.low:.2f}, {whole.high:.2f}]",
                    speed,
                    size,
                ]
            )
            data += [
                [f"{dial:g}", model, row["run"], f"{value:g}", f"{row.get('frames_per_second') or ''}", f"{bytes_ or ''}"]
                for row, value in zip(runs, found, strict=False)
            ]
    comparisons = [compare(*pair, pooled) for pair in experiment.pairs]
    figure = figures.against(groups, x="steps to remember", y="share of right turns", logarithmic=True)
    return figure, table, data, comparisons


VIEWS: Mapping[str, Callable[[Experiment, Sequence[Row]], Made]] = {
    "curves": _learning,
    "sizes": _sizes,
    "ranks": _ranks,
    "divergence": _divergence,
    "parameters": _parameters,
    "draws": _draws,
    "horizon": _horizon,
}
