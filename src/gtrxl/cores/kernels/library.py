"""A native library as a file: one that came in the wheel, or compiled on this machine when it is first needed and kept in a
cache. Registered with JAX.

A wheel has a file for each level of processor (`levels`). Its name says what it was made of: sources that were changed since are
compiled here instead. It also says for which version of XLA's interface; XLA takes those of older versions.
"""

import contextlib
import ctypes
import dataclasses
import functools
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax

from gtrxl import machine
from gtrxl.cores.kernels import description, levels

HERE = Path(__file__).parent
INSIDE = HERE / "built"
"""Where a wheel has its libraries; a source tree has none."""
LAYOUT = "layout.h"
"""The header that `description.header` gives; it exists while a library is built."""
FLAGS = ("-std=c++17", "-O3", "-ffp-contract=fast", "-fno-math-errno", "-fPIC", "-pthread", "-w")


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

    def inside(self) -> Path | None:
        """The wheel's file for this processor, if there is one that fits this JAX and can be loaded."""
        for level in levels.run_here() if levels.asked() is None else (_level(),):
            for file in sorted(INSIDE.glob(f"{self.name}-{level}-ffi*-{_contents(self, level)}.so")):
                version = re.search(r"-ffi(\d+)\.(\d+)-", file.name)
                if version is not None and _fits(int(version[1]), int(version[2])) and _can_be_loaded(file):
                    return file
        return None

    def place(self) -> Path:
        """Where the library is: in the wheel, or, for this machine, these sources and this JAX, in the cache, now or later."""
        return self.inside() or machine.cache_folder() / f"{self.name}-{_fingerprint(self, compiler(), _level())}.so"

    def build(self) -> Path:
        """The library, compiled unless the wheel or the cache has it."""
        inside = self.inside()
        if inside is not None:
            return inside
        found, place = compiler(), self.place()
        if place.exists():
            return place
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            with _one_at_a_time(place.parent):
                if not place.exists():
                    print(f"gtrxl: compiling its {self.name} library, once for this machine", file=sys.stderr, flush=True)
                    self.compile(place, found=found, level=_level())
        except OSError as error:
            raise NativeError(
                f"gtrxl's native library could not be built in {place.parent} ({error}); set {machine.CACHE} to a folder"
            ) from None
        return place

    def build_for_wheel(self, folder: Path, *, level: str, link: Sequence[str] = ()) -> Path:
        """The library of a level as `inside` looks for it, with whatever else the linker is to be told."""
        major, minor = ffi_version()
        place = folder / f"{self.name}-{level}-ffi{major}.{minor}-{_contents(self, level)}.so"
        self.compile(place, found=compiler(), level=level, link=link)
        return place

    def compile(self, place: Path, *, found: str, level: str, link: Sequence[str] = ()) -> None:
        """Built beside its place and moved there whole: nobody reads half a file."""
        with tempfile.TemporaryDirectory(dir=place.parent) as folder:
            made, parts = Path(folder) / place.name, [Path(folder) / f"{source.name}.o" for source in self.sources]
            (Path(folder) / LAYOUT).write_text(description.header(), "utf-8")
            compile_ = functools.partial(_compile, found, level=level, layout=Path(folder))
            with ThreadPoolExecutor() as threads:
                list(threads.map(compile_, self.sources, parts))
            _call(found, *FLAGS, *levels.flags(level), "-shared", *parts, *link, "-o", made)
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


def ffi_version() -> tuple[int, int]:
    """Of XLA's interface to libraries, as the headers of this jaxlib have it."""
    text = (Path(jax.ffi.include_dir()) / "xla" / "ffi" / "api" / "c_api.h").read_text("utf-8")
    major, minor = (re.search(rf"^#define XLA_FFI_API_{part} (\d+)", text, re.MULTILINE) for part in ("MAJOR", "MINOR"))
    if major is None or minor is None:
        raise NativeError(f"the headers of jaxlib must say their version, got none in {jax.ffi.include_dir()}; install it again")
    return int(major[1]), int(minor[1])


def _fits(major: int, minor: int) -> bool:
    """Whether XLA here takes a library of that version: of the same major one, and not newer."""
    ours = ffi_version()
    return major == ours[0] and minor <= ours[1]


@functools.cache
def _can_be_loaded(file: Path) -> bool:
    try:
        ctypes.CDLL(str(file))
    except OSError:  # made for a newer C library
        return False
    return True


def _level() -> str:
    """The level that is compiled for here."""
    asked = levels.asked() or levels.HERE
    if asked != levels.HERE and asked not in levels.run_here():
        known = ", ".join((levels.HERE, *levels.run_here()))
        raise NativeError(f"{levels.LEVEL} must be a level that this processor has, got {asked}; choose one of {known}")
    return asked


def _compile(compiler: str, source: Path, to: Path, *, level: str, layout: Path) -> None:
    include = (f"-I{jax.ffi.include_dir()}", f"-I{layout}", f"-I{HERE}")
    _call(compiler, *FLAGS, *levels.flags(level), *include, "-c", source, "-o", to)


def _call(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", check=False)
    if done.returncode:
        raise NativeError(f"{command[0]} could not build gtrxl's native library: {_first_line(done.stderr)}")


@functools.cache
def _contents(library: Library, level: str) -> str:
    """A fingerprint of what is compiled for a level, on whatever machine."""
    texts = [*(path.read_text("utf-8") for path in (*library.sources, *library.headers)), description.header()]
    return hashlib.sha256("\n".join([*FLAGS, *levels.flags(level), *texts]).encode()).hexdigest()[:16]


@functools.cache
def _fingerprint(library: Library, compiler: str, level: str) -> str:
    """Of all that decides what is compiled here: sources and flags, compiler, JAX's headers, and the processor."""
    known = [_contents(library, level), compiler, jax.lib.__version__, platform.machine(), machine.processor()]
    return hashlib.sha256("\n".join(known).encode()).hexdigest()[:16]


def _first_line(text: str) -> str:
    lines = text.strip().splitlines() or ["no message"]
    return next((line for line in lines if "error" in line), lines[0])
