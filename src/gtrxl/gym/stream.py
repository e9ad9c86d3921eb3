"""One stream of a Gymnasium task: stepped, checked, timed. It trusts nothing that the task returns.

Every observation is a step of the stream, an episode's last one too: see `acting`. There the action goes nowhere, and the next
observation begins a new episode.
"""

import contextlib
import math
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Literal, NamedTuple

import numpy as np

from gtrxl.gym.errors import in_one_line
from gtrxl.gym.spaces import Spaces
from gtrxl.gym.task import GymTask
from gtrxl.tasks.errors import TaskError

MAKE, RESET, STEP, CLOSE = 1, 2, 3, 4
"""The calls of a task, as a pulse reports them; 0 is none."""
CALLS = {MAKE: "when made", RESET: "at reset", STEP: "at step {step}", CLOSE: "when closed"}

Kind = Literal["raised", "hung", "bad output", "died"]
"""How a task can fail: it raised, did not answer in time, gave what breaks its own spaces, or its process is gone."""

Pulse = Callable[[int, int, int], None]
"""Told before every call of a task: the stream, the step of its episode, the call; and with a 0 as call after it."""


def no_pulse(stream: int, step: int, call: int) -> None:
    """Tells nobody."""


def where(task: str, *, actor: int, stream: int, step: int, call: int) -> str:
    """How an error begins."""
    return f"{task}, actor {actor}, stream {stream}, {CALLS.get(call, 'between calls').format(step=step)}"


def too_long(time_limit: float) -> str:
    """What is said of a call that takes for ever."""
    return f"a call must return within {time_limit:g} s, got no answer; raise --time-limit if the task is just slow"


class FinishedEpisode(NamedTuple):
    """An episode that ended: its return, and how many actions it took."""

    score: float
    steps: int
    task: int = 0
    """Which of a run's tasks it was of."""


class TaskFault(Exception):  # noqa: N818 (the task's, not ours)
    """A task did what a task must not do."""

    def __init__(self, kind: Kind, message: str, detail: str = "", *, when_made: bool = False):
        super().__init__(message)
        self.kind: Kind = kind
        self.detail = detail
        self.when_made = when_made


class Moved(NamedTuple):
    """What an action led to."""

    reward: float
    terminated: bool
    valid: bool
    ended: FinishedEpisode | None


class EnvStream:
    """A task that lives on the CPU, where it stands, and what is told of it when it misbehaves.

    `observation`, `reset` and `final` are those of the step to be taken next. A task that raises, returns what breaks its
    spaces, or does not return, raises a `TaskFault`. `make` makes its environment, if not the task itself.
    """

    def __init__(
        self,
        task: GymTask,
        *,
        seed: int,
        actor: int = 0,
        index: int = 0,
        time_limit: float = math.inf,
        pulse: Pulse = no_pulse,
        make: Callable[[], Any] | None = None,
    ):
        self.task = task
        self.reset = True
        self.final = False
        self._actor, self._index = actor, index
        self.time_limit = time_limit
        self._pulse = pulse
        self._score, self._steps = 0.0, 0
        self._stepping = _Guard(self, STEP)
        with self._guarded(MAKE):
            self._env = (make or task.make)()
            self.spaces = Spaces.of(self._env, previous=task.previous)
        self.observation = self._begin(seed)

    def move(self, action: Any) -> Moved:
        """Takes an action, as a policy gives it for one stream; after an episode's last observation it begins a new one."""
        if self.final:
            self.observation = self._begin(None)
            self.reset, self.final = True, False
            self._score, self._steps = 0.0, 0
            return Moved(reward=0.0, terminated=False, valid=False, ended=None)
        wanted = self.spaces.hand.to_task(action)
        with self._stepping:
            given = self._env.step(wanted)
            if not isinstance(given, tuple) or len(given) != 5:
                raise TaskError(f"step must return observation, reward, terminated, truncated and info, got {_brief(given)}")
            observation, reward, terminated, truncated, _ = given
            reward = _number("reward", reward)
            terminated, truncated = _flag("terminated", terminated), _flag("truncated", truncated)
            self.observation = self.spaces.lens(observation, action=action, reward=reward)
        self._score += reward
        self._steps += 1
        self.reset, self.final = False, terminated or truncated
        ended = FinishedEpisode(self._score, self._steps) if self.final else None
        return Moved(reward=reward, terminated=terminated, valid=True, ended=ended)

    def close(self) -> None:
        """Lets the task go, whatever it says to that."""
        with contextlib.suppress(TaskFault), self._guarded(CLOSE):
            self._env.close()

    def _begin(self, seed: int | None) -> Any:
        self._steps = 0
        with self._guarded(RESET):
            given = self._env.reset(seed=seed) if seed is not None else self._env.reset()
            if not isinstance(given, tuple) or len(given) != 2:
                raise TaskError(f"reset must return observation and info, got {_brief(given)}")
            return self.spaces.lens(given[0])

    def _guarded(self, call: int) -> "_Guard":
        return _Guard(self, call)

    def _tell(self, call: int) -> None:
        self._pulse(self._index, self._steps, call)

    def _fault(self, call: int, error: BaseException) -> TaskFault:
        """What went wrong in a call of the task, and where."""
        place = where(self.task.name, actor=self._actor, stream=self._index, step=self._steps, call=call)
        detail = "".join(traceback.format_exception(error))
        kind: Kind = "raised"
        if isinstance(error, _Late):
            kind, said = "hung", too_long(self.time_limit)
        elif isinstance(error, TaskError):
            kind, said = "raised" if call == MAKE else "bad output", in_one_line(error, most=500)
        else:
            said = f"raised {type(error).__name__}: {in_one_line(error, most=500)}"
        return TaskFault(kind, f"{place}: {said}", detail, when_made=call == MAKE)


