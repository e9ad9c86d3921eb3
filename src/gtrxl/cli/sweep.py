"""The command `gtrxl sweep`: the product of what varies, times seeds, as runs that can be gone on with and compared.

Every combination is a line of `gtrxl train` and is parsed as one: it has the defaults of its task, core and algorithm, and a
wrong name or value is found before anything starts.
"""

import dataclasses
import functools
import itertools
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from gtrxl.cli.runs import Train
from gtrxl.cli.tables import print_table, table

if TYPE_CHECKING:
    from gtrxl.runs.config import Config

INTERRUPTED = 130
BARE = ("task",)
"""What is written without its name in a line of `gtrxl train`."""
YES, NO = ("yes", "true"), ("no", "false")
LONGEST = 80
"""Letters of a folder's name that is made up."""


@dataclasses.dataclass(frozen=True)
class Sweep:
    """Train many agents: `gtrxl sweep TASK --vary core=gtrxl-gru,lstm --seeds 5`, and any option of `gtrxl train`.

    Every combination of what varies is trained with every seed, some at a time, each as a run of its own under --out, named by
    what varies. The same command goes on where an interrupted one was. Ends with the table of `gtrxl compare`.
    """

    vary: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """An option of `gtrxl train` and its values: core=gtrxl-gru,lstm or learner.learning-rate=1e-3,3e-4; once for each option.
    Values that have commas are parted by semicolons: "task=t-maze:corridor=10;t-maze:corridor=20"."""
    seeds: int = 3
    """How many seeds each combination gets, counted up from --seed."""
    out: Path | None = None
    """Where the runs go; sweeps/TASK and what varies, if left out."""
    jobs: int = 0
    """Runs at a time; 0 is one for each core. A run has one device, unless --devices says more."""
    engine: Literal["local", "ray"] = "local"
    """On this machine's cores, or over a Ray cluster."""
    address: str | None = None
    """Of a Ray cluster to join: `auto`, or host:port."""
    list_: Annotated[bool, tyro.conf.arg(name="list")] = False
    """Start nothing: show the runs and how far they are."""
    quiet: bool = False
    """Say nothing about single runs."""
    line: tyro.conf.Suppress[tuple[str, ...]] = ()

    @staticmethod
    def parse(argv: Sequence[str]) -> "Sweep":
        """The command of a line; what is no option of its own is one of `gtrxl train`."""
        config = (tyro.conf.FlagCreatePairsOff,)
        options, rest = tyro.cli(Sweep, args=argv, prog="gtrxl sweep", config=config, return_unknown_args=True)
        return dataclasses.replace(options, line=tuple(rest))

    def run(self) -> int:
        """Plans, trains, compares."""
        planned = plan(self.line, self.vary, seeds=self.seeds)
        out = self.out or Path("sweeps") / _folder_name(planned, self.vary)
        if self.list_:
            _list(planned, out)
            return 0
        from gtrxl.cli.compare import show
        from gtrxl.experiments.sweeps import sweep
        from gtrxl.report.runs import compare_runs

        if not self.quiet:
            print(f"{len(planned)} runs into {out}", file=sys.stderr, flush=True)
        where = {"engine": self.engine, "jobs": self.jobs, "address": self.address}
        try:
            sweep(planned, out, quiet=self.quiet, **where)
        except KeyboardInterrupt:
            print(f"stopped with checkpoints in {out}; the same command goes on", file=sys.stderr)
            return INTERRUPTED
        show(compare_runs([out / name for name in planned]))
        print(f"\nin {out}; `gtrxl compare {out}` shows this again, with --to FILE.png as a figure")
        return 0


def plan(line: Sequence[str], vary: Sequence[str], *, seeds: int) -> "dict[str, Config[Any]]":
    """The settings of every run, by its name: all combinations with the first seed, then with the next one."""
    from gtrxl.runs.errors import RunError

    if seeds < 1:
        raise RunError(f"seeds must be at least 1, got {seeds}; it is how many runs each combination gets")
    varied = _varied(vary)
    for name in varied:
        given = _is_given(line, name)
        if given:
            raise RunError(f"{name} must be varied or given, got both --vary {name} and {given}; leave one of them out")
    combinations = []
    for values in itertools.product(*varied.values()):
        chosen = dict(zip(varied, values, strict=True))
        config = _config([*_line(line, chosen)])
        combinations.append((_name(config, chosen), config))
    planned: dict[str, Config[Any]] = {}
    for number in range(seeds):
        for name, config in combinations:
            seed = config.seed + number
            run = ",".join(filter(None, (name, f"seed={seed}")))
            if run in planned:
                raise RunError(f"every combination must be another one, got {name} twice; name each value once")
            planned[run] = dataclasses.replace(config, seed=seed)
    return planned


