"""AGaLiTe: GTrXL's block with an approximate gated linear attention. The equations are in `gtrxl.cores.linear.agalite`.

N rows, D width, H heads of K, E features for each number of a key, R frequencies, F = E K.
"""

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gtrxl.cores.errors import at_least
from gtrxl.cores.layers import INIT_VARIANCE
from gtrxl.cores.linear.agalite import EPSILON
from gtrxl.cores.linear.gtrxl_lru import check_variance
from gtrxl.cores.linear.stack import divided
from gtrxl.torch.cores.gates import Gate, find_gate, first_bias
from gtrxl.torch.cores.layers import Linear
from gtrxl.torch.cores.linear import scan
from gtrxl.torch.cores.linear.gated import GatedBlock, block_sizes
from gtrxl.torch.cores.linear.scan import exact
from gtrxl.torch.cores.linear.stack import Layer, Stack, nothing


class TracesState(NamedTuple):
    """The decayed sums, and the steps since the episode began."""

    keys: Float[Tensor, "B R H F"]
    values: Float[Tensor, "B R H K"]
    sums: Float[Tensor, "B H F"]
    clock: Float[Tensor, " B"]


class AGaLiTeLayer(Layer):
    """One layer. What it writes depends on its clock, which is known for all steps before they are made."""

    def __init__(self, block: GatedBlock, inputs: Linear, out: Linear, *, heads: int, head_dim: int, eta: int, frequencies: int):
        super().__init__()
        self.block = block
        self.inputs = inputs
        self.out = out
        self.heads = heads
        self.head_dim = head_dim
        self.eta = eta
        self.frequencies = frequencies
        # w_i, to the last bit those of JAX: what they differ by is multiplied by the clock.
        self._turns = np.array(jnp.linspace(-math.pi, math.pi, frequencies)).tolist()

    def zeros(self) -> TracesState:
        number, heads, width, features = self.frequencies, self.heads, self.head_dim, self.eta * self.head_dim
        sums = nothing(heads, features)
        return TracesState(nothing(number, heads, features), nothing(number, heads, width), sums, nothing())

    def forward(
        self, x: Float[Tensor, "N D"], state: TracesState, resets: Bool[Tensor, "T B"]
    ) -> tuple[Float[Tensor, "N D"], TracesState]:
        mapped = exact(self.inputs(self.block.norm_1(x)))
        parts = mapped.split([self.heads * self.head_dim] * 5 + [self.heads * self.eta] * 3, dim=1)
        k, q, v, rate, g, p_1, p_2, p_3 = (part.unflatten(1, (self.heads, -1)) for part in parts)
        keys, queries = _outer(torch.relu(p_1), torch.relu(k)), _outer(torch.relu(p_2), torch.relu(q))
        gates, rate = _outer(torch.sigmoid(p_3), torch.sigmoid(g)), torch.sigmoid(rate)
        clock = _clock(state.clock, resets)
        turns = torch.tensor(self._turns, device=x.device, dtype=clock.dtype)
        swing = (clock.view(-1, 1) * turns).cos()[..., None, None]
        new = gates * keys
        found_k, last_k = scan.decayed((1 - gates)[:, None], new[:, None] * swing, state.keys, resets)
        found_v, last_v = scan.decayed((1 - rate)[:, None], (rate * v)[:, None] * swing, state.values, resets)
        sums, last_s = scan.decayed(1 - gates, new, state.sums, resets)
        match = (found_k * queries[:, None]).sum(dim=-1, keepdim=True)
        weight = 2 * self.frequencies * (sums * queries).sum(dim=-1, keepdim=True) + EPSILON
        read = ((found_v * match).sum(dim=1) / weight).flatten(1)
        return self.block.join(x, self.out(read.to(x.dtype))), TracesState(last_k, last_v, last_s, clock[-1])


def _clock(before: Float[Tensor, " B"], resets: Bool[Tensor, "T B"]) -> Float[Tensor, "T B"]:
    """Steps since the episode began, from 1."""
    at = torch.arange(len(resets), device=resets.device)[:, None]
    began = torch.where(resets, at, -1).cummax(dim=0).values
    return torch.where(began < 0, before + (at + 1), (at - began + 1).to(before.dtype))


def _outer(a: Float[Tensor, "N H E"], b: Float[Tensor, "N H K"]) -> Float[Tensor, "N H F"]:
    return (a[..., None] * b[:, :, None]).flatten(2)


class AGaLiTe(Stack):
    """Layers of approximate gated linear attention; the arguments are those of `gtrxl.cores.linear.agalite.AGaLiTe`."""

    def __init__(
        self,
        input_size: int,
        *,
        d_model: int = 256,
        layers: int = 1,
        heads: int = 4,
        head_dim: int | None = None,
        mlp: int | None = None,
        eta: int = 4,
        frequencies: int = 7,
        gate: str | type[Gate] = "gru",
        gate_bias: float | str | None = None,
        init_variance: float = INIT_VARIANCE,
        dtype: str = "float32",
        device: Any = None,
    ):
        variance, kind = check_variance(init_variance), find_gate(gate)
        bias, hidden = first_bias(kind, gate_bias, layers), d_model if mlp is None else mlp
        wide = divided(d_model, heads) if head_dim is None else head_dim
        at_least("heads", heads, least=1, hint="4 is usual")
        at_least("head_dim", wide, least=1, hint="leave it out to divide d_model among the heads")
        at_least("eta", eta, least=1, hint="it is how many features each number of a key has; 4 is the default")
        at_least("frequencies", frequencies, least=1, hint="it is the number of cosines; 7 is the default")

        def layer() -> AGaLiTeLayer:
            return AGaLiTeLayer(
                GatedBlock(d_model, mlp=hidden, gate=kind, gate_bias=bias, variance=variance, device=device),
                Linear(d_model, heads * (5 * wide + 3 * eta), variance=variance, device=device),
                Linear(heads * wide, d_model, variance=variance, device=device),
                heads=heads,
                head_dim=wide,
                eta=eta,
                frequencies=frequencies,
            )

        super().__init__(input_size, d_model=d_model, layers=layers, dtype=dtype, make=layer, device=device)

    @staticmethod
    def _own_sizes(layer: Any) -> dict[str, Any]:
        named = {name: getattr(layer, name) for name in ("heads", "head_dim", "eta", "frequencies")}
        return block_sizes(layer.block) | named
