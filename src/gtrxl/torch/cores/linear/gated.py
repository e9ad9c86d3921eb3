"""The paper's block and gates around another memory. N rows, D width. The equations are in `gtrxl.cores.linear.gtrxl_lru`."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gtrxl.cores.errors import at_least
from gtrxl.torch.cores.block import FeedForward
from gtrxl.torch.cores.gates import Gate, name_of
from gtrxl.torch.cores.layers import LayerNorm


class GatedBlock(nn.Module):
    """The paper's block without what remembers: two norms, two gates and the MLP."""

    def __init__(self, d_model: int, *, mlp: int, gate: type[Gate], gate_bias: float | None, variance: float, device: Any):
        super().__init__()
        at_least("mlp", mlp, least=1, hint="it is the hidden width of the position-wise MLP; the paper uses 512")
        self.norm_1 = LayerNorm(d_model, device=device)
        self.gate_1 = gate(d_model, bias=gate_bias, variance=variance, device=device)
        self.norm_2 = LayerNorm(d_model, device=device)
        self.mlp = FeedForward(d_model, mlp, variance=variance, device=device)
        self.gate_2 = gate(d_model, bias=gate_bias, variance=variance, device=device)

    def join(self, x: Float[Tensor, "N D"], remembered: Float[Tensor, "N D"]) -> Float[Tensor, "N D"]:
        """What leaves the layer."""
        y = self.gate_1.join(self.gate_1.own(x.dtype), skip=x, update=torch.relu(remembered))
        return self.gate_2.join(self.gate_2.own(x.dtype), skip=y, update=torch.relu(self.mlp(self.norm_2(y))))


def block_sizes(block: Any) -> dict[str, Any]:
    """The arguments of a block like this one, in PyTorch or in JAX."""
    return {"mlp": block.mlp.first.bias.shape[0], "gate": name_of(block.gate_1)}