class _Late(BaseException):
    """Not an `Exception`: a task that catches those must not catch this."""


_timed_in = 0
"""The thread that late calls are ended in now; 0 for none."""


@contextlib.contextmanager
def timed() -> Iterator[None]:
    """Late calls inside are ended. Whoever makes many calls says so once: every guard would do it by itself, at a price that a
    fast task notices.

    Only the main thread can be interrupted; elsewhere somebody else has to look at the pulse.
    """
    global _timed_in
    here = threading.get_ident()
    if _timed_in == here or threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return
    old = signal.signal(signal.SIGALRM, _ring)
    _timed_in = here
    try:
        yield
    finally:
        _timed_in = 0
        signal.signal(signal.SIGALRM, old)


class _Guard:
    """Around a call of a task: whatever goes wrong inside, or takes too long, becomes a `TaskFault`."""

    def __init__(self, stream: EnvStream, call: int):
        self._stream, self._call = stream, call
        self._timed = False
        self._own: contextlib.ExitStack | None = None

    def __enter__(self) -> None:
        stream = self._stream
        stream._tell(self._call)
        self._timed = stream.time_limit < math.inf
        if self._timed:
            if _timed_in != threading.get_ident():
                self._own = contextlib.ExitStack()
                self._own.enter_context(timed())
                self._timed = _timed_in == threading.get_ident()
            if self._timed:
                signal.setitimer(signal.ITIMER_REAL, stream.time_limit)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._timed:
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0)
            except _Late as late:  # it rang just now
                error = error or late
        if self._own is not None:
            self._own.close()
            self._own = None
        self._stream._tell(0)
        if error is not None and isinstance(error, Exception | _Late):
            raise self._stream._fault(self._call, error) from error


def _ring(*_: Any) -> None:
    raise _Late


def _number(name: str, value: Any) -> float:
    if type(value) is float and math.isfinite(value):
        return value
    array = np.asarray(value)
    if array.shape != () or array.dtype.kind not in "biuf":
        raise TaskError(f"{name} must be one number, got {_brief(value)}; return a float")
    number = float(array)
    if not math.isfinite(number):
        raise TaskError(f"{name} must be finite, got {number}; mend the task's step")
    return number


def _flag(name: str, value: Any) -> bool:
    if value is True or value is False:
        return value
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, np.ndarray) and value.shape == () and value.dtype == bool:
        return bool(value)
    raise TaskError(f"{name} must be a bool, got {_brief(value)}; return bool(...)")


def _brief(value: Any) -> str:
    if isinstance(value, tuple):
        return f"{len(value)} things"
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} with shape {list(value.shape)}"
    said = " ".join(repr(value).split())
    return f"{type(value).__name__} {said if len(said) <= 60 else said[:57] + '...'}"
