"""Whether two forms of one thing, a library's and the Python one, still compute the same: compared once, and noted.

The Python form is the definition. Somebody who changes it, in the source or on a class in memory, must get what they wrote; so
both forms are run on something small before the library is used. What agreed is noted in the cache, under a name made of both
forms, and is not compared again.
"""

import hashlib
import inspect
import numbers
import types
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import numpy as np

from gtrxl import machine
from gtrxl.cores import kernels
from gtrxl.cores.kernels.library import Library, NativeError

TOLERANCE = 1e-3
"""How far results may lie apart, as a share of the largest. Rounding is below 1e-5, another formula far above."""

QUICKLY = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
"""For XLA: the programs run once, so that nearly all of their time is compiling."""


def agree(what: str, compare: Callable[[], float], *, note: Path) -> bool:
    """Whether both forms of `what` agree by `compare`, which gives their largest deviation."""
    if note.exists():
        return True
    said = f"gtrxl's native library and its Python form of {what}"
    try:
        # In a thread of its own: this one may be tracing a program, of which the comparison must not become a part.
        with ThreadPoolExecutor(1) as alone:
            apart = alone.submit(compare).result()
        trouble = f"{said} differ by {apart:.1e} of the largest number" if not apart <= TOLERANCE else ""
    except Exception as error:  # whatever an edited class raises
        trouble = f"{said} could not be compared ({type(error).__name__}: {(str(error).splitlines() or [''])[0]})"
    if not trouble:
        _write(note)
        return True
    if kernels.wish() == "1":
        raise NativeError(f"{trouble}; {kernels.SWITCH}=1 asks for the library or nothing")
    warnings.warn(
        f"{trouble}; going on with the Python form, through XLA and slower. {kernels.SWITCH}=0 silences this",
        stacklevel=2,
    )
    return False


def deviation(ours: Any, theirs: Any) -> float:
    """The largest, over all arrays of two pytrees, each beside its largest number."""
    leaves = jax.tree.leaves(theirs)
    largest = max(float(np.max(np.abs(leaf))) for leaf in leaves)  # what cancels is rounding beside what does not
    apart = [np.max(np.abs(one - two)) for one, two in zip(jax.tree.leaves(ours), leaves, strict=True)]
    scale = [max(float(np.max(np.abs(leaf))), 1e-2 * largest) for leaf in leaves]
    return float(np.max(np.asarray(apart) / np.asarray(scale)))


# What is known already.


def note(library: Library, modules: Iterable[types.ModuleType], *kind: str) -> Path:
    """The file that is there if two forms were compared and agreed: those that `kind` and all that is in `modules` describe."""
    said = hashlib.sha256()
    for text in (jax.__version__, *kind, *(text for module in modules for text in _texts(module))):
        said.update(text.encode() + b"\0")
    return machine.cache_folder() / f"{library.place().stem}.{said.hexdigest()[:16]}.agrees"


def _write(note: Path) -> None:
    try:
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text("")
    except OSError:
        return  # it will be compared again


def _texts(module: types.ModuleType) -> Iterator[str]:
    """All that decides what a module computes: the code of its functions and methods as they are in memory, and its numbers."""
    for name, value in sorted(vars(module).items()):
        if isinstance(value, numbers.Number | str) and not name.startswith("__"):
            yield f"{name}={value!r}"
        elif isinstance(value, type) and value.__module__ == module.__name__:
            for attribute, of in sorted(vars(value).items()):
                yield from _code(f"{name}.{attribute}", of)
        else:
            yield from _code(name, value)


def _code(name: str, value: Any) -> Iterator[str]:
    while value is not None:
        value = getattr(value, "fget", None) or getattr(value, "__func__", None) or getattr(value, "method", None) or value
        if not inspect.isfunction(value):
            return
        yield f"{name}: {_instructions(value.__code__)} {value.__kwdefaults__!r}"
        value = getattr(value, "__wrapped__", None)  # a decorator's function, and what it stands around


def _instructions(code: types.CodeType) -> str:
    def told(constant: Any) -> str:
        if isinstance(constant, types.CodeType):
            return _instructions(constant)
        return repr(sorted(map(repr, constant))) if isinstance(constant, frozenset) else repr(constant)

    return f"{code.co_code.hex()} {code.co_names} {code.co_freevars} {[told(constant) for constant in code.co_consts]}"
