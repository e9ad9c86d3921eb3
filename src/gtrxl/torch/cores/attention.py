"""Multi-head attention with relative positions, over a segment and the memory before it (`gtrxl.cores.attention`).

B streams, T queries, M memory slots, S = M + T keys, P = M + 1 distances (0 is the query's own step), H heads,
K head width, D width, N = B * T rows. The score of query t for the key d steps back is

    ((q_t + u) . k_{t-d}  +  (q_t + v) . r_d) / sqrt(K),        r_d = W_R phi_d

and it is visible if 0 <= d <= horizon_t. Heads lie in front of streams: then all streams' products with the position keys are
one product for each head, and products with keys and values one for each head of each stream, without copies in between.
"""

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gtrxl.torch.cores.layers import NORM_EPSILON, Stacked, filled, uniform

LONGEST_WAVE = 10_000.0


class AttentionWeights(NamedTuple):
    """Of one layer: W_Q, W_K, W_V side by side, W_R, the output Linear, and u, v. No biases."""

    w_qkv: Float[Tensor, "D 3*H*K"]
    w_r: Float[Tensor, "D H*K"]
    w_o: Float[Tensor, "H*K D"]
    u: Float[Tensor, "H K"]
    v: Float[Tensor, "H K"]


class Attention(Stacked):
    """The parameters of L layers."""

    Weights = AttentionWeights

    def __init__(self, d_model: int, *, layers: int, heads: int, head_dim: int, variance: float, device: Any = None):
        super().__init__()
        inner = heads * head_dim
        self.w_qkv = uniform(layers, d_model, 3 * inner, fan_in=d_model, variance=variance, device=device)
        self.w_r = uniform(layers, d_model, inner, fan_in=d_model, variance=variance, device=device)
        self.w_o = uniform(layers, inner, d_model, fan_in=inner, variance=variance, device=device)
        self.u = filled(layers, heads, head_dim, device=device)
        self.v = filled(layers, heads, head_dim, device=device)


def window_code(memory: int, *, size: int, like: Tensor) -> Float[Tensor, "P D"]:
    """Phi, the position code of every distance in the window, farthest first: sines, then cosines, of D/2 wavelengths."""
    distances = torch.arange(memory, -1, -1, device=like.device, dtype=torch.float32)
    frequencies = LONGEST_WAVE ** (-torch.arange(0, size, 2, device=like.device, dtype=torch.float32) / size)
    angles = distances[:, None] * frequencies[None, :]
    return torch.cat([angles.sin(), angles.cos()], dim=1).to(like.dtype)


def position_keys(weights: AttentionWeights, code: Float[Tensor, "P D"]) -> Float[Tensor, "H P K"]:
    """W_R Phi by head, farthest distance first, the order in which keys lie in time."""
    return (code @ weights.w_r).unflatten(1, tuple(weights.u.shape)).transpose(0, 1)


def standardise(x: Float[Tensor, "*n D"]) -> Float[Tensor, "*n D"]:
    """Zero mean and unit variance along the last axis: layer norm before its scale and offset."""
    return F.layer_norm(x, x.shape[-1:], eps=NORM_EPSILON)


def normed(x: Float[Tensor, "*n D"], norm: Any) -> Float[Tensor, "*n D"]:
    """Layer norm along the last axis."""
    return F.layer_norm(x, x.shape[-1:], norm.scale, norm.offset, eps=NORM_EPSILON)


class Folded(NamedTuple):
    """A norm's scale and offset inside the projection that follows: (s * x + o) W = x (s W) + o W. The memory then needs no
    gradient at all, while that of scale and offset still has its share from the memory, as in the paper."""

    weight: Float[Tensor, "D I3"]
    bias: Float[Tensor, " I3"] | None


def folded(weights: AttentionWeights, norm: Any) -> Folded:
    """The projection with this norm in it, if there is one."""
    if norm is None:
        return Folded(weights.w_qkv, None)
    return Folded(norm.scale[:, None] * weights.w_qkv, norm.offset @ weights.w_qkv)


def project(x: Float[Tensor, "N D"], weight: Float[Tensor, "D W"], bias: Float[Tensor, " W"] | None) -> Float[Tensor, "N W"]:
    """x @ weight + bias."""
    return x @ weight if bias is None else torch.addmm(bias, x, weight)


def attention(
    segment: Float[Tensor, "B T D"],
    memory: Float[Tensor, "B M D"],
    weights: AttentionWeights,
    norm: Any,
    *,
    hidden: Bool[Tensor, "B T S"],
    code: Float[Tensor, "P D"],
) -> Float[Tensor, "B*T D"]:
    """Every step of each segment attends to [memory, segment], both normalised by `norm` if there is one."""
    streams, steps, size = segment.shape
    heads, head_dim = weights.u.shape
    inner = heads * head_dim
    projection = folded(weights, norm)
    if norm is not None:
        segment, memory = standardise(segment), standardise(memory)
    qkv = project(segment.reshape(-1, size), *projection)
    if steps == 1:
        return _single(qkv, memory, weights, projection, hidden=hidden[:, 0], code=code)
    bias = projection.bias
    kv = project(memory.reshape(-1, size), projection.weight[:, inner:], None if bias is None else bias[inner:])
    q, kv_now = qkv.split((inner, 2 * inner), dim=1)
    q = q.view(streams, steps, heads, head_dim).permute(2, 0, 1, 3)
    k, v = torch.cat([of.view(streams, -1, 2, heads, head_dim).permute(2, 3, 0, 1, 4) for of in (kv, kv_now)], dim=3).unbind(
        0
    )  # [H, B, S, K]
    qu, qv = q + weights.u[:, None, None], q + weights.v[:, None, None]
    attended = attend(qu, qv, k, v, position_keys(weights, code), hidden)
    return attended.permute(1, 2, 0, 3).reshape(-1, inner) @ weights.w_o


