"""Units that keep a share of themselves and take in a share of something new: minGRU and minLSTM. N rows, D width, U units.

x + W (h * silu(W_o u)) with h = kept * h + written and u = norm(x), as in `gtrxl.cores.linear.units`.
"""

import abc
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from gtrxl.cores.errors import at_least
from gtrxl.torch.cores.layers import LayerNorm, Linear, spread
from gtrxl.torch.cores.linear import scan
from gtrxl.torch.cores.linear.scan import exact
from gtrxl.torch.cores.linear.stack import Layer, Stack, nothing


def positive(a: Float[Tensor, "N U"]) -> Float[Tensor, "N U"]:
    """g(a) = a + 0.5 for a >= 0, else sigmoid(a): continuous, and never negative."""
    return torch.where(a >= 0, a + 0.5, torch.sigmoid(a))


def lasting(units: int, longest: int, *, device: Any) -> Float[Tensor, " U"]:
    """The logits of how much is kept, for units that remember between 2 and `longest` steps, evenly: log(T - 1)."""
    at_least("longest", longest, least=3, hint="it is how many steps the slowest units remember at first")
    return spread(units, least=1.0, most=float(longest - 1), device=device).log()


class Units(Layer):
    """`gates` maps of the input are the unit's, one more is the way out: side by side in one product."""

    gates: int

    def __init__(self, d_model: int, units: int, *, longest: int, device: Any):
        super().__init__()
        at_least("state_size", units, least=1, hint="it is the number of units; d_model is usual")
        self.norm = LayerNorm(d_model, device=device)
        self.inputs = Linear(d_model, (self.gates + 1) * units, device=device)
        self.out = Linear(units, d_model, device=device)
        self.units = units
        self._begin(lasting(units, longest, device=device))

    @abc.abstractmethod
    def _begin(self, logits: Float[Tensor, " U"]) -> None:
        """Sets the first biases, so that units keep as much of themselves as these logits say."""

    @abc.abstractmethod
    def shares(self, *gates: Float[Tensor, "N U"]) -> tuple[Tensor, Tensor]:
        """How much is kept, and what is added, from the maps of the input."""

    def zeros(self) -> Tensor:
        return nothing(self.units)

    def forward(self, x: Float[Tensor, "N D"], state: Tensor, resets: Bool[Tensor, "T B"]) -> tuple[Float[Tensor, "N D"], Tensor]:
        *gates, opening = self.inputs(self.norm(x)).split(self.units, dim=1)
        h, last = scan.decayed(*self.shares(*map(exact, gates)), state, resets)
        return x + self.out(h.to(x.dtype) * functional.silu(opening)), last


class OfUnits(Stack):
    """Layers of such units. `state_size=None` is as many as the width."""

    _Layer: type[Units]

    def __init__(
        self,
        input_size: int,
        *,
        d_model: int = 256,
        layers: int = 1,
        state_size: int | None = None,
        longest: int = 256,
        dtype: str = "float32",
        device: Any = None,
    ):
        size = d_model if state_size is None else state_size

        def layer() -> Units:
            return self._Layer(d_model, size, longest=longest, device=device)

        super().__init__(input_size, d_model=d_model, layers=layers, dtype=dtype, make=layer, device=device)

    @staticmethod
    def _own_sizes(layer: Any) -> dict[str, Any]:
        return {"state_size": layer.units}
