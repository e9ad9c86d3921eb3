"""When actors have failed so often that a run should end: nobody wants to find a day later that nothing was learned.

An actor that fails is started anew. The run ends where that cannot help: a task that cannot be made, an actor that never gets
through an unroll, one that dies again and again with hardly an unroll in between.
"""

import re

from gtrxl.training.actors.packets import Failure

FORGIVEN = 20
"""Whole unrolls after which one failure is forgotten."""


class Failures:
    """What went wrong with each of so many actors; `restarts` of one are allowed without a whole unroll in between."""

    def __init__(self, actors: int, *, restarts: int):
        self._restarts = restarts
        self._in_a_row = [0] * actors
        self._weight = [0.0] * actors
        self._unmade: dict[str, int] = {}
        """What was said of a task that could not be made, and by which actor."""

    def unrolled(self, actor: int) -> None:
        """A whole unroll has come."""
        self._in_a_row[actor] = 0
        self._weight[actor] = max(0.0, self._weight[actor] - 1 / FORGIVEN)
        self._unmade = {said: by for said, by in self._unmade.items() if by != actor}

    def add(self, actor: int, failure: Failure) -> str | None:
        """One more; why the run has to end, if it has to."""
        self._in_a_row[actor] += 1
        self._weight[actor] += 1
        if self._is_no_use(actor, failure):
            return f"its task cannot be made, tried twice: {failure.message}"
        last = f"the last time: {failure.message}"
        if self._in_a_row[actor] > self._restarts:
            return f"actor {actor} failed {self._in_a_row[actor]} times without a whole unroll in between; {last}"
        if self._weight[actor] > 2 * self._restarts:
            times = round(self._weight[actor])
            return f"actor {actor} failed {times} times with fewer than {FORGIVEN} unrolls between two of them; {last}"
        return None

    def _is_no_use(self, actor: int, failure: Failure) -> bool:
        """Whether a task could not be made for the second time. What it raised will be raised again, whichever actor makes it; a
        process that died may have had no room, so there the same actor is asked twice."""
        if not failure.when_made:
            return False
        said = re.sub(r"actor \d+, stream \d+", "", failure.message)
        if said not in self._unmade:
            self._unmade[said] = actor
            return False
        return failure.kind == "raised" or self._unmade[said] == actor
