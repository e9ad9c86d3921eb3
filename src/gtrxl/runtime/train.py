"""Training from the outside: start or resume a run, report it, keep it, end it well."""

import contextlib
import dataclasses
import json
import math
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from gtrxl.envs.scores import Scores, reference_scores
from gtrxl.runtime import config as configs
from gtrxl.runtime.checkpoints import size_of
from gtrxl.runtime.config import Config
from gtrxl.runtime.diagnosis import openness, staleness
from gtrxl.runtime.errors import RunError
from gtrxl.runtime.loop import Loop, Report, Training
from gtrxl.runtime.metrics import Board, Metrics, NoBoard, Rows, read
from gtrxl.runtime.runs import Run, Status, build, checkpoints_of, choose_devices, new_folder, place, read_config
from gtrxl.runtime.terminal import View, open_view


def train(
    config: Config[Any] | None = None,
    *,
    run: str | os.PathLike[str] | None = None,
    quiet: bool = False,
    board: bool = True,
    **changes: Any,
) -> Run:
    """Trains an agent and returns the run. `changes` replace settings: `train(task="t-maze", net={"memory": 128})`.

    Without `config`, what is known to work for the task and core is used. Ctrl-C ends a run with a checkpoint.
    """
    if config is None:
        chosen = {name: changes[name] for name in ("task", "core", "algorithm") if name in changes}
        config = configs.defaults(**chosen)
    config = choose_devices(configs.change(config, changes))
    loop, training = build(config)  # sizes that cannot be are said before there is a folder
    folder = new_folder(config, run)
    keeping = checkpoints_of(folder, expected_bytes=size_of(training))  # an unwritable or full disk is said here
    configs.write(config, folder / "config.json")
    rows = Rows(folder / "metrics.jsonl")
    keeping.save(0, training)
    return _go_on(config, folder, loop, training, rows, quiet=quiet, board=board)


def resume(run: str | os.PathLike[str], *, steps: int | None = None, quiet: bool = False, board: bool = True) -> Run:
    """Goes on with a run from its last checkpoint, as if it had never stopped; `steps` makes it longer than it was."""
    folder = Path(run)
    config = read_config(folder)
    if steps is not None:
        if steps < config.steps:
            raise RunError(
                f"steps must be at least the {config.steps} that the run was made for, got {steps}; leave it out to finish it"
            )
        every = _updates_per_report(config)
        frames = config.streams * config.unroll * every
        config = dataclasses.replace(config, steps=steps, reports=max(1, math.ceil(steps / frames)))
        if _updates_per_report(config) != every:
            config = dataclasses.replace(config, reports=max(1, round(steps / frames)))
        configs.write(config, folder / "config.json")
    loop, training = build(config)
    keeping = checkpoints_of(folder, expected_bytes=size_of(training))
    training = place(loop, keeping.restore(training, "last"))
    rows = Rows(folder / "metrics.jsonl")
    rows.truncate_after(updates=int(training.updates))
    return _go_on(config, folder, loop, training, rows, quiet=quiet, board=board)


