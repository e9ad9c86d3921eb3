"""What travels between actors and a learner. K streams of one actor, T steps.

All of it is NumPy and plain records: it can be pickled and sent to another process or machine.
"""

import dataclasses
from typing import Any, Literal, NamedTuple

from jaxtyping import Bool
from numpy import ndarray

from gtrxl.runtime.acting import Unroll

Kind = Literal["raised", "hung", "bad output", "died"]
"""How an unroll can fail: the task raised, did not answer in time, gave what breaks its own spaces, or its process is gone."""


class Episode(NamedTuple):
    """An episode that ended: its return, and how many actions it took."""

    score: float
    steps: int


class Seconds(NamedTuple):
    """Where the time of an unroll went: in the task, in the network, and all of it."""

    task: float
    inference: float
    whole: float


@dataclasses.dataclass(frozen=True)
class Packet:
    """T steps of an actor's K streams, and what a learner needs to know besides. All arrays have K in front."""

    unroll: Unroll
    memory: Any
    """As it was before the first step; right under any weights."""
    next_observation: Any
    next_reset: Bool[ndarray, " K"]
    ended: tuple[Episode, ...]
    version: int
    """Of the weights it acted with: the number of updates they had seen."""
    seconds: Seconds

    @property
    def streams(self) -> int:
        """How many streams it has."""
        return len(self.next_reset)


@dataclasses.dataclass(frozen=True)
class Failure:
    """An unroll that will never come. The actor has to be restarted."""

    actor: int
    kind: Kind
    message: str
    """One line: which task, which actor, which stream, which step, what came."""
    detail: str = ""
    """A traceback, if there is one."""


class TaskFault(Exception):  # noqa: N818 (the task's, not ours)
    """A task did what a task must not do."""

    def __init__(self, kind: Kind, message: str, detail: str = ""):
        super().__init__(message)
        self.kind: Kind = kind
        self.detail = detail
