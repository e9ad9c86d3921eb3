"""The picture of the recall experiment: how fast each core learns it, how far back it reaches, and one stream drawn out.

Reads the plain data that `gtrxl.experiments.delayed_recall.run` returns (and `recall.json` holds); needs no JAX.
"""

import json
import pathlib
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from rich.table import Table

INK, SOFT, GRID = "#1f2430", "#6b7280", "#e5e7eb"
LINES = {"gtrxl-gru": "#2456c7", "lstm": "#d9622b", "none": "#8a8f98"}
SPARE_LINES = ("#1b8a6b", "#8b4fb3", "#b8860b", "#c2185b", "#3d6b8c", "#5d7a1f", "#7a4a2b")
SYMBOL_COLOURS = ("#e4572e", "#f3a712", "#f7dc5a", "#76b041", "#2a9d8f", "#3a86d9", "#7b5bc4", "#e584b6")
STYLE: Any = {
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.edgecolor": SOFT,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": INK,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "figure.facecolor": "white",
    "svg.fonttype": "none",
    "svg.hashsalt": "gtrxl",
}


def draw(results: dict[str, Any], *, files: Sequence[pathlib.Path]) -> None:
    """Draws the results into each of the files; the suffix says the format (.png, .svg, .pdf)."""
    cores = results["settings"]["cores"]
    with mpl.rc_context(STYLE):
        heights = [3.0, 0.62 + 0.42 * len(cores)]
        figure = Figure(figsize=(9.6, sum(heights) + 1.5))
        grid = figure.add_gridspec(
            2, 2, height_ratios=heights, hspace=0.42, wspace=0.16, left=0.085, right=0.975, bottom=0.08, top=0.85
        )
        _learning(figure.add_subplot(grid[0, 0]), results)
        reach = figure.add_subplot(grid[0, 1])
        _reach(reach, results)
        _stream(figure.add_subplot(grid[1, :]), results)
        seeds = results["settings"]["seeds"]
        drawn = f"seed {seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} seeds (thin) and their mean (bold)"
        figure.text(0.085, 0.955, "Delayed recall: which symbol was marked?", fontsize=13, weight="bold")
        figure.text(0.085, 0.918, f"{drawn}; {_sizes(results)} parameters each", fontsize=9, color=SOFT)
        handles, labels = reach.get_legend_handles_labels()
        place = {"loc": "upper right", "bbox_to_anchor": (0.983, 0.99), "ncols": min(4, len(cores))}
        figure.legend(handles, labels, frameon=False, fontsize=9.5, handlelength=1.6, columnspacing=1.6, **place)
        for file in files:
            metadata = {"Date": None} if file.suffix == ".svg" else None
            figure.savefig(file, dpi=160, metadata=metadata)


def as_json(results: dict[str, Any]) -> str:
    """The results as JSON with one row per line: for people and `diff` as well as for programs."""

    def part(value: Any) -> str:
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return "[\n" + ",\n".join(json.dumps(row) for row in value) + "\n]"
        return json.dumps(value)

    return "{\n" + ",\n".join(f"{json.dumps(name)}: {part(value)}" for name, value in results.items()) + "\n}\n"


def table(results: dict[str, Any]) -> Table:
    """Accuracy in percent per core and delay, the mean over seeds."""
    settings = results["settings"]
    delays = _spread(settings["test_delays"])
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    drawn.add_column("recalled after")
    for delay in delays:
        drawn.add_column(str(delay), justify="right")
    drawn.add_column("steps")
    for core in settings["cores"]:
        cells = [
            100 * _mean(row["accuracy"] for row in results["rows"] if row["core"] == core and row["delay"] == d) for d in delays
        ]
        drawn.add_row(core, *(f"{cell:.0f} %" for cell in cells), _bar(cells))
    return drawn


