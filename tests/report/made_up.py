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


def everything(home: Path) -> None:
    """Rows for every kind of figure: names as long as the real ones, a run that diverged, one under way, a line that was cut."""
    gates = {model: [level * (0.9 + 0.05 * n) for n in range(3)] for model, level in GATES.items()}
    cut = write(home, list(rows(gates, config={"streams": 8})), name="gates")
    cut.write_text(cut.read_text() + json.dumps(row())[:200])
    levels = {model: gates[model] for model in ("GTrXL (GRU)", "LSTM", "TrXL")}
    ranked = [*rows(levels, set="sensitivity"), row("TrXL-I", set="sensitivity", status="diverged", diverged_at_frames=5000)]
    write(home, [*ranked, row("TrXL-I", 1, set="sensitivity", status="under way")], name="sensitivity")
    write(home, list(rows({"b_g = 2": (9, 8, 9), "b_g = 0": (4, 5, 3)}, set="identity-init")), name="identity")
    far = {"GTrXL (GRU), memory 64": (1, 1, 0.99), "TrXL-I, memory 64": (1, 1, 0.98), "LSTM": (1, 0.5, 0.6)}
    write(home, _at_dials({model: levels[model] for model in ("GTrXL (GRU)", "LSTM")}, (2, 3, 4), set="numpad"), name="numpad")
    write(home, _at_dials(far, (8, 16, 32), set="horizon"), name="horizon")
    deep = {model: gates[model] for model in ("GTrXL (GRU)", "GTrXL (Output)", "TrXL-I")}
    write(home, [each | {"steadiness": 0.9} for each in _at_dials(deep, (4, 52), set="depth")], name="depth")
    rates = [each | {"bounds": {"learning_rate": 1e-3 * 3 ** each["draw"]}} for each in rows(levels, set="rates")]
    write(home, [*rates, row("TrXL-I", set="rates", bounds={"learning_rate": 0.03}, status="diverged")], name="rates")
    of_levels = {"set": "final", "task": "lab12", "goal": "lab12", "scores": {"random": 0.0, "perfect memory": 100.0}}
    split = [
        each | {"splits": _halves(each["curve"])}
        for each in rows({"LSTM": (20, 21, 22), "GTrXL (GRU)": (40, 41, 42)}, **of_levels)
    ]
    write(home, split, name="final")
    write(home, list(rows({"LSTM": (8, 9, 7), "GTrXL (GRU)": (47, 48, 46)}, set="sphere")), name="sphere")
    long = "psychlab_arbitrary_visuomotor_mapping:height=24,width=32,images=4"
    write(home, list(rows({"LSTM": (3, 4, 5)}, set="avm", task=long, goal=long, scores=None)), name="avm")


GATES = {
    "LSTM": 20,
    "TrXL": 2,
    "TrXL-I": 25,
    "GTrXL (GRU)": 41,
    "GTrXL (Input)": 12,
    "GTrXL (Output)": 33,
    "GTrXL (Highway)": 18,
    "GTrXL (SigTanh)": 24,
    "Thin GTrXL (GRU)": 30,
}


def _halves(curve: Sequence[Sequence[float]]) -> dict[str, list[list[float]]]:
    """Better than the whole on one split, worse on the other."""
    return {name: [[at, mean * by, 40] for at, mean, _ in curve] for name, by in {"memory": 0.5, "reactive": 1.5}.items()}


def _at_dials(levels: Mapping[str, Sequence[float]], dials: Sequence[int], **changes: Any) -> list[dict[str, Any]]:
    return [
        each | {"run": f"{each['run']}.{dial}"}
        for dial in dials
        for each in rows(levels, goal=f"{dial} x {dial}", dial=dial, **changes)
    ]
