"""Whether an actor's process does anything at all: a thread in it beats, and the learner looks.

A task that takes long, or compiling, does not keep that thread from beating. What does is a process that is stopped (SIGSTOP),
one that the system keeps waiting, or one whose code holds the interpreter. The first is known for what it is
within seconds; the others have a minute, and inside of a call of the task its own time limit.
"""

import time
from typing import Any

from gtrxl.gym.child_process import is_stopped

EVERY = 0.5
"""Seconds between two beats."""
STOPPED = 5.0
"""Seconds for which a process may be stopped."""
STILL = 60.0
"""Seconds without a beat, of a process that is not stopped, outside of a call of its task."""
LOOKS = 3
"""Looks that must agree. After Ctrl-Z and `fg` actors wake with the learner, and look dead until they have beaten once."""


def beat(pulse: Any, place: int) -> None:
    """In the actor: the time, again and again, for ever."""
    while True:
        pulse[place] = time.monotonic()
        time.sleep(EVERY)


class Heart:
    """An actor's, as seen from the learner."""

    def __init__(self) -> None:
        self._beat, self._since, self._looked, self._looks = 0.0, time.monotonic(), 0.0, 0

    def trouble(self, beat: float, *, pid: int, in_task: bool) -> str | None:
        """What is wrong, if something is; `beat` is the last that came, 0 if none has."""
        now = time.monotonic()
        if beat != self._beat:
            self._beat, self._since, self._looks = beat, now, 0
        if now - self._looked < EVERY:
            return None
        self._looked, self._looks = now, self._looks + 1
        still = now - self._since
        if self._looks <= LOOKS:
            return None
        if still > STOPPED and is_stopped(pid):
            return f"its process has been stopped for {still:.0f} s; it was killed"
        if beat and still > STILL and not in_task:
            return f"its process has done nothing at all for {still:.0f} s; it was killed"
        return None