def summary(results: dict[str, Any]) -> str:
    """What the table means, in one sentence per core."""
    settings = results["settings"]
    lines = []
    for core in settings["cores"]:
        rows = [row for row in results["rows"] if row["core"] == core]
        beyond = [row["accuracy"] for row in rows if settings["unroll"] < row["delay"] <= settings["longest_delay"]]
        sizes = [size for size in results["sizes"] if size["core"] == core]
        lines.append(
            f"{core}: {100 * _mean(beyond):.1f} % at delays longer than the unroll; {_speed(results, core, share=0.95)} "
            f"({sizes[0]['parameters']:,} parameters, {_mean(size['seconds'] for size in sizes):.0f} s to train)"
        )
    return "\n".join(lines)


def _learning(axes: Axes, results: dict[str, Any]) -> None:
    settings = results["settings"]
    for core, colour in _colours(settings["cores"]).items():
        curves = [_pairs(results["learning"], core, seed, "updates") for seed in settings["seeds"]]
        _curves(axes, curves, colour, marker=None)
    _percent(axes, results["chance"])
    axes.set_xlim(0, settings["updates"])
    axes.set_xlabel(f"updates of {settings['streams']} streams x {settings['unroll']} steps")
    axes.set_ylabel("right answers")
    axes.set_title("while it learns", loc="left", fontsize=10, color=INK, pad=8)
    axes.text(settings["updates"], results["chance"] - 0.02, "chance", color=SOFT, fontsize=8, ha="right", va="top")


def _reach(axes: Axes, results: dict[str, Any]) -> None:
    settings = results["settings"]
    last = max(settings["test_delays"])
    for core, colour in _colours(settings["cores"]).items():
        curves = [_pairs(results["rows"], core, seed, "delay") for seed in settings["seeds"]]
        _curves(axes, curves, colour, marker="o", label=core)
    _percent(axes, results["chance"])
    axes.set_xlim(0, last + 1)
    marks = (
        (settings["unroll"], "unroll"),
        (settings["longest_delay"], "longest in training"),
        (settings["memory"], "one layer's memory"),
    )
    for at, name in marks:
        if at <= last:
            axes.axvline(at, color=SOFT, lw=0.8, ls=(0, (2, 2)), zorder=0)
            axes.text(at - last * 0.008, 0.18, name, color=SOFT, fontsize=8, rotation=90, ha="right", va="bottom")
    axes.set_yticklabels([])
    axes.set_xlabel("steps between the symbol and the query")
    axes.set_title("afterwards, by delay", loc="left", fontsize=10, color=INK, pad=8)


def _stream(axes: Axes, results: dict[str, Any]) -> None:
    """One stream: what it showed, and below it, per core, the answer if the query came now, as a column of colours."""
    stream, settings = results["stream"], results["settings"]
    steps, cores = len(stream["symbols"]), settings["cores"]
    for step, (symbol, marked, asked) in enumerate(zip(stream["symbols"], stream["marked"], stream["asked"], strict=True)):
        if marked:
            axes.add_patch(Rectangle((step, 0.0), 1, 1.0, fc=SYMBOL_COLOURS[symbol], ec=INK, lw=1.4, zorder=4))
        elif asked:
            axes.text(step + 0.5, 0.5, "?", ha="center", va="center", fontsize=11, weight="bold")
        else:
            axes.add_patch(Rectangle((step + 0.2, 0.3), 0.6, 0.4, fc=SYMBOL_COLOURS[symbol], alpha=0.4, lw=0))
    height, gap = 1.15, 0.28
    for row, core in enumerate(cores):
        low = -(row + 1) * (height + gap)
        shares = np.array(stream["probabilities"][core])
        tops = np.cumsum(shares, axis=1) / np.sum(shares, axis=1, keepdims=True)
        edges = np.arange(steps + 1)
        for symbol in range(shares.shape[1]):
            under = tops[:, symbol - 1] if symbol else np.zeros(steps)
            axes.fill_between(
                edges,
                low + height * np.append(under, under[-1]),
                low + height * np.append(tops[:, symbol], tops[-1, symbol]),
                step="post",
                color=SYMBOL_COLOURS[symbol],
                lw=0,
            )
    bottom = -len(cores) * (height + gap)
    for step, reset in enumerate(stream["resets"]):
        if reset and step:
            axes.plot([step, step], [bottom, 1.0], color="white", lw=2.2, zorder=3)
            axes.plot([step, step], [bottom - 0.15, 1.15], color=INK, lw=0.9, zorder=5)
    ticks = np.arange(0, steps + 1, settings["unroll"])
    axes.set_xlim(0, steps)
    axes.set_ylim(bottom - 0.15, 1.2)
    axes.set_xticks(ticks)
    axes.set_yticks([0.5] + [-(row + 1) * (height + gap) + height / 2 for row in range(len(cores))], ["shown", *cores])
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.set_xlabel(f"steps; a tick at every unroll of {settings['unroll']}, a line where an episode starts")
    seen = f"one stream, seed {settings['seeds'][0]}: what is shown (marked symbols large)"
    asked = "what each core would answer if asked after each step"
    axes.set_title(f"{seen}, and {asked}", loc="left", fontsize=10, color=INK, pad=6)


