"""Gated DeltaNet. The equations are in `gtrxl.cores.linear.deltanet`. N rows, D width, H heads of K = D / H."""

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from gtrxl.cores.linear.deltanet import LEAST_LENGTH
from gtrxl.cores.linear.stack import divided
from gtrxl.torch.cores.layers import LayerNorm, Linear, filled
from gtrxl.torch.cores.linear.convolution import Convolution, ConvolvedState
from gtrxl.torch.cores.linear.mamba2 import first_rates, first_steps
from gtrxl.torch.cores.linear.scan import along, exact
from gtrxl.torch.cores.linear.stack import Layer, Stack, nothing, unit_size


class DeltaNetLayer(Layer):
    """One layer."""

    def __init__(self, d_model: int, heads: int, convolution: int, *, device: Any):
        super().__init__()
        divided(d_model, heads)
        self.norm = LayerNorm(d_model, device=device)
        self.inputs = Linear(d_model, 4 * d_model + 2 * heads, device=device)
        self.convolution = Convolution(3 * d_model, convolution, device=device)
        self.a = first_rates(heads, device=device)
        self.dt = first_steps(heads, device=device)
        self.scale = filled(d_model, value=1.0, device=device)
        self.out = Linear(d_model, d_model, device=device)

    def zeros(self) -> ConvolvedState:
        """It is S^T that is kept, values along the last axis."""
        heads = self.a.shape[0]
        width = self.scale.shape[0] // heads
        return ConvolvedState(window=self.convolution.zeros(), inner=nothing(heads, width, width))

    def forward(
        self, x: Float[Tensor, "N D"], state: ConvolvedState, resets: Bool[Tensor, "T B"]
    ) -> tuple[Float[Tensor, "N D"], ConvolvedState]:
        width, heads = self.scale.shape[0], self.a.shape[0]
        lead, z, kept, rate = self.inputs(self.norm(x)).split([3 * width, width, heads, heads], dim=1)
        convolved, window = self.convolution(lead, state.window, resets)
        q, k, v = convolved.view(-1, 3, heads, width // heads).unbind(1)
        kept = (-functional.softplus(exact(kept) + exact(self.dt)) * exact(self.a).exp()).exp()
        found, last = _remembered(_direction(q), _direction(k), v, kept, torch.sigmoid(exact(rate)), state.inner, resets)
        y = unit_size(found).flatten(1) * exact(self.scale) * functional.silu(exact(z))
        return x + self.out(y.to(x.dtype)), ConvolvedState(window=window, inner=last)


def _remembered(
    q: Float[Tensor, "N H K"],
    k: Float[Tensor, "N H K"],
    v: Float[Tensor, "N H K"],
    kept: Float[Tensor, "N H"],
    rate: Float[Tensor, "N H"],
    state: Float[Tensor, "B H K K"],
    resets: Bool[Tensor, "T B"],
) -> tuple[Float[Tensor, "N H K"], Float[Tensor, "B H K K"]]:
    """S q of every step, and the last S: a S + b (v - a S k) k^T."""
    found = []
    given = (part.view(*resets.shape, *part.shape[1:]).unbind(0) for part in (q, k, v, kept[..., None], rate[..., None]))
    for query, key, value, a, b, anew in zip(*given, resets.unbind(0), strict=True):
        state = state.masked_fill(along(anew, state), 0.0) * a[..., None]
        missing = b * (value - (key[:, :, None] @ state).squeeze(2))
        state = torch.addcmul(state, key[..., None], missing[:, :, None])
        found.append((query[:, :, None] @ state).squeeze(2))
    return torch.cat(found), state


def _direction(x: Float[Tensor, "N H K"]) -> Float[Tensor, "N H K"]:
    return x * torch.rsqrt(x.square().sum(dim=-1, keepdim=True) + LEAST_LENGTH)


class DeltaNet(Stack):
    """Gated DeltaNet layers; the arguments are those of `gtrxl.cores.linear.deltanet.DeltaNet`."""

    def __init__(
        self,
        input_size: int,
        *,
        d_model: int = 256,
        layers: int = 1,
        heads: int = 4,
        convolution: int = 4,
        dtype: str = "float32",
        device: Any = None,
    ):
        def layer() -> DeltaNetLayer:
            return DeltaNetLayer(d_model, heads, convolution, device=device)

        super().__init__(input_size, d_model=d_model, layers=layers, dtype=dtype, make=layer, device=device)

    @staticmethod
    def _own_sizes(layer: Any) -> dict[str, Any]:
        return {"heads": layer.a.shape[0], "convolution": layer.convolution.kernel.shape[0]}
