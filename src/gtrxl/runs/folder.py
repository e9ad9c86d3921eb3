"""A run and its folder: what training leaves behind, and how it is found again.

RUN/config.json       the settings; `gtrxl train --config RUN/config.json` repeats them
RUN/metrics.jsonl     one row for each report
RUN/checkpoints/      the last two and the best
RUN/tensorboard/      the same rows, for TensorBoard
RUN/result.json       how it ended
"""

import dataclasses
import json
import os
import re
from pathlib import Path
from typing import Any, Literal

from gtrxl.runs import metrics, settings
from gtrxl.runs.checkpoints import Checkpoints
from gtrxl.runs.config import Config
from gtrxl.runs.errors import RunError
from gtrxl.runs.scores import late

LONGEST = 120
"""Letters of a task's name that the folder of its runs is called by: several tasks have long names."""
Status = Literal["finished", "stopped", "diverged", "failed"]
Which = Literal["last", "best"]


@dataclasses.dataclass(frozen=True)
class Run:
    """A run that has ended, for now or for good."""

    folder: Path
    config: Config[Any]
    status: Status
    """`stopped` runs can be resumed; `diverged` ones ended because a loss or a gradient was no longer finite, `failed` ones
    because a task kept failing."""
    rows: list[dict[str, Any]]

    @property
    def mean_return(self) -> float | None:
        """The mean return of the episodes in the last tenth of the rows; None if no episode ended in them."""
        return late(self.rows)


def check_new(run: str | os.PathLike[str] | None) -> None:
    """Raises if the folder asked for holds a run already."""
    if run is not None and (Path(run) / "config.json").exists():
        raise RunError(f"--run must not hold a run yet, got {run}; go on with it by `gtrxl resume {run}`, or choose another")


def next_folder(config: Config[Any], run: str | os.PathLike[str] | None) -> Path:
    """Where a new run goes: the folder asked for, or the next free one under runs/."""
    if run is not None:
        return Path(run)
    task, core = (re.sub(r"[:,/]", "-", name).replace("=", "") for name in (config.task, config.core))
    name = f"{task[:LONGEST]}-{core[-LONGEST:]}-seed{config.seed}"
    folder, number = Path("runs") / name, 1
    while (folder / "config.json").exists():
        number += 1
        folder = Path("runs") / f"{name}-{number}"
    return folder


def new_folder(config: Config[Any], run: str | os.PathLike[str] | None) -> Path:
    """The folder of a new run, made; the one asked for must hold no run yet."""
    check_new(run)
    folder = next_folder(config, run)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(
            f"the run cannot be written to {folder}: {error.strerror or error}; choose another folder with --run"
        ) from error
    return folder


def read_config(run: str | os.PathLike[str], *, trust: bool = False) -> Config[Any]:
    """The settings of a run. With `trust`, code of others that they name is imported; see `settings.read`."""
    folder = Path(run)
    if not (folder / "config.json").exists():
        raise RunError(f"there is no run in {folder}: it has no config.json; `gtrxl train --run {folder}` makes one")
    return settings.read(folder / "config.json", trust=trust)


def read_run(run: str | os.PathLike[str], *, trust: bool = False) -> Run:
    """A run as it stands on disk."""
    folder, config = Path(run), read_config(run, trust=trust)
    result = folder / "result.json"
    status = json.loads(result.read_text())["status"] if result.exists() else "stopped"
    rows = metrics.read(folder / "metrics.jsonl") if (folder / "metrics.jsonl").exists() else []
    return Run(folder=folder, config=config, status=status, rows=rows)


def checkpoints_of(folder: Path, *, read_only: bool = False, expected_bytes: int = 0) -> Checkpoints:
    """The checkpoints of a run."""
    return Checkpoints(folder / "checkpoints", read_only=read_only, expected_bytes=expected_bytes)
