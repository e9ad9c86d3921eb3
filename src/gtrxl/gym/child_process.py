"""A process that serves this one: an actor, or a task that lives alone. It ends with this one, whatever it is doing."""

import concurrent.futures
import contextlib
import ctypes
import multiprocessing
import os
import queue
import signal
import sys
import threading
import types
from collections.abc import Callable, Iterator
from multiprocessing import spawn
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "NPROC": "1",
}
"""What such a process is told before it imports JAX: the CPU, and one thread, because there is a process for each core."""
STDOUT, STDERR = 1, 2
"""The descriptors themselves: what C writes does not go through Python's."""
XLA_FLAG = "--xla_cpu_multi_thread_eigen=false"


def environment() -> dict[str, str]:
    """The variables of such a process, to be set before it imports JAX."""
    flags = os.environ.get("XLA_FLAGS", "")
    return {**ENVIRONMENT, "XLA_FLAGS": flags if XLA_FLAG in flags else f"{flags} {XLA_FLAG}".strip()}


class Child(SpawnProcess):
    """A process that serves this one: the CPU and one thread are its own, Ctrl-C and the user's script are not.

    It ends when this process does, however that happens: on Linux the system sees to it, even if the child is stopped; elsewhere
    a thread of the child does. What it prints goes to stderr: stdout is for the answers of a command (`gtrxl eval --json`), and
    a task may write to it from C.
    """

    def __init__(self, target: Callable[..., None], args: tuple[Any, ...], *, name: str):
        super().__init__(target=target, args=args, name=name, daemon=True)

    def start(self) -> None:
        """Starts it. A child that is tied to this process dies with the thread that started it: so one that stays does."""
        _nursery.do(self._start)

    def _start(self) -> None:
        with _environment(environment()), _interrupts_blocked(), _script_hidden(), _orphans_quiet():
            super().start()

    def run(self) -> None:
        """In the child: all its life."""
        with contextlib.suppress(OSError):  # without a stderr there is nowhere else to go
            os.dup2(STDERR, STDOUT)
        threading.Thread(target=_follow, name="gtrxl-parent", daemon=True).start()
        super().run()

    def __reduce__(self) -> tuple[Any, ...]:
        # How it travels. What is called first, there, ties it to this process: the imports of its target take long.
        return _reborn, (os.getpid(),), self.__dict__


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped, by SIGSTOP or from a terminal. Where the system does not say, it is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] == "T"
    except (OSError, IndexError):
        return False


PR_SET_PDEATHSIG = 1
"""<linux/prctl.h>: the signal that this process gets when the thread that started it is gone."""


def _reborn(parent: int) -> Child:
    """In the child, before anything else."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it was gone before we could ask for the signal
            os._exit(1)
    return Child.__new__(Child)


def _follow() -> None:
    """Ends this process with its parent, whatever its task is doing."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class _Nursery:
    """A thread that starts all children of this process and lives as long as it does."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[tuple[Callable[[], None], concurrent.futures.Future[None]]] = queue.SimpleQueue()
        self._starting = threading.Lock()
        self._process = 0
        """In which the thread is: after a fork it is not."""

    def do(self, call: Callable[[], None]) -> None:
        """Calls it there, and waits for it."""
        done: concurrent.futures.Future[None] = concurrent.futures.Future()
        with self._starting:
            if self._process != os.getpid():
                self._process, self._calls = os.getpid(), queue.SimpleQueue()
                threading.Thread(target=self._work, args=(self._calls,), name="gtrxl-nursery", daemon=True).start()
            self._calls.put((call, done))
        done.result()

    @staticmethod
    def _work(calls: "queue.SimpleQueue[tuple[Callable[[], None], concurrent.futures.Future[None]]]") -> None:
        while True:
            call, done = calls.get()
            try:
                done.set_result(call())
            except BaseException as error:
                done.set_exception(error)
            del call, done  # they hold the child, and what it was given


_nursery = _Nursery()


@contextlib.contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """What a process started inside finds in its environment."""
    old = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in old.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


@contextlib.contextmanager
def _orphans_quiet() -> Iterator[None]:
    """A process started inside, whose parent is killed before it has said what there is to do, ends without a traceback."""
    usual = spawn.get_command_line

    def command(**given: Any) -> list[Any]:
        words = usual(**given)
        if "-c" in words:
            place = words.index("-c") + 1
            words[place] = f"try:\n {words[place]}\nexcept EOFError:\n raise SystemExit(1)"
        return words

    spawn.get_command_line = command
    try:
        yield
    finally:
        spawn.get_command_line = usual


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """A process started inside does not hear Ctrl-C, which a terminal sends to everyone; the learner decides what it means."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    old = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old)


@contextlib.contextmanager
def _script_hidden() -> Iterator[None]:
    """A process started inside does not run the user's script again, as it otherwise would: an actor has no need of it, and a
    script that trains without asking whether it is the main one would start actors in every actor."""
    script = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script
