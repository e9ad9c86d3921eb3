"""What a session asks of an engine, whatever steps the tasks: the compiled program, or actors with a learner.

Its state is one pytree with `trained`, `updates` and `diverged`; the rest of it is the engine's business.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

from gtrxl.runs.checkpoints import Checkpoints
from gtrxl.runs.config import Config
from gtrxl.runs.folder import Which
from gtrxl.runs.tasks import RunTasks

Row = dict[str, Any]


class Advance(NamedTuple):
    """What came of some updates."""

    state: Any
    row: Row | None
    """What to report of them; None if there was no update."""
    failed: str | None = None
    """Why it cannot go on, if it cannot."""


@runtime_checkable
class Running(Protocol):
    """An engine at work."""

    def advance(self, state: Any, *, until: int, stop: Callable[[], bool]) -> Advance:
        """Learns until so many updates have been made in all, or as soon after `stop()` as it can. The state given is used up."""
        ...


@runtime_checkable
class Engine(Protocol):
    """How the settings of a run become updates."""

    config: Config[Any]
    """With what was left open filled in: devices, actors."""
    stops: ClassVar[str]
    """When it stops after it was asked to, in words."""

    @property
    def tasks(self) -> RunTasks:
        """What is learned."""
        ...

    @property
    def begins(self) -> str:
        """What it does before its first update, in words."""
        ...

    def shapes(self) -> Any:
        """The state as shapes alone."""
        ...

    def start(self) -> Any:
        """The state before the first update, in one piece. What cannot work is said here."""
        ...

    def restore(self, checkpoints: Checkpoints, which: Which | int = "last") -> Any:
        """The state of a checkpoint, in one piece."""
        ...

    def placed(self, state: Any) -> Any:
        """The state where the engine wants it."""
        ...

    def whole(self, state: Any) -> Any:
        """The state in one piece again, for a checkpoint."""
        ...

    def running(
        self, state: Any, *, before: Sequence[Mapping[str, Any]], say: Callable[[str], None]
    ) -> AbstractContextManager[Running]:
        """Ready to advance. `before` are the rows that the run has already; `say` shows a line."""
        ...
