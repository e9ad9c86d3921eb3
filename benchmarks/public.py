"""Other people's tasks at other people's frames: our scores beside what they published.

    python benchmarks/public.py                                    # everything that is not there yet, one run at a time
    python benchmarks/public.py --only popgym RepeatPreviousMedium # some sets or tasks
    python benchmarks/public.py --list                             # what there is, its command, and what is done
    python benchmarks/public.py --table                            # only the table, from the data there is

Every run is one `gtrxl train` command; its score is that of new episodes of the agent at its end, `gtrxl eval RUN --checkpoint
last`. A run that was killed goes on, and one that has finished is left alone; so is one whose record is in docs/data/public.json,
wherever it was made. POPGym's card games run in our compiled form, which the tests hold to POPGym's own step by step, and one of
them in POPGym's own form, too. What needs a package that is missing (popgym, minigrid) is left out and said.
"""

import concurrent.futures
import dataclasses
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import tyro

import gtrxl
from gtrxl.report import learning_curves

CORES = ("gtrxl-gru", "lstm")
EPISODES = 256
HERE = pathlib.Path(__file__).parent

ZOO = "rl-baselines3-zoo, benchmark.md"
POPGYM = "POPGym's PPO, best of 13 memories, 15 M frames; a transcription"
NI = "Ni et al. 2023: a transformer remembers 1,500 steps, no number here; frames are theirs, the best possible is 1"
CLEANRL = "CleanRL's PPO-TrXL: solved, no number; the best possible is 1.2"
MINIGRID = "best of 7 memories, PPO, 10 M frames; not published in print, a transcription"


@dataclasses.dataclass(frozen=True)
class Goal:
    """A task of others, and what they got."""

    name: str
    set: str
    task: str
    """As `gtrxl train` takes it."""
    frames: int
    """Of the published run, or what GTrXL-GRU needs to level off."""
    published: float | None
    source: str
    options: tuple[str, ...] = ()
    needs: str | None = None
    """The module that it comes from."""
    others: int | None = None
    """Frames of the other cores, if GTrXL-GRU needs fewer than were published."""
    greedy: bool = False
    """Whether its source played without chance, so that we do, too."""
    played: str | None = None
    """The task of the new episodes, where it was trained on more than that."""

    @property
    def plays(self) -> dict[str, tuple[str, ...]]:
        """New episodes: the file that each kind is kept in, and what `gtrxl eval` is told."""
        where = ("--task", self.played) if self.played else ()
        return {"eval.json": where, **({"greedy.json": (*where, "--greedy")} if self.greedy else {})}

    def command(self, core: str, seed: int, scale: float = 1.0) -> list[str]:
        """Of one run, without its folder."""
        frames = self.frames if core == "gtrxl-gru" else self.others or self.frames
        steps = ["--steps", str(max(1, round(scale * frames)))]
        return ["gtrxl", "train", self.task, "--core", core, "--seed", str(seed), *steps, *self.options]

    @property
    def missing(self) -> bool:
        """Whether its package is."""
        return self.needs is not None and importlib.util.find_spec(self.needs) is None


M = 1_000_000


def _popgym(name: str, task: str, published: float, frames: int, *options: str, others: int | None = None) -> Goal:
    return Goal(name, "popgym", task, frames, published, POPGYM, ("--devices", "1", *options), others=others)


def _in_popgym(name: str, published: float, frames: int, *options: str) -> Goal:
    return Goal(name + " (popgym)", "popgym", f"gym:popgym-{name}-v0", frames, published, POPGYM, options, needs="popgym")


# Answers that change nothing of what comes: settings of the card games (docs/tasks.md), and PPO where it is better (docs/log.md).
GUESS = ("--discount", "0.5", "--learner.learning-rate", "1e-3")
FAST = ("--learner.learning-rate", "1e-3")
EVENLY = ("--algorithm", "ppo", "--learner.learning-rate", "5e-4")

