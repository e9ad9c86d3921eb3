"""The commands about experiments: reproduce and report. `main.py` lists all commands."""

import dataclasses
from pathlib import Path
from typing import Annotated, Literal

import tyro

from gtrxl.cli.tables import print_table, table


@dataclasses.dataclass(frozen=True)
class Reproduce:
    """Run one of the paper's experiments and draw it: `gtrxl reproduce numpad --scale quick`.

    What is done is kept: the same command goes on where an interrupted one was, and runs what is left. A run is never done or
    counted twice. Experiments that show the same runs (sensitivity, divergence, draws; gates, params) share them.
    """

    experiment: tyro.conf.Positional[str] = ""
    """Which one; --list shows them."""
    list_: Annotated[bool, tyro.conf.arg(name="list")] = False
    """Show the experiments, or with one named, its runs and how far they are."""
    scale: Literal["quick", "laptop", "paper"] = "quick"
    """`quick` takes minutes and checks that everything works; `laptop` is sized for 2 cores; `paper` is the paper's."""
    out: Path = Path("results")
    """Where runs and rows go."""
    engine: Literal["local", "ray"] = "local"
    """On this machine's cores, or over a Ray cluster."""
    jobs: int = 0
    """Runs at a time; 0 is one for each core."""
    address: str | None = None
    """Of a Ray cluster to join: `auto`, or host:port."""
    only: tuple[str, ...] = ()
    """Do only the runs whose names begin so, for example gtrxl-gru."""
    quiet: bool = False
    """Say nothing about single runs."""

    def run(self) -> None:
        """Lists, or runs and draws."""
        if self.list_ or not self.experiment:
            _list_runs(self.experiment, self.scale, self.out) if self.experiment else _list_experiments()
            return
        from gtrxl.experiments.running import reproduce
        from gtrxl.report.page import report

        rows = reproduce(
            self.experiment,
            self.scale,
            self.out,
            engine=self.engine,
            jobs=self.jobs,
            address=self.address,
            only=self.only,
            quiet=self.quiet,
        )
        page, said = report(rows.parent)
        print(said)
        print(f"rows in {rows}, page in {page}; `gtrxl report {self.out}` makes one page of all experiments")


@dataclasses.dataclass(frozen=True)
class ReportCommand:
    """Make one page of all experiments under a folder: figures, tables beside the paper's, what holds and what does not.

    The page needs nothing beside it and no network. The data behind each figure is written as CSV. Needs no JAX.
    """

    folder: tyro.conf.Positional[Path] = Path("results")
    """Where `gtrxl reproduce` wrote its rows."""
    to: Path | None = None
    """The page to write; FOLDER/report.html if left out."""

    def run(self) -> None:
        """Reads, draws, writes, prints."""
        from gtrxl.report.page import report

        page, said = report(self.folder, self.to)
        print(said)
        print(f"wrote {page}")


def _list_experiments() -> None:
    from gtrxl.experiments.catalogue import EXPERIMENTS, RUNS

    made = table("experiment", ["the paper's", "laptop hours"], "what it compares")
    for each in EXPERIMENTS.values():
        shared = "" if each.runs == each.id else f" (the runs of {each.runs})"
        hours = "0" if shared else f"{RUNS[each.runs].scales['laptop'].hours:g}"
        made.add_row(each.id, each.source, hours, each.about + shared)
    print_table(made)


def _list_runs(experiment: str, scale: str, out: Path) -> None:
    from gtrxl.experiments.planning import experiment_of, plan
    from gtrxl.report.rows import read

    runs = experiment_of(experiment).runs
    home = out / runs / scale
    known = {row["run"]: row for row in read(home).rows} if home.is_dir() else {}
    made = table("run", ["model", "frames", "status"], "task")
    for each in plan(runs, scale):
        row = known.get(each.name)
        status = "to do" if row is None else row["status"]
        made.add_row(each.name, each.model.label, f"{each.config.steps:,}", status, each.config.task)
    print_table(made)
