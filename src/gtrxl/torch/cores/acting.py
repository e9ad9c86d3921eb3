"""Acting from a prepared memory: a step projects its own key and value alone, and reads those of the M steps before it.

B streams, L layers, M memory slots, P = M + 1 distances, R rows of a buffer, H heads, K head width, D width.
"""

import math
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gtrxl.torch.cores.attention import normed, position_keys, window_code
from gtrxl.torch.cores.block import Block, LayerWeights
from gtrxl.torch.cores.layers import Linear, may_look, replaced, spoilt_rows, surely_finite
from gtrxl.torch.cores.memory import Memory, PreparedMemory


def rows(memory: int) -> int:
    """Of a buffer: room for M steps and a fourth more, so that what is copied when it is full costs little for each step."""
    return memory + max(16, memory // 4)


def prepare(blocks: Block, state: Memory, *, computing: torch.dtype) -> PreparedMemory:
    """Keys and values of every slot, position keys of every distance, and the weights they are of."""
    streams, layers, memory, size = state.inputs.shape
    device, room = state.inputs.device, rows(memory)
    weights = blocks.unbound(computing)
    heads, head_dim = weights[0].attention.u.shape
    real = torch.arange(memory, device=device) >= memory - state.filled[:, None]
    kept = state.inputs.masked_fill(~real[:, None, :, None], 0.0).to(computing)
    inputs = torch.zeros(streams, room, layers, size, device=device, dtype=state.inputs.dtype)
    inputs[:, :memory] = state.inputs.transpose(1, 2)
    keys_values = torch.zeros(layers, 2, heads, streams, room, head_dim, device=device, dtype=computing)
    for layer, of in enumerate(weights):
        given = kept[:, layer].reshape(-1, size)
        projected = _attention_input(blocks, given, of) @ of.attention.w_qkv[:, heads * head_dim :]
        keys_values[layer, ..., :memory, :] = projected.view(streams, memory, 2, heads, head_dim).permute(2, 3, 0, 1, 4)
    code = window_code(memory, size=size, like=keys_values)
    return PreparedMemory(
        inputs=inputs,
        keys_values=_marked(keys_values),
        positions=torch.stack([position_keys(of.attention, code).mT for of in weights]).contiguous(),
        filled=state.filled,
        cursor=torch.tensor(memory, device="cpu"),
        written=torch.tensor(memory, device="cpu"),
        weights=tuple(weights),
    )


def plain(state: PreparedMemory, *, memory: int) -> Memory:
    """The memory alone, oldest first."""
    end = int(state.cursor)
    return Memory(inputs=state.inputs[:, end - memory : end].transpose(1, 2).contiguous(), filled=state.filled)


def step(
    embed: Linear, blocks: Block, x: Float[Tensor, "B D_in"], state: PreparedMemory, reset: Bool[Tensor, " B"], *, memory: int
) -> tuple[Float[Tensor, "B D"], PreparedMemory]:
    """One step of every stream. Where gradients are asked for it takes the weights as they are now, so that they get theirs."""
    learning = torch.is_grad_enabled()
    given, computing = embed.weight.dtype, state.keys_values.dtype
    state = _with_room(state, memory=memory)
    now = int(state.cursor)
    horizon = torch.where(reset, 0, state.filled)
    hidden = _hidden(horizon, memory=memory)
    window = state.keys_values[..., now - memory : now + 1, :].unbind(0)
    newest = state.keys_values.select(4, now)
    y, inputs = embed(x.to(computing)), []
    every = blocks.unbound(computing) if learning else state.weights
    for weights, both, own, positions in zip(every, window, newest.unbind(0), state.positions.unbind(0), strict=True):
        inputs.append(y)
        y = _layer(blocks, y, weights, both, own, positions, hidden)
    state.inputs[:, now] = torch.stack(inputs, dim=1).detach()
    if not surely_finite(newest):
        newest.copy_(_marked(newest))
    state.written.fill_(now + 1)
    return y.to(given), state._replace(cursor=state.cursor + 1, filled=(horizon + 1).clamp(max=memory))


def _layer(
    blocks: Block,
    x: Float[Tensor, "B D"],
    weights: LayerWeights,
    both: Float[Tensor, "2 H B P K"],
    own: Float[Tensor, "2 H B K"],
    positions: Float[Tensor, "H K P"],
    hidden: Bool[Tensor, "B P"] | None,
) -> Float[Tensor, "B D"]:
    """One layer's step. `both` are the window's keys and values, whose last rows, `own`, are written here."""
    streams, (heads, width) = x.shape[0], weights.attention.u.shape
    scale = 1 / math.sqrt(width)
    qkv = (_attention_input(blocks, x, weights) @ weights.attention.w_qkv).view(streams, 3, heads, width)
    qkv = qkv.permute(1, 2, 0, 3).contiguous()
    own.copy_(qkv[1:].detach())
    if torch.is_grad_enabled():  # of its own key and value there is a gradient; and buffers that are written to keep none
        both = torch.cat([both[..., :-1, :], qkv[1:, ..., None, :]], dim=3)
    keys, values = both.flatten(1, 2).unbind(0)
    q = qkv[0]
    position = torch.bmm(q + weights.attention.v[:, None], positions).view(heads * streams, 1, -1)
    query = (q + weights.attention.u[:, None]).view(heads * streams, 1, width)
    scores = torch.baddbmm(position, query, keys.mT, beta=scale, alpha=scale)
    if hidden is not None:
        scores = scores.view(heads, streams, -1).masked_fill(hidden, -math.inf).view(scores.shape)
    attended = torch.bmm(scores.softmax(dim=-1), values).view(heads, streams, width).transpose(0, 1)
    return blocks.join(x, attended.reshape(streams, -1) @ weights.attention.w_o, weights)


def _attention_input(blocks: Block, x: Float[Tensor, "N D"], weights: LayerWeights) -> Float[Tensor, "N D"]:
    return normed(x, weights.norm_1) if blocks.norm_inputs else x


def _hidden(horizon: Any, *, memory: int) -> Bool[Tensor, "B P"] | None:
    """Which rows of the window are not of the episode; None where a look shows that all are."""
    if may_look(horizon) and int(horizon.min()) == memory:
        return None
    return torch.arange(memory, -1, -1, device=horizon.device) > horizon[:, None]


def _marked(keys_values: Float[Tensor, "*n K"]) -> Float[Tensor, "*n K"]:
    """The same, and where a value is not finite the key says so instead: the scores of keys that must not be seen are left out,
    while their values are multiplied by zero. The second axis from the front are keys and values."""
    keys, values = keys_values.unbind(1)
    spoilt = spoilt_rows(values)
    return torch.stack([replaced(keys, spoilt, math.nan), replaced(values, spoilt, 0.0)], dim=1)


def _with_room(state: PreparedMemory, *, memory: int) -> PreparedMemory:
    """A state whose next row is free and its own to write."""
    now = int(state.cursor)
    theirs = state.written.is_inference() and not torch.is_inference_mode_enabled()
    if now == int(state.written) and now < state.inputs.shape[1] and not theirs:
        return state
    inputs, keys_values = torch.zeros_like(state.inputs), torch.zeros_like(state.keys_values)
    inputs[:, :memory] = state.inputs[:, now - memory : now]
    keys_values[..., :memory, :] = state.keys_values[..., now - memory : now, :]
    cursor = torch.tensor(memory, device="cpu")
    return state._replace(inputs=inputs, keys_values=keys_values, cursor=cursor, written=cursor.clone())
