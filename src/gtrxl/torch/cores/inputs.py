"""What is given to a core, checked in one place: shapes and types of inputs, resets and states. B streams, T steps."""

from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from gtrxl.cores.errors import CoreError


def check_step(core: Any, x: Tensor, reset: Tensor) -> None:
    """Raise unless these are one step of B streams."""
    width = core.input_size
    if x.ndim != 2 or x.shape[1] != width:
        raise CoreError(
            f"x must have shape [B, {width}] (one step of B streams), got {list(x.shape)}; "
            "for one stream use x[None], for many steps core.unroll"
        )
    if reset.shape != x.shape[:1]:
        raise CoreError(
            f"reset must be one bool for each of {x.shape[0]} streams, got shape {list(reset.shape)}; it says which of x start "
            "an episode"
        )
    _check_bool("reset", reset)


def check_unroll(core: Any, xs: Tensor, resets: Tensor) -> None:
    """Raise unless these are T steps of B streams."""
    width = core.input_size
    if xs.ndim != 3 or xs.shape[2] != width:
        raise CoreError(
            f"xs must have shape [B, T, {width}] (T steps of B streams, the streams first), got {list(xs.shape)}; "
            "for one step use core.step"
        )
    if xs.shape[1] == 0:
        raise CoreError("xs must hold at least one step, got T = 0; leave the call out when there is nothing to learn from")
    if resets.shape != xs.shape[:2]:
        raise CoreError(
            f"resets must have shape {list(xs.shape[:2])}, one bool for each step of xs, got {list(resets.shape)}; "
            "the streams are the first axis"
        )
    _check_bool("resets", resets)


def check_kind(state: Any, *kinds: type) -> None:
    """Raise unless the state is one of these records."""
    if not isinstance(state, kinds):
        names = " or ".join(kind.__name__ for kind in kinds)
        raise CoreError(
            f"state must be {names}, got {type(state).__name__}; "
            "a state belongs to the core that made it, begin with core.initial_state(B)"
        )


def check_shape(name: str, tensor: Tensor, shape: tuple[int, ...]) -> None:
    """Raise unless a part of a state has this shape."""
    if tuple(tensor.shape) != shape:
        raise CoreError(
            f"state.{name} must have shape {list(shape)}, got {list(tensor.shape)}; "
            f"states carry the streams in front, begin with core.initial_state({shape[0]})"
        )


def shapes_of(state: Any) -> Any:
    """The shapes of a state of one stream, in the place of its tensors: what `check_like` holds states against."""
    return pytree.tree_map(lambda leaf: leaf.shape, state)


def check_like(name: str, part: Any, shapes: Any, *, streams: int) -> None:
    """Raise unless a state, or a part of one, is built of the same records with tensors of these shapes, the streams in front."""
    if isinstance(shapes, torch.Size):
        check_kind(part, Tensor)
        check_shape(name, part, (streams, *shapes))
        return
    check_kind(part, type(shapes))
    fields = getattr(shapes, "_fields", range(len(shapes)))
    if len(part) != len(shapes):
        raise CoreError(f"{name} must have {len(shapes)} parts, got {len(part)}; a state belongs to the core that made it")
    for field, own, wanted in zip(fields, part, shapes, strict=True):
        check_like(f"{name}.{field}" if name else str(field), own, wanted, streams=streams)


def _check_bool(name: str, tensor: Tensor) -> None:
    if tensor.dtype != torch.bool:
        raise CoreError(f"{name} must be bool, got {tensor.dtype}; write for example {name}.bool()")
