"""Rows of runs, as `gtrxl reproduce` writes them: reading, and what cannot be read said by name. Needs no JAX.

A row is one run. What is needed of it is checked here once; a row that lacks it is named, with the reason, and left out.
"""

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Row = Mapping[str, Any]
NEEDED: Mapping[str, type | tuple[type, ...]] = {
    "set": str,
    "scale": str,
    "run": str,
    "model": str,
    "task": str,
    "goal": str,
    "draw": int,
    "seed": int,
    "status": str,
    "planned_frames": int,
    "frames": int,
    "curve": list,
}
ENDED = ("finished", "diverged")


@dataclasses.dataclass(frozen=True)
class Found:
    """What is in a folder: rows that can be used, and why others cannot."""

    rows: tuple[Row, ...]
    problems: tuple[str, ...]

    def of(self, runs: str) -> list[Row]:
        """The rows of a set, all of its scales."""
        return [row for row in self.rows if row["set"] == runs]


def read(folder: Path) -> Found:
    """All rows under a folder. Files that are not rows are left alone."""
    rows: list[Row] = []
    problems: list[str] = []
    seen: dict[tuple[str, str, str], str] = {}
    for file in sorted(folder.rglob("rows.jsonl")):
        where = file.relative_to(folder).as_posix()
        try:
            lines = file.read_text(errors="replace").splitlines()
        except OSError as error:
            problems.append(f"{where} cannot be read: {error.strerror}")
            continue
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            row, wrong = _checked(line)
            if row is None:
                problems.append(f"{where}, line {number}: {wrong}; left out")
                continue
            name = (row["set"], row["scale"], row["run"])
            if name in seen:
                problems.append(f"{where}, line {number}: run {row['run']} is in {seen[name]} already; counted once")
                continue
            seen[name] = where
            rows.append(row)
    return Found(tuple(rows), tuple(problems))


def _checked(line: str) -> tuple[Row | None, str]:
    try:
        row = json.loads(line)
    except ValueError:
        return None, "not a whole line of JSON"
    if not isinstance(row, dict):
        return None, f"a row must be an object, got {type(row).__name__}"
    for name, kind in NEEDED.items():
        if name not in row:
            return None, f"run {row.get('run', '?')} has no {name!r}"
        if not isinstance(row[name], kind) or isinstance(row[name], bool):
            return None, f"run {row.get('run', '?')}: {name} must be {getattr(kind, '__name__', kind)}, got {row[name]!r:.40}"
    try:
        points = np.asarray(row["curve"], np.float64).reshape(-1, 3)
    except (TypeError, ValueError):
        return None, f"run {row['run']}: its curve must have [frames, return, episodes] in each point"
    if not np.isfinite(points).all():
        return None, f"run {row['run']}: its curve has numbers that are not finite"
    return row, ""


def usable(rows: Sequence[Row]) -> tuple[list[Row], list[str]]:
    """The runs that have ended, and the names of those that have not: these are not averaged with the others."""
    ended = [row for row in rows if row["status"] in ENDED]
    others = [row for row in rows if row["status"] not in ENDED]
    left = [f"{row['run']} ({row['status']}, {row['frames'] / max(1, row['planned_frames']):.0%})" for row in others]
    return ended, left


def score(row: Row, *, share: float = 1.0, episodes: int = 200) -> float | None:
    """The mean return of the last `episodes` episodes before a share of the budget: the paper's measure.

    A run that has diverged by then scores 0, as in the paper; one without an episode until then has no score.
    """
    until = share * row["planned_frames"]
    diverged = row.get("diverged_at_frames")
    if diverged is not None and diverged <= until:
        return 0.0
    total = count = 0.0
    for frames, mean, ended in reversed(row["curve"]):
        if frames > until * 1.01:
            continue
        total, count = total + mean * ended, count + ended
        if count >= episodes:
            break
    return total / count if count else None


def normalised(row: Row, value: float) -> float | None:
    """0 at the random policy, 100 at the player with a perfect memory; None where these are not known."""
    known = row.get("scores")
    if not isinstance(known, dict) or not {"random", "perfect memory"} <= set(known):
        return None
    low, high = known["random"], known["perfect memory"]
    return 100 * (value - low) / (high - low) if math.isfinite(high - low) and high != low else None
