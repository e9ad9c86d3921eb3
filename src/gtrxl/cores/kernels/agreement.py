"""Whether the library still computes what the Python classes say: both forms of a small stack, side by side.

The first time that a process meets a kind of block (a gate, and whether norms stand on inputs) both forms of it are run and
compared (`comparison.agree`).
"""

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gtrxl.cores import attention, block, gates, layers, memory, positions
from gtrxl.cores.gates import Gate
from gtrxl.cores.kernels import acting, comparison, description, learning
from gtrxl.cores.kernels.description import KINDS
from gtrxl.cores.kernels.library import CORES

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
    what = f"a block with gate={kind!r}, norm_inputs={norm_inputs}"
    return comparison.agree(what, lambda: _compare(kind, norm_inputs, make), note=_note(kind, norm_inputs, make))


def _note(gate: str, norm_inputs: bool, make: Callable[..., Any]) -> Path:
    modules = [attention, block, gates, layers, memory, positions, acting, learning, description, sys.modules[make.__module__]]
    return comparison.note(CORES, modules, gate, str(norm_inputs))


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
        program = jax.jit(lambda core, xs: (learn(core, xs), act(core, xs)), compiler_options=comparison.QUICKLY)
        forms.append(jax.device_get(program(core, jnp.asarray(xs))))
    return comparison.deviation(*forms)
