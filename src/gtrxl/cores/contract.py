"""What every core promises: the same five calls, written for one stream.

T steps, D_in input width, D_out output width.

    state = core.initial_state()
    y, state = core.step(x, state, reset=...)          x: [D_in] -> y: [D_out]
    ys, state = core.unroll(xs, state, resets=...)     xs: [T, D_in] -> ys: [T, D_out]
    fast = core.prepare(state)                         worth it for many steps under the same weights
    state = core.plain(fast)

1. `unroll` equals T calls of `step`, to rounding: for any T, any chunking, any resets, and whether or not the state
   was prepared.
2. `reset` is true on the first step of an episode. Nothing before it has any influence on it or on what follows.
3. A state is data: fixed shapes, no gradient flows into it. Learning goes through the segment given to `unroll`.
4. A plain state stays right when the weights change. A prepared one belongs to the weights that prepared it.

Many streams: `jax.vmap`, or `gtrxl.Streams`, which is the same and shares what the streams have in common.
`gtrxl.testing.check_core` runs these promises on any core.
"""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from gtrxl.cores.errors import CoreError

State = Any
"""A pytree of arrays with fixed shapes; each core has its own named record."""

DTYPES = {name: jnp.dtype(name) for name in ("float32", "bfloat16")}


class Core(eqx.Module):
    """The base of every core. A subclass writes `_step` and `_unroll`; inputs are checked here, once."""

    input_size: eqx.AbstractVar[int]
    output_size: eqx.AbstractVar[int]

    @abc.abstractmethod
    def initial_state(self) -> State:
        """The state of a stream that has seen nothing."""

    @abc.abstractmethod
    def _step(self, x: Float[Array, " D_in"], state: State, reset: Bool[Array, ""]) -> tuple[Array, State]: ...

    @abc.abstractmethod
    def _unroll(self, xs: Float[Array, "T D_in"], state: State, resets: Bool[Array, " T"]) -> tuple[Array, State]: ...

    def step(self, x: Array, state: State, *, reset: Array | bool) -> tuple[Array, State]:
        """One step of one stream: `x [D_in]` -> `y [D_out]` and the next state.

        `reset` is true when `x` is the first input of an episode. Takes plain and prepared states.
        """
        x, reset = jnp.asarray(x), jnp.asarray(reset)
        if x.shape != (self.input_size,):
            raise CoreError(
                f"x must have shape [{self.input_size}] (one step of one stream), got {_shape(x)}; "
                "for many streams use jax.vmap(core.step) or gtrxl.Streams, for many steps core.unroll"
            )
        if reset.shape != ():
            raise CoreError(
                f"reset must be one bool for one stream, got shape {_shape(reset)}; it says whether x starts an episode"
            )
        return self._step(x, jax.lax.stop_gradient(state), _as_bool("reset", reset))

    def unroll(self, xs: Array, state: State, *, resets: Array) -> tuple[Array, State]:
        """T steps of one stream: `xs [T, D_in]` -> `ys [T, D_out]` and the state after them.

        `resets [T]` is true where an episode starts. The state is taken as a constant; gradients flow through all T steps.
        """
        xs, resets = jnp.asarray(xs), jnp.asarray(resets)
        if xs.ndim != 2 or xs.shape[1] != self.input_size:
            raise CoreError(
                f"xs must have shape [T, {self.input_size}] (T steps of one stream), got {_shape(xs)}; "
                "for many streams use jax.vmap(core.unroll) or gtrxl.Streams"
            )
        if xs.shape[0] == 0:
            raise CoreError("xs must hold at least one step, got T = 0; leave the call out when there is nothing to learn from")
        if resets.shape != xs.shape[:1]:
            raise CoreError(f"resets must have shape [{xs.shape[0]}], one bool for each step of xs, got {_shape(resets)}")
        return self._unroll(xs, jax.lax.stop_gradient(self.plain(state)), _as_bool("resets", resets))

    def prepare(self, state: State) -> State:
        """The state with what these weights allow to be computed once. Stepping it gives the same numbers, faster."""
        return state

    def plain(self, state: State) -> State:
        """A state without what `prepare` added: right under any weights, and what checkpoints and unrolls carry."""
        return state


def _shape(array: Array) -> str:
    return str(list(array.shape))


def _as_bool(name: str, array: Array) -> Array:
    if array.dtype != jnp.bool_:
        raise CoreError(f"{name} must be bool, got {array.dtype}; write for example {name}.astype(bool)")
    return array


def check_dtype(dtype: str) -> str:
    """Raise unless `dtype` is one that cores compute in."""
    if dtype not in DTYPES:
        raise CoreError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}; parameters stay float32 in both")
    return dtype
