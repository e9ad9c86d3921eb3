"""Rows of runs, as `gtrxl reproduce` writes them: reading, and what cannot be read said by name. Needs no JAX.

A row is one run. What is needed of it is checked here once; a row that lacks it is named, with the reason, and left out.
"""

import dataclasses
import json
import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gtrxl.experiments.catalogue import RUNS, SCALES
from gtrxl.tasks.scale import of_100

Row = Mapping[str, Any]
Kind = type | tuple[type, ...]
NEEDED: dict[str, Kind] = {
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
OPTIONAL: dict[str, Kind] = {
    "dial": (int, float),
    "diverged_at_frames": int,
    "seconds": (int, float),
    "frames_per_second": (int, float),
    "parameters": int,
    "state_bytes": int,
    "bounds": dict,
    "scores": dict,
    "splits": dict,
    "commits": list,
    "config": dict,
}
"""What a row may also have, or have as null."""
ENDED = ("finished", "diverged")
OWN = ("seed", "devices", "fleet")
"""Settings that may differ between runs of one model: the draw's, and where it was done."""


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
    seen: dict[tuple[str | int, ...], str] = {}
    for file in sorted(_files(folder)):
        where = file.relative_to(folder).as_posix()
        try:
            lines = file.read_text(encoding="utf-8", errors="replace").split("\n")
        except OSError as error:
            problems.append(f"{where} cannot be read: {error.strerror}")
            continue
        if not any(line.strip() for line in lines):
            problems.append(f"{where} is empty")
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            row, wrong = _checked(line)
            if row is None:
                problems.append(f"{where}, line {number}: {wrong}; left out")
                continue
            names = ((row["set"], row["scale"], row["run"]), *[tuple(row[key] for key in _PLACE)])
            known = next((seen[name] for name in names if name in seen), None)
            if known is not None:
                problems.append(f"{where}, line {number}: run {row['run']} is in {known} already; counted once")
                continue
            seen |= dict.fromkeys(names, where)
            rows.append(row)
    return Found(tuple(rows), (*problems, *_without_rows(folder)))


def _files(folder: Path) -> Iterator[Path]:
    """Every file of rows. Not by `rglob`: in the folders of runs that are under way, checkpoints come and go."""
    for place, folders, names in os.walk(folder):
        if "rows.jsonl" in (*names, *folders):
            yield Path(place, "rows.jsonl")
            folders[:] = [name for name in folders if name != "runs"]


_PLACE = ("set", "scale", "model", "goal", "draw")
"""What a run is in its experiment, whatever its name."""


def _without_rows(folder: Path) -> list[str]:
    """Folders of runs that nobody has made rows of."""
    places = sorted(place for depth in ("runs", "*/runs", "*/*/runs") for place in folder.glob(depth))
    return [
        f"{place.relative_to(folder).as_posix()} has folders of runs, but there is no rows.jsonl beside it; "
        "the same `gtrxl reproduce` again makes it"
        for place in places
        if place.is_dir() and any(place.iterdir()) and not (place.parent / "rows.jsonl").exists()
    ]


def _checked(line: str) -> tuple[Row | None, str]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None, "not a whole line of JSON"
    if not isinstance(row, dict):
        return None, f"a row must be an object, got {type(row).__name__}"
    for name in NEEDED:
        if name not in row:
            return None, f"run {row.get('run', '?')!s:.60} has no {name!r}"
    wrong = next(filter(None, (check(row) for check in (_wrong_kind, _wrong_place, _wrong_curves))), None)
    return (row, "") if wrong is None else (None, f"run {row['run']!s:.60}: {wrong}")


def _wrong_kind(row: Row) -> str | None:
    for name, kind in (NEEDED | OPTIONAL).items():
        value = row.get(name)
        if value is None and name in OPTIONAL:
            continue
        if not isinstance(value, kind) or isinstance(value, bool):
            told = " or ".join(each.__name__ for each in (kind if isinstance(kind, tuple) else (kind,)))
            return f"{name} must be {told}, got {value!r:.40}"
        if isinstance(value, int | float) and not _is_number(value):
            return f"{name} must be finite, got {value!r:.40}"
    for name in ("bounds", "scores"):
        for key, value in (row.get(name) or {}).items():
            if not _is_number(value) or (name == "bounds" and value <= 0):
                return f"{key!r:.40} of its {name} must be a{' positive' * (name == 'bounds')} number, got {value!r:.40}"
    if row["planned_frames"] < 1:
        return f"planned_frames must be at least 1, got {row['planned_frames']}"
    return None


def _wrong_place(row: Row) -> str | None:
    """Whether it belongs to none of our experiments."""
    if row["set"] not in RUNS:
        return f"set must be one of {', '.join(RUNS)}, got {row['set']!r:.40}"
    if row["scale"] not in SCALES:
        return f"scale must be one of {', '.join(SCALES)}, got {row['scale']!r:.40}"
    models = {model.label for scale in RUNS[row["set"]].scales.values() for model in scale.models}
    return None if row["model"] in models else f"model {row['model']!r:.60} is none of {row['set']}'s"


def _wrong_curves(row: Row) -> str | None:
    named = {"curve": row["curve"], **{f"curve of {split!r:.20}": curve for split, curve in (row.get("splits") or {}).items()}}
    wrong = ((name, _wrong_curve(curve)) for name, curve in named.items())
    return next((f"its {name} {reason}" for name, reason in wrong if reason is not None), None)


def _wrong_curve(curve: Any) -> str | None:
    if curve == []:
        return None
    try:
        points: np.ndarray = np.asarray(curve)
    except ValueError:
        points = np.empty(0)
    if points.dtype.kind not in "if" or points.ndim != 2 or points.shape[-1] != 3:
        return "must have the numbers [frames, return, episodes] in each point"
    if not np.isfinite(points).all():
        return "has numbers that are not finite"
    if not (np.diff(points[:, 0], prepend=-1) > 0).all() or (points[:, 2] < 0).any():
        return "must go on in frames, with no fewer than 0 episodes in each point"
    return None


def _is_number(value: Any) -> bool:
    # An int of JSON can be larger than any float.
    return not isinstance(value, bool) and (
        (isinstance(value, int) and abs(value) < 2**63) or (isinstance(value, float) and math.isfinite(value))
    )


def usable(rows: Sequence[Row]) -> tuple[list[Row], list[str]]:
    """The runs that can be averaged with each other, and the others by name, with the reason.

    A run that has not ended is not averaged, nor one with other settings than most runs of its model on its task.
    """
    left = [
        f"{row['run']} ({row['status']}, {row['frames'] / row['planned_frames']:.0%})"
        for row in rows
        if row["status"] not in ENDED
    ]
    ended = [row for row in rows if row["status"] in ENDED]
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in ended:
        groups.setdefault((row["goal"], row["model"]), []).append(row)
    odd: set[int] = set()
    for group in groups.values():
        settings = [_settings(row) for row in group]
        told = [json.dumps(each, sort_keys=True) for each in settings]
        most = settings[told.index(Counter(told).most_common(1)[0][0])]
        for row, mine in zip(group, settings, strict=True):
            # A setting that only one of them has came to be between the two runs: that is no difference.
            key = next((key for key in mine if key in most and mine[key] != most[key]), None)
            if key is not None:
                left.append(f"{row['run']} ({key} {mine[key]!r:.40}, most runs of {row['model']} have {most[key]!r:.40})")
                odd.add(id(row))
    return [row for row in ended if id(row) not in odd], left


def _settings(row: Row) -> dict[str, Any]:
    """What runs of one model must have in common."""
    config = {key: value for key, value in (row.get("config") or {}).items() if key not in OWN}
    for part in [name for name, value in config.items() if isinstance(value, dict)]:
        inner = config.pop(part)
        config |= {f"{part}.{key}": value for key, value in inner.items() if key not in (row.get("bounds") or {})}
    return {"task": row["task"], "planned_frames": row["planned_frames"], **config}


def score(row: Row, *, share: float = 1.0, episodes: int = 200) -> float | None:
    """The mean return of the last `episodes` episodes before a share of the budget: the paper's measure.

    A run that has diverged by then scores 0, as in the paper; one without an episode until then has no score.
    """
    until = share * row["planned_frames"]
    diverged = diverged_at(row)
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


def diverged_at(row: Row) -> int | None:
    """Frames after which its loss was not finite; None if it always was."""
    at = row.get("diverged_at_frames")
    return row["frames"] if at is None and row["status"] == "diverged" else at


def normalised(row: Row, value: float) -> float | None:
    """0 at the random policy, 100 at the player with a perfect memory; None where these are not known."""
    known = row.get("scores")
    if not isinstance(known, dict) or not {"random", "perfect memory"} <= set(known):
        return None
    found = of_100(value, random=known["random"], best=known["perfect memory"])
    return found if math.isfinite(found) else None
