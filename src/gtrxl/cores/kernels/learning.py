"""Segments through a whole stack of layers in one native call, and their gradient in another.

B streams, T steps, L layers, M memory slots, P = M + 1 distances, D width, W floats that a layer keeps for its gradient.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from gtrxl.cores.block import Block
from gtrxl.cores.kernels.acting import attributes
from gtrxl.cores.kernels.description import KEPT, LINE, arrays_of, evaluate, sizes_of, with_arrays


def unroll(
    otherwise: Callable[..., tuple[Array, Array]],
    blocks: Block,
    embedded: Float[Array, "B T D"],
    memory: Float[Array, "B L M D"],
    filled: Int[Array, " B"],
    horizon: Int[Array, "B T"],
    code: Float[Array, "P D"],
) -> tuple[Float[Array, "B T D"], Float[Array, "L B T D"]]:
    """What the last layer gives, and what went into each: what `otherwise` gives for the same arguments. That runs if the program
    is lowered for another platform. Gradients go to the blocks and to `embedded`, from the first result alone."""
    return _unroll(otherwise, blocks, embedded, memory, filled, horizon, code)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _unroll(otherwise: Callable[..., tuple[Array, Array]], *given: Any) -> Any:
    y, inputs, *_ = _call(otherwise, *given, keep=False)
    return y, inputs


def _call(otherwise: Callable[..., tuple[Array, Array]], *given: Any, keep: bool) -> Any:
    blocks, embedded, memory = given[:3]
    layers = memory.shape[1]
    floats = embedded.shape, (layers, *embedded.shape), (layers if keep else 0, _kept(blocks, embedded, memory))
    spoilt = jax.ShapeDtypeStruct((layers + 1, *embedded.shape[:2]), jnp.int32)  # which rows are: see `layers.replaced`
    shapes = (*(jax.ShapeDtypeStruct(shape, jnp.float32) for shape in floats), spoilt)

    def here(blocks: Block, *arrays: Array) -> tuple[Array, ...]:
        *others, code = arrays
        call = jax.ffi.ffi_call("gtrxl_unroll", shapes, vmap_method="sequential")
        return tuple(call(*others, code[::-1], *arrays_of(blocks), **attributes(blocks)))

    def elsewhere(*given: Any) -> tuple[Array, ...]:
        return *otherwise(*given), *(jnp.zeros(shape.shape, shape.dtype) for shape in shapes[2:])

    return jax.lax.platform_dependent(*given, cpu=here, default=elsewhere)


def _forward(otherwise: Callable[..., tuple[Array, Array]], *given: Any) -> tuple[tuple[Array, Array], Any]:
    y, *for_gradient = _call(otherwise, *given, keep=True)
    return (y, for_gradient[0]), (given, *for_gradient)


def _backward(otherwise: Callable[..., tuple[Array, Array]], saved: Any, d_results: tuple[Array, Array]) -> tuple[Any, ...]:
    given, *for_gradient = saved

    def here(given: Any, inputs: Array, kept: Array, spoilt: Array, dy: Array) -> tuple[Array, Block]:
        blocks, _, memory, _, horizon, code = given
        weights = arrays_of(blocks)
        shapes = tuple(jax.ShapeDtypeStruct(array.shape, array.dtype) for array in (dy, *weights))
        call = jax.ffi.ffi_call("gtrxl_unroll_backward", shapes, vmap_method="sequential")
        d_embedded, *d_weights = call(dy, inputs, kept, spoilt, memory, horizon, code[::-1], *weights, **attributes(blocks))
        return d_embedded, with_arrays(blocks, d_weights)

    def elsewhere(given: Any, inputs: Array, kept: Array, spoilt: Array, dy: Array) -> tuple[Array, Block]:
        blocks, embedded, *others = given
        d_blocks, d_embedded = jax.vjp(lambda blocks, embedded: otherwise(blocks, embedded, *others)[0], blocks, embedded)[1](dy)
        return d_embedded, d_blocks

    d_embedded, d_blocks = jax.lax.platform_dependent(given, *for_gradient, d_results[0], cpu=here, default=elsewhere)
    return d_blocks, d_embedded, None, None, None, None


_unroll.defvjp(_forward, _backward)


def _kept(blocks: Block, embedded: Float[Array, "B T D"], memory: Float[Array, "B L M D"]) -> int:
    """W."""
    streams, steps, _ = embedded.shape
    slots = memory.shape[2]
    sizes = {**sizes_of(blocks), "B": streams, "N": streams * steps, "M": slots, "P": slots + 1}
    return sum(-(-evaluate(size, sizes) // LINE) * LINE for size in KEPT.values())
