"""Training from the outside: start or resume a run, report it, keep it, end it well."""

import dataclasses
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import gymnasium
import jax
import numpy as np

from gtrxl.envs.host import HostTask, is_host
from gtrxl.runtime import config as configs
from gtrxl.runtime import hosted, hosts
from gtrxl.runtime.agents import host_task
from gtrxl.runtime.checkpoints import size_of
from gtrxl.runtime.config import Config
from gtrxl.runtime.diagnosis import openness, staleness
from gtrxl.runtime.errors import RunError
from gtrxl.runtime.loop import Loop, Report, Training
from gtrxl.runtime.metrics import Board, Metrics, NoBoard, NoRows, Rows, read
from gtrxl.runtime.placement import choose_devices, collect, place, resized
from gtrxl.runtime.reporting import on_interrupt, updates_per_report, write_result
from gtrxl.runtime.runs import Run, Status, checkpoints_of, new_folder, read_config, restore, start
from gtrxl.runtime.set_rows import EpisodeRows, Scale
from gtrxl.runtime.terminal import open_view


@hosts.together()
def train(
    config: Config[Any] | None = None,
    *,
    env_fn: Callable[[], gymnasium.Env] | None = None,
    run: str | os.PathLike[str] | None = None,
    quiet: bool = False,
    board: bool = True,
    **changes: Any,
) -> Run:
    """Trains an agent and returns the run. `changes` replace settings: `train(task="t-maze", net={"memory": 128})`.

    Without `config`, what is known to work for the task and core is used. Ctrl-C ends a run with a checkpoint. The task may
    also be any Gymnasium task, by its id (`task="gym:CartPole-v1"`) or by a function that makes it (`env_fn=make`).
    """
    if env_fn is not None:
        changes["task"] = HostTask.of(env_fn).name
    if config is None:
        chosen = {name: changes[name] for name in ("task", "core", "algorithm") if name in changes}
        config = configs.defaults(**chosen)
    config = configs.change(config, changes)
    if is_host(config.task):
        hosts.alone(f"{config.task} is stepped by actors")
        return hosted.train(config, host_task(config, env_fn), run=run, quiet=quiet, board=board)
    config = choose_devices(config)
    hosts.check_same(configs.as_dict(config))
    return _go_on(config, *_begun(config, run), quiet=quiet, board=board)


def _begun(config: Config[Any], run: str | os.PathLike[str] | None) -> tuple[Path, Loop, Training]:
    loop, training = start(config)  # sizes that cannot be are said before there is a folder

    def write() -> str:
        folder = new_folder(config, run)
        keeping = checkpoints_of(folder, expected_bytes=size_of(training))  # an unwritable or full disk is said here
        configs.write(config, folder / "config.json")
        Rows(folder / "metrics.jsonl").close()
        keeping.save(0, training)
        return str(folder)

    return Path(hosts.on_first(write)), loop, place(loop, training)


@hosts.together()
def resume(
    run: str | os.PathLike[str],
    *,
    steps: int | None = None,
    devices: int | None = None,
    env_fn: Callable[[], gymnasium.Env] | None = None,
    quiet: bool = False,
    board: bool = True,
) -> Run:
    """Goes on with a run from its last checkpoint, as if it had never stopped; `steps` makes it longer than it was, `devices`
    uses another number of them on each host. A run of an `env_fn` that cannot be imported is given it again."""
    folder = Path(run)
    chosen = hosts.on_first(lambda: configs.as_dict(_to_resume(folder, steps=steps, devices=devices)))
    config = configs.change(configs.defaults(**{name: chosen[name] for name in ("task", "core", "algorithm")}), chosen)
    changed = steps is not None or devices is not None
    if is_host(config.task):
        hosts.alone(f"{config.task} is stepped by actors")
        if changed:
            configs.write(config, folder / "config.json")
        return hosted.resume(config, host_task(config, env_fn), folder, quiet=quiet, board=board)
    config = choose_devices(config)
    hosts.check_same(configs.as_dict(config))
    return _go_on(config, folder, *_restored(config, folder, write_config=changed), quiet=quiet, board=board)


def _restored(config: Config[Any], folder: Path, *, write_config: bool) -> tuple[Loop, Training]:
    loop, training = start(config)

    def read_back() -> None:
        nonlocal training
        keeping = checkpoints_of(folder, expected_bytes=size_of(training))
        training = restore(config, keeping)
        if write_config:
            configs.write(config, folder / "config.json")
        rows = Rows(folder / "metrics.jsonl")
        rows.truncate_after(updates=int(training.updates))
        rows.close()

    hosts.on_first(read_back)
    return loop, place(loop, training)


def _to_resume(folder: Path, *, steps: int | None, devices: int | None) -> Config[Any]:
    """The settings to go on with."""
    config = read_config(folder)
    if devices is not None:
        config = dataclasses.replace(config, devices=devices)
    if steps is not None:
        if steps < config.steps:
            raise RunError(
                f"steps must be at least the {config.steps} that the run was made for, got {steps}; leave it out to finish it"
            )
        every = updates_per_report(config)
        frames = config.streams * config.unroll * every
        config = dataclasses.replace(config, steps=steps, reports=max(1, math.ceil(steps / frames)))
        if updates_per_report(config) != every:
            config = dataclasses.replace(config, reports=max(1, round(steps / frames)))
    return config


