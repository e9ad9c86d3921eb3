"""Figures as SVG text that follows the page's colours: its ink is the colour of the text around it. Needs no JAX.

A figure is panels, each a drawing of its own, so that a page can set them side by side or, on a phone, one under another.

N runs, P points of a curve.
"""

import dataclasses
import html
import io
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

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
    "GTrXL (GRU), b_g = 2": "#1d4f91",
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

TITLE = 40
"""Letters that fit above a panel."""
LINE_POINTS, PANEL_POINTS = 100, 20_000
"""Points of a run's line, and of all lines in a panel, at most. More cannot be seen, and a page has to be carried."""
WIDE, NARROW = (4.8, 3.2), (3.7, 2.9)
"""Inches of a panel that stands alone, and of one among others."""

Points = Sequence[Sequence[int | float]]
Spread = tuple[int | float, int | float, int | float, int | float]
"""x, y, and the ends of y's interval."""
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "gtrxl",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.titlesize": 9,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


@dataclasses.dataclass(frozen=True)
class Picture:
    """A figure: its panels as SVG, who has which colour, and what lines and marks mean."""

    panels: tuple[str, ...]
    legend: tuple[tuple[str, str], ...]
    caption: str

    @property
    def columns(self) -> int:
        """How many panels fit beside each other on a wide page."""
        return {1: 1, 2: 2, 4: 2}.get(len(self.panels), 3)

    def alone(self) -> str:
        """One SVG with the page's colours put in, for those who open the file by itself."""
        sizes = [_size(panel) for panel in self.panels]
        wide, high = max((x for x, _ in sizes), default=200.0), max((y for _, y in sizes), default=0.0)
        parts = []
        for number, panel in enumerate(self.panels):
            row, column = divmod(number, self.columns)
            # In points all around: inside a picture of points, `pt` would be taken for a third more.
            inner = re.sub(r'(width|height)="([\d.]+)pt"', r'\1="\2"', panel, count=2)
            parts.append(inner.replace("<svg ", f'<svg x="{column * wide:g}" y="{row * high:g}" ', 1))
        down = high * -(-len(self.panels) // self.columns)
        at, line = 8.0, down + 14
        for name, paint in self.legend:
            long = 6.0 * len(name) + 30
            if at + long > wide * self.columns and at > 8:
                at, line = 8.0, line + 14
            parts.append(f'<rect x="{at:g}" y="{line - 5:g}" width="12" height="3" fill="{paint}"/>')
            parts.append(f'<text x="{at + 16:g}" y="{line:g}" font-family="sans-serif" font-size="9">{html.escape(name)}</text>')
            at += long
        across, down = wide * self.columns, line + 8
        text = "".join(parts).replace("currentColor", "#222222").replace("var(--faint, #888)", "#888888")
        box = f'width="{across:g}pt" height="{down:g}pt" viewBox="0 0 {across:g} {down:g}"'
        names = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
        return f'<svg {names} {box}><rect width="100%" height="100%" fill="#ffffff"/>{text}</svg>\n'


def colour(model: str, number: int = 0) -> str:
    """The colour of a model."""
    return COLOURS.get(model, OTHERS[number % len(OTHERS)])


def curves(
    panels: Mapping[str, Mapping[str, Sequence[Points]]], levels: Mapping[str, Mapping[str, int | float]], *, label: str
) -> Picture:
    """One panel for each task: every run light, the mean of each model bold; `levels` are dotted."""
    drawn, legend = [], {}
    for title, models in panels.items():
        with rc_context(STYLE):
            figure, axis = _panel(len(panels))
            lines = {model: [np.asarray(run, np.float64) for run in runs if len(run)] for model, runs in models.items()}
            unit, word = _unit(max((run[-1, 0] for runs in lines.values() for run in runs), default=1.0))
            budget = PANEL_POINTS // max(1, sum(map(len, lines.values())))
            for number, (model, runs) in enumerate(lines.items()):
                if runs:
                    legend[model] = colour(model, number)
                    _curves(axis, runs, legend[model], unit=unit, most=max(10, min(LINE_POINTS, budget)))
            axis.set(title=_broken(title), xlabel=f"{word} frames".strip(), ylabel=label)
            axis.autoscale_view()
            axis.set_xlim(left=0)
            _levels(axis, levels.get(title, {}))
            drawn.append(_svg(figure, f"learning curves on {title}"))
    return Picture(tuple(drawn), tuple(legend.items()), "Each run is a light line, the mean of a model's runs the bold one.")


def ranks(panels: Mapping[str, Mapping[str, Sequence[float]]], levels: Mapping[str, int | float], *, label: str) -> Picture:
    """One panel for each share of the budget: the runs of each model from best to worst, all on one scale."""
    drawn, legend = [], {}
    values = [value for models in panels.values() for scores in models.values() for value in scores] + list(levels.values()) or [
        0.0
    ]
    edge = 0.05 * (max(values) - min(values) or 1.0)
    for title, models in panels.items():
        with rc_context(STYLE):
            figure, axis = _panel(len(panels))
            for number, (model, scores) in enumerate(models.items()):
                legend[model] = colour(model, number)
                marks = {"marker": "o", "markersize": 3} if len(scores) <= 60 else {}
                axis.plot(range(1, len(scores) + 1), scores, color=legend[model], linewidth=1.4, **marks)
            axis.set(title=title, xlabel="rank of the run", ylabel=label, ylim=(min(values) - edge, max(values) + edge))
            axis.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
            _levels(axis, levels)
            drawn.append(_svg(figure, f"runs from best to worst at {title}"))
    caption = "Every point is a run; each model's runs go from its best to its worst."
    return Picture(tuple(drawn), tuple(legend.items()), caption)


def against(
    groups: Mapping[str, Sequence[Spread]],
    *,
    x: str,
    y: str,
    caption: str,
    places: Mapping[int | float, str] | None = None,
    logarithmic: bool = False,
    among: int = 1,
) -> Picture:
    """Each model's points (x, y, low, high). With `places` (x and its name) they are joined by lines."""
    with rc_context(STYLE):
        figure, axis = _panel(among)
        for number, (model, points) in enumerate(groups.items()):
            at, middle, low, high = np.asarray(sorted(points), np.float64).T
            aside = number - (len(groups) - 1) / 2
            if places:  # beside each other: models that score alike would hide one another
                at = at * 2 ** (0.05 * aside) if logarithmic else at + 0.03 * aside
            spread = np.abs(np.stack([middle - low, high - middle]))
            style = {"fmt": "-o" if places else "o", "markersize": 4, "capsize": 2.5, "linewidth": 1.4}
            axis.errorbar(at, middle, spread, color=colour(model, number), **style)
        axis.set(xlabel=x, ylabel=y)
        if logarithmic:
            axis.set_xscale("log", base=2)
        if places:
            axis.set_xticks(list(places), list(places.values()))
            axis.minorticks_off()
        else:
            axis.xaxis.set_major_formatter(EngFormatter(sep=""))
        drawn = _svg(figure, f"{y} against {x}")
    return Picture((drawn,), tuple((model, colour(model, number)) for number, model in enumerate(groups)), caption)


def cloud(
    groups: Mapping[str, Sequence[tuple[float, float]]], levels: Mapping[str, int | float], *, x: str, y: str, caption: str
) -> Picture:
    """Each model's runs as points (x, y), joined from left to right; x is logarithmic."""
    with rc_context(STYLE):
        figure, axis = _panel(1)
        for number, (model, points) in enumerate(groups.items()):
            at, value = np.asarray(sorted(points), np.float64).T
            axis.plot(at, value, "-o", color=colour(model, number), markersize=3.5, linewidth=0.8, alpha=0.8)
        axis.set_xscale("log")
        axis.set(xlabel=x, ylabel=y)
        _levels(axis, levels)
        drawn = _svg(figure, f"{y} against {x}")
    return Picture((drawn,), tuple((model, colour(model, number)) for number, model in enumerate(groups)), caption)


def bars(values: Mapping[str, int | float], theirs: Mapping[str, int | float], *, x: str) -> Picture:
    """One bar for each model, with the paper's value as a mark."""
    with rc_context(STYLE):
        figure, axis = _panel(1)
        for number, (model, value) in enumerate(values.items()):
            axis.barh(number, value, color=colour(model, number), height=0.6)
            axis.annotate(f"{value:g}", (value, number), (4, 0), textcoords="offset points", va="center", fontsize=8)
            if model in theirs:
                axis.plot([theirs[model]] * 2, [number - 0.38, number + 0.38], color=INK, linewidth=1.2, linestyle=":")
        axis.set_yticks(range(len(values)), list(values))
        axis.invert_yaxis()
        axis.set(xlabel=x, xlim=(0, max(10.0, 1.15 * max([*values.values(), *theirs.values()]))))
        drawn = _svg(figure, x)
    return Picture((drawn,), (), "Dotted: the paper's.")


def scatter(values: Mapping[str, Sequence[float]]) -> Picture:
    """One panel for each hyperparameter: its samples on a logarithmic axis, one above another by the number of the draw."""
    drawn = []
    for name, found in values.items():
        with rc_context(STYLE):
            figure, axis = _panel(len(values))
            axis.plot(found, range(len(found)), "o", color=COLOURS["GTrXL (GRU)"], markersize=4)
            axis.set_xscale("log")
            axis.set(xlabel=name, ylabel="draw")
            axis.yaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
            drawn.append(_svg(figure, f"samples of {name}"))
    return Picture(tuple(drawn), (), "Every point is a draw; all models have the same ones.")


def _panel(count: int) -> tuple[Figure, Axes]:
    figure = Figure(figsize=WIDE if count == 1 else NARROW, layout="constrained")
    return figure, figure.add_subplot()


def _broken(title: str) -> str:
    """A long name of a task over several lines: settings under the name, no line wider than a panel."""
    lines = [title] if len(title) <= TITLE else title.replace("+", "+ ").split(":", 1)
    return "\n".join(part for line in lines for part in textwrap.wrap(line.replace(",", ", "), TITLE))


def _unit(frames: float) -> tuple[float, str]:
    units = ((1e9, "billion"), (1e6, "million"), (1e3, "thousand"))
    return next(((unit, word) for unit, word in units if frames >= unit), (1.0, ""))


def _curves(axis: Axes, runs: Sequence[np.ndarray], paint: str, *, unit: float, most: int) -> None:
    lines = []
    for run in runs:
        kept = run if len(run) <= most else run[np.linspace(0, len(run) - 1, most).round().astype(int)]
        lines.append(np.stack([kept[:, 0] / unit, kept[:, 1]], axis=1))
    axis.add_collection(LineCollection(lines, colors=paint, linewidths=0.7, alpha=0.35))
    first, last = max(run[0, 0] for run in runs), min(run[-1, 0] for run in runs)
    grid = np.linspace(first, max(first, last), LINE_POINTS)
    mean = np.mean([np.interp(grid, run[:, 0], run[:, 1]) for run in runs], axis=0)
    axis.plot(grid / unit, mean, color=paint, linewidth=2.0)


def _levels(axis: Axes, levels: Mapping[str, int | float]) -> None:
    """Dotted lines, named outside the axes: inside they would lie over curves."""
    low, high = axis.get_ylim()
    apart, last = 0.11 * (max([high, *levels.values()]) - min([low, *levels.values()])), -np.inf
    for name, level in sorted(levels.items(), key=lambda each: each[1]):
        axis.axhline(level, color=FAINT, linewidth=0.9, linestyle=":", zorder=0)
        last = max(level, last + apart)
        text = name.replace(" ", "\n")
        axis.annotate(
            text,
            (1.015, last),
            xycoords=("axes fraction", "data"),
            ha="left",
            va="center",
            fontsize=7,
            color=FAINT,
            linespacing=0.9,
        )


def _size(panel: str) -> tuple[float, float]:
    wide, high = re.findall(r'(?:width|height)="([\d.]+)pt"', panel)[:2]
    return float(wide), float(high)


def _svg(figure: Figure, about: str) -> str:
    text = io.StringIO()
    figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    drawn = text.getvalue()
    drawn = drawn[drawn.index("<svg") :].replace("<svg ", f'<svg role="img" aria-label="{html.escape(about)}" ', 1)
    # Hundredths of a point are finer than any screen, and half the bytes.
    drawn = re.sub(r' d="[^"]+"', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path[0]), drawn)
    return drawn.replace(INK, "currentColor").replace(FAINT, "var(--faint, #888)")
