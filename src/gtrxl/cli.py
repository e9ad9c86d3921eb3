"""The command `gtrxl`: parse, call, print.

A command is a frozen dataclass whose docstrings are its help and whose `run` does the work; `COMMANDS` lists them.
What a command needs is imported when it runs, so that `--help` does not wait for it.
"""

import dataclasses
import json
import pathlib
import sys
from collections.abc import Sequence
from typing import Annotated, Any, Union

import tyro
from rich.console import Console

import gtrxl
from gtrxl.commands import Eval, Export, Resume, Train, Watch
from gtrxl.comparing import Report, Reproduce
from gtrxl.play_command import Play
from gtrxl.tables import print_table, table
from gtrxl.tasks_command import Tasks

USER_ERROR = 2
DESCRIPTION = "Memory for reinforcement-learning agents. `gtrxl COMMAND --help` explains a command; --version prints the version."


@dataclasses.dataclass(frozen=True)
class Params:
    """Print the paper's parameter table beside ours: the nine DMLab-30 agents, counted part by part."""

    parts: bool = False
    """Also show what each part has: vision, language, core, policy, value, pixel control."""

    json: bool = False
    """Print one JSON list instead, with every number in full."""

    def run(self) -> None:
        """Counts and prints."""
        from gtrxl.agent.counts import PARTS, count_paper_models

        counts = count_paper_models()
        if self.json:
            rows = [
                {
                    **dataclasses.asdict(count.paper),
                    "total": count.total,
                    "difference_percent": round(count.difference, 3),
                    "parts": count.parts,
                }
                for count in counts
            ]
            print(json.dumps(rows, indent=2))
            return
        columns = ["paper", "ours", "difference", *([part.replace("_", " ") for part in PARTS] if self.parts else ["core only"])]
        made = table("model", columns)
        for count in counts:
            shown = PARTS if self.parts else ("core",)
            made.add_row(
                count.paper.label,
                f"{count.paper.millions:g} M",
                f"{count.total / 1e6:.3f} M",
                f"{count.difference:+.2f} %",
                *(f"{count.parts[part] / 1e6:.3f} M" for part in shown),
            )
        print_table(made)


@dataclasses.dataclass(frozen=True)
class Cores:
    """List the cores: what can remember, one line each."""

    json: bool = False
    """Print one JSON object instead: name -> line."""

    def run(self) -> None:
        """Prints the catalogue."""
        from gtrxl.cores import CORES

        if self.json:
            print(json.dumps({name: line for name, (_, _, line) in CORES.items()}, indent=2))
            return
        made = table("core", [], "what it is")
        for name, (_, _, line) in CORES.items():
            made.add_row(name, line)
        print_table(made)


@dataclasses.dataclass(frozen=True)
class Demo:
    """Watch cores remember: train small ones on delayed recall, here and now, and draw what they know.

    A symbol is marked, noise follows, and up to 48 steps later the core is asked which it was. It is trained in unrolls of
    16 steps, so the answer must travel in its memory. Writes recall.json, recall.png and recall.svg. About a minute.
    """

    cores: tuple[str, ...] = ("gtrxl-gru", "lstm", "none")
    """Which cores to compare; `gtrxl cores` lists them."""

    updates: int = 800
    """Updates of each core. GTrXL needs about a hundred, the LSTM most of the 800."""

    seed: int = 0
    """Decides the initial weights and the training data; the same seed gives the same numbers."""

    repeats: int = 1
    """How many seeds to run, counted up from --seed."""

    out: pathlib.Path = pathlib.Path("recall")
    """The folder to write to; made if it is not there."""

    json: bool = False
    """Print the results as JSON instead of the chart, and no progress."""

    def run(self) -> None:
        """Trains, writes the rows, draws, prints."""
        if self.repeats < 1:
            raise gtrxl.CoreError(f"repeats must be at least 1, got {self.repeats}; it is the number of seeds")
        from gtrxl.experiments import recall
        from gtrxl.report import recall as picture

        seeds = tuple(range(self.seed, self.seed + self.repeats))
        settings = recall.Recall(cores=self.cores, updates=self.updates, seeds=seeds)
        self.out.mkdir(parents=True, exist_ok=True)  # an unwritable folder is said before the training, not after
        with _Progress(total=len(seeds) * len(self.cores) * self.updates, quiet=self.json) as progress:
            results = {"command": self.command, "version": gtrxl.__version__, **recall.run(settings, progress.recall)}
        rows = self.out / "recall.json"
        rows.write_text(picture.as_json(results))
        figures = [self.out / "recall.png", self.out / "recall.svg"]
        picture.draw(results, files=figures)
        if self.json:
            print(rows.read_text(), end="")
            return
        print_table(picture.table(results))
        print(f"\n{picture.summary(results)}\nchance is {100 * results['chance']:.1f} %")
        print(f"wrote {', '.join(map(str, (rows, *figures)))}")

    @property
    def command(self) -> str:
        """The command line that gives these numbers again."""
        return f"gtrxl demo --cores {' '.join(self.cores)} --updates {self.updates} --seed {self.seed} --repeats {self.repeats}"


