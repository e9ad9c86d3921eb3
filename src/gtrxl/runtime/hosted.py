"""A run whose task lives on the CPU: begin it, go on with it, end it well. `conductor` learns, a fleet acts."""

import dataclasses
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax

from gtrxl.envs.host import HostTask
from gtrxl.envs.spaces import Spaces
from gtrxl.runtime import config as configs
from gtrxl.runtime.actor import Assignment
from gtrxl.runtime.checkpoints import size_of
from gtrxl.runtime.conductor import Conductor, Learning, Losses
from gtrxl.runtime.config import Config
from gtrxl.runtime.errors import RunError
from gtrxl.runtime.fleet import Fleet, LocalFleet
from gtrxl.runtime.host_rows import HostRows, lines, normalised_return
from gtrxl.runtime.learning import Update
from gtrxl.runtime.metrics import Board, Metrics, NoBoard, Rows, read
from gtrxl.runtime.reporting import on_interrupt, updates_per_report, write_result
from gtrxl.runtime.runs import Run, Status, checkpoints_of, make_agent, new_folder
from gtrxl.runtime.terminal import open_view

OpenFleet = Callable[[Assignment, int], Fleet]
"""Starts so many actors."""


def train(
    config: Config[Any],
    task: HostTask,
    *,
    run: str | os.PathLike[str] | None = None,
    quiet: bool = False,
    board: bool = True,
    open_fleet: OpenFleet | None = None,
) -> Run:
    """A new run. What cannot work is said before there is a folder."""
    config = share_out(config, task)
    learning = begin(config, task.spaces(), len(task.tasks))
    folder = new_folder(config, run)
    keeping = checkpoints_of(folder, expected_bytes=size_of(learning))
    configs.write(config, folder / "config.json")
    Rows(folder / "metrics.jsonl").close()
    keeping.save(0, learning)
    return _go_on(config, task, folder, learning, quiet=quiet, board=board, open_fleet=open_fleet)


def resume(
    config: Config[Any],
    task: HostTask,
    folder: Path,
    *,
    quiet: bool = False,
    board: bool = True,
    open_fleet: OpenFleet | None = None,
) -> Run:
    """Goes on from the last checkpoint: with the same weights, optimiser, multipliers and statistics, in new episodes."""
    keeping = checkpoints_of(folder)
    learning = keeping.restore(shapes(config, task.spaces(), len(task.tasks)), "last")
    rows = Rows(folder / "metrics.jsonl")
    rows.truncate_after(updates=int(learning.updates))
    rows.close()
    return _go_on(share_out(config, task), task, folder, learning, quiet=quiet, board=board, open_fleet=open_fleet)


def begin(config: Config[Any], spaces: Spaces, tasks: int = 1) -> Learning:
    """Before the first update; the agent has a value for each of so many tasks."""
    agent_key, learning_key = jax.random.split(jax.random.key(config.seed))
    return Learning.start(update_of(config), make_agent(config, spaces, agent_key, values=tasks), learning_key)


def shapes(config: Config[Any], spaces: Spaces, tasks: int | None = None) -> Learning:
    """The state of such a run as shapes alone: what its checkpoints are read into; with as many tasks as its settings name."""
    return eqx.filter_eval_shape(begin, config, spaces, len(config.host_task.tasks) if tasks is None else tasks)


def update_of(config: Config[Any]) -> Update:
    """How these settings learn from a batch."""
    return Update(
        learner=config.learner,
        discount=config.discount,
        popart_step=config.popart_step,
        pixel_control=config.pixel_control,
    )


