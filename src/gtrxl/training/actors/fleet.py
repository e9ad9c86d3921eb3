"""Actors somewhere, behind one interface: ask for unrolls, get packets or failures. Here: processes on this machine.

Every actor is a process of its own with a pipe, and in the learner's process a thread that talks with it: hands over new weights,
asks, waits, unpacks. So the learner never waits for a pipe, and there are never more answers on their way than were asked for.
"""

import contextlib
import dataclasses
import multiprocessing
import os
import pickle
import queue
import signal
import sys
import threading
import time
import traceback
from multiprocessing.connection import Connection
from typing import Any, Protocol, TypeAlias, runtime_checkable

from gtrxl.gym.child_process import Child
from gtrxl.gym.stream import MAKE, Kind, too_long, where
from gtrxl.networks.agent import Agent
from gtrxl.runs.errors import first_line
from gtrxl.training.actors import heartbeat
from gtrxl.training.actors.actor import Actor, Assignment, settle
from gtrxl.training.actors.heartbeat import Heart
from gtrxl.training.actors.packets import Failure, Packet, Sealed


@runtime_checkable
class Fleet(Protocol):
    """Actors somewhere. Pull-based: never more unrolls under way than were asked for."""

    size: int
    """Actors."""

    def publish(self, version: int, weights: Agent) -> None:
        """New acting weights: an agent with NumPy arrays. They are used by unrolls that begin afterwards."""
        ...

    def ask(self, actor: int) -> None:
        """One more unroll, please."""
        ...

    def wait(self, timeout: float) -> list[tuple[int, Packet | Failure]]:
        """What has come, by actor; nothing after `timeout` seconds. After a failure the actor has to be restarted."""
        ...

    def restart(self, actor: int) -> None:
        """Starts an actor anew: fresh tasks, an empty memory. What it was asked for before is lost."""
        ...

    def close(self) -> None:
        """Ends all actors; never hangs."""
        ...


GRACE = 5.0
"""Seconds beyond the time limit before an actor that does not notice by itself is killed."""
LOOK_EVERY = 0.2
"""Seconds between two looks at actors that say nothing."""
SILENCE = 900.0
"""Seconds that an actor may take outside of its task, as long as its heart beats: to start, to compile, to send."""


class LocalFleet:
    """Actors as processes of this machine. Use it as a context manager, or close it."""

    def __init__(self, assignment: Assignment, actors: int, *, grace: float = GRACE):
        self.size = actors
        self.assignment = assignment
        self.grace = grace
        self._answers: _Answers = queue.SimpleQueue()
        self._workers: list[_Worker] = []
        try:
            for index in range(actors):
                self._workers.append(_Worker(assignment, index, attempt=0, grace=grace, answers=self._answers))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "LocalFleet":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    @property
    def pids(self) -> list[int]:
        """The actors' processes."""
        return [worker.process.pid or 0 for worker in self._workers]

    def publish(self, version: int, weights: Agent) -> None:
        """New acting weights; each actor gets them once, with its next unroll."""
        self._weights = _Weights(version, pickle.dumps(Sealed(weights), pickle.HIGHEST_PROTOCOL))
        for worker in self._workers:
            worker.weights = self._weights

    def ask(self, actor: int) -> None:
        """One more unroll."""
        self._workers[actor].ask()

    def wait(self, timeout: float) -> list[tuple[int, Packet | Failure]]:
        """What has come."""
        deadline = time.monotonic() + timeout
        while True:
            came = self._collect(min(deadline - time.monotonic(), LOOK_EVERY))
            came += [(worker.index, failure) for worker in self._workers if (failure := worker.failure()) is not None]
            if came or time.monotonic() >= deadline:
                return came

    def restart(self, actor: int) -> None:
        """Ends the actor's process, if it has one, and starts another."""
        old = self._workers[actor]
        old.kill()
        new = _Worker(self.assignment, actor, attempt=old.attempt + 1, grace=self.grace, answers=self._answers)
        new.weights = old.weights
        self._workers[actor] = new

    def close(self) -> None:
        """Lets the actors close their tasks; those that have not within two seconds are killed."""
        for worker in self._workers:
            worker.process.terminate()
        deadline = time.monotonic() + 2.0
        for worker in self._workers:
            worker.process.join(max(0.0, deadline - time.monotonic()))
            worker.kill()
        self._workers = []

    def _collect(self, timeout: float) -> list[tuple[int, Packet | Failure]]:
        came = []
        with contextlib.suppress(queue.Empty):
            while True:
                worker, answer = self._answers.get(timeout > 0 and not came, max(timeout, 0.0))
                if worker.takes(answer):
                    came.append((worker.index, answer))
        return came


@dataclasses.dataclass(frozen=True)
class _Weights:
    """Weights as they go through a pipe."""

    version: int
    data: bytes


