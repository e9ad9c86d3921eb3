"""What an experiment is made of: goals, sizes, sets of runs, and what is drawn of them. Needs no JAX."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

from gtrxl.experiments.models import Model

ScaleName = Literal["quick", "laptop", "paper"]
SCALES: tuple[ScaleName, ...] = ("quick", "laptop", "paper")


@dataclasses.dataclass(frozen=True)
class Goal:
    """A task and the frames it is given."""

    task: str
    steps: int
    label: str = ""
    """What figures call it; the task's name if left out."""
    dial: int | None = None
    """Where it stands on the axis of a figure: the size of the pad, the length of the corridor, the number of layers."""
    net: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Sizes of all transformers that are this goal's own."""
    key: str = ""
    """What its runs are called; the task's name if left out. Goals of one task need it."""
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Of the run, for all models alike: the length of an unroll."""


@dataclasses.dataclass(frozen=True)
class Size:
    """A set of runs at one scale: every model on every goal with every draw."""

    goals: tuple[Goal, ...]
    models: tuple[Model, ...]
    draws: int
    environment: str
    """Whose ranges the draws are from."""
    net: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Sizes of all transformers."""
    recurrent: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Sizes of all other cores."""
    beneath: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """What is changed of the defaults before all else."""
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    learner: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    preset: Literal["small", "paper"] = "small"
    hours: float = 0.0
    """Machine time on 2 cores, about."""


@dataclasses.dataclass(frozen=True)
class RunSet:
    """Runs that belong together, at every scale there is."""

    id: str
    scales: Mapping[ScaleName, Size]


@dataclasses.dataclass(frozen=True)
class Experiment:
    """A table or figure: whose runs it shows, and how."""

    id: str
    source: str
    """Where the paper has it."""
    about: str
    runs: str
    view: Literal["curves", "ranks", "sizes", "divergence", "parameters", "draws", "horizon", "rates", "rivals"]
    claim: str
    """What the paper says that it shows."""
    models: tuple[str, ...] = ()
    """Labels, if not all of the runs'."""
    measures: tuple[float, ...] = (0.25, 0.5, 1.0)
    """Shares of the budget at which runs are ranked."""
    pairs: tuple[tuple[str, str], ...] = ()
    """The claim in parts that can be tested: the first model scores above the second (of `divergence`: diverges more often)."""
    axis: str = ""
    """What the dial of its goals is."""