def _go_on(config: Config[Any], folder: Path, loop: Loop, training: Training, rows: Rows, *, quiet: bool, board: bool) -> Run:
    keeping = checkpoints_of(folder)
    every = _updates_per_report(config)
    last = every * math.ceil(config.steps / (loop.frames_per_update * every))
    done, start = int(training.updates), time.monotonic()
    before = read(folder / "metrics.jsonl")
    seconds_before = before[-1]["seconds"] if before else 0.0
    resume_at = done * loop.frames_per_update if done else None
    writing = Metrics(rows, Board(folder / "tensorboard", resume_at=resume_at) if board else NoBoard())
    scores = reference_scores(loop.task)
    title = f"{config.task} with {config.core}, seed {config.seed}, into {folder}"
    status: Status = "finished"
    total = last * loop.frames_per_update
    with open_view(title=title, total_frames=total, lines=lines(scores), quiet=quiet) as view, _on_interrupt(view) as interrupted:
        (folder / "result.json").unlink(missing_ok=True)
        for row in before:
            view.report(row)
        view.message("compiling" if done < last else "nothing left to do")
        step = _compiled(loop, training, periods=every // loop.period) if done < last else _done
        start = time.monotonic()
        mark = start
        while done < last:
            training, report = step(training)
            done += every
            row = _row(config, loop, training, report)
            now = time.monotonic()
            row |= {"seconds": seconds_before + now - start, "frames_per_second": every * loop.frames_per_update / (now - mark)}
            mark = now
            writing.write(row)
            view.report(row)
            if int(training.diverged) >= 0:
                status = "diverged"
                view.message(f"diverged: not finite after update {int(training.diverged)}; the last good checkpoint is kept")
                break
            number = done // every
            if number % config.checkpoint_every == 0 or done >= last or interrupted.is_set():
                keeping.save(done, training, score=row["return_mean"])
            if interrupted.is_set() and done < last:
                status = "stopped"
                view.message(f"stopped with a checkpoint; go on by `gtrxl resume {folder}`")
                break
        writing.close()
    run = Run(folder=folder, config=config, status=status, rows=read(folder / "metrics.jsonl"))
    _write_result(run, scores, diverged=int(training.diverged))
    return run


def lines(scores: Scores) -> dict[str, float]:
    """The scores to compare a return with, by name."""
    named = {"perfect memory": scores.best, "no memory": scores.memoryless, "random": scores.random}
    return {name: score for name, score in named.items() if score is not None}


def _updates_per_report(config: Config[Any]) -> int:
    period = config.learner.target_period
    return period * max(1, round(config.steps / (config.reports * config.streams * config.unroll * period)))


def _compiled(loop: Loop, training: Training, *, periods: int) -> Any:
    """The program for `periods` periods and a look at the memory, compiled; its argument is used up."""
    arrays, rest = eqx.partition(training, eqx.is_array)

    def program(arrays: Training):
        training, report = loop.run(eqx.combine(arrays, rest), periods)
        return eqx.filter(training, eqx.is_array), report

    compiled = jax.jit(program, donate_argnums=0).lower(arrays).compile()

    def diagnose(arrays: Training):
        training: Training = eqx.combine(arrays, rest)
        agent, trail = training.trained.agent, training.trail
        return staleness(agent, trail, unroll=loop.unroll), openness(agent, trail, unroll=loop.unroll)

    look = jax.jit(diagnose).lower(arrays).compile()

    def step(training: Training) -> tuple[Training, tuple[Report, Any]]:
        arrays, report = compiled(eqx.filter(training, eqx.is_array))
        return eqx.combine(arrays, rest), (report, look(arrays))

    return step


def _done(training: Training) -> Any:
    raise AssertionError("a run that is done is not stepped")


def _row(config: Config[Any], loop: Loop, training: Training, reported: tuple[Report, Any]) -> dict[str, Any]:
    report, (stale, open_) = jax.device_get(reported)
    updates = int(training.updates)
    ended = report.ended
    episodes = int(ended.count)
    mean = float(ended.total) / episodes if episodes else None
    spread = math.sqrt(max(0.0, float(ended.squares) / episodes - mean**2)) if mean is not None else None
    trail_full = updates * loop.unroll >= training.trail.reset.shape[1]
    return {
        "frames": updates * loop.frames_per_update,
        "updates": updates,
        "task": config.task,
        "return_mean": mean,
        "return_std": spread,
        "return_min": float(ended.least) if episodes else None,
        "return_max": float(ended.most) if episodes else None,
        "episodes": episodes,
        "episode_steps": float(ended.steps) / episodes if episodes else None,
        **{name: float(value) for name, value in report.metrics.items()},
        "memory_staleness": float(stale) if trail_full else None,
        "gate_openness": None if open_ is None else np.asarray(open_, np.float64).round(6).tolist(),
    }


def _write_result(run: Run, scores: Scores, *, diverged: int) -> None:
    late = run.mean_return
    result = {
        "status": run.status,
        "frames": run.rows[-1]["frames"] if run.rows else 0,
        "updates": run.rows[-1]["updates"] if run.rows else 0,
        "seconds": run.rows[-1]["seconds"] if run.rows else 0.0,
        "return": late,
        "normalised": None if late is None else scores.normalised(late),
        "diverged_at_update": diverged if diverged >= 0 else None,
    }
    whole = run.folder / "result.json.part"
    whole.write_text(json.dumps(result, indent=2) + "\n")
    whole.replace(run.folder / "result.json")


@contextlib.contextmanager
def _on_interrupt(view: View) -> Iterator[threading.Event]:
    """An event that Ctrl-C or a polite kill sets: the run ends at its next report. A second Ctrl-C ends it at once."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def ask(*_: Any) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()
        view.message("stopping at the next report, with a checkpoint; once more stops at once")

    old = {kind: signal.signal(kind, ask) for kind in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for kind, handler in old.items():
            signal.signal(kind, handler)
