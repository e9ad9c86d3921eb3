"""The recurrence state = kept * state + written over a segment, with resets in it. T steps, B streams, N = T B rows.

It is a loop over time whose derivative is written out: a step is a multiplication and a sum, and nothing of it is recorded.
Complex numbers are two real tensors, as in `gtrxl.cores.linear.scan`. What was before a reset is left out, not multiplied by
zero: it might not be finite.

On a CPU the loop is faster than log T rounds over all steps: they go through all numbers log T times, forth and back.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from gtrxl.torch.cores.layers import may_look

Parts = tuple[Tensor, ...]
"""One tensor of real numbers, or the real and the imaginary part of complex ones."""


class Pair(NamedTuple):
    """Complex numbers as two real tensors: weights, checkpoints and ONNX know no other."""

    re: Float[Tensor, "..."]
    im: Float[Tensor, "..."]


def exact(x: Tensor) -> Tensor:
    """In float32 at least, which recurrences are computed in: bfloat16 cannot tell a decay of 0.999 from 1."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def times(one: Pair, other: Pair) -> Pair:
    """The product of complex numbers."""
    return Pair(re=one.re * other.re - one.im * other.im, im=one.re * other.im + one.im * other.re)


def along(flags: Bool[Tensor, "*n"], like: Tensor) -> Tensor:
    """The flags with as many axes as a tensor whose first ones are theirs."""
    return flags.reshape(*flags.shape, *(1,) * (like.ndim - flags.ndim))


def decayed(
    kept: Float[Tensor, "N *k"], written: Float[Tensor, "N *s"], state: Float[Tensor, "B *s"], resets: Bool[Tensor, "T B"]
) -> tuple[Float[Tensor, "N *s"], Float[Tensor, "B *s"]]:
    """Every state and the last one. `kept` may have size 1 where it is the same along an axis of the state."""
    (states,), (last,) = _unrolled((kept.view(*resets.shape, *kept.shape[1:]),), (written,), (state,), resets)
    return states, last


def turned(kept: Pair, written: Pair, state: Pair, resets: Bool[Tensor, "T B"]) -> tuple[Pair, Pair]:
    """The same of complex numbers; `kept` is the same at every step."""
    states, last = _unrolled(tuple(part.expand(len(resets), 1, *part.shape) for part in kept), written, state, resets)
    return Pair(*states), Pair(*last)


def _unrolled(kept: Parts, written: Parts, state: Parts, resets: Bool[Tensor, "T B"]) -> tuple[Parts, Parts]:
    """`kept` has T and B or 1 in front."""
    if len(resets) == 1:
        last = _onward(tuple(part[0] for part in kept), _fresh(state, resets[0]), written)
        return last, last
    by_step = (part.view(*resets.shape, *part.shape[1:]) for part in written)
    found: Parts = _Loop.apply(resets, *kept, *by_step, *state)  # pyright: ignore[reportAssignmentType]
    return tuple(part.flatten(0, 1) for part in found), tuple(part[-1] for part in found)


class _Loop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, resets: Tensor, *given: Tensor) -> Parts:
        size = len(given) // 3
        kept, written, begin = given[:size], given[size : 2 * size], given[2 * size :]
        state, found = begin, []
        for anew, own, new in zip(_flags(resets), _steps(kept), _steps(written), strict=True):
            state = _onward(own, state if anew is None else _fresh(state, anew), new)
            found.append(state)
        states = tuple(torch.stack(parts) for parts in zip(*found, strict=True))
        ctx.save_for_backward(resets, *kept, *begin, *states)
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        resets, *saved = ctx.saved_tensors
        size = len(saved) // 3
        kept, begin, states = saved[:size], saved[size : 2 * size], saved[2 * size :]
        conjugate, asked = list(_steps(_conjugate(kept))), list(_steps(gradients))
        by_state, found = asked[-1], [asked[-1]]
        for t, anew in reversed(list(enumerate(_flags(resets)))[1:]):
            by_state = _onward(conjugate[t], by_state if anew is None else _fresh(by_state, anew), asked[t - 1])
            found.append(by_state)
        by_written = tuple(torch.stack(parts[::-1]) for parts in zip(*found, strict=True))
        before = [torch.cat([first[None], of[:-1]]) for first, of in zip(begin, states, strict=True)]
        by_kept = _onward(_conjugate(_fresh(before, resets)), by_written, [torch.zeros_like(part) for part in before])
        return None, *(by.sum_to_size(of.shape) for by, of in zip(by_kept, kept, strict=True)), *by_written, *(None,) * size


def _onward(kept: Any, state: Any, written: Any) -> Parts:
    """kept * state + written."""
    if len(kept) == 1:
        return (torch.addcmul(written[0], kept[0], state[0]),)
    (a, b), (re, im), (x, y) = kept, state, written
    return torch.addcmul(torch.addcmul(x, a, re), b, im, value=-1), torch.addcmul(torch.addcmul(y, a, im), b, re)


def _conjugate(parts: Any) -> Parts:
    return tuple(parts) if len(parts) == 1 else (parts[0], -parts[1])


def _fresh(parts: Any, resets: Tensor) -> Parts:
    return tuple(part.masked_fill(along(resets, part), 0.0) for part in parts)


def _steps(parts: Any) -> Iterator[Parts]:
    return zip(*(part.unbind(0) for part in parts), strict=True)


def _flags(resets: Bool[Tensor, "T B"]) -> list[Tensor | None]:
    """The flags of every step; None where a look shows that nothing begins."""
    if not may_look(resets):
        return list(resets.unbind(0))
    return [flags if begins else None for flags, begins in zip(resets.unbind(0), resets.any(dim=1).tolist(), strict=True)]
