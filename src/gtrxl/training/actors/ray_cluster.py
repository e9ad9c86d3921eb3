"""A Ray cluster: one started on this machine, which nobody else can reach, or one that is already there.

A cluster of our own listens on 127.0.0.1 alone, and asks for Ray's token besides. Whoever reaches a Ray cluster can run any
program on it, so nothing else is opened unasked.
"""

import contextlib
import dataclasses
import logging
import os
import signal
import threading
import warnings
from collections.abc import Iterator
from typing import Any

from gtrxl.runs.errors import RunError, first_line

MISSING = "engine ray needs Ray, and it is not installed; `pip install 'gtrxl[ray]'` adds it"
LOCALHOST = "127.0.0.1"
_CLUSTERS = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""What decides, on every system, whether Ray takes 127.0.0.1 at its word or puts the machine's outer address in its place."""

_SKIPPED = "RAY_DEDUP_LOGS_SKIP_REGEX"
"""What Ray does not print into the terminal."""


@dataclasses.dataclass(frozen=True)
class Joined:
    """A cluster that this process takes part in."""

    ray: Any
    """The module."""
    own: bool
    """Whether this record opened the connection, and so closes it."""

    def close(self) -> None:
        """Leave the cluster, and end it if it was started for this; one that was joined goes on."""
        if self.own and self.ray.is_initialized():
            self.ray.shutdown()


def join(address: str | None, *, cpus: int) -> Joined:
    """The cluster at `address` (`auto`, or host:port), or a new one on this machine with room for `cpus` actors.

    A process that is already in a cluster stays in it.
    """
    ray = _import()
    if ray.is_initialized():
        return Joined(ray=ray, own=False)
    if address is not None and "://" in address:
        raise RunError(f"address must be auto or host:port, got {address!r}; run the learner on a machine of the cluster")
    with _own_signals(), _quietly():
        if address is None:
            _start(ray, cpus)
        else:
            try:
                ray.init(address=address, log_to_driver=False, logging_level=logging.CRITICAL)
            except (ConnectionError, RuntimeError, ValueError, OSError) as error:
                raise RunError(
                    f"there is no Ray cluster at {address!r}: {first_line(error)}; start one by `ray start --head`, "
                    "or leave the address out for one on this machine"
                ) from None
    return Joined(ray=ray, own=True)


def _import() -> Any:
    with _variable(_SKIPPED, "^"):  # pages about every process that is gone, into the terminal; a fleet says it in a line
        try:
            import ray
        except ImportError:
            raise RunError(MISSING) from None
    return ray


def _start(ray: Any, cpus: int) -> None:
    """A cluster of one node on 127.0.0.1."""
    from ray._private import ray_constants

    before = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False  # read from the variable when Ray was imported, which may be long ago
    try:
        with _variable(_CLUSTERS, "0"), _variable("RAY_USAGE_STATS_ENABLED", "0"):  # it tells nobody either
            ray.init(
                address="local",
                num_cpus=cpus,
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.CRITICAL,
                _node_ip_address=LOCALHOST,
            )
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise RunError(f"Ray could not be started: {first_line(error)}; its logs are in /tmp/ray/session_latest/logs") from error
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before
    heard = ray.util.get_node_ip_address()
    if heard != LOCALHOST:
        ray.shutdown()
        raise RunError(
            f"a cluster of our own must listen on {LOCALHOST} alone, got {heard} from Ray {ray.__version__}; start one yourself "
            "by `ray start --head` and give its address"
        )


@contextlib.contextmanager
def _variable(name: str, value: str) -> Iterator[None]:
    """An environment variable, for a while."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        os.environ.pop(name) if before is None else os.environ.update({name: before})


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Without the advice that comes along, none of it for the user of a run."""
    logging.getLogger("ray").setLevel(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"ray\.")
        # JAX's, and right; but what Ray forks becomes another program at once.
        warnings.filterwarnings("ignore", message=r"os\.fork\(\) was called")
        yield


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """SIGTERM as it was: Ray would end the process at once, and a run wants to write a checkpoint first."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    old = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, old)
