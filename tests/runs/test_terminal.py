"""At a terminal a live view that leaves no trace; elsewhere a few readable lines; and curves whose dots lie where they should."""

import io
import math
import os
import pty
import re
import subprocess
import sys
import time

import jax.numpy as jnp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console, ConsoleDimensions

from gtrxl.runs import terminal
from gtrxl.runs.curves import BLANK, DOTS, amount, curve, plot, shown
from gtrxl.runs.terminal import LiveView, View, can_draw, duration, open_view

LINES = {"random": 2.35, "without memory": 17.0, "best": 45.0}


def row(frames, **more):
    known = {"frames": frames, "updates": frames // 10, "return_mean": 12.34, "return_std": 4.5, "loss": 0.1234, "entropy": 1.2}
    return known | {"frames_per_second": 24_000.0, "seconds": 1.0} | more


def plain(reports, *, total=2_000_000) -> list[str]:
    stream = io.StringIO()
    with open_view(title="the run", total_frames=total, lines=LINES, stream=stream) as view:
        for report in reports:
            view.report(report)
    return stream.getvalue().splitlines()


def dots(text: str) -> set[tuple[int, int]]:
    """The (across, down) of every dot of a curve, counted from its axis."""
    found = set()
    for r, line in enumerate(text.splitlines()):
        for c, cell in enumerate(line.partition("│")[2]):
            if BLANK < ord(cell) <= BLANK + 0xFF:
                bits = ord(cell) - BLANK
                found |= {(2 * c + x, 4 * r + y) for x in range(2) for y in range(4) if bits & DOTS[x][y]}
    return found


def test_a_line_says_how_far_how_well_how_fast_and_how_long():
    (title, line) = plain([row(200_000)])
    assert title == "the run"
    assert line == "  10 %  200 k frames  return 12.3 +- 4.5  entropy 1.2  24,000 frames/s  75 s left"


def test_what_is_not_known_is_left_out():
    assert plain([{"frames": 0}])[1:] == ["   0 %  0 frames"]
    assert plain([row(2_000_000, return_mean=None, entropy=math.nan)])[1:] == [" 100 %  2.0 M frames  24,000 frames/s"]
    assert "return 3.0 " in plain([row(0, return_mean=jnp.float32(3.0))])[1]


def test_a_line_without_a_return_says_why():
    assert "  no episode ended  entropy" in plain([row(0, return_mean=None, episodes=0)])[1]
    assert "  waiting for an episode of each task  entropy" in plain([row(0, return_mean=None, episodes=3, tasks={})])[1]


def test_progress_of_small_returns_is_seen():
    stream = io.StringIO()
    with open_view(title="t", total_frames=100, lines={"random": 0.32, "best": 1.0}, stream=stream) as view:
        for n in range(5):
            view.report(row(20 * n, return_mean=0.401 + 0.004 * n, return_std=0.49))
    told = [line.split("return ")[1].split("  ")[0] for line in stream.getvalue().splitlines()[1:]]
    assert told == [f"0.4{n:02d} +- 0.490" for n in (1, 5, 9, 13, 17)]


@pytest.mark.parametrize(
    ("score", "beside", "text"),
    [
        (0.4789, [1.0], "0.479"),
        (0.05, [0.3, 1.0], "0.050"),
        (-0.0001, [1.0], "0.000"),
        (0.0123, [0.05], "0.0123"),
        (12.345, [2.35, 45.0], "12.3"),
        (3.0, [45], "3.0"),
        (99.95, [100.0], "100.0"),
        (1234.5, [], "1234"),
        (0.0, [], "0.000"),
        (12_345_678.0, [], "1.23e+07"),
        (math.nan, [1.0], "nan"),
        (2.5, [math.inf], "2.50"),
    ],
)
def test_a_return_has_the_digits_that_its_scale_needs(score, beside, text):
    assert shown(score, beside) == text


@pytest.mark.parametrize("reports", [1, 7, 20, 33, 1_000])
def test_a_run_is_about_twenty_lines_however_often_it_reports_and_the_last_is_there_once(reports):
    total = 1_000_000
    lines = plain([row(round(total * n / reports)) for n in range(1, reports + 1)] + [row(total)], total=total)[1:]
    assert len(lines) == min(reports, 21 if reports > 20 else 20)
    assert [line for line in lines if line.startswith(" 100 %")] == lines[-1:]


class Gone(io.StringIO):
    """A terminal that was closed."""

    tried = 0

    def write(self, text, /):
        self.tried += 1
        raise OSError("Input/output error")


def test_quiet_shows_nothing_and_a_stream_that_is_gone_ends_nothing():
    stream = io.StringIO()
    with open_view(title="t", total_frames=10, lines={}, quiet=True, stream=stream) as view:
        view.report(row(5))
        view.message("hello")
    assert stream.getvalue() == ""
    assert type(view) is View
    gone = Gone()
    live = LiveView(Console(file=gone, force_terminal=True, width=80, height=20), title="t", total_frames=10, lines={})
    for view in (live, open_view(title="t", total_frames=10, lines={}, stream=gone)):
        assert gone.tried > 0
        view.report(row(5))
        view.message("hello")
        view.close()


def screen(width=100, height=24, reports=40) -> str:
    """The last picture of a live view, without its control codes."""
    console = Console(file=io.StringIO(), force_terminal=True, width=width, height=height, color_system=None)
    view = LiveView(console, title="the run", total_frames=1_000_000, lines=LINES)
    for n in range(reports):
        view.report(row(25_000 * n, return_mean=float(n), kl_categorical=0.01, eta=0.9))
    with console.capture() as captured:
        view._show(view._live.refresh)
    view.close()
    return captured.get()


def test_the_live_view_shows_curve_lines_progress_numbers_and_time():
    shown = screen()
    for part in (
        "the run",
        "random 2.35",
        "best 45",
        " 97 %  975 k of 1.0 M frames",
        "return 39.0 ± 4.5",
        "entropy 1.2",
        "eta 0.9",
    ):
        assert part in shown
    assert "kl categorical 0.01" in shown
    assert "24,000 frames/s  1 s left" in shown
    assert len(dots(shown)) > 100
    assert "starting   1 s" in screen(reports=0)


@pytest.mark.parametrize(("width", "height"), [(100, 24), (60, 12), (30, 8)])
def test_the_live_view_fits_the_terminal(width, height):
    lines = Console(file=io.StringIO(), width=500).render_str(screen(width, height)).plain.replace("\r", "").splitlines()
    assert len(lines) <= height
    assert all(len(line.split("\x1b[2K")[-1]) <= width for line in lines)


class Window(Console):
    """A terminal whose window can be given another size."""

    wide = 90

    @property
    def size(self):
        return ConsoleDimensions(self.wide, 24)

    @size.setter
    def size(self, new_size):
        del new_size


def watched(until: str, console: Window) -> str:
    """What was drawn, as soon as it has these words."""
    deadline = time.monotonic() + 20
    while until not in console.file.getvalue():  # pyright: ignore[reportAttributeAccessIssue]
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]


