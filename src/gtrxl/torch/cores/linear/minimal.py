"""The minimal GRU and LSTM: minGRU and minLSTM. The equations are in `gtrxl.cores.linear.mingru` and `minlstm`. U units."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from gtrxl.torch.cores.linear.units import OfUnits, Units, positive


class MinGRULayer(Units):
    """Two maps of the input: z, and what is new."""

    gates = 2

    def _begin(self, logits: Float[Tensor, " U"]) -> None:
        with torch.no_grad():
            self.inputs.bias[: self.units] = -logits

    def shares(self, *gates: Float[Tensor, "N U"]) -> tuple[Tensor, Tensor]:
        """1 - z, and z * g."""
        z, new = gates
        return torch.sigmoid(-z), torch.sigmoid(z) * positive(new)


class MinGRU(OfUnits):
    """Layers of minimal GRUs; the arguments are those of `gtrxl.cores.linear.mingru.MinGRU`."""

    _Layer = MinGRULayer


class MinLSTMLayer(Units):
    """Three maps of the input: f, i, and what is new."""

    gates = 3

    def _begin(self, logits: Float[Tensor, " U"]) -> None:
        with torch.no_grad():
            self.inputs.bias[: self.units] = 2.0
            self.inputs.bias[self.units : 2 * self.units] = -logits

    def shares(self, *gates: Float[Tensor, "N U"]) -> tuple[Tensor, Tensor]:
        """f / (f + i), and i / (f + i) * g."""
        f, i, new = gates
        ratio = functional.logsigmoid(f) - functional.logsigmoid(i)
        return torch.sigmoid(ratio), torch.sigmoid(-ratio) * positive(new)


class MinLSTM(OfUnits):
    """Layers of minimal LSTMs; the arguments are those of `gtrxl.cores.linear.minlstm.MinLSTM`."""

    _Layer = MinLSTMLayer
