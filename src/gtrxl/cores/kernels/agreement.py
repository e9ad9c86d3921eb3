"""Whether the library still computes what the Python classes say: both forms of a small stack, side by side.

The Python form is the definition. Somebody who changes it, in the source or on a class in memory, must get what they wrote; so
the first time that a process meets a kind of block (a gate, and whether norms stand on inputs) both forms of it are run and
compared. What agreed is noted beside the library, under a name made of both forms, and is not compared again.
"""

import hashlib
import inspect
import numbers
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gtrxl.cores import attention, block, gates, kernels, layers, memory, positions
from gtrxl.cores.gates import Gate
from gtrxl.cores.kernels import acting, description, learning, library
from gtrxl.cores.kernels.description import KINDS

TOLERANCE = 1e-3
"""How far results may lie apart, as a share of the largest. Rounding is below 1e-5, another formula far above."""

QUICKLY = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
"""For XLA: the programs run once, so that nearly all of their time is compiling."""

STREAMS, STEPS = 2, 5
INPUT = 3
SIZES = {"d_model": 8, "layers": 2, "heads": 2, "head_dim": 3, "mlp": 6, "memory": 3}

_forced = threading.local()
_found: dict[tuple[type[Gate], bool], bool] = {}
_finding = threading.Lock()


def holds(gate: type[Gate], norm_inputs: bool, *, make: Callable[..., Any]) -> bool:
    """Whether both forms of blocks with this gate agree. `make(input_size, gate=..., key=..., ...)` is a transformer."""
    forced = getattr(_forced, "native", None)
    if forced is not None:  # while they are being compared
        return forced
    if (gate, norm_inputs) not in _found:
        with _finding:
            if (gate, norm_inputs) not in _found:
                _found[gate, norm_inputs] = _find(gate, norm_inputs, make)
    return _found[gate, norm_inputs]


def _find(gate: type[Gate], norm_inputs: bool, make: Callable[..., Any]) -> bool:
    kind = KINDS[gate].name
    note = _note(kind, norm_inputs, make)
    if note.exists():
        return True
    what = f"gtrxl's native library and its Python form of a block with gate={kind!r}, norm_inputs={norm_inputs}"
    try:
        # In a thread of its own: this one may be tracing a program, of which the comparison must not become a part.
        with ThreadPoolExecutor(1) as alone:
            apart = alone.submit(_compare, kind, norm_inputs, make).result()
        trouble = f"{what} differ by {apart:.1e} of the largest number" if not apart <= TOLERANCE else ""
    except Exception as error:  # whatever an edited class raises
        trouble = f"{what} could not be compared ({type(error).__name__}: {(str(error).splitlines() or [''])[0]})"
    if not trouble:
        _write(note)
        return True
    if kernels.wish() == "1":
        raise library.NativeError(f"{trouble}; {kernels.SWITCH}=1 asks for the library or nothing")
    warnings.warn(
        f"{trouble}; going on with the Python form, through XLA and slower. {kernels.SWITCH}=0 silences this",
        stacklevel=2,
    )
    return False


def _compare(gate: str, norm_inputs: bool, make: Callable[..., Any]) -> float:
    """The largest deviation between both forms: outputs, memory and gradients of an unroll, and steps of a prepared state."""
    random = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return random.standard_normal(shape).astype(np.float32)

    shapes = eqx.filter_eval_shape(
        lambda key: make(INPUT, gate=gate, norm_inputs=norm_inputs, key=key, **SIZES), jax.random.key(0)
    )
    core = jax.tree.map(lambda leaf: jnp.asarray(0.5 * normal(*leaf.shape)), shapes)
    slots = SIZES["memory"]
    state = memory.Memory(
        inputs=jnp.asarray(normal(STREAMS, SIZES["layers"], slots, SIZES["d_model"])),
        filled=jnp.asarray([slots - 2, slots], jnp.int32),
    )
    xs, wish = normal(STREAMS, STEPS, INPUT), normal(STREAMS, STEPS, SIZES["d_model"])
    resets = np.zeros((STREAMS, STEPS), bool)
    resets[0, STEPS // 2] = True

    def learn(core: Any, xs: jax.Array) -> Any:
        def score(core: Any, xs: jax.Array) -> Any:
            ys, after = core.unroll_streams(xs, state, jnp.asarray(resets))
            return jnp.sum(ys * wish), (ys, after.inputs)

        return jax.grad(score, argnums=(0, 1), has_aux=True)(core, xs)

    def act(core: Any, xs: jax.Array) -> Any:
        def step(states: Any, of_step: Any) -> Any:
            y, states = core.step_streams(of_step[0], states, of_step[1])
            return states, y

        prepared = core.prepare_streams(state, size=STREAMS)
        states, ys = jax.lax.scan(step, prepared, (jnp.swapaxes(xs, 0, 1), jnp.asarray(resets.T)))
        return ys, core.plain_streams(states, size=STREAMS).inputs

    forms = []
    for native in (True, False):
        _forced.native = native
        program = jax.jit(lambda core, xs: (learn(core, xs), act(core, xs)), compiler_options=QUICKLY)
        forms.append(jax.device_get(program(core, jnp.asarray(xs))))
    theirs = jax.tree.leaves(forms[1])
    largest = max(float(np.max(np.abs(leaf))) for leaf in theirs)  # what cancels is rounding beside what does not
    apart = [np.max(np.abs(one - two)) for one, two in zip(jax.tree.leaves(forms[0]), theirs, strict=True)]
    scale = [max(float(np.max(np.abs(leaf))), 1e-2 * largest) for leaf in theirs]
    return float(np.max(np.asarray(apart) / np.asarray(scale)))


# What is known already.


def _note(gate: str, norm_inputs: bool, make: Callable[..., Any]) -> Path:
    """The file that is there if these two forms were compared and agreed."""
    modules = [attention, block, gates, layers, memory, positions, acting, learning, description, sys.modules[make.__module__]]
    said = hashlib.sha256()
    for text in (jax.__version__, gate, str(norm_inputs), *(text for module in modules for text in _texts(module))):
        said.update(text.encode() + b"\0")
    return library.place().with_suffix(f".{said.hexdigest()[:16]}.agrees")


def _write(note: Path) -> None:
    try:
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