def _go_on(config: Config[Any], folder: Path, loop: Loop, training: Training, *, quiet: bool, board: bool) -> Run:
    writes = hosts.is_first()
    every = updates_per_report(config)
    last = every * math.ceil(config.steps / (loop.frames_per_update * every))
    done = int(training.updates)
    before = read(folder / "metrics.jsonl") if writes else []
    reported = list(before)
    seconds_before = before[-1]["seconds"] if before else 0.0
    resume_at = done * loop.frames_per_update if done else None
    writing = Metrics(
        Rows(folder / "metrics.jsonl") if writes else NoRows(),
        Board(folder / "tensorboard", resume_at=resume_at) if board and writes else NoBoard(),
    )
    scale = Scale(loop.tasks)
    episodes = EpisodeRows(scale, before)
    title = f"{config.task} with {config.core}, seed {config.seed}, into {folder}"
    status: Status = "finished"
    total = last * loop.frames_per_update
    shown = open_view(title=title, total_frames=total, lines=scale.lines, quiet=quiet) if writes else hosts.Aside()

    def save(score: float | None) -> None:
        whole = collect(loop, training)
        hosts.on_first(lambda: checkpoints_of(folder).save(done, whole, score=score))

    with shown as view, on_interrupt(view, when="at the next report") as interrupted:
        if writes:
            (folder / "result.json").unlink(missing_ok=True)
        for row in before:
            view.report(row)
        view.message("compiling" if done < last else "nothing left to do")
        step = _compiled(loop, training, periods=every // loop.period) if done < last else _done
        begun = mark = time.monotonic()
        while done < last:
            training, report = step(training)
            done += every
            row = _row(config, loop, training, report, episodes)
            now = time.monotonic()
            row |= {"seconds": seconds_before + now - begun, "frames_per_second": every * loop.frames_per_update / (now - mark)}
            mark = now
            writing.write(row)
            reported.append(row)
            view.report(row)
            if int(training.diverged) >= 0:
                status = "diverged"
                view.message(f"diverged: not finite after update {int(training.diverged)}; the last good checkpoint is kept")
                break
            number, stop = done // every, hosts.anyone(interrupted.is_set())
            if number % config.checkpoint_every == 0 or done >= last or stop:
                save(row["return_mean"])
            if stop and done < last:
                status = "stopped"
                view.message(f"stopped with a checkpoint; go on by `gtrxl resume {folder}`")
                break
        writing.close()
    run = Run(folder=folder, config=config, status=status, rows=read(folder / "metrics.jsonl") if writes else reported)
    if writes:
        normalised = scale.normalised(run.mean_return)
        write_result(folder, status, run.rows, normalised=normalised, diverged=int(training.diverged))
    return run


def _compiled(loop: Loop, training: Training, *, periods: int) -> Any:
    """The program for `periods` periods and a look at the memory, compiled; its argument is used up.

    Neither the seed nor the learner's dials are part of it: runs that differ in these alone find it compiled where JAX keeps
    compiled programs.
    """
    arrays, rest = eqx.partition(training, eqx.is_array)
    dials, fixed = eqx.partition(loop, lambda leaf: isinstance(leaf, float))
    dials = jax.tree.map(np.float32, dials)  # of NumPy: the same on all hosts, on no device yet

    def program(arrays: Training, dials: Loop):
        training, report = eqx.combine(dials, fixed).run(eqx.combine(arrays, rest), periods)
        return eqx.filter(training, eqx.is_array), report

    compiled = jax.jit(program, donate_argnums=0).lower(arrays, dials).compile()

    def diagnose(arrays: Training):
        training: Training = eqx.combine(arrays, rest)
        agent, trail = training.trained.agent, resized(training.trail, loop.watched)
        stale = None if loop.history(agent.core) is None else staleness(agent, trail, unroll=loop.unroll)
        return stale, openness(agent, trail, unroll=loop.unroll)

    everywhere = None if loop.mesh is None else jax.sharding.NamedSharding(loop.mesh, jax.sharding.PartitionSpec())
    look = jax.jit(diagnose, out_shardings=everywhere).lower(arrays).compile()

    def step(training: Training) -> tuple[Training, tuple[Report, Any]]:
        arrays, report = compiled(eqx.filter(training, eqx.is_array), dials)
        return eqx.combine(arrays, rest), (report, look(arrays))

    return step


def _done(training: Training) -> Any:
    raise AssertionError("a run that is done is not stepped")


def _row(
    config: Config[Any], loop: Loop, training: Training, reported: tuple[Report, Any], episodes: EpisodeRows
) -> dict[str, Any]:
    report, (stale, open_) = jax.device_get(reported)
    updates = int(training.updates)
    trail_full = updates * loop.unroll >= training.trail.reset.shape[1]
    return {
        "frames": updates * loop.frames_per_update,
        "updates": updates,
        "task": config.task,
        **episodes.row(report.ended, jax.device_get(training.trained.popart)),
        **{name: float(value) for name, value in report.metrics.items()},
        "memory_staleness": float(stale) if trail_full and stale is not None else None,
        "gate_openness": None if open_ is None else np.asarray(open_, np.float64).round(6).tolist(),
    }
