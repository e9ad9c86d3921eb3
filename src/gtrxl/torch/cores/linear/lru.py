"""The linear recurrent unit: LRU. The equations are in `gtrxl.cores.linear.lru`. N rows, D width, S complex numbers."""

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from gtrxl.cores.errors import CoreError, at_least
from gtrxl.cores.linear.lru import LARGEST_ANGLE
from gtrxl.cores.linear.stack import half
from gtrxl.torch.cores.layers import LayerNorm, Linear, drawn, spread
from gtrxl.torch.cores.linear import scan
from gtrxl.torch.cores.linear.scan import Pair, exact
from gtrxl.torch.cores.linear.stack import Layer, Stack, nothing


class LinearRecurrence(nn.Module):
    """The recurrence and its two maps, without the block around it. Complex weights are kept as real and imaginary parts."""

    def __init__(self, d_model: int, state_size: int, *, shortest: float, longest: float, device: Any):
        super().__init__()
        at_least("state_size", state_size, least=1, hint="it is how many complex numbers remember; half of d_model is usual")
        if not 0 <= shortest < longest < 1:
            raise CoreError(
                f"shortest and longest must be 0 <= shortest < longest < 1, got {shortest} and {longest}; "
                "they are how much is kept from one step to the next, 0.9 and 0.999 at first"
            )
        area = spread(state_size, least=shortest**2, most=longest**2, device=device)
        self.nu = nn.Parameter((-0.5 * area.clamp(min=1e-12).log()).log())
        self.theta = nn.Parameter((LARGEST_ANGLE * spread(state_size, least=1e-3, most=1.0, device=device)).log())
        self.b = drawn(d_model, 2 * state_size, variance=1 / (2 * d_model), device=device)
        self.c = drawn(2 * state_size, d_model, variance=1 / state_size, device=device)
        self.d = drawn(d_model, variance=1.0, device=device)

    def zeros(self) -> Pair:
        """Of one stream."""
        return Pair(re=nothing(*self.nu.shape), im=nothing(*self.nu.shape))

    def forward(self, u: Float[Tensor, "N D"], state: Pair, resets: Bool[Tensor, "T B"]) -> tuple[Float[Tensor, "N D"], Pair]:
        """Re(C s) + d * u, and the last s; the rows of `c` that meet the imaginary part hold -Im(C)."""
        nu, angle = exact(self.nu), exact(self.theta).exp()
        size, gamma = (-nu.exp()).exp(), (-torch.expm1(-2 * nu.exp())).sqrt()
        re, im = exact(u @ self.b.to(u.dtype)).chunk(2, dim=1)
        kept, written = Pair(re=size * angle.cos(), im=size * angle.sin()), Pair(re=gamma * re, im=gamma * im)
        states, last = scan.turned(kept, written, state, resets)
        both = torch.cat(states, dim=1).to(u.dtype)
        return torch.addcmul(both @ self.c.to(u.dtype), self.d.to(u.dtype), u), last


class LRULayer(Layer):
    """x + glu(gelu(recurrence(norm(x))))."""

    def __init__(self, d_model: int, state_size: int, *, shortest: float, longest: float, device: Any):
        super().__init__()
        self.norm = LayerNorm(d_model, device=device)
        self.recurrence = LinearRecurrence(d_model, state_size, shortest=shortest, longest=longest, device=device)
        self.glu = Linear(d_model, 2 * d_model, device=device)

    def zeros(self) -> Pair:
        return self.recurrence.zeros()

    def forward(self, x: Float[Tensor, "N D"], state: Pair, resets: Bool[Tensor, "T B"]) -> tuple[Float[Tensor, "N D"], Pair]:
        y, last = self.recurrence(self.norm(x), state, resets)
        return x + functional.glu(self.glu(functional.gelu(y, approximate="tanh"))), last


class LRU(Stack):
    """Layers of linear recurrent units; the arguments are those of `gtrxl.cores.linear.lru.LRU`."""

    def __init__(
        self,
        input_size: int,
        *,
        d_model: int = 256,
        layers: int = 1,
        state_size: int | None = None,
        shortest: float = 0.9,
        longest: float = 0.999,
        dtype: str = "float32",
        device: Any = None,
    ):
        size = half(d_model) if state_size is None else state_size

        def layer() -> LRULayer:
            return LRULayer(d_model, size, shortest=shortest, longest=longest, device=device)

        super().__init__(input_size, d_model=d_model, layers=layers, dtype=dtype, make=layer, device=device)

    @staticmethod
    def _own_sizes(layer: Any) -> dict[str, Any]:
        return {"state_size": layer.recurrence.nu.shape[0]}