GOALS = (
    Goal("CartPole", "classic", "gym:CartPole-v1", 100_000, 500.0, ZOO, ("--mask-velocity",), greedy=True),
    Goal("Pendulum", "classic", "gym:Pendulum-v1", 100_000, -217.9, ZOO, ("--mask-velocity",), greedy=True),
    Goal(
        "MountainCarContinuous", "classic", "gym:MountainCarContinuous-v0", 300_000, 91.5, ZOO, ("--mask-velocity",), greedy=True
    ),
    _popgym("RepeatPreviousEasy", "repeat-previous", 1.0, 2 * M, others=15 * M),
    _popgym("RepeatPreviousMedium", "repeat-previous:decks=2,k=32", 0.789, 2 * M, others=15 * M),
    _popgym("RepeatPreviousHard", "repeat-previous:decks=3,k=64", 0.191, 2 * M, others=15 * M),
    _in_popgym("RepeatPreviousMedium", 0.789, 1 * M, "--algorithm", "vmpo", *GUESS),
    _popgym("RepeatFirstEasy", "repeat-first", 1.0, 1 * M, *EVENLY),
    _popgym("RepeatFirstMedium", "repeat-first:decks=8", 1.0, 1 * M, *EVENLY),
    _popgym("AutoencodeEasy", "autoencode", -0.283, 3 * M),
    _popgym("AutoencodeMedium", "autoencode:decks=2", -0.420, 3 * M),
    _popgym("CountRecallEasy", "count-recall", 0.509, 3 * M, *EVENLY),
    _popgym("CountRecallMedium", "count-recall:decks=2,kinds=4", -0.519, 3 * M, *EVENLY),
    _popgym("HigherLowerEasy", "higher-lower", 0.529, 2 * M),
    _popgym("HigherLowerMedium", "higher-lower:decks=2", 0.513, 2 * M),
    _popgym("NoisyPositionOnlyCartPoleEasy", "noisy-cart-pole", 0.995, 3 * M, *FAST),
    _popgym("NoisyPositionOnlyCartPoleMedium", "noisy-cart-pole:noise=20", 0.659, 3 * M, *FAST),
    Goal("MiniGrid-MemoryS7", "minigrid", "minigrid-memory", M // 2, None, "not published", ("--devices", "1")),
    Goal("MiniGrid-MemoryS13", "minigrid", "minigrid-memory:size=13", 3 * M, 0.94, MINIGRID, ("--devices", "1")),
    Goal(
        "MiniGrid-MemoryS13, trained on S7 to S13",
        "minigrid",
        "+".join(f"minigrid-memory:size={size}" for size in (7, 9, 11, 13)),
        2 * M,
        0.94,
        MINIGRID,
        ("--devices", "1", "--streams", "32"),
        played="minigrid-memory:size=13",
    ),
    Goal("ProofofMemory", "cleanrl", "env:proof_of_memory.make", 25_000, None, CLEANRL, ("--from", str(HERE))),
    *(
        Goal(
            f"passive T-maze {length:,}",
            "t-maze",
            f"passive-t-maze:corridor={length}",
            frames,
            None,
            NI,
            ("--devices", "1", "--net.memory", str(length + 1), "--learner.learning-rate", "1e-3"),
        )
        for length, frames in ((50, 1 * M), (100, 2 * M), (250, 4 * M), (500, 4 * M), (1500, 10 * M))
    ),
)
"""What is learned, at which frames, and what others got. Published numbers are means of episodes' returns, as ours."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """Which runs to make, and where things go."""

    only: tuple[str, ...] = ()
    """Sets (classic, popgym, minigrid, cleanrl, t-maze) or names of tasks; all if left out."""
    cores: tuple[str, ...] = CORES
    seeds: int = 3
    jobs: int = 1
    steps_scale: float = 1.0
    """Frames of each run, as a share of the plan's: for a trial. Such runs do not go into the data."""
    again: bool = False
    """Also make the runs that are in the data file."""
    list: bool = False
    table: bool = False
    runs: pathlib.Path = pathlib.Path("runs/public")
    data: pathlib.Path = pathlib.Path("docs/data/public.json")


@dataclasses.dataclass(frozen=True)
class Run:
    """One run of the plan."""

    goal: Goal
    core: str
    seed: int

    @property
    def key(self) -> tuple[str, str, int]:
        """What its record is found by."""
        return self.goal.name, self.core, self.seed

    def folder(self, settings: Settings) -> pathlib.Path:
        """Where it is kept."""
        scale = "" if settings.steps_scale == 1 else f"-x{settings.steps_scale:g}"
        name = "".join(letter if letter.isalnum() else "-" for letter in self.goal.name.replace(",", ""))
        return settings.runs / f"{name}{scale}" / f"{self.core}-{self.seed}"


def chosen(settings: Settings) -> list[Run]:
    """The runs that were asked for, seed by seed, so that all tasks have one before any has two."""
    known = {goal.name for goal in GOALS} | {goal.set for goal in GOALS}
    for name in settings.only:
        if name not in known:
            sys.exit(f"only must be among {', '.join(sorted(known))}, got {name!r}; --list shows them")
    goals = [goal for goal in GOALS if not settings.only or {goal.name, goal.set} & set(settings.only)]
    return [Run(goal, core, seed) for seed in range(settings.seeds) for goal in goals for core in settings.cores]


def make(run: Run, settings: Settings) -> int:
    """Starts a run, goes on with it, or leaves it alone if it has finished; then plays new episodes, once."""
    folder = run.folder(settings)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "log.txt").open("a") as log:
        own = ["--trust", "--from", str(HERE)] if run.goal.task.startswith("env:") else []
        if not _finished(folder):
            if (folder / "config.json").exists():
                words = ["gtrxl", "resume", str(folder), *own]
            else:
                words = [*run.goal.command(run.core, run.seed, settings.steps_scale), "--run", str(folder), "--no-board"]
            code = _call(words, stdout=log, stderr=log).returncode
            if code:
                return code
        for name, how in run.goal.plays.items():
            if (folder / name).exists():
                continue
            words = ["gtrxl", "eval", str(folder), "--episodes", str(EPISODES), "--checkpoint", "last", "--json", *how, *own]
            played = _call(words, stdout=subprocess.PIPE, stderr=log)
            if played.returncode:
                return played.returncode
            unfinished = folder / f"{name}.tmp"
            unfinished.write_bytes(played.stdout)
            unfinished.replace(folder / name)
    return 0