class _Worker:
    """One actor's process, and the thread that talks with it."""

    def __init__(self, assignment: Assignment, index: int, *, attempt: int, grace: float, answers: "_Answers"):
        self.index, self.attempt = index, attempt
        self.weights = _Weights(-1, pickle.dumps(None))
        self._assignment, self._grace = assignment, grace
        self._answers = answers
        self._asks: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._waiting = 0
        self._since = time.monotonic()
        self._over = False
        self._connection, theirs = multiprocessing.Pipe()
        self._pulse = multiprocessing.get_context("spawn").RawArray("d", 5)
        given = (theirs, pickle.dumps(assignment), index, attempt, self._pulse)
        self.process = Child(_work, given, name=f"gtrxl-actor-{index}")
        self.process.start()
        self._heart = Heart()
        theirs.close()
        self._thread = threading.Thread(target=self._talk, name=f"gtrxl-actor-{index}-pipe", daemon=True)
        self._thread.start()

    def ask(self) -> None:
        """One more unroll."""
        if not self._waiting:
            self._since = time.monotonic()
        self._waiting += 1
        self._asks.put(True)

    def takes(self, answer: Packet | Failure) -> bool:
        """Whether this answer counts: nothing does after a failure."""
        if self._over:
            return False
        self._over = isinstance(answer, Failure)
        self._waiting -= 1
        self._since = time.monotonic()
        return True

    def failure(self) -> Failure | None:
        """That the process is gone or silent for too long, said once."""
        if self._over or not (self._waiting and (said := self._trouble())):
            return None
        self.kill()
        _, stream, step, call, _ = self._pulse
        name = self._assignment.name(self.index, int(stream))
        place = where(name, actor=self.index, stream=int(stream), step=int(step), call=int(call))
        kind, message = said
        return Failure(self.index, kind, f"{place}: {message}", when_made=int(call) == MAKE)

    def _trouble(self) -> tuple[Kind, str] | None:
        if not self._thread.is_alive() or self.process.exitcode is not None:
            self.process.join(1.0)
            return "died", _ending(self.process.exitcode)
        at, _, _, call, beat = self._pulse
        if said := self._heart.trouble(beat, pid=self.process.pid or 0, in_task=call > 0):
            return "hung", said
        now, limit = time.monotonic(), self._assignment.time_limit
        if call:
            return ("hung", too_long(limit)) if now - at > limit + self._grace else None
        silent = now - max(at, self._since)
        return ("hung", f"its process gave no sign of life for {silent:.0f} s; it was killed") if silent > SILENCE else None

    def kill(self) -> None:
        """Ends the process for certain."""
        self._over = True
        self.process.kill()
        self.process.join()
        self._asks.put(False)
        # A task may have left processes behind that hold the pipe open: then the thread stays, and nobody listens to it.
        self._thread.join(1.0)
        if not self._thread.is_alive():
            self._connection.close()

    def _talk(self) -> None:
        """The thread: one unroll after the other, as asked; with new weights if there are any. It ends with the process."""
        has = None
        with contextlib.suppress(EOFError, OSError):
            while self._asks.get():
                weights = self.weights
                self._connection.send((weights.version, weights is not has))
                if weights is not has:
                    self._connection.send_bytes(weights.data)
                    has = weights
                self._answers.put((self, self._received()))

    def _received(self) -> Packet | Failure:
        data = self._connection.recv_bytes()
        try:
            return pickle.loads(data)
        except Exception as error:
            said = f"actor {self.index} sent what cannot be read here: {type(error).__name__}: {first_line(error)}"
            return Failure(self.index, "bad output", said, traceback.format_exc())


_Answers: TypeAlias = "queue.SimpleQueue[tuple[_Worker, Packet | Failure]]"


def _ending(exitcode: int | None) -> str:
    if exitcode is None or exitcode >= 0:
        return f"its process ended with code {exitcode}; what it printed may say why"
    name = signal.Signals(-exitcode).name if -exitcode in {*signal.Signals} else f"signal {-exitcode}"
    return f"its process was ended by {name}" + ("; was there enough memory?" if name == "SIGKILL" else "")


# In the actor's process


def _work(connection: Connection, assignment: bytes, index: int, attempt: int, pulse: Any) -> None:
    """An actor's whole life: unrolls as asked, until the learner is gone or says so."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    sys.unraisablehook = _left_out
    threading.Thread(target=heartbeat.beat, args=(pulse, 4), name="gtrxl-heart", daemon=True).start()
    settle()

    def beat(stream: int, step: int, call: int) -> None:
        # The time first: a call with an old time would look like one that hangs.
        pulse[0] = time.monotonic()
        pulse[1], pulse[2], pulse[3] = stream, step, call

    actor = None
    try:
        while True:
            version, is_new = connection.recv()
            weights = pickle.loads(connection.recv_bytes()) if is_new else None
            if actor is None:
                actor = Actor(pickle.loads(assignment), index, attempt=attempt, pulse=beat)
            connection.send(actor.answer(weights, version))
    except (EOFError, OSError):
        pass  # the learner is gone
    except Exception as error:  # what was sent cannot be unpacked here
        said = f"actor {index} cannot start: {type(error).__name__}: {first_line(error)}; can this be imported elsewhere?"
        with contextlib.suppress(OSError):
            connection.send(Failure(index, "raised", said, traceback.format_exc()))
    finally:
        if actor is not None:
            actor.close()


def _leave(*_: Any) -> None:
    raise SystemExit(0)


def _left_out(what: Any) -> None:
    """What Python would only print. A signal to leave that came where nothing can be raised, in a callback of the garbage
    collector, is one to leave at once."""
    if what.exc_type is SystemExit:
        os._exit(0)
    sys.__unraisablehook__(what)
