"""The command `gtrxl compare`: runs side by side, as curves and as a table."""

import dataclasses
import json
import string
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from gtrxl.cli.tables import print_table

if TYPE_CHECKING:
    from rich.table import Table

    from gtrxl.report.runs import Compared, Group

COLOURS = ("blue", "red", "green", "yellow", "magenta", "cyan", "bright_blue", "bright_red", "bright_green", "bright_magenta")
LETTERS = string.ascii_letters
FEW = 6
"""Settings that are named of those that differ along with others."""
WIDEST = 100
"""Characters of a plot, at most."""


@dataclasses.dataclass(frozen=True)
class Compare:
    """Compare runs: `gtrxl compare RUN RUN ...`, or a folder of them. Curves of the return, and a table.

    Runs that differ in their seeds alone are taken as one: their median is drawn, their mean and range are told. Only settings
    that differ are shown. Runs that are under way can be looked at. Needs no JAX.
    """

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Folders of runs, or folders that hold such: sweeps/NAME, runs."""
    to: Path | None = None
    """A figure to draw: a file that ends in .png or .svg."""
    json: bool = False
    """Print one JSON object instead, with every point of the curves."""

    def run(self) -> None:
        """Reads, draws, prints."""
        from gtrxl.report.runs import compare_runs

        if self.to is not None:
            from gtrxl.report.runs_figure import check_kind

            check_kind(self.to)
        compared = compare_runs(self.runs)
        for line in compared.left_out:
            print(f"left out: {line}", file=sys.stderr)
        if self.json:
            print(json.dumps(compared.as_dict()))
        else:
            show(compared)
        if self.to is not None:
            from gtrxl.report.runs_figure import draw

            draw(compared, self.to)
            print(f"wrote {self.to}", file=sys.stderr if self.json else sys.stdout)


def show(compared: "Compared") -> None:
    """Prints what the runs share; then for each task the curves, where the stream can take them, and a table."""
    from gtrxl.report.runs import said
    from gtrxl.runs.terminal import can_draw

    letters = {id(group): LETTERS[number % len(LETTERS)] for number, group in enumerate(compared.groups)}
    alike = [f"{name} {said(value)}" for name, value in compared.common.items() if name != "task"]
    others = [(group, run) for group in compared.groups for run in group.runs if run.standing != "finished"]
    shared = _shared(compared)
    alike += [*shared.values(), *["finished"] * (not others)]
    if alike:
        print(("all: " if len(compared.runs) > 1 else "") + ", ".join(alike))
    for task in compared.tasks:
        here = [group for group in compared.groups if group.task == task]
        print(f"\n{task}")
        if can_draw(sys.stdout):
            _plot(here, letters)
        print_table(_table(compared, here, letters, shared))
    for number, (group, run) in enumerate(others):
        left = "" if run in group.counted else "; not in the mean"
        print("\n" * (not number) + f"{letters[id(group)]}  {run.name}: {run.standing}{left}")
    if compared.following:
        more = len(compared.following) - FEW
        names = ", ".join(compared.following[:FEW]) + (f" and {more} more" if more > 0 else "")
        print(f"\nsettings that differ along with {', '.join(compared.telling)}: {names}")
    if len(compared.runs) == 1:
        print("\none run has nothing to be compared with; name another one beside it")


def _shared(compared: "Compared") -> dict[str, str]:
    """Columns that would say the same in every line, and what they would say."""
    from gtrxl.runs.curves import amount

    seeds = {_seeds(group) for group in compared.groups}
    frames = {amount(run.frames) for run in compared.runs}
    shared = {"seed": f"seed {min(seeds)}", "frames": f"{min(frames)} frames"}
    return {name: words for name, words in shared.items() if len({"seed": seeds, "frames": frames}[name]) == 1}


def _plot(groups: "list[Group]", letters: dict[int, str]) -> None:
    from rich.console import Console
    from rich.text import Text

    from gtrxl.runs.curves import plot

    curves = {letters[id(group)]: group.median_curve() for group in groups}
    if not any(curves.values()):
        print("no episode ended yet")
        return
    console = Console(highlight=False)
    width = min(console.width - 1, WIDEST) if console.is_terminal else 79
    end = max(run.planned if run.status == "unfinished" else run.frames for group in groups for run in group.runs)
    levels = groups[0].runs[0].levels
    for row in plot(curves, levels, width, 16 if len(curves) > 1 else 12, x_end=end):
        line = Text(no_wrap=True, end="")
        for text, number in row:
            line.append(text, _style(text, number))
        line.rstrip()
        console.print(line)


def _style(text: str, number: int | None) -> str:
    if number is not None:
        return COLOURS[number % len(COLOURS)]
    return "dim" if text.startswith("┄") else ""


def _table(compared: "Compared", groups: "list[Group]", letters: dict[int, str], shared: Iterable[str]) -> "Table":
    from rich.table import Table

    from gtrxl.report.runs import said, short_names
    from gtrxl.runs.curves import amount, shown

    pooled = any(len(group.runs) > 1 for group in groups)
    arrived = any(group.steadiness is not None for group in groups)
    telling = [name for name in compared.telling if name != "task"]
    made = Table(box=None, pad_edge=False, header_style="bold")
    made.add_column("", no_wrap=True)
    made.add_column("run", overflow="ellipsis")  # the one that gives way in a narrow window
    for name in short_names(telling):
        made.add_column(name, no_wrap=True)
    own = [name for name in ("seed", "frames") if name not in shared]
    for name in (*own, "return", *["range"] * pooled, "of 100", *["steady"] * arrived, "frames/s"):
        made.add_column(name, justify="right", no_wrap=True)
    beside = [score for group in groups for score in group.returns]
    for group in groups:
        returns, speed = group.returns, group.frames_per_second
        mean = shown(sum(returns) / len(returns), beside) if returns else "-"
        span = [f"{shown(min(returns), beside)} to {shown(max(returns), beside)}" if len(returns) > 1 else ""] * pooled
        made.add_row(
            letters[id(group)],
            group.runs[0].name if len(group.runs) == 1 else f"{len(group.runs)}\N{NO-BREAK SPACE}runs",
            *(said(group.settings[name]) for name in telling),
            *({"seed": _seeds(group), "frames": amount(max(run.frames for run in group.runs))}[name] for name in own),
            mean,
            *span,
            "-" if group.of_100 is None else f"{group.of_100:z.0f}",
            *["-" if group.steadiness is None else f"{group.steadiness:.0%}"] * arrived,
            "-" if speed is None else f"{speed:,.0f}",
        )
    return made


def _seeds(group: "Group") -> str:
    known = sorted(seed for run in group.runs if isinstance(seed := run.settings.get("seed"), int))
    if len(known) > 2 and known == list(range(known[0], known[-1] + 1)):
        return f"{known[0]} to {known[-1]}"
    return ", ".join(map(str, known))