def _varied(vary: Sequence[str]) -> dict[str, list[str]]:
    """Names and values of what varies."""
    from gtrxl.runs.errors import RunError

    varied: dict[str, list[str]] = {}
    for each in vary:
        name, equals, values = each.partition("=")
        name = name.strip().lstrip("-").replace("_", "-")
        found = [value.strip() for value in values.split(";" if ";" in values else ",")]
        if not equals or not name or not all(found):
            raise RunError(f"vary must be an option and its values, got {each!r}; for example --vary core=gtrxl-gru,lstm")
        if name == "seed":
            raise RunError(f"vary must not name the seed, got {each!r}; --seeds 5 --seed 10 takes 10 to 14")
        if name in ("run", "config", "quiet", "no-board"):
            raise RunError(f"vary must name a setting, got {name!r}; `gtrxl train --help` lists them")
        if name in varied:
            raise RunError(f"vary must name an option once, got {name} twice; its values go into one list")
        varied[name] = found
    return varied


def _is_given(line: Sequence[str], name: str) -> str | None:
    """The word of a line that sets this option, if there is one."""
    if name in BARE:
        return line[0] if line and not line[0].startswith("-") else None
    words = (word for word in line if word.startswith("--"))
    return next((word for word in words if word.partition("=")[0].lstrip("-").replace("_", "-") == name), None)


def _line(line: Sequence[str], chosen: Mapping[str, str]) -> list[str]:
    """A line of `gtrxl train`."""
    bare = [value for name, value in chosen.items() if name in BARE]
    flags: list[str] = []
    for name, value in chosen.items():
        if name not in BARE and value.lower() not in NO:
            flags += [f"--{name}"] if value.lower() in YES else [f"--{name}={value}"]
    return [*bare, *line, *flags]


def _config(line: list[str]) -> "Config[Any]":
    from gtrxl.runs.config import Config
    from gtrxl.runs.errors import RunError

    parsed = Train.parse(line)
    if parsed.run_ is not None:
        raise RunError(f"--run must be left out of a sweep, got {parsed.run_}; --out is the folder that all its runs go into")
    return Config(**{field.name: getattr(parsed, field.name) for field in dataclasses.fields(Config)})


def _name(config: "Config[Any]", chosen: Mapping[str, str]) -> str:
    """What a run is called: the values as the settings have them, so that 1e-3 and 0.001 are one run."""
    told = []
    for name, text in chosen.items():
        value = _value(config, name, text)
        short = name.rpartition(".")[2]
        told.append(f"{short}={_slug(f'{value:g}' if isinstance(value, float) else str(value))}")
    return ",".join(told)


def _value(config: "Config[Any]", name: str, text: str) -> Any:
    """A setting by its name on the command line; the text itself where the two names differ."""
    path = name.replace("-", "_").split(".")
    for home in (config, config.gym, config.fleet):
        if hasattr(home, path[0]):
            return functools.reduce(getattr, path, home)
    return text


def _slug(text: str) -> str:
    return re.sub(r"[^\w.+-]+", "-", text).strip("-")


def _folder_name(planned: "Mapping[str, Config[Any]]", vary: Sequence[str]) -> str:
    """TASK and what varies: the same for the same command, so that it goes on."""
    tasks = dict.fromkeys(config.task for config in planned.values())
    varied = [name.rpartition(".")[2] for name in _varied(vary) if name != "task"] or ["seeds"]
    return f"{_slug('+'.join(tasks))[:LONGEST]}-{'-'.join(varied)}"


def _list(planned: "Mapping[str, Config[Any]]", out: Path) -> None:
    from gtrxl.report.runs import read_record

    made = table("run", ["frames", "status"], "task")
    for name, config in planned.items():
        begun = (out / name / "config.json").exists()
        made.add_row(name, f"{config.steps:,}", read_record(out / name).standing if begun else "to do", config.task)
    print_table(made)
    print(f"{len(planned)} runs into {out}")
