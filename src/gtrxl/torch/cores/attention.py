"""Multi-head attention with relative positions, over a segment and the memory before it (`gtrxl.cores.attention`).

B streams, T queries, M memory slots, S = M + T keys, P = M + 1 distances (0 is the query's own step), H heads,
K head width, D width, N = B * T rows. The score of query t for the key d steps back is

    ((q_t + u) . k_{t-d}  +  (q_t + v) . r_d) / sqrt(K),        r_d = W_R phi_d

and it is visible if 0 <= d <= horizon_t. Heads lie in front of streams: then all streams' products with the position keys are
one product for each head, and products with keys and values one for each head of each stream, without copies in between.
"""

import functools
import math
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from gtrxl.torch.cores.layers import Stacked, filled, may_look, standardise, uniform
from gtrxl.torch.cores.products import product

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
    return product(code, weights.w_r).unflatten(1, tuple(weights.u.shape)).transpose(0, 1)


def normed(x: Float[Tensor, "*n D"], norm: Any) -> Float[Tensor, "*n D"]:
    """Layer norm along the last axis."""
    return standardise(x, norm.scale, norm.offset)


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


class Window(NamedTuple):
    """What every layer of an unroll shares: the keys that each query must not see, and into how many blocks the segment is cut.

    A segment long against the memory is cut into blocks that look at their own window of keys only, as if each were a stream: the
    cost then grows with T and not with its square. C steps of a block, G = B * blocks of them.
    """

    hidden: Bool[Tensor, "G C C_plus_M"]
    blocks: int


