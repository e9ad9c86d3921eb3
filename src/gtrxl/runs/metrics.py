"""Metric rows: one line of JSON for each report on disk; the same to boards, and to a function of one's own.

Numbers are written so that reading them gives the same bits. JSON has no NaN and no infinity: both are written as null. The last
field of a line, `check`, is a checksum of the others: a number that was changed since is noticed. It is no part of a row.
"""

import contextlib
import json
import math
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from gtrxl.runs import sealed
from gtrxl.runs.errors import RunError, first_line

# What a clock says differs between two runs that are otherwise the same to the bit.
CLOCK_FIELDS = ("seconds", "frames_per_second")
CHECK = "check"
STATUSES = ("finished", "stopped", "diverged", "failed")
"""How a run can end."""


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
        plain = as_json(row)
        line = json.dumps(plain | {CHECK: check_of(plain)}, allow_nan=False).encode() + b"\n"
        try:
            written = os.write(self._file, line)
            # A disk that fills up takes the beginning of a line first.
            while written < len(line):
                written += os.write(self._file, line[written:])
        except OSError as error:
            raise self._cannot_write(error) from error

    def truncate_after(self, *, updates: int) -> list[int]:
        """Remove the rows later than `updates`: a resumed run writes them again. The file changes at once or not at all.

        Lines that are damaged go too, into a file of their own beside it; returns their numbers.
        """
        content = sealed.content_of(self.path)
        lines = content.split(b"\n")[:-1]
        kept, bad = [], {}
        for number, (line, row) in enumerate(zip(lines, _rows(lines), strict=True), start=1):
            if row is None or not (_is_checked(line) or is_usable(row)):
                bad[number] = line
            elif row.get("updates", 0) <= updates:
                kept.append(line)
        if len(kept) == len(lines):
            return []
        fresh = self.path.with_name(self.path.name + ".new")
        try:
            if bad:
                with self.path.with_name(self.path.name + ".damaged").open("ab") as file:
                    file.writelines(line + b"\n" for line in bad.values())
            with fresh.open("wb") as file:
                file.writelines(line + b"\n" for line in kept)
                file.flush()
                os.fsync(file.fileno())
            os.close(self._file)  # Windows replaces no file that is open
            try:
                fresh.replace(self.path)
            finally:
                self._file = self._open()
        except OSError as error:
            raise self._cannot_write(error) from error
        return list(bad)

    def close(self) -> None:
        """Nothing can be written after this."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1

    def _open(self) -> int:
        return os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o644)

    def _mend(self) -> None:
        if not self.path.is_file():
            return
        content = sealed.content_of(self.path)
        tail = content[content.rfind(b"\n") + 1 :]
        if not tail:
            return
        if _parsed(tail) is not None:
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
    """All rows of a file, without a torn last line; it may be being written. A damaged line is said by its number."""
    try:
        content = sealed.content_of(Path(path))
    except OSError as error:
        raise RunError(f"there are no metrics at {path}: {first_line(error)}; a run writes its rows to metrics.jsonl") from error
    lines = content.split(b"\n")
    if _parsed(lines[-1]) is None:
        lines.pop()
    rows = []
    for number, (line, row) in enumerate(zip(lines, _rows(lines), strict=True), start=1):
        if row is None:
            what = "be a JSON object" if _parsed(line) is None else "be as it was written"
            raise RunError(
                f"every line of {path} must {what}, line {number} is not: {line[:60]!r}; "
                "remove that line, or let `gtrxl resume` do it"
            )
        rows.append(row)
    return rows


def read_result(folder: Path) -> dict[str, Any]:
    """How a run ended; empty while it is under way, or if it was killed. Read it before the rows: they may become more."""
    file = folder / "result.json"
    if not file.exists():
        return {}
    remedy = f"`gtrxl resume {folder}` writes it again"
    found = sealed.read(file, remedy=remedy)
    if found.get("status") not in STATUSES:
        raise RunError(f"{file} must say how the run ended, got status {found.get('status')!r:.40}; {remedy}")
    return found


def check_whole(folder: Path, rows: Sequence[Mapping[str, Any]], result: Mapping[str, Any]) -> None:
    """Raises if a run has fewer rows than it ended with."""
    last, ended = rows[-1].get("updates", 0) if rows else 0, result.get("updates", 0)
    if isinstance(last, int) and isinstance(ended, int) and last < ended:
        raise RunError(
            f"{folder / 'metrics.jsonl'} must have the rows until update {ended}, got those until {last}; "
            f"the others are lost, and `gtrxl resume {folder}` goes on without them"
        )


def is_usable(row: Mapping[str, Any]) -> bool:
    """Whether a row has what is read of every row of a run."""
    whole = all(type(row.get(name)) is int for name in ("frames", "updates", "episodes"))
    seconds, mean = row.get("seconds"), row.get("return_mean", "none")
    return whole and isinstance(seconds, int | float) and (mean is None or isinstance(mean, int | float))


def without_clock(row: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a row that is the same in every run with the same settings."""
    return {name: value for name, value in row.items() if name not in CLOCK_FIELDS}


class Callback:
    """A function that is given each row as a dict of plain Python, for what else shall be done with it."""

    def __init__(self, function: Callable[[dict[str, Any]], Any]):
        self._function = function

    def write(self, row: Mapping[str, Any]) -> None:
        """Call it. What it raises ends the run: a mistake that is passed over would be found when the run is over."""
        try:
            self._function(as_json(row))
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
        with contextlib.ExitStack() as closing:  # each is closed, whatever another one raises
            for writer in reversed(self._writers):
                closing.callback(writer.close)


def as_json(value: Any) -> Any:
    """Plain Python of a row: arrays become numbers or lists, what is not finite becomes None."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): as_json(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(part) for part in value]
    return value


def numbers(row: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """Every number in a row of plain Python, with its path as name."""
    if isinstance(row, int | float) and not isinstance(row, bool):
        yield name, float(row)
    elif isinstance(row, dict | list):
        parts = row.items() if isinstance(row, dict) else enumerate(row)
        for part, value in parts:
            yield from numbers(value, f"{name}/{part}" if name else str(part))


def check_of(row: Mapping[str, Any]) -> str:
    """A checksum of a row's content."""
    return f"{zlib.crc32(json.dumps(row, sort_keys=True).encode()):08x}"


def _parsed(line: bytes) -> dict[str, Any] | None:
    """The object that a line is; its closing brace is its last byte, so no part of it is one."""
    try:
        found = sealed.parse(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _is_checked(line: bytes) -> bool:
    return CHECK in (_parsed(line) or ())


def _rows(lines: Iterable[bytes]) -> Iterator[dict[str, Any] | None]:
    """The row of every line; None for those that are damaged. Rows without a checksum are older than all that have one."""
    checked = False
    for line in lines:
        row = _parsed(line)
        if row is not None and CHECK in row:
            row = row if row.pop(CHECK) == check_of(row) else None
            checked = checked or row is not None
        elif row is not None and (checked or _is_a_check(next(reversed(row.values()), None))):
            row = None
        yield row


def _is_a_check(value: Any) -> bool:
    """Whether this would be a checksum if its name were not damaged."""
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{8}", value) is not None
