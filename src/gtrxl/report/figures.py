"""Figures as SVG text that follows the page's colours: its ink is the colour of the text around it. Needs no JAX.

N runs, P points of a curve.
"""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

INK, FAINT = "#010203", "#040506"
"""Colours that stand for the page's own; no figure uses them for anything else."""

COLOURS = {
    "GTrXL (GRU)": "#2f7fc1",
    "Thin GTrXL (GRU)": "#74b3e3",
    "TrXL-I": "#3c9f61",
    "TrXL": "#c9902a",
    "LSTM": "#c4524a",
    "GTrXL (Output)": "#8e63b5",
    "GTrXL (Input)": "#d0719b",
    "GTrXL (Highway)": "#7d8a2e",
    "GTrXL (SigTanh)": "#2f9e9e",
    "no memory": "#8a8a8a",
    "b_g = 2": "#2f7fc1",
    "b_g = 0": "#c9902a",
    "GTrXL (GRU), memory 64": "#2f7fc1",
    "GTrXL (GRU), memory 16": "#74b3e3",
    "GTrXL (GRU), memory 512": "#1d4f91",
    "TrXL-I, memory 64": "#3c9f61",
}
"""One colour for each model in every figure, readable on white and on black."""
OTHERS = ("#5f7a8a", "#a06a3f", "#6a5acd", "#4c8c4a")

Points = Sequence[Sequence[int | float]]
Spread = tuple[int | float, int | float, int | float, int | float]
"""x, y, and the ends of y's interval."""
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "gtrxl",
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "path.simplify_threshold": 0.5,
}


def colour(model: str, number: int = 0) -> str:
    """The colour of a model."""
    return COLOURS.get(model, OTHERS[number % len(OTHERS)])


def curves(
    panels: Mapping[str, Mapping[str, Sequence[Points]]], levels: Mapping[str, Mapping[str, int | float]], *, label: str
) -> str:
    """One panel for each task: every run light, the mean of each model bold; `levels` are dotted."""
    with rc_context(STYLE):
        figure, axes = _panels(len(panels))
        for axis, (title, models) in zip(axes, panels.items(), strict=True):
            _levels(axis, levels.get(title, {}))
            for number, (model, runs) in enumerate(models.items()):
                _curves(axis, [np.asarray(run, np.float64) for run in runs if len(run)], model, colour(model, number))
            axis.set(title=title, xlabel="million frames", ylabel=label)
            axis.set_xlim(left=0)
            axis.autoscale_view()
        _legend(figure, axes)
        return _svg(figure)


def ranks(panels: Mapping[str, Mapping[str, Sequence[float]]], levels: Mapping[str, int | float], *, label: str) -> str:
    """One panel for each share of the budget: the runs of each model from best to worst."""
    with rc_context(STYLE):
        figure, axes = _panels(len(panels), shared=True)
        for axis, (title, models) in zip(axes, panels.items(), strict=True):
            _levels(axis, levels)
            for number, (model, scores) in enumerate(models.items()):
                axis.plot(range(1, len(scores) + 1), scores, "-o", color=colour(model, number), markersize=3, label=model)
            axis.set(title=title, xlabel="rank of the run")
        axes[0].set_ylabel(label)
        _legend(figure, axes)
        return _svg(figure)


def against(
    groups: Mapping[str, Sequence[Spread]],
    *,
    x: str,
    y: str,
    logarithmic: bool = False,
    joined: bool = True,
) -> str:
    """Each model's points (x, y, low, high), joined by a line or not."""
    with rc_context(STYLE):
        figure = Figure(figsize=(6.4, 3.6), layout="constrained")
        axis = figure.add_subplot()
        for number, (model, points) in enumerate(groups.items()):
            at, mean, low, high = np.asarray(sorted(points), np.float64).T
            spread = np.abs(np.stack([mean - low, high - mean]))
            axis.errorbar(at, mean, spread, fmt="-o" if joined else "o", color=colour(model, number), capsize=3, label=model)
        axis.set(xlabel=x, ylabel=y)
        if logarithmic:
            axis.set_xscale("log", base=2)
            places = sorted({point[0] for points in groups.values() for point in points})
            axis.set_xticks(places, [f"{place:g}" for place in places])
            axis.minorticks_off()
        axis.legend(fontsize=8)
        return _svg(figure)


def bars(values: Mapping[str, int | float], *, y: str) -> str:
    """One bar for each model."""
    with rc_context(STYLE):
        figure = Figure(figsize=(6.4, 3.0), layout="constrained")
        axis = figure.add_subplot()
        for number, (model, value) in enumerate(values.items()):
            axis.bar(model, value, color=colour(model, number), width=0.6)
            axis.annotate(f"{value:g}", (number, value), ha="center", va="bottom", fontsize=8)
        axis.set(ylabel=y)
        axis.tick_params(axis="x", labelrotation=20)
        return _svg(figure)


def scatter(values: Mapping[str, Sequence[float]]) -> str:
    """One panel for each hyperparameter: its samples on a logarithmic axis, one above another by the number of the draw."""
    with rc_context(STYLE):
        figure, axes = _panels(len(values), high=2.6)
        for axis, (name, drawn) in zip(axes, values.items(), strict=True):
            axis.plot(drawn, range(len(drawn)), "o", color=COLOURS["GTrXL (GRU)"], markersize=4)
            axis.set_xscale("log")
            axis.set(xlabel=name, ylabel="draw")
        return _svg(figure)


def _panels(count: int, *, shared: bool = False, high: float = 3.2) -> tuple[Figure, list[Axes]]:
    wide = min(3, count)
    rows = -(-count // wide)
    figure = Figure(figsize=((5.8 if count == 1 else 3.6 * wide) + 1.4, high * rows), layout="constrained")
    axes = list(figure.subplots(rows, wide, squeeze=False, sharey=shared).flat)
    for axis in axes[count:]:
        axis.set_visible(False)
    return figure, axes[:count]


def _curves(axis: Axes, runs: Sequence[np.ndarray], model: str, paint: str) -> None:
    if not runs:
        return
    lines = [np.stack([run[:, 0] / 1e6, run[:, 1]], axis=1) for run in runs]
    axis.add_collection(LineCollection(lines, colors=paint, linewidths=0.7, alpha=0.35))
    last = min(run[-1, 0] for run in runs)
    first = max(run[0, 0] for run in runs)
    grid = np.linspace(first, last, 100)
    mean = np.mean([np.interp(grid, run[:, 0], run[:, 1]) for run in runs], axis=0)
    axis.plot(grid / 1e6, mean, color=paint, linewidth=2.0, label=model)


def _levels(axis: Axes, levels: Mapping[str, int | float]) -> None:
    for name, level in levels.items():
        axis.axhline(level, color=FAINT, linewidth=0.9, linestyle=":", zorder=0)
        axis.annotate(name, (0.99, level), xycoords=("axes fraction", "data"), ha="right", va="bottom", fontsize=7, color=FAINT)


def _legend(figure: Figure, axes: Sequence[Axes]) -> None:
    handles: dict[str, Any] = {}
    for axis in axes:
        handles |= dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    figure.legend(handles.values(), handles.keys(), loc="outside right upper", fontsize=8)


def _svg(figure: Figure) -> str:
    text = io.StringIO()
    figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    drawn = text.getvalue()
    return drawn[drawn.index("<svg") :].replace(INK, "currentColor").replace(FAINT, "var(--faint, #888)")
