"""Fast and forgetful memory: FFM. The equations are in `gtrxl.cores.linear.ffm`. N rows, D width, M traces, C contexts."""

import math
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from gtrxl.cores.errors import at_least
from gtrxl.cores.linear.ffm import LONGEST_PERIOD
from gtrxl.torch.cores.layers import Linear, standardise
from gtrxl.torch.cores.linear import scan
from gtrxl.torch.cores.linear.scan import Pair, exact
from gtrxl.torch.cores.linear.stack import Layer, Stack, nothing


class FFMLayer(Layer):
    """norm(z) * g + W_5 x * (1 - g): no norm before it and no sum around it."""

    def __init__(self, d_model: int, traces: int, contexts: int, *, device: Any):
        super().__init__()
        at_least("state_size", traces, least=1, hint="it is the number of traces; 32 is the default")
        at_least("contexts", contexts, least=1, hint="it is at how many frequencies each trace is seen; 4 is the default")
        self.inputs = Linear(d_model, 2 * traces + 2 * d_model, device=device)
        self.a = nn.Parameter(torch.linspace(1e-6, 0.5, traces, device=device))
        self.w = nn.Parameter(2 * math.pi / torch.linspace(1.0, LONGEST_PERIOD, contexts, device=device))
        self.mix = Linear(2 * traces * contexts, d_model, device=device)

    def zeros(self) -> Pair:
        shape = self.a.shape[0], self.w.shape[0]
        return Pair(re=nothing(*shape), im=nothing(*shape))

    def forward(self, x: Float[Tensor, "N D"], state: Pair, resets: Bool[Tensor, "T B"]) -> tuple[Float[Tensor, "N D"], Pair]:
        traces, contexts = self.a.shape[0], self.w.shape[0]
        new, opening, gate, past = self.inputs(x).split([traces, traces, x.shape[1], x.shape[1]], dim=1)
        written = exact(new * torch.sigmoid(opening))[:, :, None].expand(-1, -1, contexts)
        size, angle = (-exact(self.a).abs()).exp()[:, None], exact(self.w)[None]
        kept = Pair(re=size * angle.cos(), im=size * angle.sin())
        states, last = scan.turned(kept, Pair(re=written, im=torch.zeros_like(written)), state, resets)
        found = standardise(self.mix(torch.cat([part.flatten(1) for part in states], dim=1).to(x.dtype)))
        return torch.lerp(past, found, torch.sigmoid(gate)), last


class FFM(Stack):
    """Layers of fast and forgetful memory; the arguments are those of `gtrxl.cores.linear.ffm.FFM`."""

    def __init__(
        self,
        input_size: int,
        *,
        d_model: int = 256,
        layers: int = 1,
        state_size: int = 32,
        contexts: int = 4,
        dtype: str = "float32",
        device: Any = None,
    ):
        def layer() -> FFMLayer:
            return FFMLayer(d_model, state_size, contexts, device=device)

        super().__init__(input_size, d_model=d_model, layers=layers, dtype=dtype, make=layer, device=device)

    @staticmethod
    def _own_sizes(layer: Any) -> dict[str, Any]:
        return {"state_size": layer.a.shape[0], "contexts": layer.w.shape[0]}
