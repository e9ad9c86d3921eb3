"""One transformer layer: attention and MLP, with the norm and the gate where each variant puts them.

B streams, T steps, M memory slots, P = M + 1 distances, L layers, D width, F MLP width, N rows.
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from gtrxl.torch.cores.attention import Attention, AttentionWeights, Window, attention, normed
from gtrxl.torch.cores.gates import Gate
from gtrxl.torch.cores.layers import LayerNorm, Linear
from gtrxl.torch.cores.products import product


class NormWeights(NamedTuple):
    """Of one layer norm."""

    scale: Float[Tensor, " D"]
    offset: Float[Tensor, " D"]


class MLPWeights(NamedTuple):
    """relu(x W_1 + b_1) W_2 + b_2."""

    w_1: Float[Tensor, "D F"]
    b_1: Float[Tensor, " F"]
    w_2: Float[Tensor, "F D"]
    b_2: Float[Tensor, " D"]


class LayerWeights(NamedTuple):
    """All of one layer."""

    attention: AttentionWeights
    mlp: MLPWeights
    norm_1: NormWeights
    norm_2: NormWeights
    gate_1: Any
    gate_2: Any


class FeedForward(nn.Module):
    """A position-wise MLP; `stack` are axes in front of its parameters."""

    def __init__(self, d_model: int, hidden: int, *, stack: tuple[int, ...] = (), variance: float, device: Any = None):
        super().__init__()
        self.first = Linear(d_model, hidden, stack=stack, variance=variance, device=device)
        self.second = Linear(hidden, d_model, stack=stack, variance=variance, device=device)

    def forward(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "N D"]:
        """Of a matrix of rows, in their type."""
        return self.second(torch.relu(self.first(x)))


class Block(nn.Module):
    """L layers. TrXL: norm after each sum. TrXL-I and GTrXL: norm on each submodule's input, ReLU on its output, then sum or
    gate; nothing but gates then lies on the way from a layer's input to its output."""

    def __init__(
        self,
        d_model: int,
        *,
        layers: int,
        heads: int,
        head_dim: int,
        mlp: int,
        gate: type[Gate],
        gate_bias: float | None,
        norm_inputs: bool,
        variance: float,
        device: Any = None,
    ):
        super().__init__()
        drawn = {"variance": variance, "device": device}
        self.attention = Attention(d_model, heads=heads, head_dim=head_dim, layers=layers, **drawn)
        self.mlp = FeedForward(d_model, mlp, stack=(layers,), **drawn)
        self.norm_1 = LayerNorm(d_model, stack=(layers,), device=device)
        self.norm_2 = LayerNorm(d_model, stack=(layers,), device=device)
        self.gate_1 = gate(d_model, bias=gate_bias, stack=(layers,), **drawn)
        self.gate_2 = gate(d_model, bias=gate_bias, stack=(layers,), **drawn)
        self.norm_inputs = norm_inputs
        self._gate = gate

    def unbound(self, dtype: torch.dtype) -> list[LayerWeights]:
        """The weights layer by layer, in this type."""
        parts = (self.mlp.first.weight, self.mlp.first.bias, self.mlp.second.weight, self.mlp.second.bias)
        layers = zip(
            self.attention.unbound(),
            map(MLPWeights, *(part.unbind(0) for part in parts)),
            map(NormWeights, self.norm_1.scale.unbind(0), self.norm_1.offset.unbind(0)),
            map(NormWeights, self.norm_2.scale.unbind(0), self.norm_2.offset.unbind(0)),
            self.gate_1.unbound(),
            self.gate_2.unbound(),
            strict=True,
        )
        found = [LayerWeights(*of) for of in layers]
        return found if self.norm_1.scale.dtype == dtype else pytree.tree_map(lambda tensor: tensor.to(dtype), found)

    def run(
        self,
        segment: Float[Tensor, "B T D"],
        memory: Float[Tensor, "B M D"],
        weights: LayerWeights,
        *,
        window: Window,
        code: Float[Tensor, "P D"],
    ) -> Float[Tensor, "B T D"]:
        """E^(l) from E^(l-1) and M^(l-1), with one layer's weights."""
        norm = weights.norm_1 if self.norm_inputs else None
        attended = attention(segment, memory, weights.attention, norm, window=window, code=code)
        return self.join(segment.reshape(attended.shape), attended, weights).view(segment.shape)

    def join(self, x: Float[Tensor, "N D"], attended: Float[Tensor, "N D"], weights: LayerWeights) -> Float[Tensor, "N D"]:
        """What follows the attention, step by step."""
        first = second = self._gate.join
        if self.norm_inputs:
            y = first(weights.gate_1, skip=x, update=torch.relu(attended))
            return second(weights.gate_2, skip=y, update=torch.relu(_mlp(normed(y, weights.norm_2), weights.mlp)))
        y = normed(first(weights.gate_1, skip=x, update=attended), weights.norm_1)
        return normed(second(weights.gate_2, skip=y, update=_mlp(y, weights.mlp)), weights.norm_2)


def _mlp(x: Float[Tensor, "N D"], weights: MLPWeights) -> Float[Tensor, "N D"]:
    return product(torch.relu(product(x, weights.w_1, weights.b_1)), weights.w_2, weights.b_2)


def steps_back(resets: Bool[Tensor, "B T"], *, filled: Int[Tensor, " B"], memory: int) -> Int[Tensor, "B T"]:
    """How many earlier steps each step may see: those of its own episode, at most `memory`.

    `filled` is how many remembered steps belong to the episode that is under way when the segment begins.
    """
    steps = torch.arange(resets.shape[1], device=resets.device)
    began = torch.where(resets, steps, -filled[:, None]).cummax(dim=1).values
    return (steps - began).clamp(max=memory)


def sees_any(remembered: Bool[Tensor, "B M"], steps: Bool[Tensor, "B T"], *, horizon: Int[Tensor, "B T"]) -> Bool[Tensor, "B T"]:
    """Which steps see one that is marked, among those remembered or those of the segment up to themselves."""
    slots = remembered.shape[1]
    marked = torch.cat([remembered, steps], dim=1)
    at = torch.arange(marked.shape[1], device=marked.device)
    newest = torch.where(marked, at, -1).cummax(dim=1).values[:, slots:]
    return newest >= at[slots:] - horizon
