"""Acting and learning in C++, for CPUs: what XLA's CPU backend leaves on one core or passes through memory many times.

The library is compiled on this machine when a transformer is first used on a CPU (a few seconds, once), kept in a cache, and
called through XLA's foreign function interface. Where there is no compiler, on accelerators, in bfloat16, or with
`GTRXL_NATIVE=0`, the same mathematics runs through XLA; results then differ in rounding alone.
"""

import ctypes
import functools
import hashlib
import math
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import numpy as np

SWITCH = "GTRXL_NATIVE"
CACHE = "GTRXL_CACHE"
SOURCES = ("acting.cc", "learning.cc")
HEADERS = ("attention.h", "blocks.h", "gemm.h", "pool.h", "vectors.h")
TARGETS = ("gtrxl_act", "gtrxl_unroll", "gtrxl_unroll_backward")
FLAGS = ("-std=c++17", "-O3", "-march=native", "-ffp-contract=fast", "-fno-math-errno", "-fPIC", "-pthread", "-w")
HERE = Path(__file__).parent


class NativeError(RuntimeError):
    """The native library was asked for and cannot be had."""


def usable(dtype: jax.typing.DTypeLike) -> bool:
    """Whether computations in this type, traced now, should go through the library."""
    return np.dtype(dtype) == np.float32 and jax.default_backend() == "cpu" and available()


@functools.cache
def available() -> bool:
    """Whether the library is there, built first if need be; decided once per process."""
    wish = os.environ.get(SWITCH, "auto")
    if wish not in ("0", "1", "auto"):
        raise NativeError(f"{SWITCH} must be 0 (never), 1 (or fail) or auto (if a compiler is found), got {wish!r}")
    if wish == "0":
        return False
    try:
        _register(build())
    except NativeError as error:
        if wish == "1":
            raise
        if not isinstance(error, NoCompilerError):
            warnings.warn(f"{error}; going on without it, slower. {SWITCH}=0 silences this", stacklevel=2)
        return False
    return True


class NoCompilerError(NativeError):
    """There is nothing to build with."""


def compiler() -> str:
    """The C++ compiler: $CXX, or the first of c++, g++ and clang++ on the path."""
    asked = os.environ.get("CXX", "")
    for name in (asked,) if asked else ("c++", "g++", "clang++"):
        found = shutil.which(name)
        if found:
            return found
    raise NoCompilerError(f"no C++ compiler found{f' as CXX={asked}' if asked else ''}; install g++ or clang++")


def build() -> Path:
    """The library for this machine, these sources and this JAX, compiled unless the cache has it."""
    found = compiler()
    library = cache() / f"native-{_fingerprint(found)}.so"
    if library.exists():
        return library
    print("gtrxl: compiling its native library, once for this machine", file=sys.stderr, flush=True)
    try:
        library.parent.mkdir(parents=True, exist_ok=True)
        # Built beside its place and moved there whole: processes that start together may all build, and none reads half a file.
        with tempfile.TemporaryDirectory(dir=library.parent) as folder:
            made, parts = Path(folder) / library.name, [Path(folder) / f"{source}.o" for source in SOURCES]
            with ThreadPoolExecutor() as together:
                list(together.map(lambda source, part: _compile(found, HERE / source, part), SOURCES, parts))
            _call(found, *FLAGS, "-shared", *parts, "-o", made)
            made.replace(library)
    except OSError as error:
        raise NativeError(
            f"gtrxl's native library could not be built in {library.parent} ({error}); set {CACHE} to a folder"
        ) from None
    return library


def _compile(compiler: str, source: Path, to: Path) -> None:
    _call(compiler, *FLAGS, f"-I{jax.ffi.include_dir()}", "-c", source, "-o", to)


def _call(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NativeError(f"{command[0]} could not build gtrxl's native library: {_first_line(done.stderr)}")


def cache() -> Path:
    """Where compiled libraries are kept: $GTRXL_CACHE, or gtrxl in the user's cache folder."""
    if os.environ.get(CACHE):
        return Path(os.environ[CACHE])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gtrxl"


def threads() -> np.int64:
    """How many threads a call traced now may use: all processors, divided among the devices it is mapped over."""
    mesh = jax.sharding.get_abstract_mesh()
    devices = math.prod(mesh.shape[axis] for axis in mesh.manual_axes)
    return np.int64(max(1, processors() // min(devices, jax.local_device_count())))


def processors() -> int:
    """Those this process may run on, or $OMP_NUM_THREADS if that is fewer, which is how actors are kept to one."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    wish = os.environ.get("OMP_NUM_THREADS", "")
    return min(available, int(wish)) if wish.isdigit() and int(wish) > 0 else available


def _register(library: Path) -> None:
    try:
        loaded = ctypes.CDLL(str(library))
    except OSError as error:
        raise NativeError(f"gtrxl's native library cannot be loaded ({error}); remove it to have it built again") from None
    for target in TARGETS:
        jax.ffi.register_ffi_target(target, jax.ffi.pycapsule(getattr(loaded, target)), platform="cpu")


def _fingerprint(compiler: str) -> str:
    """Of all that decides what is compiled: sources, flags, compiler, JAX's headers, and the processor (`-march=native`)."""
    texts = [(HERE / name).read_text() for name in (*SOURCES, *HEADERS)]
    known = [*FLAGS, compiler, jax.lib.__version__, platform.machine(), _processor(), *texts]
    return hashlib.sha256("\n".join(known).encode()).hexdigest()[:16]


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return "\n".join(sorted({line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))}))


def _first_line(text: str) -> str:
    lines = text.strip().splitlines() or ["no message"]
    return next((line for line in lines if "error" in line), lines[0])
