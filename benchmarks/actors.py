"""The actor-learner loop on this machine: how much of the simulation's own speed is left, and does it stay as it is for long?

    python benchmarks/actors.py throughput --out docs/data/actors.json
    python benchmarks/actors.py frame                      # pip install popgym
    python benchmarks/actors.py soak --minutes 20 --out docs/data/soak.json --figure docs/img/soak.png

throughput: frames a second that the learner learns from, as a share of the ceiling: as many processes stepping the same tasks
with random actions and nothing else. A step costs 1 ms of CPU time, not of the clock: who waits for a core gains nothing by it.
Both are interleaved and repeated; the median counts, and the spread is shown.

frame: microseconds of CPU time that one actor alone takes for a frame of a task that costs next to nothing.

soak: memory and file handles of all processes, and packets under way, while the loop runs; an actor is killed now and then, so
that starting another one shows what it leaves behind.
"""

import contextlib
import dataclasses
import json
import multiprocessing
import os
import pathlib
import platform
import signal
import statistics
import sys
import time
from collections.abc import Iterator
from typing import Any

import gymnasium
import jax
import numpy as np
import tyro

from gtrxl.cli.tables import print_table, table
from gtrxl.gym.by_name import parse
from gtrxl.gym.task import GymTask
from gtrxl.runs import settings as configs
from gtrxl.runs.tasks import GymTasks
from gtrxl.training.actors.actor import Actor, Assignment, settle
from gtrxl.training.actors.conductor import Conductor, Learning
from gtrxl.training.actors.engine import ActorsEngine, share_out
from gtrxl.training.actors.fleet import LocalFleet
from gtrxl.training.building import update_of


