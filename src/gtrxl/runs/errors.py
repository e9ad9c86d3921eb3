"""One kind of error for what goes wrong around a run: the rule, the value, the remedy, in one line."""

import contextlib
import sys


class RunError(ValueError):
    """A folder, a file or a setting that a run cannot use."""


class TakenError(RunError):
    """A folder that holds another run, or that another process works on."""


class DamagedError(RunError):
    """A checkpoint that is there and cannot be read, or is not what was saved."""


def first_line(error: BaseException) -> str:
    """What an error says, cut to its first line, for quoting inside another one."""
    said = [line.strip() for line in str(error).splitlines() if line.strip()]
    return said[0][:300] if said else type(error).__name__


_said: set[str] = set()


def say(line: str) -> None:
    """A line on stderr that the user should know of though the work goes on; the same line once only."""
    if line not in _said:
        _said.add(line)
        with contextlib.suppress(OSError, ValueError, AttributeError):  # a program without a console has no stderr
            print(f"gtrxl: {line}", file=sys.stderr, flush=True)
