"""A run and its folder: what training leaves behind, and how it is found again.

RUN/config.json       the settings; `gtrxl train --config RUN/config.json` repeats them
RUN/metrics.jsonl     one row for each report
RUN/checkpoints/      the last two and the best
RUN/tensorboard/      the same rows, for TensorBoard
RUN/result.json       how it ended
"""

import dataclasses
import json
import os
from pathlib import Path
from typing import Any, Literal

import equinox as eqx
import jax
from jaxtyping import PRNGKeyArray

from gtrxl.agent.agent import Agent
from gtrxl.agent.encoder import make_torso
from gtrxl.agent.measuring import Measuring
from gtrxl.agent.policies import Head
from gtrxl.cores import make_core
from gtrxl.envs.contract import Task
from gtrxl.envs.sets import make_tasks
from gtrxl.envs.spaces import ObservationSpec, Spaces
from gtrxl.report.learning import late
from gtrxl.runtime import config as configs
from gtrxl.runtime import metrics
from gtrxl.runtime.checkpoints import Checkpoints
from gtrxl.runtime.config import Config
from gtrxl.runtime.errors import RunError
from gtrxl.runtime.learning import Update
from gtrxl.runtime.loop import AXIS, Loop, Training
from gtrxl.runtime.placement import choose_devices, make_mesh, open_cpus, place, resized

LONGEST = 120
"""Letters of a task's name that the folder of its runs is called by: several tasks have long names."""
Status = Literal["finished", "stopped", "diverged", "failed"]
Which = Literal["last", "best"]


@dataclasses.dataclass(frozen=True)
class Run:
    """A run that has ended, for now or for good."""

    folder: Path
    config: Config[Any]
    status: Status
    """`stopped` runs can be resumed; `diverged` ones ended because a loss or a gradient was no longer finite, `failed` ones
    because a task kept failing."""
    rows: list[dict[str, Any]]

    @property
    def mean_return(self) -> float | None:
        """The mean return of the episodes in the last tenth of the rows; None if no episode ended in them."""
        return late(self.rows)


def make_agent(config: Config[Any], task: Task | Spaces, key: jax.Array, *, values: int = 1) -> Agent:
    """A new agent of these sizes for a compiled task, or for the spaces of a Gymnasium task; with a value for each of so many
    tasks."""
    torso_key, core_key, heads_key = jax.random.split(key, 3)
    net = config.net
    if isinstance(task, Spaces):
        seen, head = task.lens.spec, Head(task.hand.spec)
        seen = dataclasses.replace(seen, measured=()) if config.gym.raw_numbers else seen
    else:
        seen, head = ObservationSpec.of(task.observation_space), Head(task.action_space)
    torso = make_torso(seen, net.torso, channels=configs.CHANNELS[net.channels], key=torso_key)
    torso = Measuring(torso, seen) if seen.measured else torso
    core = make_core(config.core, input_size=net.torso, key=core_key, **net.core_sizes(config.core))
    return Agent(
        torso=torso,
        core=core,
        head=head,
        hidden=net.hidden,
        values=values,
        pixel_control=config.pixel_control > 0,
        key=heads_key,
    )


def build(config: Config[Any]) -> tuple[Loop, Training]:
    """The compiled program's parts and its state before the first update, in place on the devices."""
    loop, training = start(config)
    return loop, place(loop, training)


def start(config: Config[Any]) -> tuple[Loop, Training]:
    """The compiled program's parts and its state before the first update, in one piece."""
    config = choose_devices(config)
    loop = _loop(config, make_mesh(config))
    return loop, eqx.filter_jit(_start)(config, loop, jax.random.key(config.seed))


def shapes(config: Config[Any]) -> Training:
    """The state of such a run as shapes alone: what its checkpoints are read into, whatever devices they come from."""
    return eqx.filter_eval_shape(_start, config, _loop(config, None), jax.random.key(0))


def _loop(config: Config[Any], mesh: jax.sharding.Mesh | None) -> Loop:
    axis = None if mesh is None else AXIS
    update = Update(
        learner=config.learner,
        discount=config.discount,
        popart_step=config.popart_step,
        axis=axis,
        pixel_control=config.pixel_control,
        dials=config.learner.dials(),
    )
    tasks = make_tasks(config.task)
    task = tasks[0] if len(tasks) == 1 else tasks
    return Loop(task=task, update=update, streams=config.streams, unroll=config.unroll, mesh=mesh)


def _start(config: Config[Any], loop: Loop, key: PRNGKeyArray) -> Training:
    agent_key, loop_key = jax.random.split(key)
    return loop.start(make_agent(config, loop.tasks[0], agent_key, values=len(loop.tasks)), loop_key)


# The folder


def new_folder(config: Config[Any], run: str | os.PathLike[str] | None) -> Path:
    """The folder of a new run: the one asked for, which must hold no run yet, or the next free one under runs/."""
    if run is None:
        task = config.task.replace(":", "-").replace(",", "-").replace("=", "")
        name = f"{task[:LONGEST]}-{config.core}-seed{config.seed}"
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


def restore_agent(
    run: str | os.PathLike[str], which: Which | int = "best", *, spaces: Spaces | None = None
) -> tuple[Config[Any], Agent, int]:
    """The settings, the agent of a checkpoint, and the update it is of. `best` falls back to the last when none has a score.
    Agents of Gymnasium tasks are built for `spaces`."""
    config = read_config(run)
    checkpoints = checkpoints_of(Path(run), read_only=True)
    if which == "best" and checkpoints.best is None:
        which = "last"
    if spaces is not None:
        from gtrxl.runtime import hosted

        learning = checkpoints.restore(hosted.shapes(config, spaces), which)
        return config, learning.trained.agent, int(learning.updates)
    open_cpus(config.devices)
    training = restore(config, checkpoints, which)
    return config, training.trained.agent, int(training.updates)


def restore(config: Config[Any], checkpoints: Checkpoints, which: Which | int = "last") -> Training:
    """The state of a checkpoint, in one piece."""
    like = shapes(config)
    # Older ones of n devices hold the trail of more streams; the first are the same.
    rows = checkpoints.shapes(which)[".trail.reset"][0]
    wider = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((rows, *leaf.shape[1:]), leaf.dtype), like.trail)
    training = checkpoints.restore(eqx.tree_at(lambda of: of.trail, like, wider), which)
    return eqx.tree_at(lambda of: of.trail, training, resized(training.trail, like.trail.reset.shape[0]))
