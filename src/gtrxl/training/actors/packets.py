"""What travels between actors and a learner. K streams of one actor, T steps.

All of it is NumPy and plain records: it can be pickled and sent to another process or machine.
"""

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
from jaxtyping import Bool, Int
from numpy import ndarray

from gtrxl.gym.stream import FinishedEpisode, Kind
from gtrxl.training.actors.classes import Carried, carried
from gtrxl.training.rollout import Unroll


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
    ended: tuple[FinishedEpisode, ...]
    version: int
    """Of the weights it acted with: the number of updates they had seen."""
    seconds: Seconds
    task: Int[ndarray, " K"] | None = None
    """Which of a run's tasks each stream plays; None if there is only one."""

    @property
    def streams(self) -> int:
        """How many streams it has."""
        return len(self.next_reset)

    def __reduce__(self) -> tuple[Any, ...]:
        return _packet, (_bare(vars(self)),)


@dataclasses.dataclass(frozen=True)
class Failure:
    """An unroll that will never come. The actor has to be restarted."""

    actor: int
    kind: Kind
    message: str
    """One line: which task, which actor, which stream, which step, what came."""
    detail: str = ""
    """A traceback, if there is one."""
    when_made: bool = False
    """Whether the task was being made."""


class Sealed:
    """A value with modules in it, to be pickled; what comes out at the other side is the value itself.

    Equinox keeps every module that is unpickled as it is for ever (0.13.8: it waits for the end of an `__init__` that is never
    called), and with it all its arrays: a learner would grow by every packet. So modules travel as a class and its fields.
    """

    def __init__(self, value: Any):
        self.value = value

    def __reduce__(self) -> tuple[Any, ...]:
        return _whole, (_bare(self.value),)


class _Bare(NamedTuple):
    kind: type | Carried
    fields: dict[str, Any]


def _bare(value: Any) -> Any:
    """Without modules."""
    if isinstance(value, eqx.Module):
        return _Bare(carried(type(value)), _bare(vars(value)))
    if isinstance(value, dict):
        return {name: _bare(part) for name, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(_bare, value))
    return value


def _whole(value: Any) -> Any:
    """With them again."""
    if isinstance(value, _Bare):
        kind = value.kind.unpacked() if isinstance(value.kind, Carried) else value.kind
        made = object.__new__(kind)
        for name, part in value.fields.items():
            object.__setattr__(made, name, _whole(part))
        return made
    if isinstance(value, dict):
        return {name: _whole(part) for name, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(_whole, value))
    return value


def _packet(fields: dict[str, Any]) -> Packet:
    return Packet(**_whole(fields))
