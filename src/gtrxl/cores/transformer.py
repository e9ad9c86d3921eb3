"""The transformers with memory: TrXL, TrXL-I and the five GTrXL, one class.

B streams, T steps, L layers, M memory slots, P = M + 1 ring slots, H heads, K head width, D width, D_in input width.
"""

import math
from collections.abc import Callable
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from gtrxl.cores import kernels
from gtrxl.cores.attention import ATTENTION
from gtrxl.cores.block import Block, sees_any, steps_back
from gtrxl.cores.contract import DTYPES, Core, check_dtype
from gtrxl.cores.errors import CoreError, at_least
from gtrxl.cores.gates import Gate, bias_by_depth, find_gate
from gtrxl.cores.kernels import acting, agreement, learning
from gtrxl.cores.kernels.acting import NativeMemory
from gtrxl.cores.kernels.description import described
from gtrxl.cores.layers import INIT_VARIANCE, Linear, replaced, spoilt_rows, with_variance
from gtrxl.cores.memory import Memory, PreparedMemory, PreparedStreams
from gtrxl.cores.positions import window_code

_policies = jax.checkpoint_policies
KEPT = _policies.save_from_both_policies(_policies.dots_with_no_batch_dims_saveable, _policies.save_only_these_names(ATTENTION))
"""What a layer keeps for its gradient: the results of matrix products and the attention weights. All else is computed
again: less CPU time than storing it (97 against 110 ms at the small size, 4.7 against 6.6 s at the paper's, docs/log.md)."""


