"""The command `gtrxl demo`: cores that learn to recall, in a minute, with a picture."""

import dataclasses
import pathlib
import sys

from rich.console import Console

import gtrxl
from gtrxl.cli.tables import print_table


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
        from gtrxl.experiments import delayed_recall
        from gtrxl.report import recall_picture

        seeds = tuple(range(self.seed, self.seed + self.repeats))
        settings = delayed_recall.RecallExperiment(cores=self.cores, updates=self.updates, seeds=seeds)
        self.out.mkdir(parents=True, exist_ok=True)  # an unwritable folder is said before the training, not after
        with _Progress(total=len(seeds) * len(self.cores) * self.updates, quiet=self.json) as progress:
            results = {"command": self.command, "version": gtrxl.__version__, **delayed_recall.run(settings, progress.recall)}
        rows = self.out / "recall.json"
        rows.write_text(recall_picture.as_json(results), "utf-8")
        figures = [self.out / "recall.png", self.out / "recall.svg"]
        recall_picture.draw(results, files=figures)
        if self.json:
            print(rows.read_text("utf-8"), end="")
            return
        print_table(recall_picture.table(results))
        print(f"\n{recall_picture.summary(results)}\nchance is {100 * results['chance']:.1f} %")
        print(f"wrote {', '.join(map(str, (rows, *figures)))}")

    @property
    def command(self) -> str:
        """The command line that gives these numbers again."""
        return f"gtrxl demo --cores {' '.join(self.cores)} --updates {self.updates} --seed {self.seed} --repeats {self.repeats}"


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