def test_what_is_going_on_is_said_at_once_with_a_clock_that_runs_until_the_first_report(monkeypatch):
    monkeypatch.setattr(terminal, "TICK", 0.02)
    console = Window(file=io.StringIO(), force_terminal=True, color_system=None)
    view = LiveView(console, title="the run", total_frames=100, lines=LINES)
    with view:
        assert "the run" in console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]
        view.doing("compiling")
        watched("compiling   2 s", console)
        view.report(row(10))
        shown_last = watched("return 12.3", console)
        assert "compiling" not in shown_last[shown_last.rindex("the run") :]
    view._clock.join(5)
    assert not view._clock.is_alive()
    stream = io.StringIO()
    with open_view(title="t", total_frames=10, lines={}, stream=stream) as other:
        other.doing("compiling")
    assert stream.getvalue() == "t\ncompiling\n"


def test_a_window_of_another_size_is_drawn_afresh_with_what_was_said(monkeypatch):
    monkeypatch.setattr(terminal, "TICK", 0.02)
    console = Window(file=io.StringIO(), force_terminal=True, color_system=None)
    with LiveView(console, title="a title of more than forty characters, for a test", total_frames=100, lines=LINES) as view:
        view.message("said before")
        view.report(row(10))
        console.wide = 40
        after = watched(terminal.CLEAR, console).partition(terminal.CLEAR)[2]
        while "return" not in after:
            after = watched(terminal.CLEAR, console).partition(terminal.CLEAR)[2]
    assert "said before" in after
    assert all(len(line) <= 40 for line in re.sub(r"\x1b\[[?\d]*\w", "\n", after).replace("\r", "").splitlines())


PTY = """
from gtrxl.runs.terminal import open_view
with open_view(title="the run", total_frames=100, lines={"best": 3.0}) as view:
    for n in range(1, 11):
        view.report({"frames": 10 * n, "updates": n, "return_mean": float(n)})
    view.message("half way")
    raise SystemExit
"""


def test_at_a_real_terminal_messages_stay_the_view_goes_and_the_cursor_comes_back():
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", PTY],
        stderr=theirs,
        stdout=subprocess.PIPE,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "24"},
    )
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 65536):
            shown += piece
    except OSError:  # the other end was closed
        pass
    os.close(ours)
    assert process.communicate()[0] == b""
    text = shown.decode()
    assert dots(text)
    assert "half way" in text
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")
    # What is written last clears the view line by line.
    assert "the run" not in text[text.rindex("\x1b[?25h") :]
    assert text.endswith("\x1b[2K")


