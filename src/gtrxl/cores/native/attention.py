"""Attention of whole segments through the native library, with its gradient.

B streams, T queries, M memory slots, P = M + 1 distances, H heads, K head width, I = H K.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float, Int

from gtrxl.cores import native

ATTENTION = "attention"
"""The name under which what attention keeps for its gradient is marked (`jax.ad_checkpoint.checkpoint_name`)."""


def attend(
    otherwise: Callable[..., Float[Array, "B T I"]],
    qkv: Float[Array, "B T I3"],
    memory: Float[Array, "B M I2"],
    r: Float[Array, "P I"],
    bias: Float[Array, " I3"],
    u: Float[Array, "H K"],
    v: Float[Array, "H K"],
    horizon: Int[Array, "B T"],
) -> Float[Array, "B T I"]:
    """What `otherwise` gives for the same arguments; that is what runs if the program is lowered for another platform.

    `qkv` and `memory` are products with the weights, to which `bias` is still to be added.
    """
    return _attend(otherwise, qkv, memory, r, bias, u, v, horizon)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attend(otherwise: Callable[..., Array], *given: Array) -> Any:
    return _forward(otherwise, *given)[0]


def _forward(otherwise: Callable[..., Array], *given: Array) -> tuple[Array, Any]:
    qkv, horizon = given[0], given[-1]
    heads, head_dim = given[4].shape
    streams, steps = horizon.shape
    shapes = _like(jnp.zeros((streams, steps, heads * head_dim), qkv.dtype), jnp.zeros((streams, heads, steps), qkv.dtype))

    def here(*given: Array) -> Any:
        return tuple(jax.ffi.ffi_call("gtrxl_attend", shapes, vmap_method="sequential")(*given, threads=native.threads()))

    def elsewhere(*given: Array) -> Any:
        return otherwise(*given), jnp.zeros(shapes[1].shape, shapes[1].dtype)

    attended, lse = jax.lax.platform_dependent(*given, cpu=here, default=elsewhere)
    attended, lse = checkpoint_name(attended, ATTENTION), checkpoint_name(lse, ATTENTION)
    return attended, (*given, attended, lse)


def _backward(otherwise: Callable[..., Array], saved: Any, d_attended: Array) -> tuple[Array | None, ...]:
    given = saved[:6]

    def here(*all_of_it: Array) -> Any:
        call = jax.ffi.ffi_call("gtrxl_attend_backward", _like(*given), vmap_method="sequential")
        return tuple(call(*all_of_it, threads=native.threads()))

    def elsewhere(*all_of_it: Array) -> Any:
        *given, horizon, _, _, d_attended = all_of_it
        return jax.vjp(lambda *given: otherwise(*given, horizon), *given)[1](d_attended)

    return (*jax.lax.platform_dependent(*saved, d_attended, cpu=here, default=elsewhere), None)


_attend.defvjp(_forward, _backward)


def _like(*arrays: Array) -> tuple[jax.ShapeDtypeStruct, ...]:
    return tuple(jax.ShapeDtypeStruct(array.shape, array.dtype) for array in arrays)
