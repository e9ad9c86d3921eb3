"""The trained agent of a run, found again."""

import os
from pathlib import Path
from typing import Any

from gtrxl.evaluation import exported
from gtrxl.evaluation.compiled import CompiledAgent
from gtrxl.evaluation.gym_agent import GymAgent
from gtrxl.evaluation.restored import Restored
from gtrxl.evaluation.trained_agent import TrainedAgent
from gtrxl.networks.agent import Agent
from gtrxl.runs.config import Config
from gtrxl.runs.errors import RunError, say
from gtrxl.runs.folder import Which, checkpoints_of, read_config
from gtrxl.runs.tasks import CompiledTasks, GymTasks, RunTasks, run_tasks
from gtrxl.tasks.sets import in_words
from gtrxl.training.session import EnvFn, engine_of, know


def load(
    run: str | os.PathLike[str],
    which: Which | int = "best",
    *,
    task: str | None = None,
    env_fn: EnvFn | None = None,
    trust: bool = False,
    **given: Any,
) -> TrainedAgent:
    """The trained agent of a run: of its best checkpoint, its last, or the one of an update. `run` is its folder, or names an
    agent that was exported: NAME.safetensors, `zoo:NAME`, `hf:owner/name`.

    `task` is the one it shall play: another with the same spaces, or one of those it was trained on (the first, if left out).
    A run that was trained with somebody's own core, algorithm or `env_fn` is given it again (`core=MyCore`), or `trust=True` lets
    it import what its settings name.
    """
    restored = restore_agent(run, which, env_fn=env_fn, trust=trust, **given)
    return agents_of(restored.agent, restored.config, restored.tasks, task)[0]


def restore_agent(
    run: str | os.PathLike[str],
    which: Which | int = "best",
    *,
    env_fn: EnvFn | None = None,
    trust: bool = False,
    **given: Any,
) -> Restored:
    """The settings, the tasks and the agent of a checkpoint. `best` falls back to the last when none has a score."""
    if (file := exported.file_of(run)) is not None:
        if which != "best":
            raise RunError(f"an exported agent has one checkpoint, got {which!r} of {os.fspath(run)}; leave --checkpoint out")
        return exported.read(file, env_fn=env_fn, trust=trust, **given)
    know(env_fn, given)
    config = read_config(run, trust=trust)
    if env_fn is not None and config.tasks.compiled:
        raise RunError(f"env_fn is for Gymnasium tasks, got one for {config.task}; leave it out")
    engine = engine_of(config, env_fn)
    checkpoints = checkpoints_of(Path(run), read_only=True)
    if which == "best" and checkpoints.best is None:
        which = "last"
    step = checkpoints.find(which)  # once: a run that is under way may have another last one soon
    for other, said in checkpoints.damaged_cards().items() if isinstance(which, str) else ():
        if which == "best" or other > step:
            say(f"{said}; it is passed over")
    state = engine.restore(checkpoints, step)
    return Restored(config, engine.tasks, state.trained.agent, int(state.updates))


def settings_of(run: str | os.PathLike[str], *, trust: bool = False) -> Config[Any]:
    """The settings of a run, or of an exported agent."""
    file = exported.file_of(run)
    return read_config(run, trust=trust) if file is None else exported.config_of(file, exported.card_of(file), trust=trust)


def agents_of(agent: Agent, config: Config[Any], trained_on: RunTasks, other: str | None = None) -> list[TrainedAgent]:
    """The agent in each task of its run, or in those of another name that are seen and acted on alike."""
    if isinstance(trained_on, GymTasks):
        gym, spaces = trained_on, trained_on.shown
        if other is not None:
            shown = {"mask_velocity": config.gym.mask_velocity, "previous": config.gym.previous}
            chosen = run_tasks(other, **shown)
            if not isinstance(chosen, GymTasks) or chosen.shown != spaces:
                raise RunError(f"task must have the spaces of {config.task}, got {other}; change only what leaves them alone")
            gym = chosen
        return [GymAgent(agent=agent, task=task, spaces=spaces) for task in gym.task.tasks]
    chosen = trained_on if other is None else run_tasks(other)
    if not isinstance(chosen, CompiledTasks):
        raise RunError(f"task must be compiled as {config.task} is, got {other}; Gymnasium tasks are trained on their own")
    for task in chosen.tasks:
        _check_spaces(task, trained_on.shown, name=config.task, other=chosen.name)
    return [CompiledAgent(agent=agent, task=task) for task in chosen.tasks]


def _check_spaces(task: Any, trained_on: Any, *, name: str, other: str) -> None:
    if (task.observation_space, task.action_space) != (trained_on.observation_space, trained_on.action_space):
        raise RunError(
            f"task must have the spaces of {name}, got {other}: {in_words(task.observation_space)} to see, "
            f"{in_words(task.action_space)} to act; change only what leaves them alone, such as the length of an episode"
        )
