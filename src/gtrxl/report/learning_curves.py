"""Learning curves of many runs: rows on disk -> one table, one figure. Needs no JAX.

A record is one run: task, core, seed, command, and its points (frames, seconds, return).
"""

import statistics
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gtrxl.runs import sealed
from gtrxl.runs.metrics import read, read_result
from gtrxl.runs.scores import late, steadiness

Record = Mapping[str, Any]

COLOURS = {
    "gtrxl-gru": "#1b6ca8",
    "trxl-i": "#3a9d5d",
    "trxl": "#c98a1b",
    "lstm": "#b5443c",
    "gru": "#8c5a9e",
    "none": "#7a7a7a",
}
"""One colour for each core, in every figure."""

KEPT_POINTS = 60


def record(folder: Path, *, command: str) -> dict[str, Any]:
    """What a figure needs of one run's folder."""
    config = sealed.read(folder / "config.json", remedy="leave this run out")
    result = read_result(folder) or {"status": "unfinished"}
    rows = read(folder / "metrics.jsonl")
    seen = [row for row in rows if row["return_mean"] is not None]
    return {
        "task": config["task"],
        "core": config["core"],
        "seed": config["seed"],
        "algorithm": config["algorithm"],
        "devices": config["devices"],
        "command": command,
        "status": result["status"],
        "return": None if (mean := late(seen)) is None else round(mean, 3),
        "steadiness": None if (kept := steadiness(rows)) is None else round(kept, 3),
        "frames": rows[-1]["frames"] if rows else 0,
        "seconds": round(rows[-1]["seconds"], 1) if rows else 0.0,
        "points": points_of(rows),
    }


