"""Rows of runs that never were: what a report is tried on."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np


def row(model: str = "LSTM", number: int = 0, *, level: float = 10.0, points: int = 20, **changes: Any) -> dict[str, Any]:
    """One run whose return rises to a level."""
    frames = np.linspace(1e5 / points, 1e5, points)
    curve = [[int(at), float(level * (1 - np.exp(-5 * at / 1e5))), 40] for at in frames]
    return {
        "set": "gates",
        "scale": "quick",
        "run": f"{model}.{number:02d}",
        "model": model,
        "core": "lstm",
        "task": "grid-numpad",
        "goal": "grid-numpad",
        "dial": None,
        "draw": number,
        "seed": number,
        "bounds": {"eps_alpha": 0.001 * (number + 1)},
        "status": "finished",
        "diverged_at_frames": None,
        "planned_frames": 100_000,
        "frames": 100_000,
        "seconds": 36.0,
        "frames_per_second": 1000.0,
        "curve": curve,
        "scores": {"random": 0.0, "perfect memory": 50.0},
        "parameters": 1000,
        "state_bytes": 64,
        "commits": ["0123456789"],
        **changes,
    }


def rows(levels: Mapping[str, Sequence[float]], **changes: Any) -> Iterator[dict[str, Any]]:
    """A run for every level of every model."""
    for model, each in levels.items():
        for number, level in enumerate(each):
            yield row(model, number, level=level, **changes)


def write(folder: Path, made: Iterator[dict[str, Any]] | list[dict[str, Any]], *, name: str = "some") -> Path:
    """Into FOLDER/NAME/rows.jsonl."""
    file = folder / name / "rows.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(each) + "\n" for each in made))
    return file
