"""Mamba-2. The equations are in `gtrxl.cores.linear.mamba2`. N rows, D width, I inner width, H heads of P, S numbers for each."""

import math
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from gtrxl.cores.errors import at_least
from gtrxl.cores.linear.mamba2 import EXPAND
from gtrxl.cores.linear.stack import divided
from gtrxl.torch.cores.layers import LayerNorm, Linear, filled, spread
from gtrxl.torch.cores.linear import scan
from gtrxl.torch.cores.linear.convolution import Convolution, ConvolvedState
from gtrxl.torch.cores.linear.scan import exact
from gtrxl.torch.cores.linear.stack import Layer, Stack, nothing, unit_size


def first_steps(size: int, *, device: Any) -> nn.Parameter:
    """b of softplus(b) evenly in its logarithm between 0.001 and 0.1; DeltaNet's decays begin the same way."""
    dt = spread(size, least=math.log(0.001), most=math.log(0.1), device=device).exp()
    return nn.Parameter(dt + (-torch.expm1(-dt)).log())


def first_rates(size: int, *, device: Any) -> nn.Parameter:
    """A of exp(A) evenly between 1 and 16."""
    return nn.Parameter(spread(size, least=1.0, most=16.0, device=device).log())


class Mamba2Layer(Layer):
    """One layer; `size` is S."""

    def __init__(self, d_model: int, heads: int, size: int, convolution: int, *, device: Any):
        super().__init__()
        at_least("state_size", size, least=1, hint="it is how many numbers each inner channel remembers; 16 is the default")
        inner = EXPAND * d_model
        divided(inner, heads)
        self.norm = LayerNorm(d_model, device=device)
        self.inputs = Linear(d_model, 2 * inner + 2 * size + heads, device=device)
        self.convolution = Convolution(inner + 2 * size, convolution, device=device)
        self.a = first_rates(heads, device=device)
        self.dt = first_steps(heads, device=device)
        self.d = filled(heads, value=1.0, device=device)
        self.scale = filled(inner, value=1.0, device=device)
        self.out = Linear(inner, d_model, device=device)
        self.size = size

    def zeros(self) -> ConvolvedState:
        heads = self.a.shape[0]
        inner = nothing(heads, self.size, self.scale.shape[0] // heads)
        return ConvolvedState(window=self.convolution.zeros(), inner=inner)

    def forward(
        self, x: Float[Tensor, "N D"], state: ConvolvedState, resets: Bool[Tensor, "T B"]
    ) -> tuple[Float[Tensor, "N D"], ConvolvedState]:
        inner, heads, size = self.scale.shape[0], self.a.shape[0], self.size
        z, lead, dt = self.inputs(self.norm(x)).split([inner, inner + 2 * size, heads], dim=1)
        convolved, window = self.convolution(lead, state.window, resets)
        through, b, c = convolved.split([inner, size, size], dim=1)
        dt = functional.softplus(exact(dt) + exact(self.dt))
        kept = (-dt * exact(self.a).exp()).exp()
        by_head = through.view(-1, heads, inner // heads)
        written = (dt[..., None] * by_head)[:, :, None] * b[:, None, :, None]
        states, last = scan.decayed(kept[..., None, None], written, state.inner, resets)
        y = (c[:, None, None] @ states).squeeze(2) + exact(self.d)[:, None] * by_head
        y = unit_size(y.flatten(1) * functional.silu(exact(z))) * exact(self.scale)
        return x + self.out(y.to(x.dtype)), ConvolvedState(window=window, inner=last)


class Mamba2(Stack):
    """Mamba-2 layers; the arguments are those of `gtrxl.cores.linear.mamba2.Mamba2`."""

    def __init__(
        self,
        input_size: int,
        *,
        d_model: int = 256,
        layers: int = 1,
        heads: int = 4,
        state_size: int = 16,
        convolution: int = 4,
        dtype: str = "float32",
        device: Any = None,
    ):
        def layer() -> Mamba2Layer:
            return Mamba2Layer(d_model, heads, state_size, convolution, device=device)

        super().__init__(input_size, d_model=d_model, layers=layers, dtype=dtype, make=layer, device=device)

    @staticmethod
    def _own_sizes(layer: Any) -> dict[str, Any]:
        return {"heads": layer.a.shape[0], "state_size": layer.size, "convolution": layer.convolution.kernel.shape[0]}
