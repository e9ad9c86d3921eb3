"""Folders of runs that nobody ran, as far as a comparison reads them."""

import json
from pathlib import Path
from typing import Any

NET = {"gtrxl-gru": {"layers": 2, "width": 64}, "lstm": {"layers": 1, "width": 128}}


def made_up_run(
    folder: Path, *, core: str = "lstm", seed: int = 0, level: float = 1.0, status: str | None = "finished", **more: Any
) -> Path:
    """A run of 40 reports whose return rises to `level`; one without a status has done 10 of them."""
    config = {
        "task": "t-maze",
        "core": core,
        "algorithm": "vmpo",
        "seed": seed,
        "steps": 40_000,
        "devices": seed,
        "net": NET[core],
    }
    config |= {"learner": {"learning_rate": 1e-3, "lam": 0.9}} | more
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    reports = range(1, 41 if status else 11)
    rows = [
        {
            "frames": 1000 * n,
            "updates": n,
            "seconds": 0.5 * n,
            "return_mean": level * n / 40,
            "episodes": 4,
            "frames_per_second": 2000.0,
        }
        for n in reports
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    if status:
        (folder / "result.json").write_text(json.dumps({"status": status, "normalised": None}))
    return folder