def _single(
    qkv: Float[Tensor, "B I3"],
    memory: Float[Tensor, "B M D"],
    weights: AttentionWeights,
    projection: Folded,
    *,
    hidden: Bool[Tensor, "B P"],
    code: Float[Tensor, "P D"],
) -> Float[Tensor, "B D"]:
    """`attention` of one step. The weights go to the one query and to the one mixture instead of to every remembered step:
    q . (x W_K) = (q W_K^T) . x, and sum_s w_s (x_s W_V) = (sum_s w_s x_s) W_V."""
    heads, head_dim = weights.u.shape
    q, k, v = qkv.view(-1, 3, heads, head_dim).unbind(1)
    _, w_k, w_v = projection.weight.view(-1, 3, heads, head_dim).unbind(1)
    qu, qv = q + weights.u, q + weights.v
    before = torch.einsum("bhk,dhk->bhd", qu, w_k) @ memory.mT
    if projection.bias is not None:
        _, b_k, b_v = projection.bias.view(3, heads, head_dim).unbind(0)
        before = before + (qu * b_k).sum(dim=-1, keepdim=True)
    content = torch.cat([before, (qu * k).sum(dim=-1, keepdim=True)], dim=-1)
    position = torch.einsum("bhk,dhk->bhd", qv, weights.w_r.view(-1, heads, head_dim)) @ code.T
    scores = ((content + position) / math.sqrt(head_dim)).masked_fill(hidden[:, None], -math.inf)
    past, present = scores.softmax(dim=-1).split((memory.shape[1], 1), dim=-1)
    attended = torch.einsum("bhd,dhk->bhk", past @ memory, w_v) + present * v
    if projection.bias is not None:
        attended = attended + past.sum(dim=-1, keepdim=True) * b_v
    return attended.flatten(1) @ weights.w_o


def attend(
    qu: Float[Tensor, "H B T K"],
    qv: Float[Tensor, "H B T K"],
    k: Float[Tensor, "H B S K"],
    v: Float[Tensor, "H B S K"],
    r: Float[Tensor, "H P K"],
    hidden: Bool[Tensor, "B T S"],
) -> Float[Tensor, "H B T K"]:
    """Softmax attention of queries with their biases added (q + u, q + v) to keys, values and position keys."""
    found: Any = _Attend.apply(qu, qv, k, v, r, hidden)
    return found[0]


class _Attend(torch.autograd.Function):
    """Its derivative is written out: it keeps the weights and nothing else of their size."""

    @staticmethod
    def forward(qu: Tensor, qv: Tensor, k: Tensor, v: Tensor, r: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        (heads, streams, steps, width), keys, distances = qu.shape, k.shape[2], r.shape[1]
        scale = 1 / math.sqrt(width)
        position = torch.bmm(qv.reshape(heads, -1, width), r.mT)
        # By distance to by key: row t moves t places right, which is a view. Places outside the window hold other rows' scores.
        shifted = position.as_strided((heads * streams, steps, keys), (steps * distances, distances - 1, 1))
        scores = torch.baddbmm(shifted, _flat(qu), _flat(k).mT, beta=scale, alpha=scale)
        scores.view(heads, streams, steps, keys).masked_fill_(hidden, -math.inf)
        weights = scores.softmax(dim=-1)
        return torch.bmm(weights, _flat(v)).view(heads, streams, steps, width), weights

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        qu, qv, k, v, r, _ = inputs
        _, weights = output
        ctx.mark_non_differentiable(weights)
        ctx.save_for_backward(qu, qv, k, v, r, weights)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        qu, qv, k, v, r, weights = ctx.saved_tensors
        (heads, streams, steps, width), keys, distances = qu.shape, k.shape[2], r.shape[1]
        scale = 1 / math.sqrt(width)
        d_attended = _flat(gradients[0])
        d_v = torch.bmm(weights.mT, d_attended)
        d_scores = torch._softmax_backward_data(torch.bmm(d_attended, _flat(v).mT), weights, -1, weights.dtype)
        d_qu = torch.bmm(d_scores, _flat(k)).mul_(scale)
        d_k = torch.bmm(d_scores.mT, _flat(qu)).mul_(scale)
        # By key to by distance: row t moves t places left. Scores outside the window have no gradient.
        d_position = d_scores.as_strided((heads * streams, steps, distances), (steps * keys, keys + 1, 1))
        d_position = d_position.reshape(heads, streams * steps, distances)
        d_qv = torch.bmm(d_position, r).mul_(scale)
        d_r = torch.bmm(d_position.mT, qv.reshape(heads, -1, width)).mul_(scale)
        return d_qu.view_as(qu), d_qv.view_as(qv), d_k.view_as(k), d_v.view_as(v), d_r, None


def _flat(x: Float[Tensor, "H B N K"]) -> Float[Tensor, "H*B N K"]:
    return x.reshape(-1, *x.shape[2:])


def hidden_keys(horizon: Int[Tensor, "B T"], *, memory: int) -> Bool[Tensor, "B T S"]:
    """Which key each query must not see: all but itself and `horizon` steps before it."""
    steps = horizon.shape[1]
    at = torch.arange(memory + steps, device=horizon.device)
    distance = at[memory:, None] - at[None, :]
    return (distance < 0) | (distance > horizon[..., None])