def _call(words: Sequence[str], **where: Any) -> subprocess.CompletedProcess[bytes]:
    # The functions of a task that lies here are imported by the actors, too.
    path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run([sys.executable, "-m", *words], check=False, env={**os.environ, "PYTHONPATH": path}, **where)


def _finished(folder: pathlib.Path) -> bool:
    result = folder / "result.json"
    return result.exists() and json.loads(result.read_text())["status"] not in ("stopped", "failed")


def record(run: Run, folder: pathlib.Path) -> dict[str, Any] | None:
    """What is kept of a run; None if it is not done."""
    if not _finished(folder) or not all((folder / name).exists() for name in run.goal.plays):
        return None
    command = " ".join(run.goal.command(run.core, run.seed)).replace(str(HERE), "benchmarks")
    made = learning_curves.record(folder, command=command)
    played = json.loads((folder / "eval.json").read_text())
    every = max(1, len(made["points"]) // 20)
    return {
        "name": run.goal.name,
        "set": run.goal.set,
        "task": made["task"],
        "core": run.core,
        "seed": run.seed,
        "command": command,
        "status": made["status"],
        "frames": made["frames"],
        "score": round(played["mean_return"], 4),
        **({"greedy": round(json.loads((folder / "greedy.json").read_text())["mean_return"], 4)} if run.goal.greedy else {}),
        "interval": [round(end, 4) for end in played["interval"]],
        "std": round(played["std"], 4),
        "episodes": played["episodes"],
        "late": made["return"],
        "frames_per_second": round(made["frames"] / max(made["seconds"], 1e-9)),
        "minutes": round(made["seconds"] / 60, 2),
        "version": gtrxl.__version__,
        "points": made["points"][every - 1 :: every],
    }


def load(path: pathlib.Path) -> dict[tuple[str, str, int], dict[str, Any]]:
    """The records there are."""
    rows = json.loads(path.read_text())["runs"] if path.exists() else []
    return {(row["name"], row["core"], row["seed"]): row for row in rows}


def save(path: pathlib.Path, records: Iterable[dict[str, Any]]) -> None:
    """In the order of the plan, a line each."""
    order = {goal.name: i for i, goal in enumerate(GOALS)}
    kept = sorted(records, key=lambda row: (order.get(row["name"], len(order)), row["core"], row["seed"]))
    lines = ",\n".join("  " + json.dumps(row) for row in kept)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".tmp")
    unfinished.write_text(f'{{"made_by": "python benchmarks/public.py", "runs": [\n{lines}\n]}}\n')
    unfinished.replace(path)


