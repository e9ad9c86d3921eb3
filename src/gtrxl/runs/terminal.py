"""What a run shows while it learns, on stderr: a live view at a terminal, a line now and then anywhere else.

A terminal that goes away never ends a run: the view falls silent.
"""

import math
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from gtrxl.runs.curves import Number, Point, amount, curve, shown

SHOWN = ("loss", "entropy", "kl", "kl_categorical", "kl_mean", "kl_covariance", "eta")
LINES_A_RUN = 20
MOST_POINTS = 4_000
TICK = 1.0
"""Seconds between two drawings of the live view when nothing is reported: a clock that runs, a window that has a new size."""
KEPT_MESSAGES = 8
"""Lines above the view that are said again when a window of another size has to be drawn afresh."""
CLEAR = "\x1b[2J\x1b[H"


class View:
    """Shows nothing, and is what every view can do. Rows are those of the metrics: `frames` and whatever else there is."""

    def __enter__(self) -> "View":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def report(self, row: Mapping[str, Any]) -> None:
        """Take in one row of metrics."""

    def message(self, text: str) -> None:
        """Say something that stays."""

    def doing(self, text: str) -> None:
        """Say what is going on until the next report: compiling, starting actors."""
        self.message(text)

    def close(self) -> None:
        """Leave the terminal as it was; nothing is shown after this."""


def open_view(*, title: str, total_frames: int, lines: Mapping[str, Number], quiet: bool = False, stream: Any = None) -> View:
    """The view that suits where it is shown: the text stream given, or stderr. `lines` are scores to compare with, by name."""
    stream = stream or sys.stderr
    if quiet or stream is None:  # a program without a console has no stderr
        return View()
    console = Console(file=stream)
    if stream.isatty() and not console.is_dumb_terminal and can_draw(stream):
        return LiveView(console, title=title, total_frames=total_frames, lines=lines)
    return PlainView(stream, title=title, total_frames=total_frames, lines=lines)


def can_draw(stream: Any) -> bool:
    """Whether a stream can take the characters that curves are drawn with."""
    try:
        "⣿┄└".encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


class PlainView(View):
    """One readable line for every 5 % of the run; safe in a log."""

    def __init__(self, stream: Any, *, title: str, total_frames: int, lines: Mapping[str, Number]):
        self._stream = stream
        self._total = total_frames
        self._digits = _Digits(lines.values())
        self._next = 0.0
        self.message(title)

    def report(self, row: Mapping[str, Any]) -> None:
        """Print the row if the run has come another 5 % further, or is done."""
        self._digits.see(row)
        done = _share(row["frames"], self._total)
        if done < self._next:
            return
        # The next one is due at the next multiple, however far this row went beyond its own; the last one at the end.
        self._next = min(math.floor(done * LINES_A_RUN + 1) / LINES_A_RUN, 1.0) if done < 1 else math.inf
        said = [
            f"{math.floor(100 * done):4d} %",
            f"{amount(float(row['frames']))} frames",
            *_return(row, "+-", self._digits),
            *_numbers(row, ("entropy",)),
            *_pace(row, self._total),
        ]
        self.message("  ".join(said))

    def message(self, text: str) -> None:
        """Print a line."""
        try:
            print(text, file=self._stream, flush=True)
        except (OSError, ValueError):
            self._next = math.inf