def test_a_stream_that_cannot_take_braille_is_known():
    assert can_draw(io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
    assert not can_draw(io.TextIOWrapper(io.BytesIO(), encoding="latin-1"))


def test_a_straight_line_is_straight_and_ends_in_the_corners():
    drawn = dots(curve([(n, n) for n in range(1001)], {}, 60, 18))
    across = {x for x, _ in drawn}
    assert across == set(range(max(across) + 1))
    highest, lowest = min(drawn, key=lambda dot: (dot[1], -dot[0])), max(drawn, key=lambda dot: (dot[1], -dot[0]))
    assert highest[0] == max(across)
    assert lowest[0] == 0
    slope = (lowest[1] - highest[1]) / (highest[0] - lowest[0])
    assert all(abs(lowest[1] - slope * x - y) <= 1.5 for x, y in drawn)


def test_a_curve_on_a_level_lies_in_the_row_of_its_line():
    text = curve([(0, 10), (50, 10), (100, 10)], {"low": 0.0, "here": 10.0, "high": 40.0}, 60, 15, x_end=200)
    (here,) = (line for line in text.splitlines() if line.endswith(" here 10"))
    assert dots(here)
    assert {x for x, _ in dots(text)} == {x for x, _ in dots(here)}
    assert "┄" in here
    # The curve ends half way; what follows is the line.
    cells = here.partition("│")[2].partition(" here")[0]
    assert set(cells[len(cells) // 2 + 1 :]) == {"┄"}
    assert "┄" not in cells[: len(cells) // 2]


def test_levels_in_one_row_share_it_and_names_give_way_to_the_curve():
    assert "also 10, here 9.99" in curve([(1, 0)], {"here": 9.99, "also": 10.0}, 60, 8)
    narrow = curve([(1, 0)], {"a very long name indeed": 9.0}, 30, 8)
    assert "name" not in narrow
    assert "┄" in narrow


def test_points_of_one_column_are_averaged_and_those_not_finite_left_out():
    noisy = [(x + i / 10, 5.0 + sign) for x in range(100) for i, sign in enumerate((-1, 1))]
    lines = {"low": 0.0, "high": 10.0}
    assert {y for _, y in dots(curve(noisy, lines, 30, 12, x_end=100))} == {
        y for _, y in dots(curve([(0, 5), (99, 5)], lines, 30, 12))
    }
    clean = curve([(1, 2), (3, 4)], {}, 40, 8)
    assert curve([(1, 2), (2, math.nan), (3, 4)], {"x": math.inf}, 40, 8) == clean


@given(
    points=st.lists(st.tuples(st.floats(0, 1e12), st.floats(-1e30, 1e30)), max_size=20),
    lines=st.dictionaries(st.sampled_from(list(LINES)), st.floats(-1e30, 1e30)),
    width=st.integers(40, 120),
    height=st.integers(4, 30),
)
def test_a_curve_fits_whatever_it_is_of(points, lines, width, height):
    drawn = curve(points, lines, width, height).splitlines()
    assert len(drawn) == height
    assert all(len(line) <= width for line in drawn)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0"),
        (950, "950"),
        (999.6, "1.0 k"),
        (12_340, "12.3 k"),
        (999_960, "1.0 M"),
        (1.5e6, "1.5 M"),
        (123e6, "123 M"),
        (2e9, "2.0 G"),
    ],
)
def test_amounts_are_short(count, text):
    assert amount(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "1 s"), (75, "75 s"), (240, "4 min"), (4_800, "80 min"), (7_260, "2 h 1 min"), (3 * 86_400, "3 days 0 h")],
)
def test_durations_are_short(seconds, text):
    assert duration(seconds) == text


def test_several_curves_share_a_frame_and_each_has_its_letter_on_it():
    points = {letter: [(x, level) for x in range(100)] for letter, level in (("a", 8.0), ("b", 2.0))}
    drawn = plot(points, {"best": 10.0, "random": 0.0}, 79, 16)
    owners = {number: {text for row in drawn for text, owner in row if owner == number} for number in (0, 1)}
    assert "a" in owners[0]
    assert "b" in owners[1]
    assert "b" not in owners[0]
    text = ["".join(piece for piece, _ in row) for row in drawn]
    assert [len(line) <= 79 for line in text] == [True] * 16
    (high, low) = ([number for number, line in enumerate(text) if re.search(f"[⠁-⣿]{letter}", line)] for letter in "ab")
    assert max(high) < min(low)


def test_curves_that_lie_on_each_other_show_all_letters():
    drawn = plot({letter: [(x, x) for x in range(200)] for letter in "abcd"}, {}, 79, 16)
    assert {text for row in drawn for text, owner in row if owner is not None and text.isalpha()} == set("abcd")
    assert plot({"a": [], "b": [(1, 1)]}, {}, 40, 8)
