"""The matrix LSTM: mLSTM of xLSTM. The equations are in `gtrxl.cores.linear.mlstm`. N rows, D width, H heads of K = D / H."""

from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from gtrxl.cores.linear.mlstm import LARGEST
from gtrxl.cores.linear.stack import divided
from gtrxl.torch.cores.layers import LayerNorm, Linear, filled, standardise
from gtrxl.torch.cores.linear import scan
from gtrxl.torch.cores.linear.scan import along, exact
from gtrxl.torch.cores.linear.stack import Layer, Stack, nothing


class MatrixState(NamedTuple):
    """C^T and n divided by exp(m), and m."""

    c: Float[Tensor, "B H K K"]
    n: Float[Tensor, "B H K"]
    m: Float[Tensor, "B H"]


class MLSTMLayer(Layer):
    """One layer."""

    def __init__(self, d_model: int, heads: int, *, device: Any):
        super().__init__()
        divided(d_model, heads)
        self.norm = LayerNorm(d_model, device=device)
        self.inputs = Linear(d_model, 4 * d_model + 2 * heads, device=device)
        self.scale = filled(d_model, value=1.0, device=device)
        self.out = Linear(d_model, d_model, device=device)
        self.heads = heads
        with torch.no_grad():
            self.inputs.bias[4 * d_model : 4 * d_model + heads] = torch.linspace(3.0, 6.0, heads, device=device)

    def zeros(self) -> MatrixState:
        heads, width = self.heads, self.scale.shape[0] // self.heads
        return MatrixState(c=nothing(heads, width, width), n=nothing(heads, width), m=nothing(heads))

    def forward(
        self, x: Float[Tensor, "N D"], state: MatrixState, resets: Bool[Tensor, "T B"]
    ) -> tuple[Float[Tensor, "N D"], MatrixState]:
        width, heads = self.scale.shape[0], self.heads
        q, k, v, opening, f, i = self.inputs(self.norm(x)).split([width] * 4 + [heads] * 2, dim=1)
        q, k, v = (exact(part).view(-1, heads, width // heads) for part in (q, k, v))
        k, log_f, log_i = k / (width // heads) ** 0.5, functional.logsigmoid(exact(f)), exact(i)
        before, m = _maxima(log_f.detach(), log_i.detach(), state.m, resets)
        f, i = (log_f + before - m).exp(), (log_i - m).exp()
        new = (i[..., None] * v)[:, :, None] * k[..., None]
        c, last_c = scan.decayed(f[..., None, None], new, state.c, resets)
        n, last_n = scan.decayed(f[..., None], i[..., None] * k, state.n, resets)
        weight = (n * q).sum(dim=-1).abs()
        found = (q[:, :, None] @ c).squeeze(2) / torch.maximum(weight, (-m).clamp(max=LARGEST).exp())[..., None]
        y = standardise(found).flatten(1) * exact(self.scale) * torch.sigmoid(exact(opening))
        last = MatrixState(c=last_c, n=last_n, m=m.view(*resets.shape, heads)[-1])
        return x + self.out(y.to(x.dtype)), last


@torch.no_grad()
def _maxima(
    log_f: Float[Tensor, "N H"], log_i: Float[Tensor, "N H"], m: Float[Tensor, "B H"], resets: Bool[Tensor, "T B"]
) -> tuple[Float[Tensor, "N H"], Float[Tensor, "N H"]]:
    """m = max(log f + m, log i), before and after every step. What is computed does not depend on it, so it needs no gradient."""
    before, after, shape = [], [], (*resets.shape, m.shape[1])
    for f, i, anew in zip(log_f.view(shape).unbind(0), log_i.view(shape).unbind(0), resets.unbind(0), strict=True):
        before.append(m.masked_fill(along(anew, m), 0.0))
        m = torch.maximum(f + before[-1], i)
        after.append(m)
    return torch.cat(before), torch.cat(after)


class MLSTM(Stack):
    """Layers of matrix LSTMs; the arguments are those of `gtrxl.cores.linear.mlstm.MLSTM`."""

    def __init__(
        self,
        input_size: int,
        *,
        d_model: int = 256,
        layers: int = 1,
        heads: int = 4,
        dtype: str = "float32",
        device: Any = None,
    ):
        def layer() -> MLSTMLayer:
            return MLSTMLayer(d_model, heads, device=device)

        super().__init__(input_size, d_model=d_model, layers=layers, dtype=dtype, make=layer, device=device)

    @staticmethod
    def _own_sizes(layer: Any) -> dict[str, Any]:
        return {"heads": layer.heads}
