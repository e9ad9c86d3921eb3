"""A set of runs -> the settings of every run in it, by name."""

import dataclasses
import functools
import re
from typing import Any

from gtrxl.experiments.catalogue import EXPERIMENTS, RUNS, SCALES, Experiment, Goal, Size
from gtrxl.experiments.draws import Draw, draw
from gtrxl.experiments.errors import ExperimentError
from gtrxl.experiments.models import Model
from gtrxl.runs import settings as configs
from gtrxl.runs.config import Config
from gtrxl.runs.presets import looks_back
from gtrxl.runs.tasks import run_tasks


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


def scale_of(runs: str, scale: str) -> Size:
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
                    narrow=model.core == "lstm" and not run_tasks(goal.task).compiled,
                )
                name = f"{model.name}.{_slug(goal.key or goal.task)}.{number:02d}"
                planned.append(Planned(name, model, goal, drawn, _config(sizes, goal, model, drawn)))
    return tuple(planned)


def _config(sizes: Size, goal: Goal, model: Model, drawn: Draw) -> Config[Any]:
    base = configs.defaults(task=goal.task, core=model.core, preset=sizes.preset)
    # The paper limits no gradients: a comparison of what is stable would be one of what is limited.
    base = configs.change(base, {"learner": {"max_surge": 0.0}})
    return configs.change(
        configs.change(base, sizes.beneath),
        {
            **sizes.settings,
            **goal.settings,
            "seed": drawn.seed,
            "steps": round(goal.steps * model.steps),
            "net": {**({**sizes.net, **goal.net} if looks_back(model.core) else sizes.recurrent), **model.net},
            "learner": {**sizes.learner, **model.learner, **drawn.bounds},
        },
    )


def _slug(task: str) -> str:
    """A task as part of a file's name."""
    return re.sub(r"[^\w.,=+-]", "-", task)
