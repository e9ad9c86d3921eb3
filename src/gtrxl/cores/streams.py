"""Many streams at once: the calls of a core with a leading axis B, and what the streams share kept once.

`jax.vmap` over a core is right, but it copies to every stream what depends on the weights alone (position keys), and
gives every stream its own place in the ring, which makes a write a scatter. B streams that step together need neither.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from gtrxl.cores import native
from gtrxl.cores.block import Block
from gtrxl.cores.contract import Core, State
from gtrxl.cores.errors import CoreError, at_least
from gtrxl.cores.layers import Linear
from gtrxl.cores.native import acting as native_acting
from gtrxl.cores.native.acting import NativeMemory
from gtrxl.cores.transformer import Memory, PreparedMemory, Transformer


class PreparedStreams(eqx.Module):
    """Prepared memories of B streams, and the layers of the weights that prepared them, one by one.

    One stream alone has no axis of streams: with a leading axis of 1, XLA's CPU backend copies every ring three times a step.
    """

    memory: PreparedMemory
    blocks: tuple[Block, ...]


def _axes(core: Transformer) -> PreparedMemory:
    """Axes for vmap: 0 for what belongs to a stream, None for what all of them share."""
    shapes = jax.eval_shape(core.prepare, core.initial_state())
    return eqx.tree_at(lambda of: (of.positions, of.cursor), jax.tree.map(lambda _: 0, shapes), (None, None))


class Streams(eqx.Module):
    """B streams of one core: `x [B, D_in]`, `reset [B]`, `xs [B, T, D_in]`, `resets [B, T]`; states carry B in front.

    streams = gtrxl.Streams(core, 64)
    state = streams.initial_state()
    fast = streams.prepare(state)
    y, fast = streams.step(x, fast, reset=reset)
    state = streams.plain(fast)
    """

    core: Core
    size: int = eqx.field(static=True)

    def __init__(self, core: Core, size: int):
        at_least("size", size, least=1, hint="it is the number of streams")
        self.core = core
        self.size = size

    @property
    def output_size(self) -> int:
        """The width of each stream's output."""
        return self.core.output_size

    def initial_state(self) -> State:
        """The states of B streams that have seen nothing."""
        state = self.core.initial_state()
        return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (self.size, *leaf.shape)), state)

    def step(self, x: Float[Array, "B D_in"], state: State, *, reset: Bool[Array, " B"]) -> tuple[Array, State]:
        """One step of every stream."""
        self._check(x=x, reset=reset)
        core = self.core
        if isinstance(state, NativeMemory):
            assert isinstance(core, Transformer)
            return native_acting.step(x.astype(jnp.float32), state, reset, blocks=core.blocks)
        if not isinstance(state, PreparedStreams):
            if isinstance(core, Transformer):
                ys, state = core.unroll_streams(x[:, None], state, reset[:, None])
                return ys[:, 0], state
            return jax.vmap(lambda x, state, reset: core.step(x, state, reset=reset))(x, state, reset)
        assert isinstance(core, Transformer)

        def act(x: Array, memory: PreparedMemory, reset: Array) -> tuple[Array, PreparedMemory]:
            return core.act(x, memory, reset, blocks=state.blocks)

        memory = jax.lax.stop_gradient(state.memory)
        if self.size == 1:
            y, memory = act(x[0], memory, reset[0])
            return y[None], PreparedStreams(memory=memory, blocks=state.blocks)
        axes = _axes(core)
        y, memory = jax.vmap(act, in_axes=(0, axes, 0), out_axes=(0, axes))(x, memory, reset)
        return y, PreparedStreams(memory=memory, blocks=state.blocks)

    def unroll(
        self, xs: Float[Array, "B T D_in"], state: State, *, resets: Bool[Array, "B T"]
    ) -> tuple[Float[Array, "B T D_out"], State]:
        """T steps of every stream."""
        self._check(xs=xs, resets=resets)
        state = self.plain(state)
        if isinstance(self.core, Transformer):
            return self.core.unroll_streams(xs, state, resets)
        return jax.vmap(lambda xs, state, resets: self.core.unroll(xs, state, resets=resets))(xs, state, resets)

    def prepare(self, state: State) -> State:
        """The states with what these weights allow to be computed once, shared where it is the same for all streams."""
        if not isinstance(self.core, Transformer):
            return jax.vmap(self.core.prepare, axis_size=self.size)(state)
        state = self.plain(state)
        paper = native_acting.supports(self.core.blocks) and type(self.core.embed) is Linear
        if native.usable(state.inputs.dtype) and paper:
            core, positions = self.core, self.core.positions()
            return native_acting.prepare(core.embed, core.blocks, inputs=state.inputs, positions=positions, filled=state.filled)
        if self.size == 1:
            memory = self.core.prepare(jax.tree.map(lambda leaf: leaf[0], state))
        else:
            memory = jax.vmap(self.core.prepare, out_axes=_axes(self.core))(state)
        return PreparedStreams(memory=memory, blocks=self.core.unstacked())

    def plain(self, state: State) -> State:
        """The states alone, right under any weights."""
        if isinstance(state, NativeMemory):
            ring = state.inputs.shape[1]
            oldest = (state.cursor + 1 + jnp.arange(ring - 1)) % ring
            return Memory(inputs=jnp.swapaxes(state.inputs[:, oldest], 1, 2), filled=state.filled)
        if not isinstance(state, PreparedStreams):
            return jax.vmap(self.core.plain, axis_size=self.size)(state)
        assert isinstance(self.core, Transformer)
        if self.size == 1:
            return jax.tree.map(lambda leaf: leaf[None], self.core.plain(state.memory))
        return jax.vmap(self.core.plain, in_axes=(_axes(self.core),))(state.memory)

    def _check(self, **arrays: Any) -> None:
        for name, array in arrays.items():
            if jnp.ndim(array) == 0 or jnp.shape(array)[0] != self.size:
                raise CoreError(f"{name} must have {self.size} streams along its first axis, got shape {list(jnp.shape(array))}")