def points_of(rows: Sequence[Mapping[str, Any]]) -> list[list[int | float]]:
    """[frames, seconds, return] of a run's curve: its rows with a return, put together so that there are 60 to 120 at most."""
    seen = [row for row in rows if row["return_mean"] is not None]
    every = max(1, len(seen) // KEPT_POINTS)
    points = []
    for first in range(0, len(seen), every):
        part = seen[first : first + every]
        episodes = sum(row["episodes"] for row in part)
        mean = sum(row["return_mean"] * row["episodes"] for row in part) / episodes
        points.append([part[-1]["frames"], round(part[-1]["seconds"], 1), round(mean, 3)])
    return points


def first_above(of: Record, level: float) -> tuple[int, float] | None:
    """Frames and seconds at which a run's curve first reached a level."""
    return next(((frames, seconds) for frames, seconds, mean in of["points"] if mean >= level), None)


def around(of: Record, frames: int) -> float | None:
    """The mean of a run's curve over the last tenth of its first `frames` frames; None if it has no point there."""
    near = [mean for at, _, mean in of["points"] if 0.9 * frames <= at <= 1.01 * frames]
    return statistics.mean(near) if near else None


def equal_frames(records: Sequence[Record], frames: int) -> str:
    """Markdown: one line for each core, the seeds one by one, all after the same number of frames; who has fewer is left out."""
    lines = [f"| core | return of each seed after {frames / 1e6:.3g} M frames | median |", "|---|---|---:|"]
    for core in dict.fromkeys(each["core"] for each in records):
        runs = sorted((each for each in records if each["core"] == core), key=lambda each: each["seed"])
        levels = [level for each in runs if each["frames"] >= 0.99 * frames and (level := around(each, frames)) is not None]
        if levels:
            lines.append(f"| {core} | {', '.join(f'{level:.1f}' for level in levels)} | {statistics.median(levels):.1f} |")
    return "\n".join(lines)


def table(records: Sequence[Record]) -> str:
    """Markdown: one line for each task and core, the seeds one by one."""
    lines = ["| task | core | late return of each seed | median | frames | minutes a run |", "|---|---|---|---:|---:|---:|"]
    for task, core in dict.fromkeys((each["task"], each["core"]) for each in records):
        runs = sorted((each for each in records if (each["task"], each["core"]) == (task, core)), key=lambda each: each["seed"])
        scores = [each["return"] for each in runs if each["return"] is not None]
        told = ", ".join("-" if each["return"] is None else f"{each['return']:.1f}" for each in runs)
        minutes = statistics.mean(each["seconds"] for each in runs) / 60
        frames = max(each["frames"] for each in runs) / 1e6
        middle = f"{statistics.median(scores):.1f}" if scores else "-"
        lines.append(f"| {task} | {core} | {told} | {middle} | {frames:.1f} M | {minutes:.1f} |")
    return "\n".join(lines)


def middle(curves: Sequence[Sequence[Sequence[int | float]]]) -> tuple[list[int | float], list[float]]:
    """Frames, and the median of the curves there: as far as all of them go, each read between its own points."""
    first, last = max(points[0][0] for points in curves), min(points[-1][0] for points in curves)
    frames = sorted({at for points in curves for at, *_ in points if first <= at <= last})
    read = [np.interp(frames, [p[0] for p in points], [p[2] for p in points]) for points in curves]
    return frames, np.median(read, axis=0).tolist()


def draw(
    records: Sequence[Record],
    scores: Mapping[str, Mapping[str, float]],
    files: Sequence[Path],
    *,
    title: str = "",
    columns: int = 2,
) -> None:
    """One panel for each task: every seed a thin line, their median a thick one; `scores` has levels by task and name."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    tasks = list(dict.fromkeys(each["task"] for each in records))
    wide = min(columns, len(tasks))
    high = -(-len(tasks) // wide)
    figure, axes = plt.subplots(high, wide, figsize=(7.6 * wide, 3.7 * high), squeeze=False, layout="constrained")
    for axis in axes.flat[len(tasks) :]:
        axis.set_visible(False)
    for axis, task in zip(axes.flat, tasks, strict=False):
        here = [each for each in records if each["task"] == task and each["points"]]
        for level, name in shared_levels(scores.get(task, {})):
            axis.axhline(level, color="#bbbbbb", linewidth=0.9, linestyle=(0, (4, 3)), zorder=0)
            at = {"xy": (0.995, level), "xycoords": ("axes fraction", "data"), "ha": "right", "va": "bottom"}
            axis.annotate(f"{name} {level:.3g}", **at, fontsize=8, color="#777777")
        for core in dict.fromkeys(each["core"] for each in here):
            runs = [each["points"] for each in here if each["core"] == core]
            colour = COLOURS.get(core, "#444444")
            for points in runs:
                axis.plot([p[0] / 1e6 for p in points], [p[2] for p in points], color=colour, linewidth=0.8, alpha=0.45)
            label = f"{core} ({len(runs)} seed{'s' if len(runs) > 1 else ''})"
            frames, levels = middle(runs)
            axis.plot([at / 1e6 for at in frames], levels, color=colour, linewidth=2.0, label=label)
        name, _, settings = task.partition(":")
        axis.set_title("\n".join([name, *textwrap.wrap(settings.replace(",", ", "), 70)]), fontsize=10)
        axis.set_xlabel("million frames")
        axis.set_ylabel("return")
        axis.set_ylim(bottom=0)
        axis.set_xlim(left=0)
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1.01, 0.5))
    if title:
        figure.suptitle(title, fontsize=11)
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file, dpi=110, metadata={"Date": None} if file.suffix == ".svg" else None)
    plt.close(figure)


def shared_levels(scores: Mapping[str, float]) -> list[tuple[float, str]]:
    """Levels with their names; those that would be drawn over each other share one line."""
    if not scores:
        return []
    apart = 0.04 * max(scores.values())
    shared: list[tuple[float, str]] = []
    for name, level in sorted(scores.items(), key=lambda named: named[1]):
        if shared and level - shared[-1][0] < apart:
            shared[-1] = (shared[-1][0], f"{shared[-1][1]}, {name}")
        else:
            shared.append((level, name))
    return shared