COMMANDS: dict[str, type[Any]] = {
    "train": Train,
    "resume": Resume,
    "eval": Eval,
    "watch": Watch,
    "export": Export,
    "play": Play,
    "tasks": Tasks,
    "cores": Cores,
    "params": Params,
    "demo": Demo,
    "reproduce": Reproduce,
    "report": Report,
}
"""Name -> command. To add one, write its dataclass (commands about runs: `commands.py`) and name it here."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command line; 0 when all went well, 2 for what the user can put right, said in one line, 3 if a run diverged."""
    argv = sys.argv[1:] if argv is None else list(argv)
    if argv in (["--version"], ["-V"]):
        print(f"gtrxl {gtrxl.__version__}")
        return 0
    choices = tuple(Annotated[command, tyro.conf.subcommand(name)] for name, command in COMMANDS.items())
    try:
        if argv[:1] == ["train"]:
            return Train.parse(argv[1:]).run()
    except (ValueError, OSError) as error:
        return _said(error)
    command: Any = tyro.cli(  # pyright: ignore[reportCallIssue]
        Union[choices],  # noqa: UP007 # pyright: ignore[reportArgumentType]
        prog="gtrxl",
        description=DESCRIPTION,
        args=argv or ["--help"],
        config=(tyro.conf.FlagCreatePairsOff,),
    )
    try:
        return command.run() or 0
    except (ValueError, OSError) as error:
        return _said(error)


def _said(error: ValueError | OSError) -> int:
    """One line for what the user can put right."""
    if isinstance(error, ValueError) and not type(error).__module__.startswith("gtrxl."):
        raise error  # a mistake of ours keeps its traceback
    print(f"gtrxl: {error}", file=sys.stderr)
    return USER_ERROR


class _Progress:
    """How far a run is, on stderr: a bar at a terminal, otherwise one line per core and tenth."""

    def __init__(self, *, total: int, quiet: bool):
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        console = Console(stderr=True)
        self._lines = not quiet and not console.is_terminal
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
        self._bar = Progress(*columns, console=console, disable=quiet or self._lines, transient=True)
        self._task = self._bar.add_task("compiling", total=total)
        self._total, self._done, self._last = total, 0, 0

    def __enter__(self) -> "_Progress":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def recall(self, core: str, seed: int, updates: int, accuracy: float) -> None:
        """One report of the recall experiment."""
        step = updates - self._last if updates > self._last else updates
        self._last, self._done = updates, self._done + step
        said = f"{core} seed {seed}: {100 * accuracy:.0f} % right after {updates} updates"
        self._bar.update(self._task, advance=step, description=said)
        tenth = max(1, self._total // 10)
        if self._lines and self._done // tenth != (self._done - step) // tenth:
            print(said, file=sys.stderr)
