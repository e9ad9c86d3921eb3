"""Commands as processes that can be found again, with everything that they started, after they were killed.

Every command gets a word of its own in its environment, and a session of its own. What it starts inherits both; so even what
left the session, or has lost its parent, is found in /proc.
"""

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

BENCHMARKS = Path(__file__).parents[1]
WORD = "GTRXL_FAULTS_WORD"
PATIENCE = 240.0
"""Seconds that any command may take; one that takes longer hangs."""
LINGER = 20.0
"""Seconds that processes may take to notice that the one they serve is gone."""


class Hang(Exception):  # noqa: N818  # it is what happened, as in the sentences that report it
    """A command took much longer than it should."""


def environment(work: Path) -> dict[str, str]:
    """Of every command: the CPU, one cache of compiled programs for all of them, no cache that is the user's."""
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("RAY_")},
        "JAX_PLATFORMS": "cpu",
        "JAX_COMPILATION_CACHE_DIR": str(work / "programs"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "PYTHONPATH": os.pathsep.join([str(BENCHMARKS), *(path for path in sys.path if path)]),
    }


class Command:
    """A Python program under way: `gtrxl ARGUMENTS`, or what follows `python`."""

    def __init__(self, arguments: Sequence[str], *, work: Path, python: bool = False, variables: dict[str, str] | None = None):
        self.word = secrets.token_hex(8)
        self.arguments = [*arguments]
        work.mkdir(parents=True, exist_ok=True)
        self._out, self._err = work / f"{self.word}.out", work / f"{self.word}.err"
        started = [sys.executable, *([] if python else ["-m", "gtrxl"]), *arguments]
        own = {WORD: self.word, **(variables or {})}
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                started, env=environment(work) | own, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
            )
        self.pid = self.process.pid
        self.begun = time.monotonic()

    @property
    def said(self) -> str:
        """What it wrote to stderr."""
        return self._err.read_text(errors="replace")

    @property
    def printed(self) -> str:
        """What it wrote to stdout."""
        return self._out.read_text(errors="replace")

    def wait(self, seconds: float = PATIENCE) -> int:
        """Its exit code."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.end()
            raise Hang(f"`gtrxl {' '.join(self.arguments[:2])}` did not end within {seconds:.0f} s") from None

    def wait_until(self, happened: Callable[[], bool], seconds: float = PATIENCE, *, every: float = 0.001) -> bool:
        """Whether something happened while it was under way."""
        until = time.monotonic() + seconds
        while self.process.poll() is None:
            if happened():
                return True
            if time.monotonic() > until:
                self.end()
                raise Hang(f"`gtrxl {' '.join(self.arguments[:2])}` did not come that far within {seconds:.0f} s")
            time.sleep(every)
        return False

    def kill(self) -> bool:
        """SIGKILL for this process and no other; whether it was still under way."""
        if self.process.poll() is not None:
            return False
        self.process.kill()
        return self.process.wait() == -signal.SIGKILL

    def others(self) -> dict[int, str]:
        """What it started and still runs, by process: the command line."""
        found = {pid: command_line(pid) for pid in processes() if pid != self.pid and self._is_mine(pid)}
        return {pid: line for pid, line in found.items() if is_running(pid)}

    def outlived_by(self, within: float = LINGER) -> dict[int, str]:
        """What is left of a process that has ended, after it had some time; it is then ended too, one by one."""
        until = time.monotonic() + within
        while (left := self.others()) and time.monotonic() < until:
            time.sleep(0.05)
        _end(left)
        return left

    def end(self) -> None:
        """Ends it and all that it started."""
        self.kill()
        for _ in range(3):
            _end(self.others())

    def close(self) -> None:
        """Forgets what it said."""
        for file in (self._out, self._err):
            file.unlink(missing_ok=True)

    def _is_mine(self, pid: int) -> bool:
        with contextlib.suppress(OSError, ValueError):
            if int(_stat(pid)[3]) == self.pid:
                return True
            return f"{WORD}={self.word}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        return False


def in_worker(module: str, function: str, arguments: dict[str, Any], *, work: Path, seconds: float) -> Iterator[dict[str, Any]]:
    """Calls a function of this package in a process of its own. It yields records, which come back even if the process dies:
    the last one is then `{"died": how}`."""
    answers = work / f"answers-{secrets.token_hex(4)}.jsonl"
    program = (
        "import importlib, json, sys\n"
        f"function = getattr(importlib.import_module('attacks.{module}'), {function!r})\n"
        "with open(sys.argv[1], 'w') as file:\n"
        "    for record in function(**json.loads(sys.argv[2])):\n"
        "        print(json.dumps(record), file=file, flush=True)\n"
    )
    command = Command(["-c", program, str(answers), json.dumps(arguments)], work=work, python=True)
    try:
        code = command.wait(seconds)
        died = f"exit code {code}: {command.said.strip().splitlines()[-1:] or 'nothing was said'}" if code else ""
    except Hang as hang:
        died = str(hang)
    lines = answers.read_text().splitlines() if answers.exists() else []
    for line in lines:
        with contextlib.suppress(ValueError):  # torn, of one that died
            yield json.loads(line)
    if died:
        yield {"died": died}
    answers.unlink(missing_ok=True)
    command.close()


def end_earlier(work: Path) -> int:
    """Ends what an earlier run of the script over the same folder left under way when it was killed; how many processes."""
    mine = f"JAX_COMPILATION_CACHE_DIR={work / 'programs'}".encode()
    found = {}
    for pid in processes():
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            if mine in words and any(word.startswith(f"{WORD}=".encode()) for word in words):
                found[pid] = ""
    _end(found)
    return len(found)


def processes() -> list[int]:
    """All there are."""
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def descendants(pid: int) -> list[int]:
    """What a process has started, and what that has."""
    above: dict[int, int] = {}
    for each in processes():
        with contextlib.suppress(OSError, ValueError):
            above[each] = int(_stat(each)[1])
    found, level = [], {pid}
    while level:
        level = {child for child, parent in above.items() if parent in level}
        found += sorted(level)
    return found


def command_line(pid: int) -> str:
    """What a process was started as, or calls itself."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    return ""


def is_running(pid: int) -> bool:
    """Whether a process is there; one that has ended and was not collected is not."""
    with contextlib.suppress(OSError):
        return _stat(pid)[0] != "Z"
    return False


def send(pid: int, kind: signal.Signals) -> bool:
    """Sends a signal; whether there was anyone to get it."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, kind)
        return True
    return False


def _end(pids: dict[int, str]) -> None:
    for pid in pids:
        send(pid, signal.SIGKILL)


def _stat(pid: int) -> list[str]:
    """State, parent, group, session and more of a process."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
