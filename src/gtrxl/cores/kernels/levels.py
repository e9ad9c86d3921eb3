"""For which processors a library is compiled: for the one it is compiled on, or for a level that many have, as in wheels.

The levels of x86-64 are those of its ABI, as compilers know them (`-march=x86-64-v3`). Other processors have one.
"""

import os
import platform

from gtrxl import machine

LEVEL = "GTRXL_LEVEL"
"""The environment variable that asks for one level: `native`, or one of `of_wheels`."""
HERE = "native"
"""The processor that the compiler runs on."""

_V3 = frozenset({"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"})
_V4 = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
X86 = {"x86-64-v4": _V4, "x86-64-v3": _V3, "x86-64": frozenset[str]()}
"""Levels with vectors of 16, 8 and 4 floats, and what a processor must have for them, in the words of /proc/cpuinfo."""
_KINDS = {"x86_64": tuple(X86), "amd64": tuple(X86), "aarch64": ("arm64",), "arm64": ("arm64",)}


def of_wheels() -> tuple[str, ...]:
    """The levels that a wheel for this kind of machine has inside, the fastest first."""
    return _KINDS.get(platform.machine().lower(), ())


def run_here() -> tuple[str, ...]:
    """Those of them that this processor can run."""
    has = machine.features()
    return tuple(level for level in of_wheels() if X86.get(level, frozenset()) <= has)


def flags(level: str) -> tuple[str, ...]:
    """What a compiler is told for it."""
    return (f"-march={level}",) if level == HERE or level in X86 else ()


def asked() -> str | None:
    """The level that the environment asks for, if it does."""
    return os.environ.get(LEVEL) or None
