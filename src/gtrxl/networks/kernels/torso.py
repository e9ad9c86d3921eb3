"""Pictures through all sections of a ResNet in one native call, and the gradient of its weights in another.

N pictures, H height, W width, C channels; h, w and C_out of what the last section gives.
"""

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, UInt8

from gtrxl.cores import kernels
from gtrxl.cores.kernels.library import BASE, Library

HERE = Path(__file__).parent
TORSO = Library(
    name="native-torso",
    sources=(HERE / "torso.cc",),
    headers=(*BASE, HERE / "convolution.h", HERE / "sizes.h"),
    targets=("gtrxl_torso", "gtrxl_torso_backward"),
)
MOST_KEPT = 2**30
"""Bytes that a call may keep for its gradient. Of more pictures nothing is kept, and the gradient makes it again: a tenth to a
quarter slower (docs/log.md)."""

Otherwise = Callable[[Any, Array], Array]


def through_sections(otherwise: Otherwise, sections: Any, pictures: UInt8[Array, "N H W C"]) -> Float[Array, "N h w C_out"]:
    """What the last section gives above zero: what `otherwise` gives for the same arguments. That runs if the program is lowered
    for another platform. Gradients go to the sections."""
    return _through(otherwise, sections, pictures)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _through(otherwise: Otherwise, sections: Any, pictures: Array) -> Array:
    return _call(otherwise, sections, pictures, keep=False)[0]


def _call(otherwise: Otherwise, sections: Any, pictures: Array, *, keep: bool) -> tuple[Array, Array]:
    out = jax.eval_shape(otherwise, sections, pictures)
    rows, floats = _kept(pictures.shape, [section.conv.bias.shape[0] for section in sections])
    keep = keep and 4 * rows * floats <= MOST_KEPT
    shapes = out, jax.ShapeDtypeStruct((rows if keep else 0, floats), jnp.float32)

    def here(sections: Any, pictures: Array) -> tuple[Array, Array]:
        call = jax.ffi.ffi_call("gtrxl_torso", shapes, vmap_method="sequential")
        found, kept = call(pictures, *arrays_of(sections), threads=kernels.threads())
        return found, kept

    def elsewhere(sections: Any, pictures: Array) -> tuple[Array, Array]:
        return otherwise(sections, pictures), jnp.zeros(shapes[1].shape, jnp.float32)

    return jax.lax.platform_dependent(sections, pictures, cpu=here, default=elsewhere)


def _forward(otherwise: Otherwise, sections: Any, pictures: Array) -> tuple[Array, Any]:
    out, kept = _call(otherwise, sections, pictures, keep=True)
    return out, (sections, pictures, out, kept)


def _backward(otherwise: Otherwise, saved: Any, d_out: Array) -> tuple[Any, None]:
    def here(sections: Any, pictures: Array, out: Array, kept: Array, d_out: Array) -> Any:
        weights = arrays_of(sections)
        shapes = tuple(jax.ShapeDtypeStruct(array.shape, array.dtype) for array in weights)
        call = jax.ffi.ffi_call("gtrxl_torso_backward", shapes, vmap_method="sequential")
        return with_arrays(sections, call(d_out, out, kept, pictures, *weights, threads=kernels.threads()))

    def elsewhere(sections: Any, pictures: Array, out: Array, kept: Array, d_out: Array) -> Any:
        return jax.vjp(lambda sections: otherwise(sections, pictures), sections)[1](d_out)[0]

    return jax.lax.platform_dependent(*saved, d_out, cpu=here, default=elsewhere), None


_through.defvjp(_forward, _backward)


def arrays_of(sections: Any) -> list[Any]:
    """The weights by name, in the order in which the library takes them: of each section its convolution, then those of its two
    blocks, of each the kernel, then the bias."""
    convolutions = [
        conv
        for section in sections
        for conv in (section.conv, *(conv for block in section.residuals for conv in (block.first, block.second)))
    ]
    return [array for conv in convolutions for array in (conv.kernel, conv.bias)]


def with_arrays(sections: Any, arrays: Sequence[Array]) -> Any:
    """The sections with other weights, in the order of `arrays_of`."""
    # Whatever order a pytree has: its leaves' numbers, in the order of the library.
    leaves, tree = jax.tree.flatten(sections)
    places = arrays_of(jax.tree.unflatten(tree, range(len(leaves))))
    ordered = dict(zip(places, arrays, strict=True))
    return jax.tree.unflatten(tree, [ordered[place] for place in range(len(leaves))])


def _kept(pictures: Sequence[int], channels: Sequence[int]) -> tuple[int, int]:
    """How many rows of how many floats the library keeps for the gradient."""
    library = kernels.loaded(TORSO)
    assert library is not None, "asked by nobody without the library"
    sizes = (ctypes.c_int64 * (len(pictures) + len(channels)))(*pictures, *channels)
    rows, floats = ctypes.c_int64(), ctypes.c_int64()
    library.gtrxl_torso_kept(sizes, ctypes.c_int64(len(channels)), ctypes.byref(rows), ctypes.byref(floats))
    return rows.value, floats.value
