"""Acting and learning in C++, for CPUs: what XLA's CPU backend leaves on one core or passes through memory many times.

The library comes in the wheel, or is compiled on this machine when a transformer is first used on a CPU (a few seconds, once)
and kept in a cache. It is called through XLA's foreign function interface. Where it cannot be had, on accelerators, in bfloat16,
or with `GTRXL_NATIVE=0`, the same mathematics runs through XLA; results then differ in rounding alone.
"""

import contextlib
import ctypes
import functools
import math
import os
import threading
import warnings
from collections.abc import Iterator

import jax
import numpy as np

from gtrxl import machine
from gtrxl.cores.kernels.library import CORES, Library, NativeError, NoCompilerError

SWITCH = "GTRXL_NATIVE"
"""The environment variable that says whether the library may be used: 0, 1 or auto."""


def wish() -> str:
    """Whether the library may be used: 0 (never), 1 (or fail) or auto (if it can be had)."""
    said = os.environ.get(SWITCH, "auto")
    if said not in ("0", "1", "auto"):
        raise NativeError(f"{SWITCH} must be 0 (never), 1 (or fail) or auto (if it can be had), got {said!r}")
    return said


def usable(dtype: jax.typing.DTypeLike) -> bool:
    """Whether computations of cores in this type, traced now, should go through the library."""
    return np.dtype(dtype) == np.float32 and jax.default_backend() == "cpu" and available()


def available(library: Library = CORES) -> bool:
    """Whether a library is there, built first if need be; decided once per process."""
    return not getattr(_here, "without", False) and loaded(library) is not None


_here = threading.local()


@contextlib.contextmanager
def left_out() -> Iterator[None]:
    """What this thread traces inside goes through XLA alone: programs that shall run on other machines."""
    before, _here.without = getattr(_here, "without", False), True
    try:
        yield
    finally:
        _here.without = before


@functools.cache
def loaded(library: Library) -> ctypes.CDLL | None:
    """A library in this process, or None: by the switch, or because it cannot be had."""
    if wish() == "0":
        return None
    try:
        return library.load()
    except NativeError as error:
        if wish() == "1":
            raise
        if not isinstance(error, NoCompilerError):
            warnings.warn(f"{error}; going on without it, slower. {SWITCH}=0 silences this", stacklevel=2)
        return None


def threads() -> np.int64:
    """How many threads a call traced now may use: all processors, divided among the devices it is mapped over."""
    mesh = jax.sharding.get_abstract_mesh()
    devices = math.prod(mesh.shape[axis] for axis in mesh.manual_axes)
    return np.int64(max(1, processors() // min(devices, jax.local_device_count())))


def processors() -> int:
    """Those this process may run on, or $OMP_NUM_THREADS if that is fewer, which is how actors are kept to one."""
    most = os.environ.get("OMP_NUM_THREADS", "")
    return min(machine.processors(), int(most)) if most.isdigit() and int(most) > 0 else machine.processors()