class Transformer(Core):
    """A stack of transformer layers behind a linear embedding; no norm and no activation after the last layer.

    `gate` is "none", "input", "output", "highway", "sigtanh" or "gru", or a class of one's own (`gtrxl.cores.gates.Gate`);
    `norm_inputs` is the paper's identity map reordering. TrXL is `gate="none", norm_inputs=False`; GTrXL has any gate and
    `norm_inputs=True`. `head_dim=None` divides `d_model` among the heads; `gate_bias=None` is the paper's initial b_g,
    "depth" one that follows the number of layers (`gates.bias_by_depth`).
    `init_variance` is what a new linear map makes of inputs of variance 1. At 1/3 each submodule adds little to the stream at
    first; at 1, which is common in JAX and Sonnet, it adds as much as there is, and norm and gates matter (docs/reproduce.md).
    """

    embed: Linear
    blocks: Block  # every array with a leading axis L
    input_size: int = eqx.field(static=True)
    output_size: int = eqx.field(static=True)
    layers: int = eqx.field(static=True)
    memory: int = eqx.field(static=True)
    dtype: str = eqx.field(static=True)

    def __init__(
        self,
        input_size: int,
        *,
        d_model: int = 256,
        layers: int = 4,
        heads: int = 4,
        head_dim: int | None = None,
        mlp: int | None = None,
        memory: int = 128,
        gate: str | type[Gate] = "gru",
        gate_bias: float | str | None = None,
        init_variance: float = INIT_VARIANCE,
        norm_inputs: bool = True,
        dtype: str = "float32",
        key: PRNGKeyArray,
    ):
        at_least("input_size", input_size, least=1, hint="it is the width of one step's input")
        at_least("d_model", d_model, least=2, hint="the paper uses 512 (8 heads of 64)")
        at_least("layers", layers, least=1, hint="the paper uses 12; for no memory at all use the core 'none'")
        at_least("heads", heads, least=1, hint="the paper uses 8")
        at_least("memory", memory, least=0, hint="the paper uses 512; 0 lets each step see itself alone")
        if d_model % 2:
            raise CoreError(f"d_model must be even, got {d_model}; half of the position code are sines, half cosines")
        if head_dim is None:
            if d_model % heads:
                raise CoreError(
                    f"heads must divide d_model, got {heads} heads for {d_model}; change one of them or give head_dim"
                )
            head_dim = d_model // heads
        at_least("head_dim", head_dim, least=1, hint="the paper uses 64")
        mlp = d_model if mlp is None else mlp
        at_least("mlp", mlp, least=1, hint="it is the hidden width of the position-wise MLP; the paper uses 512")
        if not 0 < init_variance < math.inf:
            raise CoreError(f"init_variance must be positive and finite, got {init_variance}; 1 keeps the size of what goes in")
        if gate_bias == "depth":
            gate_bias = bias_by_depth(find_gate(gate), layers)
        elif isinstance(gate_bias, str):
            raise CoreError(f"gate_bias must be a number, 'depth' or None, got {gate_bias!r}; None is the paper's")
        find_gate(gate)
        embed_key, blocks_key = jax.random.split(key)
        self.embed = with_variance(Linear(input_size, d_model, key=embed_key), init_variance)

        @eqx.filter_vmap
        def stack(block_key: PRNGKeyArray) -> Block:
            block = Block(
                d_model,
                heads=heads,
                head_dim=head_dim,
                mlp=mlp,
                gate=gate,
                gate_bias=gate_bias,
                norm_inputs=norm_inputs,
                key=block_key,
            )
            return with_variance(block, init_variance)

        self.blocks = stack(jax.random.split(blocks_key, layers))
        self.input_size = input_size
        self.output_size = d_model
        self.layers = layers
        self.memory = memory
        self.dtype = check_dtype(dtype)

    def initial_state(self) -> Memory:
        """An empty memory."""
        inputs = jnp.zeros((self.layers, self.memory, self.output_size), DTYPES[self.dtype])
        return Memory(inputs=inputs, filled=jnp.zeros((), jnp.int32))

    def prepare(self, state: Memory | PreparedMemory) -> PreparedMemory:
        """Projects the memory once: keys and values of every slot, position keys of every distance."""
        state = self.plain(state)
        keys, values = jax.lax.map(lambda of: of[0].project(of[1]), (self.blocks, self._real(state)))
        room = ((0, 0), (0, 0), (0, 1), (0, 0))  # the ring's last slot waits for the next step
        return PreparedMemory(
            inputs=jnp.pad(jnp.swapaxes(state.inputs, 0, 1), ((0, 1), (0, 0), (0, 0))),
            keys=tuple(jnp.pad(keys, room)),
            values=tuple(jnp.pad(values, room)),
            positions=tuple(self.positions()),
            cursor=jnp.array(self.memory, jnp.int32),
            filled=state.filled,
        )

    def positions(self) -> Float[Array, "L H P K"]:
        """Position keys of every distance, farthest first."""
        code = window_code(self.memory, size=self.output_size)
        return jax.lax.map(lambda block: block.attention.position_keys(code, dtype=DTYPES[self.dtype]), self.blocks)

    def plain(self, state: Memory | PreparedMemory) -> Memory:
        """The memory alone, oldest first."""
        if isinstance(state, Memory):
            return state
        ring = self.memory + 1
        oldest = state.cursor + 1 + jnp.arange(self.memory)
        return Memory(inputs=jnp.swapaxes(state.inputs[oldest % ring], 0, 1), filled=state.filled)

    def _step(
        self, x: Float[Array, " D_in"], state: Memory | PreparedMemory, reset: Bool[Array, ""]
    ) -> tuple[Float[Array, " D"], Memory | PreparedMemory]:
        if isinstance(state, PreparedMemory):
            return self.act(x, state, reset, blocks=self.unstacked())
        ys, state = self._unroll(x[None], state, reset[None])
        return ys[0], state

    def _unroll(self, xs: Float[Array, "T D_in"], state: Memory, resets: Bool[Array, " T"]) -> tuple[Float[Array, "T D"], Memory]:
        ys, states = self.unroll_streams(xs[None], jax.tree.map(lambda leaf: leaf[None], state), resets[None])
        return ys[0], jax.tree.map(lambda leaf: leaf[0], states)

    def unroll_streams(
        self, xs: Float[Array, "B T D_in"], states: Memory, resets: Bool[Array, "B T"]
    ) -> tuple[Float[Array, "B T D"], Memory]:
        """`unroll` for B streams, states with B in front: every product takes all steps of all streams at once."""
        horizon, code = self._window(states, resets)
        xs = xs.astype(DTYPES[self.dtype])
        spoilt = spoilt_rows(xs)
        embedded = replaced(self.embed(replaced(xs, spoilt, 0.0)), spoilt, math.nan)
        given = (self.blocks, embedded, jax.lax.stop_gradient(states.inputs), states.filled, horizon, code)
        if self._native() and xs.shape[1] > 1:
            ys, inputs = learning.unroll(through_layers, *given)
        else:
            ys, inputs = through_layers(*given)
        newest = jax.lax.stop_gradient(jnp.swapaxes(inputs, 0, 1))
        remembered = jnp.concatenate([states.inputs, newest], axis=2)[:, :, xs.shape[1] :]
        return ys.astype(jnp.float32), Memory(inputs=remembered, filled=jnp.minimum(horizon[:, -1] + 1, self.memory))

    def step_streams(
        self, x: Float[Array, "B D_in"], states: Memory | PreparedStreams | NativeMemory, reset: Bool[Array, " B"]
    ) -> tuple[Float[Array, "B D"], Memory | PreparedStreams | NativeMemory]:
        """One step of B streams, from states in any of their forms."""
        if isinstance(states, NativeMemory):
            return acting.step(x.astype(jnp.float32), states, reset, blocks=self.blocks)
        if isinstance(states, Memory):
            ys, states = self.unroll_streams(x[:, None], states, reset[:, None])
            return ys[:, 0], states
        act = partial(self.act, blocks=states.blocks)
        memory = jax.lax.stop_gradient(states.memory)
        if len(x) == 1:
            y, memory = act(x[0], memory, reset[0])
            return y[None], PreparedStreams(memory=memory, blocks=states.blocks)
        axes = self._axes()
        y, memory = jax.vmap(act, in_axes=(0, axes, 0), out_axes=(0, axes))(x, memory, reset)
        return y, PreparedStreams(memory=memory, blocks=states.blocks)

    def prepare_streams(self, states: Memory | PreparedStreams | NativeMemory, *, size: int) -> PreparedStreams | NativeMemory:
        """Memories of B streams with what they can share kept once: for the native library, or for XLA."""
        states = self.plain_streams(states, size=size)
        if self._native() and type(self.embed) is Linear:
            positions = self.positions()
            return acting.prepare(self.embed, self.blocks, inputs=states.inputs, positions=positions, filled=states.filled)
        if size == 1:
            memory = self.prepare(jax.tree.map(lambda leaf: leaf[0], states))
        else:
            memory = jax.vmap(self.prepare, out_axes=self._axes())(states)
        return PreparedStreams(memory=memory, blocks=self.unstacked())

    def plain_streams(self, states: Memory | PreparedStreams | NativeMemory, *, size: int) -> Memory:
        """The memories alone, oldest first."""
        if isinstance(states, Memory):
            return states
        if isinstance(states, NativeMemory):
            ring = states.inputs.shape[1]
            oldest = (states.cursor + 1 + jnp.arange(ring - 1)) % ring
            return Memory(inputs=jnp.swapaxes(states.inputs[:, oldest], 1, 2), filled=states.filled)
        if size == 1:
            return jax.tree.map(lambda leaf: leaf[None], self.plain(states.memory))
        return jax.vmap(self.plain, in_axes=(self._axes(),))(states.memory)

    def _axes(self) -> PreparedMemory:
        """Axes for vmap: 0 for what belongs to a stream, None for what all of them share."""
        shapes = jax.eval_shape(self.prepare, self.initial_state())
        return eqx.tree_at(lambda of: (of.positions, of.cursor), jax.tree.map(lambda _: 0, shapes), (None, None))

    def _native(self) -> bool:
        """Whether the native library runs this stack here."""
        if not kernels.usable(DTYPES[self.dtype]) or not described(self.blocks):
            return False
        return agreement.holds(type(self.blocks.gate_1), self.blocks.norm_inputs, make=Transformer)

    def history(self, episode_steps: int) -> int:
        """A layer sees M steps back, a stack of them L * M."""
        return min(self.layers * self.memory, episode_steps)

    def openness(self, xs: Float[Array, "B T D_in"], states: Memory, resets: Bool[Array, "B T"]) -> Float[Array, "L 2"] | None:
        """How far the two gates of each layer stand open on these steps. None for TrXL and TrXL-I, which have none."""
        if not self.blocks.norm_inputs or not self.blocks.gate_1.closes:
            return None
        horizon, code = self._window(states, resets)
        memory_of = layer_memory(jax.lax.stop_gradient(states.inputs), states.filled)

        def layer(segment: Array, of: tuple[Block, Array]) -> tuple[Array, Array]:
            block, number = of
            seen = {"memory": memory_of(number), "horizon": horizon, "code": code}
            return block.unroll(segment, **seen), block.openness(segment, **seen)

        embedded = self.embed(xs.astype(DTYPES[self.dtype]))
        _, openness = jax.lax.scan(layer, embedded, (self.blocks, jnp.arange(self.layers)))
        return openness

    def _window(self, states: Memory, resets: Bool[Array, "B T"]) -> tuple[Int[Array, "B T"], Float[Array, "P D"]]:
        """What every layer of an unroll shares: how far back each step sees, and the position code."""
        back = partial(steps_back, memory=self.memory)
        horizon = jax.vmap(lambda resets, filled: back(resets, filled=filled))(resets, states.filled)
        return horizon, window_code(self.memory, size=self.output_size)

    def unstacked(self) -> tuple[Block, ...]:
        """The layers one by one, for loops that must not slice them at every step."""
        return tuple(jax.tree.map(lambda leaf, layer=layer: leaf[layer], self.blocks) for layer in range(self.layers))

    def act(
        self, x: Float[Array, " D_in"], state: PreparedMemory, reset: Bool[Array, ""], *, blocks: tuple[Block, ...]
    ) -> tuple[Float[Array, " D"], PreparedMemory]:
        """A step of a prepared memory with the layers already apart (`unstacked`)."""
        ring = self.memory + 1
        horizon = jnp.where(reset, 0, state.filled)
        visible = (state.cursor - jnp.arange(ring)) % ring <= horizon
        embedded = self.embed(x.astype(DTYPES[self.dtype]))
        inputs, keys, values = [], [], []
        y = embedded
        for block, old_keys, old_values, positions in zip(blocks, state.keys, state.values, state.positions, strict=True):
            inputs.append(y)
            y, new_keys, new_values = block.act(
                y, old_keys, old_values, positions=positions, cursor=state.cursor, visible=visible
            )
            keys.append(new_keys)
            values.append(new_values)
        return y.astype(jnp.float32), PreparedMemory(
            inputs=jax.lax.dynamic_update_slice_in_dim(state.inputs, jnp.stack(inputs)[None], state.cursor, axis=0),
            keys=tuple(keys),
            values=tuple(values),
            positions=state.positions,
            cursor=(state.cursor + 1) % ring,
            filled=jnp.minimum(horizon + 1, self.memory),
        )

    def _real(self, state: Memory) -> Float[Array, "L M D"]:
        """The memory with zeros in the slots that hold nothing: whatever stood there cannot turn up as 0 * nan."""
        real = jnp.arange(self.memory) >= self.memory - state.filled
        return jnp.where(real[None, :, None], state.inputs, 0)