def _curves(axes: Axes, curves: list[tuple[list, list]], colour: str, *, marker: str | None, label: str | None = None) -> None:
    if len(curves) > 1:
        for xs, ys in curves:
            axes.plot(xs, ys, color=colour, lw=0.8, alpha=0.35)
    mean = np.mean([ys for _, ys in curves], axis=0)
    axes.plot(curves[0][0], mean, color=colour, lw=2, marker=marker, ms=3.5, label=label, clip_on=False, zorder=3)


def _percent(axes: Axes, chance: float) -> None:
    axes.set_ylim(0, 1.04)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1.0], ["0", "25", "50", "75", "100 %"])
    axes.grid(axis="y", color=GRID, lw=0.8)
    axes.set_axisbelow(True)
    axes.axhline(chance, color=SOFT, lw=0.9, ls=(0, (4, 3)), zorder=1)


def _sizes(results: dict[str, Any]) -> str:
    sizes = sorted({round(size["parameters"], -3) for size in results["sizes"]})
    return f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"


def _pairs(rows: list[dict[str, Any]], core: str, seed: int, x: str) -> tuple[list, list]:
    mine = [row for row in rows if row["core"] == core and row["seed"] == seed]
    return [row[x] for row in mine], [row["accuracy"] for row in mine]


def _speed(results: dict[str, Any], core: str, *, share: float) -> str:
    """After how many updates training first reported `share` right answers, and how many seeds never did."""
    updates, seeds = results["settings"]["updates"], results["settings"]["seeds"]
    firsts = []
    for seed in seeds:
        done, accuracy = _pairs(results["learning"], core, seed, "updates")
        firsts += [next((u for u, a in zip(done, accuracy, strict=True) if a >= share), None)]
    reached = [first for first in firsts if first is not None]
    if not reached:
        return f"{100 * share:.0f} % not reached in {updates} updates"
    of_seeds = "" if len(reached) == len(seeds) else f" by {len(reached)} of {len(seeds)} seeds"
    return f"{100 * share:.0f} % reached after {_mean(reached):.0f} updates{of_seeds}"


def _colours(cores: Sequence[str]) -> dict[str, str]:
    spare = iter(SPARE_LINES)
    return {core: LINES.get(core) or next(spare) for core in cores}


def _spread(delays: Sequence[int]) -> list[int]:
    """At most eight of the delays, the first and last among them."""
    chosen = np.unique(np.linspace(0, len(delays) - 1, min(8, len(delays))).round().astype(int))
    return [delays[i] for i in chosen]


def _bar(percents: Sequence[float]) -> str:
    return "".join("▁▂▃▄▅▆▇█"[min(7, int(percent / 12.5))] for percent in percents)


def _mean(values: Any) -> float:
    values = list(values)
    return float(np.mean(values)) if values else float("nan")