def share_out(config: Config[Any], task: HostTask | None = None) -> Config[Any]:
    """The settings with a number of actors and of tasks for each: those asked for, or the streams shared out among the cores."""
    fleet, streams = config.fleet, config.streams
    task = config.host_task if task is None else task
    number, each = len(task.tasks), 1 if task.alone else fleet.tasks
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    actors = fleet.actors or (cores if task.alone else max(n for n in range(1, cores + 1) if streams % n == 0))
    # A batch is whole packets. With more actors than streams each has one task, and every batch is of those that came first.
    fitting = [n for n in range(1, max(1, streams // actors) + 1) if streams % n == 0]
    tasks = each or max((n for n in fitting if actors * n % number == 0), default=fitting[-1])
    if not fleet.actors:  # as many more as let each task of a set have as many streams as the others
        alike = number // math.gcd(number, tasks)
        actors = math.ceil(actors / alike) * alike
    if task.alone and fleet.tasks > 1:
        raise RunError(f"tasks-per-actor must be 1 for {task.name}: a process holds one of it, got {fleet.tasks}; leave it out")
    if streams % tasks:
        raise RunError(
            f"streams must be a multiple of the tasks of an actor, got {streams} for {actors} actors of {tasks} tasks each; "
            f"try --streams {tasks * max(1, round(streams / tasks))}"
        )
    if actors * tasks % number:
        alike = number // math.gcd(number, tasks)
        raise RunError(
            f"actors must share the {number} tasks of {task.name} out evenly, got {actors} with {tasks} each; "
            f"try --actors {math.ceil(actors / alike) * alike}"
        )
    return dataclasses.replace(config, fleet=dataclasses.replace(fleet, actors=actors, tasks=tasks))


def _go_on(
    config: Config[Any],
    task: HostTask,
    folder: Path,
    learning: Learning,
    *,
    quiet: bool,
    board: bool,
    open_fleet: OpenFleet | None,
) -> Run:
    frames_per_update, last = config.streams * config.unroll, _last_update(config)
    done = int(learning.updates)
    before = read(folder / "metrics.jsonl")
    resume_at = done * frames_per_update if done else None
    title = f"{config.task} with {config.core}, seed {config.seed}, into {folder}"
    ending = Ending(learning, "finished")
    with (
        open_view(title=title, total_frames=last * frames_per_update, lines=lines(task), quiet=quiet) as view,
        on_interrupt(view, when="after this update") as interrupted,
    ):
        (folder / "result.json").unlink(missing_ok=True)
        for row in before:
            view.report(row)
        writing = Metrics(
            Rows(folder / "metrics.jsonl"), Board(folder / "tensorboard", resume_at=resume_at) if board else NoBoard()
        )

        def report(row: dict[str, Any]) -> None:
            writing.write(row)
            view.report(row)

        if done < last:
            view.message(f"starting {config.fleet.actors} actors")
            fleet = (open_fleet or _fleet_of(config))(_assignment(config, task, since=done), config.fleet.actors)
            try:
                sizes = {"streams": config.streams, "tasks": config.fleet.tasks, "restarts": config.fleet.restarts}
                losses = Losses.since(before[-1] if before else None)
                conductor = Conductor(update_of(config), fleet, **sizes, losses=losses, say=view.message)
                seconds = before[-1]["seconds"] if before else 0.0
                made = HostRows(config, task, before)
                ending = _learn(config, folder, learning, conductor, made, report, stop=interrupted.is_set, seconds=seconds)
            finally:
                fleet.close()
        writing.close()
        if ending.message:
            view.message(ending.message)
    rows = read(folder / "metrics.jsonl")
    error = ending.message if ending.status == "failed" else None
    run = Run(folder=folder, config=config, status=ending.status, rows=rows)
    score = None if run.mean_return is None else normalised_return(task, run.mean_return)
    write_result(folder, ending.status, rows, normalised=score, diverged=int(ending.learning.diverged), error=error)
    if error is not None:
        raise RunError(error)
    return run


class Ending(NamedTuple):
    """How learning ended, and what is to be said of it."""

    learning: Learning
    status: Status
    message: str = ""


def _learn(
    config: Config[Any],
    folder: Path,
    learning: Learning,
    conductor: Conductor,
    rows: HostRows,
    report: Callable[[dict[str, Any]], None],
    *,
    stop: Callable[[], bool],
    seconds: float,
) -> Ending:
    """From report to report, with checkpoints, to the last update or whatever comes before it."""
    every, last = updates_per_report(config), _last_update(config)
    done, begun = int(learning.updates), time.monotonic()
    while True:
        number = done // every + 1
        learning, tally = conductor.advance(learning, until=number * every, stop=stop)
        done, diverged, now = int(learning.updates), int(learning.diverged), time.monotonic()
        row = rows.row(learning, tally, conductor)
        pace = tally.updates * config.streams * config.unroll / (now - tally.begun)
        if tally.updates:
            report({**row, "seconds": seconds + now - begun, "frames_per_second": pace})
        if diverged >= 0:
            return Ending(learning, "diverged", f"diverged: not finite after update {diverged}; the last good checkpoint is kept")
        ends = done >= last or done < number * every
        if ends or number % config.checkpoint_every == 0:
            checkpoints_of(folder).save(done, learning, score=row["return_mean"])
        if conductor.failed is not None:
            return Ending(learning, "failed", f"{conductor.failed}; the checkpoint of update {done} is kept in {folder}")
        if done >= last:
            return Ending(learning, "finished")
        if ends:
            return Ending(learning, "stopped", f"stopped with a checkpoint; go on by `gtrxl resume {folder}`")


def _last_update(config: Config[Any]) -> int:
    every = updates_per_report(config)
    return every * math.ceil(config.steps / (config.streams * config.unroll * every))


def _assignment(config: Config[Any], task: HostTask, *, since: int) -> Assignment:
    return Assignment(
        task=task,
        streams=config.fleet.tasks,
        steps=config.unroll,
        seed=config.seed,
        time_limit=config.fleet.time_limit,
        since=since,
    )


def _fleet_of(config: Config[Any]) -> OpenFleet:
    if config.fleet.engine != "ray":
        return LocalFleet
    from gtrxl.runtime.ray_fleet import RayFleet

    return lambda assignment, actors: RayFleet(assignment, actors, address=config.fleet.address)