def through_layers(
    blocks: Block,
    embedded: Float[Array, "B T D"],
    memory: Float[Array, "B L M D"],
    filled: Int[Array, " B"],
    horizon: Int[Array, "B T"],
    code: Float[Array, "P D"],
) -> tuple[Float[Array, "B T D"], Float[Array, "L B T D"]]:
    """What the last layer gives, and what went into each: nan for every step that sees one that is not finite."""
    memory_of = layer_memory(memory, filled)

    def layer(carry: tuple[Array, Array], of: tuple[Block, Array]) -> tuple[tuple[Array, Array], Array]:
        (segment, spoilt), (block, number) = carry, of
        remembered = memory_of(number)
        spoilt_memory, spoilt = spoilt_rows(remembered), spoilt | spoilt_rows(segment)
        remembered, sound = replaced(remembered, spoilt_memory, 0.0), replaced(segment, spoilt, 0.0)
        seen = sees_any(spoilt_memory, spoilt, horizon=horizon)
        return (block.unroll(sound, remembered, horizon=horizon, code=code), seen), replaced(sound, spoilt, math.nan)

    layer = jax.checkpoint(layer, prevent_cse=False, policy=KEPT)
    begin = embedded, jnp.zeros(embedded.shape[:2], bool)
    (last, spoilt), inputs = jax.lax.scan(layer, begin, (blocks, jnp.arange(memory.shape[1])))
    return replaced(last, spoilt, math.nan), inputs


def layer_memory(inputs: Float[Array, "B L M D"], filled: Int[Array, " B"]) -> Callable[[Int[Array, ""]], Float[Array, "B M D"]]:
    """How a layer finds its memory."""
    # Slots that hold nothing are masked, and read as zeros: whatever stands there cannot turn up as 0 * nan.
    slots = inputs.shape[2]
    real = jnp.arange(slots)[None, :] >= slots - filled[:, None]

    def memory_of(layer: Int[Array, ""]) -> Float[Array, "B M D"]:
        # Taken out here: as what the scan runs over, all memories would first be copied to have the layers in front.
        return jnp.where(real[..., None], jax.lax.dynamic_index_in_dim(inputs, layer, axis=1, keepdims=False), 0)

    return memory_of