def window(horizon: Int[Tensor, "B T"], *, memory: int, head_dim: int) -> Window:
    """Of steps that see themselves and `horizon` steps before."""
    steps = horizon.shape[1]
    blocks = block_count(steps, memory=memory, head_dim=head_dim)
    length = -(-steps // blocks)
    # Steps that are not there see themselves and are dropped.
    cut = functional.pad(horizon, (0, blocks * length - steps)).view(-1, length)
    at = torch.arange(memory + length, device=horizon.device)
    distance = at[memory:, None] - at[None, :]
    return Window((distance < 0) | (distance > cut[..., None]), blocks)


@functools.lru_cache(maxsize=256)
def block_count(steps: int, *, memory: int, head_dim: int) -> int:
    """Into how many blocks to cut a segment: N blocks of C = T / N steps handle N C (C + M) scores and copy N (C + M) K keys."""

    def cost(blocks: int) -> int:
        length = -(-steps // blocks)
        return blocks * (length + memory) * (length + head_dim)

    return min(range(1, steps + 1), key=cost)


def attention(
    segment: Float[Tensor, "B T D"],
    memory: Float[Tensor, "B M D"],
    weights: AttentionWeights,
    norm: Any,
    *,
    window: Window,
    code: Float[Tensor, "P D"],
) -> Float[Tensor, "B*T D"]:
    """Every step of each segment attends to [memory, segment], both normalised by `norm` if there is one."""
    streams, steps, size = segment.shape
    heads, head_dim = weights.u.shape
    inner = heads * head_dim
    projection = folded(weights, norm)
    if norm is not None:
        segment, memory = standardise(segment), standardise(memory)
    qkv = product(segment.reshape(-1, size), *projection)
    if steps == 1:
        return _single(qkv, memory, weights, projection, hidden=window.hidden[:, 0], code=code)
    bias = projection.bias
    kv = product(memory.reshape(-1, size), projection.weight[:, inner:], None if bias is None else bias[inner:])
    q, kv_now = qkv.split((inner, 2 * inner), dim=1)
    q = q.view(streams, steps, heads, head_dim).permute(2, 0, 1, 3)
    k, v = torch.cat([of.view(streams, -1, 2, heads, head_dim).permute(2, 3, 0, 1, 4) for of in (kv, kv_now)], dim=3).unbind(
        0
    )  # [H, B, S, K]
    qu, qv = q + weights.u[:, None, None], q + weights.v[:, None, None]
    attended = attend(qu, qv, k, v, position_keys(weights, code), window)
    return product(attended.permute(1, 2, 0, 3).reshape(-1, inner), weights.w_o)


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
    biases = None if projection.bias is None else projection.bias.view(3, heads, head_dim)
    if biases is not None:
        before = before + (qu * biases[1]).sum(dim=-1, keepdim=True)
    content = torch.cat([before, (qu * k).sum(dim=-1, keepdim=True)], dim=-1)
    position = torch.einsum("bhk,dhk->bhd", qv, weights.w_r.view(-1, heads, head_dim)) @ code.T
    scores = ((content + position) / math.sqrt(head_dim)).masked_fill(hidden[:, None], -math.inf)
    past, present = scores.softmax(dim=-1).split((memory.shape[1], 1), dim=-1)
    attended = torch.einsum("bhd,dhk->bhk", past @ memory, w_v) + present * v
    if biases is not None:
        attended = attended + past.sum(dim=-1, keepdim=True) * biases[2]
    return attended.flatten(1) @ weights.w_o


def attend(
    qu: Float[Tensor, "H B T K"],
    qv: Float[Tensor, "H B T K"],
    k: Float[Tensor, "H B S K"],
    v: Float[Tensor, "H B S K"],
    r: Float[Tensor, "H P K"],
    window: Window,
) -> Float[Tensor, "H B T K"]:
    """Softmax attention of queries with their biases added (q + u, q + v) to keys, values and position keys."""
    found: Any = _Attend.apply(qu, qv, k, v, r, *window)
    return found


class _Attend(torch.autograd.Function):
    """Its derivative is written out: it keeps the weights and nothing else of their size."""

    # With a context from the start: the form without one asks Python for the signature at every call.
    @staticmethod
    def forward(ctx: Any, qu: Tensor, qv: Tensor, k: Tensor, v: Tensor, r: Tensor, hidden: Tensor, blocks: int) -> Tensor:
        ctx.shapes = qu.shape, k.shape, blocks
        (heads, streams, steps, width), distances = qu.shape, r.shape[1]
        group, length, keys = hidden.shape
        scale = 1 / math.sqrt(width)
        qu, qv = _cut(qu, blocks, length), _cut(qv, blocks, length)
        k, v = _windows(k, blocks, length, keys), _windows(v, blocks, length, keys)
        position = torch.bmm(qv.view(heads, -1, width), r.mT)
        # By distance to by key: row t moves t places right, which is a view. Places outside the window hold other rows' scores.
        shifted = position.as_strided((heads * group, length, keys), (length * distances, distances - 1, 1))
        scores = torch.baddbmm(shifted, qu, k.mT, beta=scale, alpha=scale)
        scores.view(heads, group, length, keys).masked_fill_(hidden, -math.inf)
        weights = _softmax_over(scores)
        ctx.save_for_backward(r, qu, qv, k, v, weights)
        return torch.bmm(weights, v).view(heads, streams, -1, width)[:, :, :steps]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        r, qu, qv, k, v, weights = ctx.saved_tensors
        (heads, streams, steps, width), of_keys, blocks = ctx.shapes
        (batch, length, keys), distances = weights.shape, r.shape[1]
        scale = 1 / math.sqrt(width)
        d_attended = _cut(gradients[0], blocks, length)
        d_v = torch.bmm(weights.mT, d_attended)
        d_scores = _softmax_gradient_over(torch.bmm(d_attended, v.mT), weights)
        d_qu = torch.bmm(d_scores, k).mul_(scale)
        d_k = torch.bmm(d_scores.mT, qu).mul_(scale)
        # By key to by distance: row t moves t places left. Scores outside the window have no gradient.
        d_position = d_scores.as_strided((batch, length, distances), (length * keys, keys + 1, 1))
        d_position = d_position.reshape(heads, -1, distances)
        d_qv = torch.bmm(d_position, r).mul_(scale)
        d_r = torch.bmm(d_position.mT, qv.view(heads, -1, width)).mul_(scale)
        d_qu, d_qv = (of.view(heads, streams, -1, width)[:, :, :steps] for of in (d_qu, d_qv))
        d_k, d_v = (_joined(of, blocks, length, of_keys) for of in (d_k, d_v))
        return d_qu, d_qv, d_k, d_v, d_r, None, None


# Both write over what they are given: it is as large as all scores, and a second array of that size costs a CPU more than the
# exponentials do (each page of new memory is cleared first).


def _softmax_over(scores: Float[Tensor, "N T S"]) -> Float[Tensor, "N T S"]:
    if may_look(scores):
        return torch.softmax(scores, dim=-1, out=scores)
    return scores.softmax(dim=-1)


def _softmax_gradient_over(d_weights: Float[Tensor, "N T S"], weights: Float[Tensor, "N T S"]) -> Float[Tensor, "N T S"]:
    """dS = W * (dW - sum_s W dW). Where W is zero nothing flows."""
    if may_look(d_weights):
        return torch.ops.aten._softmax_backward_data.out(d_weights, weights, -1, weights.dtype, grad_input=d_weights)
    return torch._softmax_backward_data(d_weights, weights, -1, weights.dtype)


def _cut(x: Float[Tensor, "H B T K"], blocks: int, length: int) -> Float[Tensor, "HG C K"]:
    """The steps of each block."""
    spare = blocks * length - x.shape[2]
    return (functional.pad(x, (0, 0, 0, spare)) if spare else x).reshape(-1, length, x.shape[3])


def _windows(x: Float[Tensor, "H B S K"], blocks: int, length: int, keys: int) -> Float[Tensor, "HG C_plus_M K"]:
    """The keys that each block may look at."""
    if blocks == 1:
        return x.reshape(-1, keys, x.shape[3])
    spare = (blocks - 1) * length + keys - x.shape[2]
    return functional.pad(x, (0, 0, 0, spare)).unfold(2, keys, length).mT.reshape(-1, keys, x.shape[3])


def _joined(x: Float[Tensor, "HG C_plus_M K"], blocks: int, length: int, shape: tuple[int, ...]) -> Float[Tensor, "H B S K"]:
    """The gradient of keys from those of the windows, in which a key may lie more than once."""
    if blocks == 1:
        return x.view(shape)
    heads, streams, total, width = shape
    keys = x.shape[1]
    found = x.new_zeros(heads, streams, (blocks - 1) * length + keys, width)
    for block, part in enumerate(x.view(heads, streams, blocks, keys, width).unbind(2)):
        found[:, :, block * length : block * length + keys] += part
    return found[:, :, :total]