def table(records: Iterable[dict[str, Any]], goals: Sequence[Goal] = GOALS) -> str:
    """Markdown: a line for each task and core that there are runs of."""
    rows = list(records)
    lines = [
        "| task | core | score of each seed | median | published | frames | frames/s | minutes a run | source |",
        "|---|---|---|---:|---:|---:|---:|---:|---|",
    ]
    for goal in goals:
        for core in dict.fromkeys(row["core"] for row in rows if row["name"] == goal.name):
            mine = [row for row in rows if (row["name"], row["core"]) == (goal.name, core)]
            scores = [row["score"] for row in mine]
            cells = [
                goal.name,
                core,
                _list(scores, [row["greedy"] for row in mine if "greedy" in row]),
                _short(statistics.median(scores)),
                "-" if goal.published is None else f"{goal.published:g}",
                f"{statistics.median(row['frames'] for row in mine) / 1e6:.3g} M",
                f"{statistics.median(row['frames_per_second'] for row in mine):,.0f}",
                f"{statistics.median(row['minutes'] for row in mine):.1f}",
                goal.source,
            ]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _list(scores: Sequence[float], greedy: Sequence[float]) -> str:
    """Of each seed; without chance in brackets."""
    told = ", ".join(map(_short, scores))
    return f"{told} (greedy {', '.join(map(_short, greedy))})" if greedy else told


def _short(score: float) -> str:
    return f"{score:.3f}" if abs(score) < 10 else f"{score:.1f}"


def main() -> None:
    """Runs, collects as it goes, prints."""
    settings = tyro.cli(Settings, description=__doc__)
    known, plan = load(settings.data), chosen(settings)
    if settings.list:
        for run in plan:
            state = "done" if run.key in known else f"needs {run.goal.needs}" if run.goal.missing else "to do"
            print(f"{state:12} {' '.join(run.goal.command(run.core, run.seed, settings.steps_scale))}")
        return
    open_runs = [] if settings.table else [run for run in plan if settings.again or run.key not in known]
    for module in sorted({run.goal.needs or "" for run in open_runs if run.goal.missing}):
        print(f"{module} is not installed: its tasks are left out", flush=True)
    with concurrent.futures.ThreadPoolExecutor(settings.jobs) as pool:
        jobs = {pool.submit(make, run, settings): run for run in open_runs if not run.goal.missing}
        for done in concurrent.futures.as_completed(jobs):
            run = jobs[done]
            print(*run.key, "ended with", done.result(), flush=True)
            made = record(run, run.folder(settings))
            if made is not None and settings.steps_scale == 1:
                known = {**load(settings.data), run.key: made}  # others may have written theirs meanwhile
                save(settings.data, known.values())
            elif made is not None:
                known[run.key] = made
    print(table(known.values()))


if __name__ == "__main__":
    main()
