"""Products of matrices in float32, by the library in PyTorch that makes the most of the processor.

N rows, D_in, D_out widths.

PyTorch multiplies by MKL, which gives processors of AMD vectors half as wide as those that they have. oneDNN, which PyTorch has
inside too, asks the processor: on one of AMD with AVX-512 it is more than twice as fast (`docs/measurements.md`), and its sums
are float32 as well. On all other machines, for small matrices, in other types and in compiled programs these are `@` and
`torch.addmm`.
"""

import functools
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from gtrxl import machine

LEAST = 2_000_000
"""Multiplications from which oneDNN is faster: each of its calls costs some 10 us."""


@functools.cache
def by_onednn() -> bool:
    """Whether large products go through oneDNN on this machine."""
    if "AMD" not in machine.processor() or torch.backends.cpu.get_cpu_capability() != "AVX512":
        return False
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def product(
    x: Float[Tensor, "N D_in"], weight: Float[Tensor, "D_in D_out"], bias: Float[Tensor, " D_out"] | None = None
) -> Float[Tensor, "N D_out"]:
    """x @ weight + bias, with gradients."""
    if torch.is_grad_enabled() and _goes(x, weight):
        found: Any = _Product.apply(x, weight, bias)
        return found
    return multiplied(x, weight, plus=bias)


def multiplied(
    a: Float[Tensor, "N D_in"], b: Float[Tensor, "D_in D_out"], *, plus: Float[Tensor, "*N D_out"] | None = None
) -> Float[Tensor, "N D_out"]:
    """a @ b + plus, a row or a matrix. For where gradients are written out or not asked for."""
    if not _goes(a, b):
        return a @ b if plus is None else torch.addmm(plus, a, b)
    row = plus if plus is not None and plus.ndim == 1 else None
    if not (b.is_contiguous() or b.mT.is_contiguous()):
        b = b.contiguous()  # of matrices that lie otherwise oneDNN adds up number by number
    found = torch.ops.mkldnn._linear_pointwise(a, b.mT, row, "none", [], "")
    return found if plus is row else found.add_(plus)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return multiplied(x, weight, plus=bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        x, weight = ctx.saved_tensors
        (gradient,) = gradients
        of_x, of_weight, of_bias = ctx.needs_input_grad
        return (
            multiplied(gradient, weight.mT) if of_x else None,
            multiplied(x.mT, gradient) if of_weight else None,
            gradient.sum(dim=0) if of_bias else None,
        )


def _goes(a: Tensor, b: Tensor) -> bool:
    """Whether oneDNN takes this product, and is worth its call."""
    return (
        not torch.compiler.is_compiling()
        and a.shape[0] * b.numel() >= LEAST
        and a.dtype == b.dtype == torch.float32
        and a.device.type == "cpu"
        and by_onednn()
        and bool(torch.backends.mkldnn.enabled)
    )
