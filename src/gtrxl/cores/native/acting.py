"""Acting through the native library: a state whose step takes all streams through all layers in one call.

L layers, B streams, P = M + 1 ring slots, H heads, K head width, D width (Dp in whole groups of floats), W packed weights of a
layer, E of the embedding.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from gtrxl.cores import native
from gtrxl.cores.attention import RelativeAttention
from gtrxl.cores.block import MLP, Block
from gtrxl.cores.gates import GRUGate, HighwayGate, InputGate, OutputGate, ResidualGate, SigTanhGate
from gtrxl.cores.layers import LayerNorm, Linear

GROUP = 16
"""Floats: widths are filled up with zeros to whole groups of them."""
PANEL = 64
"""Columns of a matrix that lie together."""
KINDS = {ResidualGate: 0, InputGate: 1, OutputGate: 2, HighwayGate: 3, SigTanhGate: 4, GRUGate: 5}
"""Numbers of the gates, as in acting.cc."""


class NativeMemory(eqx.Module):
    """Memories of B streams as rings: of the layers' inputs, and of what the layers saw of them, which is the inputs after the
    first norm where that stands before attention. With the weights that made it, packed."""

    inputs: Float[Array, "B P L D"]
    seen: Float[Array, "L B P Dp"]
    embed: Float[Array, " E"]
    weights: Float[Array, "L W"]
    cursor: Int[Array, ""]
    filled: Int[Array, " B"]


def supports(block: Block) -> bool:
    """Whether the library computes what this block does: it and its parts are the paper's, not somebody's variation of one."""
    parts = (block, block.attention, block.mlp, block.norm_1, block.norm_2, block.gate_2)
    paper = (Block, RelativeAttention, MLP, LayerNorm, LayerNorm, type(block.gate_1))
    return type(block.gate_1) in KINDS and all(type(part) is kind for part, kind in zip(parts, paper, strict=True))


def prepare(
    embed: Linear, blocks: Block, *, inputs: Float[Array, "B L M D"], positions: Float[Array, "L H P K"], filled: Int[Array, " B"]
) -> NativeMemory:
    """Rings and packed weights from memories, oldest slot first; `positions` projected, farthest first."""
    memory, width = inputs.shape[2:]
    seen = jnp.swapaxes(inputs, 0, 1)  # [L, B, M, D]
    if blocks.norm_inputs:
        seen = jax.vmap(lambda norm, x: jax.vmap(jax.vmap(norm))(x))(blocks.norm_1, seen)
    return NativeMemory(  # the rings' last slot waits for the next step
        inputs=jnp.pad(jnp.swapaxes(inputs, 1, 2), ((0, 0), (0, 1), (0, 0), (0, 0))),
        seen=jnp.pad(seen, ((0, 0), (0, 0), (0, 1), (0, -width % GROUP))),
        embed=jnp.concatenate([_filled_up(embed.bias), _panels(embed.weight)]),
        weights=jax.vmap(_pack)(blocks, positions),
        cursor=jnp.array(memory, jnp.int32),
        filled=filled,
    )


def step(
    x: Float[Array, "B D_in"], state: NativeMemory, reset: Bool[Array, " B"], *, blocks: Block
) -> tuple[Float[Array, "B D"], NativeMemory]:
    """One step of every stream. `blocks` say the sizes; their weights are not read."""
    ring, width = state.inputs.shape[1], state.inputs.shape[3]
    given = (x, reset, state.filled, state.cursor[None], state.weights, state.inputs, state.seen, state.embed)
    shapes = tuple(jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((len(x), width), state.inputs.shape, state.seen.shape))
    call = jax.ffi.ffi_call("gtrxl_act", shapes, input_output_aliases={5: 1, 6: 2}, vmap_method="sequential")
    y, inputs, seen = call(
        *given,
        gate=np.int64(KINDS[type(blocks.gate_1)]),
        norm_inputs=blocks.norm_inputs,
        heads=np.int64(blocks.attention.u.shape[-2]),
        head_dim=np.int64(blocks.attention.u.shape[-1]),
        mlp=np.int64(blocks.mlp.first.bias.shape[-1]),
        threads=native.threads(),
    )
    horizon = jnp.where(reset, 0, state.filled)
    return y, NativeMemory(
        inputs=inputs,
        seen=seen,
        embed=state.embed,
        weights=state.weights,
        cursor=(state.cursor + 1) % ring,
        filled=jnp.minimum(horizon + 1, ring - 1),
    )


def _pack(block: Block, positions: Float[Array, "H P K"]) -> Float[Array, " W"]:
    """One layer's weights in the order in which acting.cc walks them."""
    width = block.norm_1.scale.shape[0]
    heads, head_dim = block.attention.u.shape
    w_q, w_k, w_v = jnp.moveaxis(block.attention.w_qkv.reshape(width, 3, heads, head_dim), 1, 0)
    w_o = block.attention.w_o.reshape(heads, head_dim, width)
    vectors = [
        block.norm_1.scale,
        block.norm_1.offset,
        block.norm_2.scale,
        block.norm_2.offset,
        block.mlp.first.bias,
        block.mlp.second.bias,
        block.attention.u,
        block.attention.v,
        _panels(_filled_up(w_q).reshape(width, -1)),
        jax.vmap(_panels)(jnp.transpose(w_k, (1, 2, 0))),
        jax.vmap(_panels)(jnp.pad(jnp.swapaxes(positions, 1, 2), ((0, 0), (0, 0), (-positions.shape[1] % GROUP, 0)))),
        jax.vmap(_panels)(jnp.swapaxes(w_v, 0, 1)),
        _panels(jnp.pad(w_o, ((0, 0), (0, -head_dim % GROUP), (0, 0))).reshape(-1, width)),
        _panels(block.mlp.first.weight),
        _panels(block.mlp.second.weight),
    ]
    for gate in (block.gate_1, block.gate_2):
        vectors.append(getattr(gate, "b_g", jnp.zeros((width,), jnp.float32)))
        vectors += [_panels(*parts) for parts in _matrices(gate, width)]
    return jnp.concatenate([_filled_up(vector).reshape(-1) for vector in vectors])


def _matrices(gate: Any, width: int) -> list[list[Array]]:
    """The gate's matrices, each as the parts that lie side by side in it."""
    if isinstance(gate, GRUGate):
        w_r, w_z, w_g = jnp.split(gate.w_rzg, 3, axis=1)
        return [[w_r, w_z], [w_g], jnp.split(gate.u_rz, 2, axis=1), [gate.u_g]]
    if isinstance(gate, SigTanhGate):
        return [jnp.split(gate.wu_g, 2, axis=1)]
    return [] if isinstance(gate, ResidualGate) else [[gate.w_g]]


def _panels(*parts: Float[Array, "D _"]) -> Float[Array, " n"]:
    """Parts filled up and side by side, then cut into panels of columns, each from its first row to its last."""
    whole = jnp.concatenate([_filled_up(part) for part in parts], axis=1)
    full = whole.shape[1] // PANEL * PANEL
    panels = whole[:, :full].reshape(whole.shape[0], full // PANEL, PANEL).swapaxes(0, 1)
    return jnp.concatenate([panels.reshape(-1), whole[:, full:].reshape(-1)])


def _filled_up(x: Float[Array, "*n _"]) -> Float[Array, "*n _"]:
    return jnp.pad(x, ((0, 0),) * (x.ndim - 1) + ((0, -x.shape[-1] % GROUP),))
