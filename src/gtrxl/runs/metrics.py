"""Metric rows: one line of JSON for each report on disk; the same to TensorBoard, Weights & Biases, a function of one's own.

Numbers are written so that reading them gives the same bits. JSON has no NaN and no infinity: both are written as null.
"""

import json
import math
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from gtrxl.runs.errors import RunError, first_line

# What a clock says differs between two runs that are otherwise the same to the bit.
CLOCK_FIELDS = ("seconds", "frames_per_second")


class Rows:
    """An append-only file of rows. Each row is one write of a whole line: a kill leaves at most a torn last line.

    A torn last line is dropped on opening.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._open()
            self._mend()
        except OSError as error:
            raise self._cannot_write(error) from error

    def write(self, row: Mapping[str, Any]) -> None:
        """Append one row; on return the system has it."""
        line = json.dumps(_as_json(row), allow_nan=False).encode() + b"\n"
        try:
            written = os.write(self._file, line)
            # A disk that fills up takes the beginning of a line first.
            while written < len(line):
                written += os.write(self._file, line[written:])
        except OSError as error:
            raise self._cannot_write(error) from error

    def truncate_after(self, *, updates: int) -> None:
        """Remove the rows later than `updates`: a resumed run writes them again. The file changes at once or not at all."""
        lines = self.path.read_bytes().splitlines(keepends=True)
        kept = [line for line in lines if json.loads(line).get("updates", 0) <= updates]
        if len(kept) == len(lines):
            return
        fresh = self.path.with_name(self.path.name + ".new")
        try:
            with fresh.open("wb") as file:
                file.writelines(kept)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(self.path)
            os.close(self._file)
            self._file = self._open()
        except OSError as error:
            raise self._cannot_write(error) from error

    def close(self) -> None:
        """Nothing can be written after this."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1

    def _open(self) -> int:
        return os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)

    def _mend(self) -> None:
        if not self.path.is_file():
            return
        content = self.path.read_bytes()
        tail = content[content.rfind(b"\n") + 1 :]
        if not tail:
            return
        if _is_whole(tail):
            os.write(self._file, b"\n")
        else:
            os.ftruncate(self._file, len(content) - len(tail))

    def _cannot_write(self, error: OSError) -> RunError:
        return RunError(
            f"metrics cannot be written to {self.path}: {first_line(error)}; free some space or choose another folder"
        )


class NoRows:
    """Writes nothing."""

    def write(self, row: Mapping[str, Any]) -> None:
        """Write nothing."""

    def close(self) -> None:
        """Nothing to finish."""


def read(path: str | Path) -> list[dict[str, Any]]:
    """All rows of a file, without a torn last line; it may be being written."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise RunError(f"there are no metrics at {path}: {first_line(error)}; a run writes its rows to metrics.jsonl") from error
    lines = content.split(b"\n")
    if not _is_whole(lines[-1]):
        lines.pop()
    rows = []
    for number, line in enumerate(lines, start=1):
        if not _is_whole(line):
            raise RunError(f"every line of {path} must be a JSON object, line {number} is not: {line[:60]!r}; remove that line")
        rows.append(json.loads(line))
    return rows


def without_clock(row: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a row that is the same in every run with the same settings."""
    return {name: value for name, value in row.items() if name not in CLOCK_FIELDS}


class Board:
    """TensorBoard: every number of a row under its name, against the frames; lists and dicts as `name/part`.

    `resume_at` is the number of frames at which a resumed run goes on; TensorBoard then hides what was drawn after it.
    """

    def __init__(self, folder: str | Path, *, resume_at: int | None = None):
        from tensorboardX import SummaryWriter

        try:
            # Frames beyond the last that counts are hidden, and the last itself is not drawn again.
            self._writer = SummaryWriter(str(folder), purge_step=None if resume_at is None else resume_at + 1)
        except OSError as error:
            raise RunError(f"TensorBoard cannot write to {folder}: {first_line(error)}; choose another folder") from error

    def write(self, row: Mapping[str, Any]) -> None:
        """Draw every finite number of a row at its `frames`."""
        for name, value in _numbers(_as_json(row)):
            if name not in ("frames", "updates"):
                self._writer.add_scalar(name, value, global_step=int(row["frames"]))

    def close(self) -> None:
        """Finish writing."""
        self._writer.close()


class NoBoard:
    """Draws nothing."""

    def write(self, row: Mapping[str, Any]) -> None:
        """Draw nothing."""

    def close(self) -> None:
        """Nothing to finish."""


