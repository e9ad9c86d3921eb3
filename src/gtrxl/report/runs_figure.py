"""The figure of compared runs: a panel for each task, every run a thin line, each group's median a thick one. Needs no JAX."""

import textwrap
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from gtrxl.report.errors import ReportError
from gtrxl.report.learning_curves import shared_levels
from gtrxl.report.runs import Compared, Group

COLOURS = ("#2f7fc1", "#c4524a", "#3c9f61", "#c9902a", "#8e63b5", "#2f9e9e", "#d0719b", "#7d8a2e", "#5f7a8a", "#a06a3f")
KINDS = (".png", ".svg")
LEGEND = 34
"""Letters in a line of the legend."""
STYLE: Any = {
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "gtrxl",
}


def check_kind(file: Path) -> None:
    """Whether a figure can be written to this file; said before runs are read."""
    if file.suffix.lower() not in KINDS:
        raise ReportError(f"a figure's file must end in .png or .svg, got {file}; for example {file.with_suffix('.png')}")


def draw(compared: Compared, file: Path) -> None:
    """Draws them into the file; its ending says the kind."""
    check_kind(file)
    tasks = compared.tasks
    with rc_context(STYLE):
        figure = Figure(figsize=(8.6, 0.4 + 3.4 * len(tasks)), layout="constrained", facecolor="white")
        panels = figure.subplots(len(tasks), 1, squeeze=False)
        for axes, task in zip(panels[:, 0], tasks, strict=True):
            groups = [group for group in compared.groups if group.task == task]
            _panel(axes, task, groups, without=("task",) if len(tasks) > 1 or len(groups) > 1 else ())
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file, dpi=140, metadata={"Date": None} if file.suffix.lower() == ".svg" else None)


def _panel(axes: Axes, task: str, groups: list[Group], *, without: tuple[str, ...]) -> None:
    for level, name in shared_levels(groups[0].runs[0].levels):
        axes.axhline(level, color="#bbbbbb", linewidth=0.9, linestyle=(0, (4, 3)), zorder=0)
        at = {"xy": (0.995, level), "xycoords": ("axes fraction", "data"), "ha": "right", "va": "bottom"}
        axes.annotate(f"{name} {level:.3g}", **at, fontsize=7.5, color="#777777")
    for number, group in enumerate(groups):
        colour = COLOURS[number % len(COLOURS)]
        if len(group.runs) > 1:
            for run in group.runs:
                axes.plot([x for x, _ in run.points], [y for _, y in run.points], color=colour, linewidth=0.8, alpha=0.4)
        middle = group.median_curve()
        alone = {"marker": "o", "markersize": 4} if len(middle) == 1 else {}
        label = "\n".join(textwrap.wrap(_legend(group, without), LEGEND))
        axes.plot([x for x, _ in middle], [y for _, y in middle], color=colour, linewidth=2.2, label=label, **alone)
    axes.set_title("\n".join(textwrap.wrap(task.replace(",", ", ").replace("+", " + "), 80)), fontsize=9.5, loc="left")
    axes.set_xlabel("frames")
    axes.set_ylabel("return")
    axes.set_xlim(left=0)
    if not any(run.points for group in groups for run in group.runs):
        axes.set(xticks=[], yticks=[])
        axes.text(0.5, 0.5, "no episode ended", transform=axes.transAxes, ha="center", va="center", color="#777777")
        return
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.legend(frameon=False, fontsize=8.5, loc="center left", bbox_to_anchor=(1.01, 0.5), labelspacing=0.9)


def _legend(group: Group, without: tuple[str, ...]) -> str:
    label = group.label(without=without)
    several = f" ({len(group.runs)} runs)" if len(group.runs) > 1 and not label.endswith(" runs") else ""
    return label + several + ("" if any(run.points for run in group.runs) else " (no episode ended)")
