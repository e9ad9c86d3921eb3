"""No memory at all: the control that shows how much of a score needs none. B streams, T steps, D_in input width, D width."""

import math
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from gtrxl.cores.errors import at_least
from gtrxl.torch.cores.contract import Core, check_dtype
from gtrxl.torch.cores.inputs import check_kind
from gtrxl.torch.cores.layers import Linear, replaced, spoilt_rows, surely_finite


class NoState(NamedTuple):
    """Nothing to remember."""


class Markov(Core):
    """`layers` linear layers of width `d_model` with ReLU, applied to each step alone."""

    def __init__(self, input_size: int, *, d_model: int = 256, layers: int = 1, dtype: str = "float32", device: Any = None):
        super().__init__()
        at_least("input_size", input_size, least=1, hint="it is the width of one step's input")
        at_least("d_model", d_model, least=1, hint="it is the width of a layer")
        at_least("layers", layers, least=1, hint="one layer is the least that maps the input to d_model")
        widths = [input_size] + [d_model] * (layers - 1)
        self.linears = nn.ModuleList(Linear(width, d_model, device=device) for width in widths)
        self.input_size = input_size
        self.output_size = d_model
        self.dtype = check_dtype(dtype)

    @classmethod
    def sizes(cls, core: Any) -> dict[str, Any]:
        """The arguments of a core like this one, in PyTorch or in JAX."""
        return {"d_model": core.output_size, "layers": len(core.linears), "dtype": core.dtype}

    def initial_state(self, batch: int = 1, *, device: Any = None, dtype: torch.dtype | None = None) -> NoState:
        """An empty record."""
        return NoState()

    def _check_state(self, state: Any, *, streams: int) -> None:
        check_kind(state, NoState)

    def _step(
        self, x: Float[Tensor, "B D_in"], state: NoState, reset: Bool[Tensor, " B"], *, computing: torch.dtype
    ) -> tuple[Float[Tensor, "B D"], NoState]:
        return self._map(x.to(computing)), state

    def _unroll(
        self, xs: Float[Tensor, "B T D_in"], state: NoState, resets: Bool[Tensor, "B T"], *, computing: torch.dtype
    ) -> tuple[Float[Tensor, "B T D"], NoState]:
        return self._map(xs.flatten(0, 1).to(computing)).view(*xs.shape[:2], -1), state

    def _map(self, x: Float[Tensor, "N D_in"]) -> Float[Tensor, "N D"]:
        sound = surely_finite(x)
        spoilt = None if sound else spoilt_rows(x)
        x = x if spoilt is None else replaced(x, spoilt, 0.0)
        for linear in self.linears:
            x = torch.relu(linear(x))
        return (x if spoilt is None else replaced(x, spoilt, math.nan)).to(self._home().dtype)
