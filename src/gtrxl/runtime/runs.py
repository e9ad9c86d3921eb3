"""A run and its folder: what training leaves behind, and how it is found again.

RUN/config.json       the settings; `gtrxl train --config RUN/config.json` repeats them
RUN/metrics.jsonl     one row for each report
RUN/checkpoints/      the last two and the best
RUN/tensorboard/      the same rows, for TensorBoard
RUN/result.json       how it ended
"""

import contextlib
import dataclasses
import json
import os
from pathlib import Path
from typing import Any, Literal

import equinox as eqx
import jax

from gtrxl.agent.agent import Agent, Torso, vector_size
from gtrxl.agent.policies import Head
from gtrxl.cores import make_core
from gtrxl.envs.catalogue import make_task
from gtrxl.envs.contract import Task
from gtrxl.runtime import config as configs
from gtrxl.runtime import metrics
from gtrxl.runtime.checkpoints import Checkpoints
from gtrxl.runtime.config import Config
from gtrxl.runtime.errors import RunError
from gtrxl.runtime.learning import Update
from gtrxl.runtime.loop import AXIS, Loop, Training

Status = Literal["finished", "stopped", "diverged"]
Which = Literal["last", "best"]


@dataclasses.dataclass(frozen=True)
class Run:
    """A run that has ended, for now or for good."""

    folder: Path
    config: Config[Any]
    status: Status
    """`stopped` runs can be resumed; `diverged` ones ended because a loss or a gradient was no longer finite."""
    rows: list[dict[str, Any]]

    @property
    def mean_return(self) -> float | None:
        """The mean return of the episodes in the last tenth of the rows; None if no episode ended in them."""
        late = [row for row in self.rows[-max(1, len(self.rows) // 10) :] if row["return_mean"] is not None]
        episodes = sum(row["episodes"] for row in late)
        return sum(row["return_mean"] * row["episodes"] for row in late) / episodes if episodes else None


def make_agent(config: Config[Any], task: Task, key: jax.Array) -> Agent:
    """A new agent of these sizes for this task."""
    torso_key, core_key, heads_key = jax.random.split(key, 3)
    net = config.net
    torso = Torso(vector_size(task.observation_space), net.torso, key=torso_key)
    core = make_core(config.core, input_size=net.torso, key=core_key, **net.core_sizes(config.core))
    return Agent(torso=torso, core=core, head=Head(task.action_space), hidden=net.hidden, key=heads_key)


def build(config: Config[Any]) -> tuple[Loop, Training]:
    """The compiled program's parts and its state before the first update, in place on the devices."""
    config = choose_devices(config)
    loop = _loop(config, _mesh(config))
    return loop, place(loop, eqx.filter_jit(_start)(config, loop))


def shapes(config: Config[Any]) -> Training:
    """The state of such a run as shapes alone: what its checkpoints are read into, on any number of devices."""
    config = choose_devices(config)
    mesh = None if config.devices == 1 else jax.sharding.AbstractMesh((config.devices,), (AXIS,))
    return eqx.filter_eval_shape(_start, config, _loop(config, mesh))


def _loop(config: Config[Any], mesh: jax.sharding.Mesh | jax.sharding.AbstractMesh | None) -> Loop:
    axis = None if mesh is None else AXIS
    update = Update(learner=config.learner, discount=config.discount, popart_step=config.popart_step, axis=axis)
    return Loop(task=make_task(config.task), update=update, streams=config.streams, unroll=config.unroll, mesh=mesh)


def _start(config: Config[Any], loop: Loop) -> Training:
    agent_key, loop_key = jax.random.split(jax.random.key(config.seed))
    return loop.start(make_agent(config, loop.task, agent_key), loop_key)


def place(loop: Loop, training: Training) -> Training:
    """The state with each array where the loop wants it."""
    mesh = loop.mesh
    if mesh is None:
        return training
    arrays, rest = eqx.partition(training, eqx.is_array)
    where = jax.tree.map(lambda spec: jax.sharding.NamedSharding(mesh, spec), loop.placement(arrays))
    return eqx.combine(jax.device_put(arrays, where), rest)


def choose_devices(config: Config[Any]) -> Config[Any]:
    """The settings with a number of devices: the one asked for, or the most that there are and that divide the streams."""
    if config.devices:
        return config
    most = _open_cpus()
    share = config.learner.minibatches
    fits = [n for n in range(1, most + 1) if config.streams % n == 0 and (config.streams // n) % share == 0]
    return dataclasses.replace(config, devices=max(fits))


MOST_CPUS = 8
"""Cores of a CPU that are taken unasked: small networks gain nothing from more."""


def _open_cpus(count: int = 1) -> int:
    """How many devices there are. A CPU can be as many as one likes, until JAX first uses it: so it is opened as one for each
    core at least, whatever this call asks for, because a later one may want them."""
    cores = os.process_cpu_count() if hasattr(os, "process_cpu_count") else len(os.sched_getaffinity(0))  # pyright: ignore
    count = max(count, min(cores or 1, MOST_CPUS))
    with contextlib.suppress(RuntimeError):
        if jax.config.jax_num_cpu_devices < count:  # pyright: ignore[reportAttributeAccessIssue]
            jax.config.update("jax_num_cpu_devices", count)
    return len(jax.local_devices())


def _mesh(config: Config[Any]) -> jax.sharding.Mesh | None:
    """One axis of as many devices as the settings ask for; None for one."""
    there, count = _open_cpus(config.devices), config.devices
    if count > there:
        raise RunError(f"devices must be at most {there}, which this process has, got {count}; 0 takes all of them")
    if config.streams % count or (config.streams // count) % config.learner.minibatches:
        raise RunError(
            f"streams must be a multiple of devices times minibatches, got {config.streams} for {count} x "
            f"{config.learner.minibatches}; change --streams"
        )
    if count == 1:
        return None
    return jax.make_mesh((count,), (AXIS,), devices=jax.local_devices()[:count], axis_types=(jax.sharding.AxisType.Auto,))


# The folder


def new_folder(config: Config[Any], run: str | os.PathLike[str] | None) -> Path:
    """The folder of a new run: the one asked for, which must hold no run yet, or the next free one under runs/."""
    if run is None:
        name = f"{config.task.replace(':', '-').replace(',', '-').replace('=', '')}-{config.core}-seed{config.seed}"
        folder, number = Path("runs") / name, 1
        while (folder / "config.json").exists():
            number += 1
            folder = Path("runs") / f"{name}-{number}"
    else:
        folder = Path(run)
        if (folder / "config.json").exists():
            raise RunError(
                f"--run must not hold a run yet, got {folder}; go on with it by `gtrxl resume {folder}`, or choose another"
            )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(
            f"the run cannot be written to {folder}: {error.strerror or error}; choose another folder with --run"
        ) from error
    return folder


def read_config(run: str | os.PathLike[str]) -> Config[Any]:
    """The settings of a run."""
    folder = Path(run)
    if not (folder / "config.json").exists():
        raise RunError(f"there is no run in {folder}: it has no config.json; `gtrxl train --run {folder}` makes one")
    return configs.read(folder / "config.json")


def read_run(run: str | os.PathLike[str]) -> Run:
    """A run as it stands on disk."""
    folder, config = Path(run), read_config(run)
    result = folder / "result.json"
    status = json.loads(result.read_text())["status"] if result.exists() else "stopped"
    rows = metrics.read(folder / "metrics.jsonl") if (folder / "metrics.jsonl").exists() else []
    return Run(folder=folder, config=config, status=status, rows=rows)


def checkpoints_of(folder: Path, *, read_only: bool = False, expected_bytes: int = 0) -> Checkpoints:
    """The checkpoints of a run."""
    return Checkpoints(folder / "checkpoints", read_only=read_only, expected_bytes=expected_bytes)


def restore_agent(run: str | os.PathLike[str], which: Which | int = "best") -> tuple[Config[Any], Agent, int]:
    """The settings, the agent of a checkpoint, and the update it is of. `best` falls back to the last when none has a score."""
    config = read_config(run)
    checkpoints = checkpoints_of(Path(run), read_only=True)
    if which == "best" and checkpoints.best is None:
        which = "last"
    _open_cpus(config.devices)
    training = checkpoints.restore(shapes(config), which)
    return config, training.trained.agent, int(training.updates)
