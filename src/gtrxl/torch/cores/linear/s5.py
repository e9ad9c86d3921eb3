"""The simplified state space layer: S5. The equations are in `gtrxl.cores.linear.s5`. N rows, D width, S complex numbers."""

import math
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from gtrxl.cores.errors import at_least
from gtrxl.cores.linear.s5 import LONGEST, SHORTEST, hippo_basis
from gtrxl.cores.linear.stack import half
from gtrxl.torch.cores.layers import LayerNorm, Linear, drawn, filled, spread
from gtrxl.torch.cores.linear import scan
from gtrxl.torch.cores.linear.scan import Pair, exact
from gtrxl.torch.cores.linear.stack import Layer, Stack, nothing


class S5Layer(Layer):
    """x + g * sigmoid(W g) with g = gelu(state space(norm(x)))."""

    def __init__(self, d_model: int, state_size: int, *, device: Any):
        super().__init__()
        at_least("state_size", state_size, least=1, hint="it is how many complex numbers remember; half of d_model is usual")
        frequencies, vectors = hippo_basis(state_size)
        self.norm = LayerNorm(d_model, device=device)
        self.a = filled(state_size, value=math.log(0.5), device=device)
        self.w = nn.Parameter(_floats(frequencies, device))
        self.t = nn.Parameter(spread(state_size, least=math.log(SHORTEST), most=math.log(LONGEST), device=device))
        self.b = drawn(d_model, 2 * state_size, variance=1 / d_model, device=device)
        self.c = drawn(2 * state_size, d_model, variance=1 / (2 * state_size), device=device)
        self.d = drawn(d_model, variance=1.0, device=device)
        self.gate = Linear(d_model, d_model, device=device)
        re, im = _floats(np.real(vectors), device), _floats(np.imag(vectors), device)
        with torch.no_grad():
            self.b.copy_(torch.cat([self.b @ re, -self.b @ im], dim=1))  # V^H B
            self.c.copy_(torch.cat([re.T @ self.c, -im.T @ self.c]))  # C V

    def zeros(self) -> Pair:
        return Pair(re=nothing(*self.a.shape), im=nothing(*self.a.shape))

    def forward(self, x: Float[Tensor, "N D"], state: Pair, resets: Bool[Tensor, "T B"]) -> tuple[Float[Tensor, "N D"], Pair]:
        u = self.norm(x)
        decay, w, delta = exact(self.a).exp(), exact(self.w), exact(self.t).exp()
        size, angle = (-decay * delta).exp(), w * delta
        kept = Pair(re=size * angle.cos(), im=size * angle.sin())
        # (k - 1) / L = (k - 1) conj(L) / |L|^2 with conj(L) = -decay - i w
        length = decay.square() + w.square()
        hold = scan.times(Pair(re=kept.re - 1, im=kept.im), Pair(re=-decay / length, im=-w / length))
        driven = Pair(*exact(u @ self.b.to(u.dtype)).chunk(2, dim=1))
        states, last = scan.turned(kept, scan.times(hold, driven), state, resets)
        y = 2 * (torch.cat(states, dim=1).to(u.dtype) @ self.c.to(u.dtype)) + self.d.to(u.dtype) * u
        g = functional.gelu(y, approximate="tanh")
        return x + g * torch.sigmoid(self.gate(g)), last


def _floats(array: np.ndarray, device: Any) -> Tensor:
    return torch.tensor(array, dtype=torch.float32, device=device)


class S5(Stack):
    """State space layers; the arguments are those of `gtrxl.cores.linear.s5.S5`."""

    def __init__(
        self,
        input_size: int,
        *,
        d_model: int = 256,
        layers: int = 1,
        state_size: int | None = None,
        dtype: str = "float32",
        device: Any = None,
    ):
        size = half(d_model) if state_size is None else state_size

        def layer() -> S5Layer:
            return S5Layer(d_model, size, device=device)

        super().__init__(input_size, d_model=d_model, layers=layers, dtype=dtype, make=layer, device=device)

    @staticmethod
    def _own_sizes(layer: Any) -> dict[str, Any]:
        return {"state_size": layer.a.shape[0]}
