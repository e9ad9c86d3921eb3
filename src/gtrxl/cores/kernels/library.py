"""A native library as a file: compiled on this machine when it is first needed, kept in a cache, registered with JAX."""

import contextlib
import ctypes
import dataclasses
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

HERE = Path(__file__).parent
LAYOUT = "layout.h"
"""The header that `description.header` gives; it exists while a library is built."""
FLAGS = ("-std=c++17", "-O3", "-march=native", "-ffp-contract=fast", "-fno-math-errno", "-fPIC", "-pthread", "-w")


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


@dataclasses.dataclass(frozen=True)
class Library:
    """Sources that are compiled together, and the calls that they give JAX."""

    name: str
    """How its file's name begins."""
    sources: tuple[Path, ...]
    headers: tuple[Path, ...]
    """All that the sources include; those of this folder are found by name."""
    targets: tuple[str, ...]

    def place(self) -> Path:
        """Where the library for this machine, these sources and this JAX is or will be."""
        return machine.cache_folder() / f"{self.name}-{_fingerprint(self, compiler())}.so"

    def build(self) -> Path:
        """The library for this machine, these sources and this JAX, compiled unless the cache has it."""
        found, place = compiler(), self.place()
        if place.exists():
            return place
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            with _one_at_a_time(place.parent):
                if not place.exists():
                    print(f"gtrxl: compiling its {self.name} library, once for this machine", file=sys.stderr, flush=True)
                    self._build(found, place)
        except OSError as error:
            raise NativeError(
                f"gtrxl's native library could not be built in {place.parent} ({error}); set {machine.CACHE} to a folder"
            ) from None
        return place

    def _build(self, found: str, place: Path) -> None:
        """Built beside its place and moved there whole: nobody reads half a file."""
        with tempfile.TemporaryDirectory(dir=place.parent) as folder:
            made, parts = Path(folder) / place.name, [Path(folder) / f"{source.name}.o" for source in self.sources]
            (Path(folder) / LAYOUT).write_text(description.header())
            compile_ = functools.partial(_compile, found, layout=Path(folder))
            with ThreadPoolExecutor() as threads:
                list(threads.map(compile_, self.sources, parts))
            _call(found, *FLAGS, "-shared", *parts, "-o", made)
            made.replace(place)

    def load(self) -> ctypes.CDLL:
        """The library in this process, built if need be, its calls known to JAX."""
        try:
            loaded = ctypes.CDLL(str(self.build()))
        except OSError as error:
            raise NativeError(f"gtrxl's native library cannot be loaded ({error}); remove it to have it built again") from None
        for target in self.targets:
            jax.ffi.register_ffi_target(target, jax.ffi.pycapsule(getattr(loaded, target)), platform="cpu")
        return loaded


BASE = tuple(HERE / name for name in ("boundary.h", "gemm.h", "pool.h", "vectors.h"))
"""The headers that every library may use."""
CORES = Library(
    name="native",
    sources=(HERE / "acting.cc", HERE / "learning.cc"),
    headers=(*BASE, HERE / "attention.h"),
    targets=("gtrxl_act", "gtrxl_unroll", "gtrxl_unroll_backward"),
)
"""Stacks of layers."""


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
    _call(compiler, *FLAGS, f"-I{jax.ffi.include_dir()}", f"-I{layout}", f"-I{HERE}", "-c", source, "-o", to)


def _call(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NativeError(f"{command[0]} could not build gtrxl's native library: {_first_line(done.stderr)}")


@functools.cache
def _fingerprint(library: Library, compiler: str) -> str:
    """Of all that decides what is compiled: sources, flags, compiler, JAX's headers, and the processor (`-march=native`)."""
    texts = [*(path.read_text() for path in (*library.sources, *library.headers)), description.header()]
    known = [*FLAGS, compiler, jax.lib.__version__, platform.machine(), machine.processor(), *texts]
    return hashlib.sha256("\n".join(known).encode()).hexdigest()[:16]


def _first_line(text: str) -> str:
    lines = text.strip().splitlines() or ["no message"]
    return next((line for line in lines if "error" in line), lines[0])
