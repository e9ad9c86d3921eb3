"""Acting through the native library: a state whose step takes all streams through all layers in one call.

L layers, B streams, P = M + 1 ring slots, H heads, K head width, D width (Dp in whole groups of floats), W packed weights of a
layer, E of the embedding.
"""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int

from gtrxl.cores import kernels
from gtrxl.cores.block import Block
from gtrxl.cores.errors import CoreError
from gtrxl.cores.kernels.description import GROUP, KINDS, PACKED, PANEL, evaluate, filled_up, packed_gate, sizes_of
from gtrxl.cores.layers import Linear


class NativeMemory(eqx.Module):
    """Memories of B streams as rings: of the layers' inputs, and of what the layers saw of them, which is the inputs after the
    first norm where that stands before attention. With the weights that made it, packed."""

    inputs: Float[Array, "B P L D"]
    seen: Float[Array, "L B P Dp"]
    embed: Float[Array, " E"]
    weights: Float[Array, "L W"]
    cursor: Int[Array, ""]
    filled: Int[Array, " B"]


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
    ring = state.inputs.shape[1]
    given = (x, reset, state.filled, state.cursor[None], state.weights, state.inputs, state.seen, state.embed)
    call = _traced_call if any(isinstance(array, Tracer) for array in given) else _call
    y, inputs, seen = call(tuple(attributes(blocks).items()), *given)
    horizon = jnp.where(reset, 0, state.filled)
    return y, NativeMemory(
        inputs=inputs,
        seen=seen,
        embed=state.embed,
        weights=state.weights,
        cursor=(state.cursor + 1) % ring,
        filled=jnp.minimum(horizon + 1, ring - 1),
    )


def _call(attributes: tuple[tuple[str, Any], ...], x: Array, *others: Array) -> Any:
    *_, inputs, seen, _ = others
    shapes = tuple(jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((len(x), inputs.shape[3]), inputs.shape, seen.shape))
    call = jax.ffi.ffi_call("gtrxl_act", shapes, input_output_aliases={5: 1, 6: 2}, vmap_method="sequential")
    return tuple(call(x, *others, **dict(attributes)))


_traced_call = jax.custom_jvp(_call, nondiff_argnums=(0,))
"""The same, and clear about derivatives. Not outside a trace, where it would cost a third of a small step."""


@_traced_call.defjvp
def _no_derivative(attributes: Any, primals: Any, tangents: Any) -> Any:
    raise CoreError("a prepared step has no derivative in the native library; differentiate unroll, or a step of the plain state")


def attributes(blocks: Block) -> dict[str, Any]:
    """What the library is told of a stack besides its arrays."""
    heads, head_dim = blocks.attention.u.shape[-2:]
    return {
        "gate": np.int64(KINDS[type(blocks.gate_1)].number),
        "norm_inputs": blocks.norm_inputs,
        "heads": np.int64(heads),
        "head_dim": np.int64(head_dim),
        "mlp": np.int64(blocks.mlp.first.bias.shape[-1]),
        "threads": kernels.threads(),
    }


def _pack(block: Block, positions: Float[Array, "H P K"]) -> Float[Array, " W"]:
    """One layer's weights in the order of the description."""
    width = block.norm_1.scale.shape[0]
    heads, head_dim = block.attention.u.shape
    w_q, w_k, w_v = jnp.moveaxis(block.attention.w_qkv.reshape(width, 3, heads, head_dim), 1, 0)
    w_o = block.attention.w_o.reshape(heads, head_dim, width)
    layer = {
        "scale_1": block.norm_1.scale,
        "offset_1": block.norm_1.offset,
        "scale_2": block.norm_2.scale,
        "offset_2": block.norm_2.offset,
        "bias_1": block.mlp.first.bias,
        "bias_2": block.mlp.second.bias,
        "u": block.attention.u,
        "v": block.attention.v,
        "queries": _panels(_filled_up(w_q).reshape(width, -1)),
        "keys": jax.vmap(_panels)(jnp.transpose(w_k, (1, 2, 0))),
        "positions": jax.vmap(_panels)(
            jnp.pad(jnp.swapaxes(positions, 1, 2), ((0, 0), (0, 0), (-positions.shape[1] % GROUP, 0)))
        ),
        "values": jax.vmap(_panels)(jnp.swapaxes(w_v, 0, 1)),
        "out": _panels(jnp.pad(w_o, ((0, 0), (0, -head_dim % GROUP), (0, 0))).reshape(-1, width)),
        "first": _panels(block.mlp.first.weight),
        "second": _panels(block.mlp.second.weight),
    }
    sizes = filled_up({**sizes_of(block), "P": positions.shape[1]})
    native = KINDS[type(block.gate_1)].native
    parts = _in_order(layer, PACKED, sizes)
    for gate in (block.gate_1, block.gate_2):
        parts += _in_order(_gate_weights(gate, width), packed_gate(native), sizes)
    return jnp.concatenate(parts)


def _gate_weights(gate: Any, width: int) -> dict[str, Array]:
    native = KINDS[type(gate)].native

    def columns(field: str, block: int) -> Float[Array, "D D"]:
        return getattr(gate, field)[:, block * width : (block + 1) * width]

    matrices = {
        name: _panels(*(columns(part.field, part.start + block) for block in range(part.wide)))
        for name, part in native.packed.items()
    }
    return {"bias": gate.b_g if native.bias else jnp.zeros((width,), jnp.float32), **matrices}


def _in_order(arrays: dict[str, Array], order: Mapping[str, str], sizes: Mapping[str, int]) -> list[Array]:
    """Arrays as the description orders them, filled up, each as long as it says."""
    parts = {name: _filled_up(array).reshape(-1) for name, array in arrays.items()}
    wrong = [name for name in order if name not in parts or len(parts[name]) != evaluate(order[name], sizes)]
    if wrong or len(parts) != len(order):
        raise CoreError(f"packed weights must be as the description says, got others for {', '.join(wrong or parts)}")
    return [parts[name] for name in order]


def _panels(*parts: Float[Array, "D _"]) -> Float[Array, " n"]:
    """Parts filled up and side by side, then cut into panels of columns, each from its first row to its last."""
    whole = jnp.concatenate([_filled_up(part) for part in parts], axis=1)
    full = whole.shape[1] // PANEL * PANEL
    panels = whole[:, :full].reshape(whole.shape[0], full // PANEL, PANEL).swapaxes(0, 1)
    return jnp.concatenate([panels.reshape(-1), whole[:, full:].reshape(-1)])


def _filled_up(x: Float[Array, "*n _"]) -> Float[Array, "*n _"]:
    return jnp.pad(x, ((0, 0),) * (x.ndim - 1) + ((0, -x.shape[-1] % GROUP),))
