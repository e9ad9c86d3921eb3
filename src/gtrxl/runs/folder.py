"""A run and its folder: what training leaves behind, and how it is found again.

RUN/config.json       the settings; `gtrxl train --config RUN/config.json` repeats them
RUN/metrics.jsonl     one row for each report
RUN/checkpoints/      the last two and the best
RUN/tensorboard/      the same rows, for TensorBoard
RUN/result.json       how it ended
RUN/lock              held by the process that works on it, and says which one that is
"""

import contextlib
import dataclasses
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from gtrxl.runs import lock, metrics, settings
from gtrxl.runs.checkpoints import Checkpoints
from gtrxl.runs.config import Config
from gtrxl.runs.errors import RunError, TakenError, say
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
    """`stopped` runs can be resumed; `diverged` ones ended because a loss, a gradient or a weight was no longer finite,
    `failed` ones because a task kept failing."""
    rows: list[dict[str, Any]]

    @property
    def mean_return(self) -> float | None:
        """The mean return of the episodes in the last tenth of the rows; None if no episode ended in them."""
        return late(self.rows)


def has_begun(folder: Path) -> bool:
    """Whether there is anything to lose in a run's folder: a checkpoint, a row, a result. A run that was killed before its first
    checkpoint has only its settings."""
    rows = folder / "metrics.jsonl"
    written = rows.exists() and rows.stat().st_size > 0
    return written or (folder / "result.json").exists() or not checkpoints_of(folder, read_only=True).is_empty()


def check_new(run: str | os.PathLike[str] | None) -> None:
    """Raises if the folder asked for holds a run already."""
    if run is None or not has_begun(Path(run)):
        return
    if (Path(run) / "config.json").exists():
        remedy = f"go on with it by `gtrxl resume {run}`, or choose another"
    else:
        remedy = f"`gtrxl resume {run}` finds the settings of the one that is there in its checkpoints; or choose another"
    raise TakenError(f"--run must not hold a run yet, got {run}; {remedy}")


def next_folder(config: Config[Any], run: str | os.PathLike[str] | None) -> Path:
    """Where a new run goes: the folder asked for, or the next free one under runs/."""
    if run is not None:
        return Path(run)
    task, core = (re.sub(r"[:,/]", "-", name).replace("=", "") for name in (config.task, config.core))
    name = f"{task[:LONGEST]}-{core[-LONGEST:]}-seed{config.seed}"
    folder, number = Path("runs") / name, 1
    while (folder / "config.json").exists() or has_begun(folder) or lock.holder(folder) is not None:
        number += 1
        folder = Path("runs") / f"{name}-{number}"
    return folder


@contextlib.contextmanager
def new_folder(config: Config[Any], run: str | os.PathLike[str] | None) -> Iterator[Path]:
    """The folder of a new run, made, and held as long as this lasts; the one asked for must hold no run yet."""
    with contextlib.ExitStack() as held:
        while True:
            folder = next_folder(config, run)
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise RunError(
                    f"the run cannot be written to {folder}: {error.strerror or error}; choose another folder with --run"
                ) from error
            try:
                held.enter_context(lock.hold(folder))
                check_new(folder)
                break
            except TakenError:  # somebody was quicker: the next number is free
                held.close()
                if run is not None:
                    raise
        yield folder


def read_config(run: str | os.PathLike[str], *, trust: bool = False) -> Config[Any]:
    """The settings of a run. With `trust`, code of others that they name is imported; see `settings.read`.

    Where config.json is missing, they are those that the run's checkpoints were saved with.
    """
    folder = Path(run)
    file = folder / "config.json"
    if file.exists():
        kept = checkpoints_of(folder, read_only=True).settings() is not None
        remedy = "remove the file, and the settings are taken from the run's checkpoints" if kept else ""
        return settings.read(file, trust=trust, remedy=remedy)
    if folder.is_file():
        raise RunError(
            f"a run is a folder, and an agent that is no run NAME.safetensors, zoo:NAME or hf:owner/name, got the file {folder}"
        )
    if not has_begun(folder):
        raise RunError(f"there is no run in {folder}: it has no config.json; `gtrxl train --run {folder}` makes one")
    found = checkpoints_of(folder, read_only=True).settings()
    if found is None:
        raise RunError(
            f"the run in {folder} has no config.json, and no checkpoint that holds its settings; put the file back: "
            "`gtrxl train` with the options it was made with writes the same one into another folder"
        )
    say(f"{folder} has no config.json; its settings are taken from its checkpoints")
    return settings.checked(found, where=str(folder / "checkpoints"), trust=trust)


def read_run(run: str | os.PathLike[str], *, trust: bool = False) -> Run:
    """A run as it stands on disk."""
    folder, config = Path(run), read_config(run, trust=trust)
    result = metrics.read_result(folder)
    return Run(folder=folder, config=config, status=result.get("status", "stopped"), rows=read_rows(folder, result))


def read_rows(folder: Path, result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of a run, which are no fewer than its result says."""
    file = folder / "metrics.jsonl"
    rows = metrics.read(file) if file.exists() else []
    for number, row in enumerate(rows, start=1):
        if not metrics.is_usable(row):
            raise RunError(f"every line of {file} must be a run's row, line {number} is not; remove that line")
    metrics.check_whole(folder, rows, result)
    return rows


def check_inside(folder: Path, *files: str) -> None:
    """Raises if what is written into a run's folder would be written elsewhere: a stranger's folder may have links to your files.
    Without names, all that is in it is looked at."""
    home = folder.resolve()
    for path in [folder / file for file in files] or sorted(folder.iterdir()):
        if path.is_symlink() and not (target := _target(path)).is_relative_to(home):
            raise RunError(
                f"{path} leads out of the run's folder, to {target}, which would be written; remove the link, or if it is yours, "
                "say so with --trust (trust=True)"
            )


def _target(link: Path) -> Path:
    try:
        return link.resolve()
    except (OSError, RuntimeError):  # it leads to itself
        return link.parent.resolve() / link.name


def checkpoints_of(folder: Path, *, read_only: bool = False, expected_bytes: int = 0) -> Checkpoints:
    """The checkpoints of a run."""
    return Checkpoints(folder / "checkpoints", read_only=read_only, expected_bytes=expected_bytes)