class Busy(gymnasium.Env[np.ndarray, Any]):
    """Shows random numbers and takes `cost` seconds of CPU time for a reset or a step; 200 steps an episode."""

    def __init__(self, cost: float = 0.001):
        self.cost = cost
        self.observation_space = gymnasium.spaces.Box(-1, 1, (8,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Begins an episode."""
        super().reset(seed=seed)
        self.steps = 0
        return self._work(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Takes one action."""
        self.steps += 1
        return self._work(), float(action == 0), False, self.steps >= 200, {}

    def _work(self) -> np.ndarray:
        end = time.thread_time() + self.cost
        shown = self.np_random.uniform(-1, 1, 8).astype(np.float32)
        while time.thread_time() < end:
            pass
        return shown


BUSY = GymTask("Busy", env_fn=Busy)


@dataclasses.dataclass(frozen=True)
class Throughput:
    """Frames a second of the loop, as a share of the simulation alone."""

    cores: tuple[str, ...] = ("lstm",)
    actors: int = 0
    """Processes that step tasks; 0 is one for each core."""
    streams: int = 16
    unroll: int = 32
    repeats: int = 5
    seconds: float = 20.0
    """Of one measurement."""
    out: pathlib.Path | None = None

    def run(self) -> None:
        """Measures and prints."""
        rows = []
        for core in self.cores:
            config = _config(BUSY, core, streams=self.streams, unroll=self.unroll, actors=self.actors)
            ceilings, speeds, shares, tasks, waits = [], [], [], [], []
            with _loop(config, BUSY) as loop:
                loop.advance(seconds=self.seconds / 4, least=20)  # compiles
                for _ in range(self.repeats):
                    ceilings.append(ceiling(actors=config.fleet.actors, tasks=config.fleet.tasks, seconds=self.seconds))
                    loop.advance(seconds=self.seconds / 4)  # what was acted in between is used up
                    frames, took, tally = loop.advance(seconds=self.seconds)
                    speeds.append(frames / took)
                    shares.append(speeds[-1] / ceilings[-1])
                    tasks.append(tally.in_task / tally.acting)
                    waits.append(tally.waiting / took)
            rows.append(
                {
                    "core": core,
                    "actors": config.fleet.actors,
                    "tasks": config.fleet.tasks,
                    "ceiling": round(statistics.median(ceilings)),
                    "frames_per_second": round(statistics.median(speeds)),
                    "share": round(statistics.median(shares), 3),
                    "share_least": round(min(shares), 3),
                    "share_most": round(max(shares), 3),
                    "task_share": round(statistics.median(tasks), 3),
                    "waiting": round(statistics.median(waits), 3),
                }
            )
        print(f"a step costs 1 ms; {self.streams} streams, unrolls of {self.unroll} steps; {_cpus()} cores")
        made = table("core", ["actors x tasks", "simulation alone", "loop", "share", "spread", "in the task", "learner waits"])
        for row in rows:
            spread = f"{row['share_least']:.0%}-{row['share_most']:.0%}"
            sizes, speed = f"{row['actors']} x {row['tasks']}", (f"{row[name]:,}" for name in ("ceiling", "frames_per_second"))
            shares = (f"{row[name]:.0%}" for name in ("task_share", "waiting"))
            made.add_row(row["core"], sizes, *speed, f"{row['share']:.0%}", spread, *shares)
        print_table(made)
        _write(self.out, rows=rows, streams=self.streams, unroll=self.unroll, repeats=self.repeats, seconds=self.seconds)


@dataclasses.dataclass(frozen=True)
class Frame:
    """What a frame costs an actor, where the task is cheap."""

    task: str = "gym:popgym-RepeatPreviousEasy-v0"
    cores: tuple[str, ...] = ("lstm", "gtrxl-gru")
    streams: tuple[int, ...] = (8, 16, 32)
    unroll: int = 32
    repeats: int = 7
    unrolls: int = 40
    """Of one measurement."""

    def run(self) -> None:
        """Measures and prints. CPU time, not the clock's: other work on the machine counts little."""
        settle()
        task = parse(self.task)
        made = table("core", ["streams", "microseconds a frame", "spread"])
        for core in self.cores:
            agent = jax.device_get(
                ActorsEngine(configs.defaults(task=self.task, core=core), GymTasks(task)).start().trained.acting()
            )
            for streams in self.streams:
                actor = Actor(Assignment(task=task, streams=streams, steps=self.unroll, seed=0), 0)
                actor.unroll(agent, 0)
                costs = []
                for _ in range(self.repeats):
                    before = time.process_time()
                    for _ in range(self.unrolls):
                        actor.unroll(None, 0)
                    costs.append(1e6 * (time.process_time() - before) / (self.unrolls * self.unroll * streams))
                actor.close()
                made.add_row(core, str(streams), f"{statistics.median(costs):.1f}", f"{min(costs):.1f}-{max(costs):.1f}")
        print_table(made)


@dataclasses.dataclass(frozen=True)
class Soak:
    """The loop for a long time: memory, packets and file handles must stay flat."""

    minutes: float = 20.0
    task: str = "gym:CartPole-v1"
    core: str = "lstm"
    actors: int = 0
    streams: int = 16
    unroll: int = 32
    every: float = 10.0
    """Seconds between two looks."""
    kill_every: float = 120.0
    """Seconds between two kills of an actor; 0 for none."""
    out: pathlib.Path | None = None
    figure: pathlib.Path | None = None

    def run(self) -> None:
        """Runs, looks, draws."""
        task = parse(self.task)
        config = _config(task, self.core, streams=self.streams, unroll=self.unroll, actors=self.actors)
        rows, kills = [], 0
        with _loop(config, task) as loop:
            loop.advance(seconds=self.every, least=20)
            begun = time.monotonic()
            while (now := time.monotonic() - begun) < self.minutes * 60:
                if self.kill_every and now > (kills + 1) * self.kill_every:
                    os.kill(loop.fleet.pids[kills % config.fleet.actors], signal.SIGKILL)
                    kills += 1
                frames, took, _ = loop.advance(seconds=self.every)
                pids = loop.fleet.pids
                rows.append(
                    {
                        "seconds": round(time.monotonic() - begun, 1),
                        "frames_per_second": round(frames / took),
                        "learner_mb": _resident(os.getpid()),
                        "actors_mb": round(sum(map(_resident, pids)), 1),
                        "learner_files": _files(os.getpid()),
                        "actors_files": sum(map(_files, pids)),
                        "queue": len(loop.conductor.queue),
                        "under_way": loop.conductor.under_way,
                        "processes": len(pids),
                    }
                )
            updates, losses = int(loop.learning.updates), dataclasses.asdict(loop.conductor.losses)
        # The first tenth against the last: a leak shows here, whatever its speed.
        tenth = max(1, len(rows) // 10)
        drift = {
            name: [round(statistics.mean(row[name] for row in part), 1) for part in (rows[:tenth], rows[-tenth:])]
            for name in ("learner_mb", "actors_mb", "learner_files", "actors_files", "under_way", "frames_per_second")
        }
        print(f"{self.task} with {self.core}: {updates:,} updates, {kills} actors killed, {losses['restarts']} restarts")
        made = table("", ["first tenth", "last tenth"])
        for name, (first, last) in drift.items():
            made.add_row(name.replace("_", " "), f"{first:,}", f"{last:,}")
        print_table(made)
        _write(
            self.out,
            minutes=self.minutes,
            task=self.task,
            core=self.core,
            updates=updates,
            kills=kills,
            **losses,
            drift=drift,
            rows=rows,
        )
        if self.figure is not None:
            _draw(rows, self.figure, title=f"{self.task} with {self.core}, {config.fleet.actors} actors, {kills} of them killed")


class Loop:
    """The actor-learner loop, for so many seconds at a time."""

    def __init__(self, config: configs.Config[Any], fleet: LocalFleet, conductor: Conductor, learning: Learning):
        self.fleet, self.conductor, self.learning = fleet, conductor, learning
        self._frames = config.streams * config.unroll

    def advance(self, *, seconds: float, least: int = 0) -> tuple[int, float, Any]:
        """Learns for so long, and makes at least so many updates: frames, seconds, and what else there is to tell."""
        begun, first = time.monotonic(), int(self.learning.updates)
        if least:
            self.learning, _ = self.conductor.advance(self.learning, until=first + least)
        end = time.monotonic() + seconds
        self.learning, tally = self.conductor.advance(self.learning, until=2**30, stop=lambda: time.monotonic() > end)
        if self.conductor.failed is not None:
            sys.exit(self.conductor.failed)
        return (int(self.learning.updates) - first) * self._frames, time.monotonic() - begun, tally


@contextlib.contextmanager
def _loop(config: configs.Config[Any], task: GymTask) -> Iterator[Loop]:
    assignment = Assignment(task=task, streams=config.fleet.tasks, steps=config.unroll, seed=0)
    learning = ActorsEngine(config, GymTasks(task)).start()
    with LocalFleet(assignment, config.fleet.actors) as fleet:
        sizes: dict[str, Any] = {"streams": config.streams, "tasks": config.fleet.tasks, "restarts": config.fleet.restarts}
        yield Loop(config, fleet, Conductor(update_of(config), fleet, **sizes, say=print), learning)


def _config(task: GymTask, core: str, *, streams: int, unroll: int, actors: int) -> configs.Config[Any]:
    changes = {"streams": streams, "unroll": unroll, "fleet": {"actors": actors}}
    return share_out(configs.change(configs.defaults(task=task.name, core=core, algorithm="vmpo"), changes), GymTasks(task))


def ceiling(*, actors: int, tasks: int, seconds: float) -> float:
    """Calls a second of the same tasks in as many processes, with random actions and nothing else."""
    context = multiprocessing.get_context("spawn")
    start, counts = context.Barrier(actors + 1), context.Queue()
    workers = [context.Process(target=_simulate, args=(BUSY, tasks, seconds, start, counts), daemon=True) for _ in range(actors)]
    for worker in workers:
        worker.start()
    start.wait(120)
    speeds = [counts.get(timeout=seconds + 60) for _ in workers]
    for worker in workers:
        worker.join()
    return sum(speeds)


def _simulate(task: GymTask, tasks: int, seconds: float, start: Any, counts: Any) -> None:
    envs = [task.make() for _ in range(tasks)]
    for k, env in enumerate(envs):
        env.reset(seed=k)
        env.action_space.seed(k)
    ended = [False] * tasks
    start.wait(120)
    begun, calls = time.monotonic(), 0
    while (took := time.monotonic() - begun) < seconds:
        for k, env in enumerate(envs):
            if ended[k]:
                env.reset()
                ended[k] = False
            else:
                _, _, terminated, truncated, _ = env.step(env.action_space.sample())
                ended[k] = terminated or truncated
            calls += 1
    counts.put(calls / took)


def _resident(pid: int) -> float:
    """Megabytes of memory of a process."""
    with contextlib.suppress(OSError, IndexError):
        return round(int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)
    return 0.0


def _files(pid: int) -> int:
    """Open file handles of a process."""
    with contextlib.suppress(OSError):
        return len(os.listdir(f"/proc/{pid}/fd"))
    return 0


def _draw(rows: list[dict[str, Any]], path: pathlib.Path, *, title: str) -> None:
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    minutes = [row["seconds"] / 60 for row in rows]
    figure, axes = plt.subplots(4, 1, figsize=(7, 8), sharex=True, layout="constrained")
    shown = {
        "memory, MB": {"learner": "learner_mb", "actors, together": "actors_mb"},
        "file handles": {"learner": "learner_files", "actors, together": "actors_files"},
        "packets": {"under way": "under_way", "waiting to be learned from": "queue"},
        "frames a second": {"": "frames_per_second"},
    }
    for axis, (label, lines) in zip(axes, shown.items(), strict=True):
        for name, field in lines.items():
            axis.plot(minutes, [row[field] for row in rows], label=name, linewidth=1.2)
        axis.set_ylabel(label)
        axis.set_ylim(bottom=0)
        if len(lines) > 1:
            axis.legend(frameon=False, fontsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_title(title, fontsize=10)
    axes[-1].set_xlabel("minutes")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def _write(path: pathlib.Path | None, **told: Any) -> None:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        words = " ".join(["python", "benchmarks/actors.py", *sys.argv[1:]])
        machine = {"cores": _cpus(), "machine": platform.machine(), "jax": jax.__version__}
        path.write_text(json.dumps({"command": words, **machine, **told}, indent=1) + "\n")


def _cpus() -> int:
    return len(os.sched_getaffinity(0))


def main() -> None:
    """One of the two."""
    tyro.extras.subcommand_cli_from_dict({"throughput": Throughput, "frame": Frame, "soak": Soak}, description=__doc__).run()


if __name__ == "__main__":
    main()