class LiveView(View):
    """The return curve with the scores to compare with, a progress bar, how fast it goes; before any report, what is going on.

    It is gone from the screen when closed: print `curve` to leave it there. A thread draws it once a second, so that a clock runs
    while nothing is reported and a window of another size is noticed. No signal is asked for: a library's user may need it.
    """

    def __init__(self, console: Console, *, title: str, total_frames: int, lines: Mapping[str, Number]):
        self._console = console
        self._title = title
        self._total = total_frames
        self._lines = dict(lines)
        self._digits = _Digits(lines.values())
        self._points: list[Point] = []
        self._row: dict[str, Any] = {"frames": 0}
        self._doing: str | None = "starting"
        self._since = time.monotonic()
        self._said: deque[str] = deque(maxlen=KEPT_MESSAGES)
        self._size = console.size
        self._lock = threading.RLock()  # taken again when a signal's handler says something in the middle of a drawing
        self._live = self._new_live()
        self._silent = False
        self._closed = threading.Event()
        self._show(self._live.start, True)
        self._clock = threading.Thread(target=self._tick, name="gtrxl-view", daemon=True)
        self._clock.start()

    def report(self, row: Mapping[str, Any]) -> None:
        """Draw again with one more row."""
        with self._lock:
            self._row, self._doing = dict(row), None
            self._digits.see(row)
            if (mean := _finite(row.get("return_mean"))) is not None:
                self._points.append((float(row["frames"]), mean))
            if len(self._points) > MOST_POINTS:
                self._points = _thinned(self._points)
            self._refresh()

    def doing(self, text: str) -> None:
        """Show it with the time it takes, until the next report."""
        with self._lock:
            self._doing, self._since = text, time.monotonic()
            self._refresh()

    def message(self, text: str) -> None:
        """Print a line above the view."""
        with self._lock:
            self._said.append(text)
            self._show(self._console.print, Text(text))

    def close(self) -> None:
        """Clear the view."""
        self._closed.set()
        with self._lock:
            self._show(self._live.stop)
            self._silent = True

    def _tick(self) -> None:
        while not self._closed.wait(TICK) and not self._silent:
            with self._lock:
                if not self._closed.is_set():
                    self._refresh()

    def _refresh(self) -> None:
        if self._console.size != self._size:
            self._size = self._console.size
            self._show(self._start_afresh)
        self._show(self._live.refresh)

    def _start_afresh(self) -> None:
        """A narrower window folds what is drawn in it, each terminal in its own way: where the view began is not known."""
        self._live.stop()
        self._console.file.write(CLEAR)
        for text in self._said:
            self._console.print(Text(text))
        self._live = self._new_live()
        self._live.start()

    def _new_live(self) -> Live:
        return Live(
            get_renderable=self._draw,
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def _show(self, call: Any, *arguments: Any, **named: Any) -> None:
        if self._silent:
            return
        try:
            call(*arguments, **named)
        except (OSError, ValueError):
            self._silent = True

    def _draw(self) -> RenderableType:
        width, height = self._console.size
        width = min(width - 1, 100)
        done = _share(self._row["frames"], self._total)
        drawn = Text(curve(self._points, self._lines, width, max(min(height - 5, 16), 4), x_end=self._total), no_wrap=True)
        drawn.highlight_regex("┄+", "dim")
        position = [f" {math.floor(100 * done)} %", f"{amount(float(self._row['frames']))} of {amount(self._total)} frames"]
        position = "  ".join([*position, *_pace(self._row, self._total)])
        room = width - len(position)
        progress = (
            _beside(ProgressBar(total=1.0, completed=done, width=room), position) if room >= 10 else _line(position.lstrip())
        )
        if self._doing is None:
            numbers = [*_return(self._row, "±", self._digits), *_numbers(self._row, SHOWN)]
        else:
            numbers = [self._doing, duration(time.monotonic() - self._since)]
        return Group(_line(self._title, style="bold"), drawn, progress, _line("   ".join(numbers)))


def _line(text: str, *, style: str = "") -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def _beside(bar: ProgressBar, text: str) -> RenderableType:
    line = Table.grid()
    line.add_row(bar, _line(text))
    return line


def _share(frames: Any, total: int) -> float:
    return min(max(float(frames) / max(total, 1), 0.0), 1.0)


def _finite(value: Any) -> float | None:
    return float(value) if value is not None and math.isfinite(float(value)) else None


class _Digits:
    """The largest of the scores that a run's returns are seen beside: those to compare with, and its own so far."""

    def __init__(self, levels: Iterable[Number]):
        self._largest = max((abs(float(level)) for level in levels if math.isfinite(level)), default=0.0)

    def see(self, row: Mapping[str, Any]) -> None:
        if (mean := _finite(row.get("return_mean"))) is not None:
            self._largest = max(self._largest, abs(mean))

    def shown(self, score: float) -> str:
        return shown(score, [self._largest])


def _return(row: Mapping[str, Any], sign: str, digits: _Digits) -> list[str]:
    mean, spread = _finite(row.get("return_mean")), _finite(row.get("return_std"))
    if mean is None:
        if row.get("episodes") == 0:
            return ["no episode ended"]
        return ["waiting for an episode of each task"] if "tasks" in row else []
    return [f"return {digits.shown(mean)}" + ("" if spread is None else f" {sign} {digits.shown(spread)}")]


def _numbers(row: Mapping[str, Any], names: tuple[str, ...]) -> list[str]:
    """The numbers asked for, if they are in the row."""
    return [f"{name.replace('_', ' ')} {value:.3g}" for name in names if (value := _finite(row.get(name))) is not None]


def _pace(row: Mapping[str, Any], total: int) -> list[str]:
    speed = _finite(row.get("frames_per_second"))
    if speed is None or speed <= 0:
        return []
    said = [f"{speed:,.0f} frames/s"]
    left = (total - float(row["frames"])) / speed
    return [*said, f"{duration(left)} left"] if left > 0 else said


def duration(seconds: Number) -> str:
    """A length of time in one or two units."""
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{max(round(seconds), 1)} s"
    if minutes < 90:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes // (24 * 60)} days {minutes % (24 * 60) // 60} h"


def _thinned(points: list[Point]) -> list[Point]:
    """Half as many points, each the mean of two neighbours."""
    pairs = zip(points[::2], points[1::2], strict=False)
    return [((a[0] + b[0]) / 2, (a[1] + b[1]) / 2) for a, b in pairs] + points[len(points) // 2 * 2 :]
