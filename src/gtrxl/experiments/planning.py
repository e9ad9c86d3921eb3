"""A set of runs -> the settings of every run in it, by name."""

import dataclasses
import functools
import re
from typing import Any

from gtrxl.cores import CORES, Transformer
from gtrxl.envs.host import is_host
from gtrxl.experiments.catalogue import EXPERIMENTS, RUNS, SCALES, Experiment, Goal, Scale
from gtrxl.experiments.draws import Draw, draw
from gtrxl.experiments.errors import ExperimentError
from gtrxl.experiments.models import Model
from gtrxl.runtime import config as configs
from gtrxl.runtime.config import Config


@dataclasses.dataclass(frozen=True)
class Planned:
    """One run: what it is in its experiment, and its settings."""

    name: str
    model: Model
    goal: Goal
    draw: Draw
    config: Config[Any]


def experiment_of(name: str) -> Experiment:
    """The experiment of that name."""
    if name not in EXPERIMENTS:
        raise ExperimentError(f"there is no experiment {name!r}; there are {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[name]


def scale_of(runs: str, scale: str) -> Scale:
    """A set of runs at a scale."""
    if scale not in SCALES:
        raise ExperimentError(f"scale must be one of {', '.join(SCALES)}, got {scale!r}; quick takes minutes")
    return RUNS[runs].scales[scale]


@functools.cache
def plan(runs: str, scale: str) -> tuple[Planned, ...]:
    """Every run of a set: first all models of draw 0, then those of draw 1, so that what is done early can be compared."""
    sizes = scale_of(runs, scale)
    planned = []
    for number in range(sizes.draws):
        for goal in sizes.goals:
            for model in sizes.models:
                drawn = draw(
                    number,
                    experiment=runs,
                    environment=sizes.environment,
                    narrow=model.core == "lstm" and is_host(goal.task),
                )
                name = f"{model.name}.{_slug(goal.task)}.{number:02d}"
                planned.append(Planned(name, model, goal, drawn, _config(sizes, goal, model, drawn)))
    return tuple(planned)


def _config(sizes: Scale, goal: Goal, model: Model, drawn: Draw) -> Config[Any]:
    base = configs.defaults(task=goal.task, core=model.core, preset=sizes.preset)
    transformer = CORES[model.core][0] is Transformer
    return configs.change(
        base,
        {
            **sizes.settings,
            "seed": drawn.seed,
            "steps": round(goal.steps * model.steps),
            "net": {**(sizes.net if transformer else sizes.recurrent), **model.net},
            "learner": {**sizes.learner, **drawn.bounds},
        },
    )


def _slug(task: str) -> str:
    """A task as part of a file's name."""
    return re.sub(r"[^\w.,=+-]", "-", task)