class WandB:
    """Weights & Biases: every number of a row under its name, against the frames; parts as `name/part`.

    The id of its run is kept in `folder`, the run's own, so that a resumed run goes on in the same one. Without a network
    WANDB_MODE=offline keeps everything in that folder, for `wandb sync` later. `settings` are shown beside the curves.
    """

    def __init__(self, folder: str | Path, *, settings: Mapping[str, Any], project: str = "gtrxl"):
        try:
            import wandb
        except ImportError as error:
            raise RunError(
                f"Weights & Biases must be installed to be written to, got {first_line(error)}; pip install 'gtrxl[wandb]'"
            ) from error
        folder = Path(folder)
        told = {"project": project, "name": folder.absolute().name, "config": _as_json(settings), "dir": str(folder)}
        kept = _kept_id(folder / "wandb.json")
        quiet = {"silent": True, "console": "off"}  # its own lines would be drawn over by the live view
        try:
            self._run = wandb.init(id=kept, resume="allow", settings=quiet, **told)
        except Exception as error:  # it has many kinds, and none that covers all
            raise RunError(
                f"Weights & Biases cannot be written to: {first_line(error).rstrip('.')}; "
                "`wandb login` once, or WANDB_MODE=offline for a machine without a network"
            ) from error

    @property
    def address(self) -> str | None:
        """Where the curves are to be seen; None offline."""
        return None if self._run.offline else self._run.url

    def write(self, row: Mapping[str, Any]) -> None:
        """Every finite number of a row, at its `frames`. What a resumed run writes again is the same, and is there already."""
        frames = int(row["frames"])
        if frames >= self._run.step:
            self._run.log(dict(_numbers(_as_json(row))), step=frames)

    def close(self) -> None:
        """Finish writing."""
        self._run.finish()


def _kept_id(file: Path) -> str:
    """The id that is in this file; a new one is put there if there is none."""
    try:
        if file.exists():
            return str(json.loads(file.read_text())["id"])
        fresh = secrets.token_hex(8)
        file.write_text(json.dumps({"id": fresh}) + "\n")
        return fresh
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(
            f"{file} must hold the id of the run at Weights & Biases: {first_line(error)}; remove it to begin another one there"
        ) from error


class Callback:
    """A function that is given each row as a dict of plain Python, for what else shall be done with it."""

    def __init__(self, function: Callable[[dict[str, Any]], Any]):
        self._function = function

    def write(self, row: Mapping[str, Any]) -> None:
        """Call it. What it raises ends the run: a mistake that is passed over would be found when the run is over."""
        try:
            self._function(_as_json(row))
        except Exception as error:
            raise RunError(
                f"the callback {_name(self._function)} failed at {row.get('frames', 0)} frames: {type(error).__name__}: "
                f"{first_line(error)}; mend it, and go on with the run by resume"
            ) from error

    def close(self) -> None:
        """Nothing to finish."""


def _name(function: Any) -> str:
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return f"{getattr(function, '__module__', None) or type(function).__module__}.{name}"


@runtime_checkable
class Writer(Protocol):
    """Where rows go."""

    def write(self, row: Mapping[str, Any]) -> None:
        """One report."""

    def close(self) -> None:
        """Finish writing."""


class Metrics:
    """Rows on disk and wherever else they go, written together; the disk first, since it is what a run goes on from."""

    def __init__(self, rows: Rows | NoRows, *others: Writer):
        self._writers: tuple[Writer, ...] = (rows, *others)

    def write(self, row: Mapping[str, Any]) -> None:
        """One report, everywhere."""
        for writer in self._writers:
            writer.write(row)

    def close(self) -> None:
        """Finish writing."""
        for writer in self._writers:
            writer.close()


def _as_json(value: Any) -> Any:
    """Plain Python of a row: arrays become numbers or lists, what is not finite becomes None."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): _as_json(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(part) for part in value]
    return value


def _numbers(row: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """Every number in a row of plain Python, with its path as name."""
    if isinstance(row, int | float) and not isinstance(row, bool):
        yield name, float(row)
    elif isinstance(row, dict | list):
        parts = row.items() if isinstance(row, dict) else enumerate(row)
        for part, value in parts:
            yield from _numbers(value, f"{name}/{part}" if name else str(part))


def _is_whole(line: bytes) -> bool:
    """Whether a line is a complete row: its closing brace is its last byte, so no part of it is valid."""
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False
