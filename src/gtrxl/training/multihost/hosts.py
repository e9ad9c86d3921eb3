"""One run on several hosts: each runs the same program on its own devices, JAX joins them, host 0 writes.

    gtrxl train numpad --coordinator HOST:PORT --num-hosts 2 --host 0        # on the machine at HOST
    gtrxl train numpad --coordinator HOST:PORT --num-hosts 2 --host 1        # on the other

A process that has not joined is host 0 of 1, and everything here is then as good as not there.
"""

import atexit
import contextlib
import ctypes
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import jax
import numpy as np

from gtrxl.runs.errors import RunError, first_line
from gtrxl.runs.terminal import View
from gtrxl.training.multihost.meeting import meet
from gtrxl.training.multihost.peers import SILENCE, Peers

T = TypeVar("T")
LIMIT = 300.0
"""Seconds that hosts wait for each other at the start."""

MOMENT = 3.0
"""Seconds in which it is known here that a process elsewhere has ended."""

_peers: Peers | None = None


def join(coordinator: str | None, *, num_hosts: int, host: int, limit: float = LIMIT) -> None:
    """Makes this process host number `host` of `num_hosts`; before JAX is first used. `coordinator` is host:port of host 0."""
    global _peers
    if num_hosts < 1:
        raise RunError(f"--num-hosts must be at least 1, got {num_hosts}; leave it out for one host")
    if not 0 <= host < num_hosts:
        raise RunError(f"--host must be from 0 to {num_hosts - 1}, got {host}; --num-hosts counts them, host 0 included")
    if coordinator is None and num_hosts == 1:
        return
    if coordinator is None or num_hosts == 1:
        raise RunError(
            f"--coordinator and --num-hosts must come together, got {coordinator} for {num_hosts}; "
            "for two hosts add --coordinator HOST:PORT --num-hosts 2 --host 0 (or 1)"
        )
    address, _, port = coordinator.rpartition(":")
    address = address.removeprefix("[").removesuffix("]")
    if not address or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise RunError(f"--coordinator must be host:port of host 0, got {coordinator!r}; for example 10.0.0.1:4321")
    if _peers is not None or jax.distributed.is_initialized():
        raise RunError("a process joins other hosts once, got a second time; start another process")
    try:
        # This number cannot be changed any more once JAX has been used.
        cpus: int = jax.config.jax_num_cpu_devices  # pyright: ignore[reportAttributeAccessIssue]
        jax.config.update("jax_num_cpu_devices", cpus + 2)
        jax.config.update("jax_num_cpu_devices", cpus)
    except RuntimeError:
        raise RunError("hosts must be joined before JAX is first used; call join before anything else") from None
    from gtrxl import __version__

    print(f"host {host} of {num_hosts}: waiting for the others at {coordinator}", file=sys.stderr, flush=True)
    about = {"gtrxl": __version__, "jax": jax.__version__}
    peers, service = meet(address, int(port), host=host, num_hosts=num_hosts, about=about, limit=limit)
    _join_jax(service, num_hosts=num_hosts, host=host)
    _slow_down_aborts()
    _peers = peers
    atexit.register(peers.leave)  # before JAX's own, which was registered first


def _join_jax(service: str, *, num_hosts: int, host: int) -> None:
    # It would take SIGTERM, which here means: stop with a checkpoint.
    jax.config.update("jax_enable_preemption_service", False)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    try:
        jax.distributed.initialize(
            coordinator_address=service,
            num_processes=num_hosts,
            process_id=host,
            coordinator_bind_address=service,
            cluster_detection_method="deactivate",
            initialization_timeout=60,
            # Ours speaks first.
            heartbeat_timeout_seconds=int(2 * SILENCE),
        )
    except (RuntimeError, ValueError) as error:
        raise RunError(f"JAX must be able to join the hosts at {service}, got {first_line(error)}; start all again") from error


def _slow_down_aborts() -> None:
    """When host 0 dies, JAX aborts the others at once, with a stack trace. Our thread says it in one line if it is given time: so
    what an abort calls here is libc's `sleep`, with the signal's number, which is 6, for the seconds."""
    with contextlib.suppress(OSError, AttributeError, TypeError):
        libc = ctypes.CDLL(None)
        libc.signal.argtypes = (ctypes.c_int, ctypes.c_void_p)
        libc.signal.restype = ctypes.c_void_p
        libc.signal(signal.SIGABRT, ctypes.cast(libc.sleep, ctypes.c_void_p))


def count() -> int:
    """Hosts of this run."""
    return 1 if _peers is None else _peers.count


def number() -> int:
    """Which of them this is."""
    return 0 if _peers is None else _peers.host


def is_first() -> bool:
    """Whether this is the host that writes."""
    return number() == 0


@contextlib.contextmanager
def in_step() -> Iterator[None]:
    """While this lasts no host can go on without the others: if one is lost, the others end with a line that says which."""
    if _peers is None:
        yield
        return
    with _peers.inside():
        try:
            yield
        except RunError:
            raise
        except Exception:
            # A broken connection between devices, maybe: then it will be known in a moment whose, and this process ended.
            time.sleep(MOMENT)
            raise


def on_first(work: Callable[[], T]) -> T:
    """What `work` gives on host 0, on every host; its error is every host's error. JSON must be able to say it."""
    if _peers is None:
        return work()
    outcome: dict[str, Any] = {}
    error: Exception | None = None
    if _peers.host == 0:
        try:
            outcome = {"value": work()}
        except Exception as caught:  # whatever it is, the others must hear of it
            outcome, error = {"error": first_line(caught)}, caught
    said = _peers.exchange(outcome)[0]
    if error is not None:
        raise error
    if "error" in said:
        raise RunError(said["error"])
    return said["value"]


def anyone(flag: bool) -> bool:
    """Whether it is so on any host."""
    return flag if _peers is None else any(_peers.exchange(flag))


def alone(why: str) -> None:
    """Raises if there are other hosts: some work is not shared in this way."""
    if count() > 1:
        raise RunError(f"{why}, got {count()} hosts for it; --engine ray spreads actors over machines")


def check_same(settings: dict[str, Any]) -> None:
    """Raises on every host if they were not all given the same settings."""
    if _peers is None:
        return
    given = _peers.exchange(settings)
    for host, theirs in enumerate(given):
        differ = [name for name in given[0] if theirs.get(name) != given[0][name]]
        if differ:
            name = differ[0]
            raise RunError(
                f"settings must be the same on all hosts, got {name} {theirs.get(name)!r} on host {host} and {given[0][name]!r} "
                "on host 0; give all the same command, with another --host alone"
            )


def from_first(array: np.ndarray) -> np.ndarray:
    """Host 0's array, bit for bit, on every host; what the others give says its shape."""
    if _peers is None:
        return array
    data = _peers.from_first(array.tobytes() if _peers.host == 0 else b"")
    return np.frombuffer(data, array.dtype).reshape(array.shape)


def to_first(array: np.ndarray) -> np.ndarray:
    """The arrays of all hosts one after the other, on host 0; the others keep their own."""
    if _peers is None:
        return array
    parts = _peers.to_first(array.tobytes())
    return np.concatenate([np.frombuffer(part, array.dtype).reshape(-1, *array.shape[1:]) for part in parts]) if parts else array


class Aside(View):
    """What a host shows that does not write: messages alone."""

    def message(self, text: str) -> None:
        """Print a line that says which host speaks."""
        with contextlib.suppress(OSError, ValueError):
            print(f"host {number()} of {count()}: {text}", file=sys.stderr, flush=True)
