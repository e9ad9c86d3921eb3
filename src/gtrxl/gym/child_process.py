"""How a process is started that serves this one: an actor, or a task that lives alone."""

import contextlib
import os
import signal
import sys
import types
from collections.abc import Iterator

ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "NPROC": "1",
}
"""What such a process is told before it imports JAX: the CPU, and one thread, because there is a process for each core."""
XLA_FLAG = "--xla_cpu_multi_thread_eigen=false"


def environment() -> dict[str, str]:
    """The variables of such a process, to be set before it imports JAX."""
    flags = os.environ.get("XLA_FLAGS", "")
    return {**ENVIRONMENT, "XLA_FLAGS": flags if XLA_FLAG in flags else f"{flags} {XLA_FLAG}".strip()}


@contextlib.contextmanager
def as_child() -> Iterator[None]:
    """A process started inside serves this one: the CPU and one thread are its own, Ctrl-C and the user's script are not."""
    with _environment(environment()), _interrupts_blocked(), _script_hidden():
        yield


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
