"""What every run does around its updates: how it stops, and what it leaves behind."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gtrxl.runs import sealed
from gtrxl.runs.scores import late, steadiness
from gtrxl.runs.terminal import View


def write_result(
    folder: Path, status: str, rows: list[dict[str, Any]], *, normalised: float | None, diverged: int, error: str | None = None
) -> None:
    """RUN/result.json: how the run ended; it is there whole or not at all."""
    last = rows[-1] if rows else {"frames": 0, "updates": 0, "seconds": 0.0}
    result = {
        "status": status,
        **{name: last[name] for name in ("frames", "updates", "seconds")},
        "return": late(rows),
        "normalised": normalised,
        "steadiness": steadiness(rows),
        "diverged_at_update": diverged if diverged >= 0 else None,
        **({} if error is None else {"error": error}),
    }
    sealed.write(folder / "result.json", result)


STOP = ("SIGINT", "SIGTERM", "SIGBREAK")
"""The signals that ask a run to stop. The last is the only one that a process on Windows can send to another."""


@contextlib.contextmanager
def on_interrupt(view: View, *, when: str = "at the next report") -> Iterator[threading.Event]:
    """An event that Ctrl-C or a polite kill sets: the run ends soon. A second Ctrl-C ends it at once."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def ask(*_: Any) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()
        view.message(f"stopping {when}, with a checkpoint; once more stops at once")

    old = {getattr(signal, name): signal.signal(getattr(signal, name), ask) for name in STOP if hasattr(signal, name)}
    try:
        yield asked
    finally:
        for kind, handler in old.items():
            signal.signal(kind, handler)
