"""The native library as a file: compiled on this machine when it is first needed, kept in a cache, registered with JAX."""

import contextlib
import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax

from gtrxl import machine
from gtrxl.cores.kernels import description

SOURCES = ("acting.cc", "learning.cc")
HEADERS = ("attention.h", "boundary.h", "gemm.h", "pool.h", "vectors.h")
LAYOUT = "layout.h"
"""The header that `description.header` gives; it exists while the library is built."""
TARGETS = ("gtrxl_act", "gtrxl_unroll", "gtrxl_unroll_backward")
FLAGS = ("-std=c++17", "-O3", "-march=native", "-ffp-contract=fast", "-fno-math-errno", "-fPIC", "-pthread", "-w")
HERE = Path(__file__).parent


class NativeError(RuntimeError):
    """The native library was asked for and cannot be had."""


class NoCompilerError(NativeError):
    """There is nothing to build with."""


def compiler() -> str:
    """The C++ compiler: $CXX, or the first of c++, g++ and clang++ on the path."""
    if os.name != "posix":
        raise NoCompilerError("the native library is for Linux and macOS")
    asked = os.environ.get("CXX", "")
    for name in (asked,) if asked else ("c++", "g++", "clang++"):
        found = shutil.which(name)
        if found:
            return found
    raise NoCompilerError(f"no C++ compiler found{f' as CXX={asked}' if asked else ''}; install g++ or clang++")


def place() -> Path:
    """Where the library for this machine, these sources and this JAX is or will be."""
    return machine.cache_folder() / f"native-{_fingerprint(compiler())}.so"


def build() -> Path:
    """The library for this machine, these sources and this JAX, compiled unless the cache has it."""
    found, library = compiler(), place()
    if library.exists():
        return library
    try:
        library.parent.mkdir(parents=True, exist_ok=True)
        with _one_at_a_time(library.parent):
            if not library.exists():
                print("gtrxl: compiling its native library, once for this machine", file=sys.stderr, flush=True)
                _build(found, library)
    except OSError as error:
        raise NativeError(
            f"gtrxl's native library could not be built in {library.parent} ({error}); set {machine.CACHE} to a folder"
        ) from None
    return library


def _build(found: str, library: Path) -> None:
    """Built beside its place and moved there whole: nobody reads half a file."""
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        made, parts = Path(folder) / library.name, [Path(folder) / f"{source}.o" for source in SOURCES]
        (Path(folder) / LAYOUT).write_text(description.header())
        compile_ = functools.partial(_compile, found, layout=Path(folder))
        with ThreadPoolExecutor() as threads:
            list(threads.map(lambda source, part: compile_(HERE / source, part), SOURCES, parts))
        _call(found, *FLAGS, "-shared", *parts, "-o", made)
        made.replace(library)


@contextlib.contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Actors that start together would all compile the same; where the file system has no locks, they do."""
    import fcntl  # not on Windows, where nothing is compiled

    held = os.open(folder, os.O_RDONLY)  # the folder itself: no file is left in it
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


def _compile(compiler: str, source: Path, to: Path, *, layout: Path) -> None:
    _call(compiler, *FLAGS, f"-I{jax.ffi.include_dir()}", f"-I{layout}", "-c", source, "-o", to)


def _call(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NativeError(f"{command[0]} could not build gtrxl's native library: {_first_line(done.stderr)}")


def register(library: Path) -> None:
    """Makes the library's calls known to JAX."""
    try:
        loaded = ctypes.CDLL(str(library))
    except OSError as error:
        raise NativeError(f"gtrxl's native library cannot be loaded ({error}); remove it to have it built again") from None
    for target in TARGETS:
        jax.ffi.register_ffi_target(target, jax.ffi.pycapsule(getattr(loaded, target)), platform="cpu")


@functools.cache
def _fingerprint(compiler: str) -> str:
    """Of all that decides what is compiled: sources, flags, compiler, JAX's headers, and the processor (`-march=native`)."""
    texts = [*((HERE / name).read_text() for name in (*SOURCES, *HEADERS)), description.header()]
    known = [*FLAGS, compiler, jax.lib.__version__, platform.machine(), machine.processor(), *texts]
    return hashlib.sha256("\n".join(known).encode()).hexdigest()[:16]


def _first_line(text: str) -> str:
    lines = text.strip().splitlines() or ["no message"]
    return next((line for line in lines if "error" in line), lines[0])
