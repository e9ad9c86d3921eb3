"""The small parts cores are made of: parameters as in JAX, and what is done with rows that are not finite.

L layers, N rows, D_in, D_out widths. A weight is stored as `[D_in, D_out]`, y = x @ weight, under the names and in the shapes of
`gtrxl.cores`, so that weights go both ways. Where JAX stacks layers, so does this: each parameter has L in front.
"""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from gtrxl.torch.cores.products import product

INIT_VARIANCE = 1 / 3
"""What a new linear map makes of inputs of variance 1."""
NORM_EPSILON = 1e-5


def uniform(*shape: int, fan_in: int, variance: float = INIT_VARIANCE, device: Any = None) -> nn.Parameter:
    """Uniform, so that a linear map of unit inputs has outputs of this variance."""
    limit = math.sqrt(3 * variance / fan_in)
    return nn.Parameter(torch.empty(shape, device=device, dtype=torch.float32).uniform_(-limit, limit))


def filled(*shape: int, value: float = 0.0, device: Any = None) -> nn.Parameter:
    """The same number everywhere."""
    return nn.Parameter(torch.full(shape, value, device=device, dtype=torch.float32))


def drawn(*shape: int, variance: float, device: Any = None) -> nn.Parameter:
    """Normal numbers."""
    return nn.Parameter(torch.randn(shape, device=device) * math.sqrt(variance))


def spread(size: int, *, least: float, most: float, device: Any = None) -> Float[Tensor, " N"]:
    """Numbers drawn evenly between two."""
    return torch.empty(size, device=device).uniform_(least, most)


class Stacked(nn.Module):
    """Parameters of L layers, or of one; `Weights` is the record of one layer's, in the order of the parameters."""

    Weights: ClassVar[Any]

    def own(self, dtype: torch.dtype) -> Any:
        """The weights of the one layer, in this type."""
        return self.Weights(*(getattr(self, name).to(dtype) for name in self.Weights._fields))

    def unbound(self) -> list[Any]:
        """The weights layer by layer: views, through which gradients flow back."""
        each = [getattr(self, name).unbind(0) for name in self.Weights._fields]
        return [self.Weights(*of) for of in zip(*each, strict=True)]


class Linear(nn.Module):
    """y = x @ weight + bias; `stack` are axes in front of both."""

    def __init__(
        self,
        input_size: int,
        output_size: int,
        *,
        stack: tuple[int, ...] = (),
        variance: float = INIT_VARIANCE,
        device: Any = None,
    ):
        super().__init__()
        self.weight = uniform(*stack, input_size, output_size, fan_in=input_size, variance=variance, device=device)
        self.bias = filled(*stack, output_size, device=device)

    def forward(self, x: Float[Tensor, "N D_in"]) -> Float[Tensor, "N D_out"]:
        """Of a matrix of rows, in their type."""
        return product(x, self.weight.to(x.dtype), self.bias.to(x.dtype))


class LayerNorm(nn.Module):
    """Scale and offset of a layer norm; `stack` are axes in front of both."""

    def __init__(self, size: int, *, stack: tuple[int, ...] = (), device: Any = None):
        super().__init__()
        self.scale = filled(*stack, size, value=1.0, device=device)
        self.offset = filled(*stack, size, device=device)

    def forward(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "N D"]:
        """Of a matrix of rows, in their type."""
        return standardise(x, self.scale.to(x.dtype), self.offset.to(x.dtype))


def standardise(
    x: Float[Tensor, "*n D"], scale: Float[Tensor, " D"] | None = None, offset: Float[Tensor, " D"] | None = None
) -> Float[Tensor, "*n D"]:
    """Zero mean and unit variance along the last axis, then a scale and an offset if there are any."""
    return functional.layer_norm(x, x.shape[-1:], scale, offset, eps=NORM_EPSILON)


class Parts(nn.Module):
    """Modules by the names that observations have: any text, also with dots in it or one that PyTorch uses itself."""

    def __init__(self, modules: Mapping[str, nn.Module]):
        super().__init__()
        self._modules.update(modules)

    def __getitem__(self, name: str) -> nn.Module:
        found = self._modules[name]
        assert found is not None
        return found


# A row that is not finite (an input, a remembered step) must spoil what sees it, and nothing else. Masks and resets hide it from
# the rest, but 0 * nan is not zero, in sums and in their gradients. So cores compute with zeros in its place, keep in mind which
# steps have seen it, and these give nan. On a CPU one look tells that there is no such row, and all of this is left out; where
# looking would make the host wait (a GPU) or break a compiled program, it is always done.

BEYOND = 3e38
"""What a gradient is multiplied by that comes back to a spoilt row: zero stays zero, all else becomes too large for a float."""


def may_look(like: Tensor) -> bool:
    """Whether asking a tensor for a number costs nothing here."""
    return like.device.type == "cpu" and not torch.compiler.is_compiling()


def surely_finite(*tensors: Tensor) -> bool:
    """Whether a look shows that every number is finite, and that rows can be added up."""
    return all(may_look(tensor) and math.isfinite(float(tensor.detach().sum())) for tensor in tensors)


def spoilt_rows(x: Float[Tensor, "*n D"]) -> Bool[Tensor, "*n"]:
    """Which rows hold a number that is not finite, or numbers that cannot be added up."""
    return ~torch.isfinite(x.detach().sum(dim=-1))


class _Replaced(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, spoilt: Tensor, by: float) -> Tensor:
        ctx.save_for_backward(spoilt)
        return torch.where(spoilt[..., None], torch.full((), by, dtype=x.dtype, device=x.device), x)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (spoilt,) = ctx.saved_tensors
        (gradient,) = gradients
        return gradient * torch.where(spoilt, BEYOND, 1.0).to(gradient.dtype)[..., None], None, None


def replaced(x: Float[Tensor, "*n D"], spoilt: Bool[Tensor, "*n"], by: float) -> Float[Tensor, "*n D"]:
    """x with another number in the rows that are spoilt. Where no loss asks for such a row its gradient stays zero."""
    found: Any = _Replaced.apply(x, spoilt, by)
    return found
