"""Does it learn? Runs the sets of training runs that docs/learning.md shows, and draws their curves.

    python benchmarks/learning.py grid-2x2 --jobs 2        # runs what is not there yet, goes on with what was stopped
    python benchmarks/learning.py --draw                   # only the table and the figure, from the runs there are

Every run is one `gtrxl train` command, kept with its curve in docs/data/learning.json.
"""

import concurrent.futures
import dataclasses
import json
import pathlib
import subprocess
import sys
from typing import Annotated, Any

import tyro

import gtrxl
from gtrxl.report import learning_curves

SEEDS = 3
OTHERS = ("none", "lstm", "trxl", "trxl-i")


@dataclasses.dataclass(frozen=True)
class Planned:
    """One run."""

    task: str
    core: str
    seed: int
    options: tuple[str, ...] = ()

    @property
    def command(self) -> list[str]:
        """Its command line, without the folder."""
        core = [] if self.core == "gtrxl-gru" else ["--core", self.core]
        return ["gtrxl", "train", self.task, *core, "--seed", str(self.seed), *self.options]

    def folder(self, root: pathlib.Path, of: str) -> pathlib.Path:
        """Where it is kept."""
        return root / of / f"{self.core}-{self.seed}"


ROOMS = (
    "rooms_select_nonmatching_object:room=3,objects=2,fresh=1,mixed=0,penalty=0,"
    "trial_steps=60,episode_steps=240,height=24,width=32"
)
"""An object is seen in one room and says which way to go in the next: a T-maze in pictures."""
SMALL_EYES = ("--net.channels", "tiny", "--net.memory", "64", "--discount", "0.97", "--steps", "1500000")

SETS: dict[str, list[Planned]] = {
    "first": [Planned("grid-numpad", "gtrxl-gru", seed) for seed in range(10)],
    "grid-2x2": [Planned("grid-numpad", core, seed, ("--devices", "1")) for seed in range(SEEDS) for core in OTHERS],
    "grid-3x3": [Planned("grid-numpad-3x3", "gtrxl-gru", seed, ("--devices", "1")) for seed in range(SEEDS)]
    + [
        Planned("grid-numpad-3x3", core, seed, ("--devices", "1", "--steps", "20000000"))
        for seed in range(SEEDS)
        for core in ("lstm", "none", "trxl-i", "trxl")
    ],
    "t-maze": [Planned("t-maze", "gtrxl-gru", seed, ("--devices", "1")) for seed in range(5)]
    + [Planned("t-maze", "none", seed, ("--devices", "1")) for seed in range(SEEDS)],
    "t-maze-fast": [
        Planned("t-maze", "gtrxl-gru", seed, ("--devices", "1", "--learner.learning-rate", "1e-3")) for seed in range(5)
    ],
    "pixels": [
        Planned(ROOMS, core, seed, ("--devices", "1", *SMALL_EYES, *more))
        for seed in range(SEEDS)
        for core, more in (("gtrxl-gru", ()), ("none", ()))
    ],
    "numpad-2x2": [Planned("numpad-2x2", core, 0, ("--devices", "1")) for core in ("gtrxl-gru", "lstm")]
    + [Planned("numpad-2x2", "gtrxl-gru", seed, ("--devices", "1", "--steps", "2500000")) for seed in (1, 2)],
}
"""Name -> runs, with the default settings of each task and core; `first` is the README's first command, on all cores."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """Which sets to run, and where things go."""

    sets: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    runs: pathlib.Path = pathlib.Path("runs/learning")
    jobs: int = 1
    draw: bool = False
    data: pathlib.Path = pathlib.Path("docs/data/learning.json")
    figures: pathlib.Path = pathlib.Path("docs/img")
    steps: int | None = None
    """Frames of each run instead of the task's default."""


def run(planned: Planned, folder: pathlib.Path, steps: int | None) -> int:
    """Starts a run, goes on with it, or leaves it alone if it has finished."""
    program = [sys.executable, "-m"]
    if (folder / "result.json").exists() and json.loads((folder / "result.json").read_text())["status"] != "stopped":
        return 0
    length = [] if steps is None else ["--steps", str(steps)]
    if (folder / "checkpoints").exists() and (folder / "config.json").exists():
        words = ["gtrxl", "resume", str(folder)]
    else:
        words = [*planned.command, *length, "--run", str(folder), "--no-board"]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "log.txt").open("a") as log:
        return subprocess.run([*program, *words], stdout=log, stderr=subprocess.STDOUT, check=False).returncode


def collect(settings: Settings) -> None:
    """All runs there are -> the data file, the table, the figures."""
    from gtrxl.tasks import make_task, reference_scores

    sets: dict[str, list[dict[str, Any]]] = {}
    for name, plans in SETS.items():
        for planned in plans:
            folder = planned.folder(settings.runs, name)
            if (folder / "metrics.jsonl").exists() and (folder / "metrics.jsonl").stat().st_size:
                config = json.loads((folder / "config.json").read_text())
                command = " ".join(planned.command)
                if config["steps"] and "--steps" not in command and settings.steps is not None:
                    command += f" --steps {config['steps']}"
                made = learning_curves.record(folder, command=command) | {"set": name, "version": gtrxl.__version__}
                sets.setdefault(name, []).append(made)
    before = json.loads(settings.data.read_text())["runs"] if settings.data.exists() else []
    for made in before:  # of sets that were not run here
        if not (settings.runs / made["set"]).exists():
            sets.setdefault(made["set"], []).append(made)
    records = [made for name in SETS for made in sets.get(name, ())]
    settings.data.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join("  " + json.dumps(each) for each in records)
    settings.data.write_text(f'{{"made_by": "python benchmarks/learning.py", "runs": [\n{lines}\n]}}\n')
    tasks = dict.fromkeys(each["task"] for each in records)
    known = {task: reference_scores(make_task(task)) for task in tasks}
    scores = {
        task: {
            name: level
            for name, level in (("perfect memory", of.best), ("no memory", of.memoryless), ("random", of.random))
            if level is not None
        }
        for task, of in known.items()
    }
    if "grid-2x2" in sets:  # the same task and frames as `first`: one picture for all cores
        sets["grid-2x2"] = sets["grid-2x2"] + [each for each in sets.pop("first", []) if each["seed"] < SEEDS]
    for name, here in sets.items():
        if not (settings.runs / name).exists():  # its picture is there
            continue
        learning_curves.draw(here, scores, [settings.figures / f"learning-{name}.png"])
    print(learning_curves.table(records))
    if "grid-3x3" in sets:  # its runs differ in length
        print("\ngrid-3x3\n" + learning_curves.equal_frames(sets["grid-3x3"], 20_000_000))


def main() -> None:
    """Runs, then collects."""
    settings = tyro.cli(Settings, description=__doc__)
    unknown = [name for name in settings.sets if name not in SETS]
    if unknown:
        sys.exit(f"sets must be among {', '.join(SETS)}, got {unknown[0]!r}")
    with concurrent.futures.ThreadPoolExecutor(settings.jobs) as pool:
        jobs = {
            pool.submit(run, planned, planned.folder(settings.runs, name), settings.steps): planned
            for name in settings.sets
            for planned in SETS[name]
        }
        for done in concurrent.futures.as_completed(jobs):
            print(" ".join(jobs[done].command), "ended with", done.result(), flush=True)
    collect(settings)


if __name__ == "__main__":
    main()
