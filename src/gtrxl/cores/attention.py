"""Multi-head attention with relative positions, over a segment and the memory before it (the paper's appendix C.2).

B streams, T queries, M memory slots, S = M + T keys, P = M + 1 distances (0 is the query's own step), H heads,
K head width, D width.

The score of query t for the key d steps back is

    ((q_t + u) . k_{t-d}  +  (q_t + v) . r_d) / sqrt(K),        r_d = W_R phi_d

and it is visible if 0 <= d <= horizon_t: at most M steps back, and not before the episode began. Acting and learning
use the same window, so one unroll equals as many steps.
"""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from gtrxl.cores.layers import LayerNorm, along_last, flat_matmul, replaced, spoilt_rows, standardise, uniform_init

UNSEEN = -math.inf
"""The score of what must not be seen: its weight comes out as exactly zero, whatever else is in the row."""

ATTENTION = "attention"
"""The name under which weights and attended values are kept for the gradient (`jax.ad_checkpoint.checkpoint_name`)."""


class RelativeAttention(eqx.Module):
    """W_Q, W_K, W_V (side by side), W_R, the output Linear, and u, v. No biases."""

    w_qkv: Float[Array, "D 3*H*K"]
    w_r: Float[Array, "D H*K"]
    w_o: Float[Array, "H*K D"]
    u: Float[Array, "H K"]
    v: Float[Array, "H K"]

    def __init__(self, d_model: int, *, heads: int, head_dim: int, key: PRNGKeyArray):
        inner = heads * head_dim
        qkv_key, r_key, o_key = jax.random.split(key, 3)
        self.w_qkv = uniform_init(qkv_key, (d_model, 3 * inner), fan_in=d_model)
        self.w_r = uniform_init(r_key, (d_model, inner), fan_in=d_model)
        self.w_o = uniform_init(o_key, (inner, d_model), fan_in=inner)
        self.u = jnp.zeros((heads, head_dim), jnp.float32)
        self.v = jnp.zeros((heads, head_dim), jnp.float32)

    def unroll(
        self,
        segment: Float[Array, "B T D"],
        memory: Float[Array, "B M D"],
        *,
        norm: LayerNorm | None,
        horizon: Int[Array, "B T"],
        code: Float[Array, "P D"],
    ) -> Float[Array, "B T D"]:
        """Every step of each segment attends to [memory, segment], both normalised by `norm` if there is one."""
        dtype = segment.dtype
        heads, head_dim = self.u.shape
        inner = heads * head_dim
        weight, bias = self.w_qkv, jnp.zeros((3 * inner,), jnp.float32)
        if norm is not None:
            # The norm's scale and offset go into the projection: (s * x + o) W = x (s W) + o W. The memory then needs no
            # gradient at all, while that of scale and offset still has its share from the memory, as in the paper.
            segment, memory = standardise(segment), standardise(memory)
            bias = norm.offset @ weight
            weight = norm.scale[:, None] * weight
        weight, bias = weight.astype(dtype), bias.astype(dtype)
        qkv = flat_matmul(segment, weight)
        if segment.shape[1] == 1:
            return self._single(qkv[:, 0] + bias[None], memory, weight, bias, horizon=horizon, code=code)[:, None]
        qkv = qkv + along_last(bias, qkv)
        kv_memory = flat_matmul(memory, weight[:, inner:]) + along_last(bias[inner:], qkv)

        def by_head(x: Float[Array, "B N _"]) -> Float[Array, "H B N K"]:
            return jnp.transpose(x.reshape(*x.shape[:2], heads, head_dim), (2, 0, 1, 3))

        q = by_head(qkv[..., :inner])
        k = by_head(jnp.concatenate([kv_memory[..., :inner], qkv[..., inner : 2 * inner]], axis=1))
        v = by_head(jnp.concatenate([kv_memory[..., inner:], qkv[..., 2 * inner :]], axis=1))
        attended = attend(
            q + self.u[:, None, None].astype(dtype),
            q + self.v[:, None, None].astype(dtype),
            k,
            v,
            self.position_keys(code, dtype=dtype),
            horizon,
        )
        attended = jnp.transpose(attended, (1, 2, 0, 3)).reshape(*segment.shape[:2], inner)
        return flat_matmul(attended, self.w_o.astype(dtype))

    def _single(
        self,
        qkv: Float[Array, "B I3"],
        memory: Float[Array, "B M D"],
        weight: Float[Array, "D I3"],
        bias: Float[Array, " I3"],
        *,
        horizon: Int[Array, "B 1"],
        code: Float[Array, "P D"],
    ) -> Float[Array, "B D"]:
        """`unroll` of one step. The weights go to the one query and to the one mixture instead of to every remembered step:
        q . (x W_K) = (q W_K^T) . x, and sum_s w_s (x_s W_V) = (sum_s w_s x_s) W_V."""
        dtype = qkv.dtype
        heads, head_dim = self.u.shape
        q, k, v = jnp.moveaxis(qkv.reshape(-1, 3, heads, head_dim), 1, 0)
        _, w_k, w_v = jnp.moveaxis(weight.reshape(-1, 3, heads, head_dim), 1, 0)
        w_r = self.w_r.astype(dtype).reshape(-1, heads, head_dim)
        qu, qv = q + self.u[None].astype(dtype), q + self.v[None].astype(dtype)
        _, b_k, b_v = bias.reshape(3, heads, head_dim)
        before = jnp.einsum("bhd,bmd->bhm", jnp.einsum("bhk,dhk->bhd", qu, w_k), memory)
        before = before + jnp.einsum("bhk,hk->bh", qu, b_k)[..., None]
        content = jnp.concatenate([before, jnp.einsum("bhk,bhk->bh", qu, k)[..., None]], axis=-1)
        position = jnp.einsum("bhd,pd->bhp", jnp.einsum("bhk,dhk->bhd", qv, w_r), code[::-1].astype(dtype))
        visible = window(horizon, memory=memory.shape[1])  # [B, 1, P]
        weights = masked_softmax((content + position) / math.sqrt(head_dim), visible=visible)
        past, present = weights[..., :-1], weights[..., -1:]
        attended = jnp.einsum("bhd,dhk->bhk", jnp.einsum("bhm,bmd->bhd", past, memory), w_v) + present * v
        attended = attended + jnp.sum(past, axis=-1, keepdims=True) * b_v[None]
        return attended.reshape(len(qkv), -1) @ self.w_o.astype(dtype)

    def position_keys(self, code: Float[Array, "P D"], *, dtype: jnp.dtype) -> Float[Array, "H P K"]:
        """W_R Phi by head, farthest distance first, the order in which keys lie in time."""
        heads, head_dim = self.u.shape
        keys = code[::-1].astype(dtype) @ self.w_r.astype(dtype)
        return jnp.swapaxes(keys.reshape(-1, heads, head_dim), 0, 1)

    def keys_and_values(self, x: Float[Array, "N D"]) -> tuple[Float[Array, "H N K"], Float[Array, "H N K"]]:
        """W_K x and W_V x by head, for a memory that will be attended to many times."""
        heads, head_dim = self.u.shape
        kv = (x @ self.w_qkv[:, heads * head_dim :].astype(x.dtype)).reshape(-1, 2, heads, head_dim)
        return marked(jnp.moveaxis(kv[:, 0], 0, 1), jnp.moveaxis(kv[:, 1], 0, 1))

    def act(
        self,
        x: Float[Array, " D"],
        keys: Float[Array, "H P K"],
        values: Float[Array, "H P K"],
        *,
        positions: Float[Array, "H P K"],
        cursor: Int[Array, ""],
        visible: Bool[Array, " P"],
    ) -> tuple[Float[Array, " D"], Float[Array, "H P K"], Float[Array, "H P K"]]:
        """One query against rings of keys and values; its own go into slot `cursor` first. x is normalised already."""
        dtype = x.dtype
        heads, head_dim = self.u.shape
        q, k, v = (x @ self.w_qkv.astype(dtype)).reshape(3, heads, head_dim)
        k, v = marked(k, v)
        # Written before they are read, so that a compiled loop updates the rings in place.
        keys = jax.lax.dynamic_update_slice_in_dim(keys, k[:, None], cursor, axis=1)
        values = jax.lax.dynamic_update_slice_in_dim(values, v[:, None], cursor, axis=1)
        content = jnp.einsum("hk,hpk->hp", q + self.u.astype(dtype), keys)
        position = jnp.einsum("hk,hpk->hp", q + self.v.astype(dtype), positions)
        # Slot s lies (cursor - s) mod P steps back: the distances, farthest first, turned until 0 stands at the cursor.
        ring = keys.shape[1]
        turned = jax.lax.dynamic_slice_in_dim(jnp.concatenate([position, position], axis=1), ring - 1 - cursor, ring, axis=1)
        weights = masked_softmax((content + turned) / math.sqrt(head_dim), visible=visible[None])
        attended = jnp.einsum("hp,hpk->hk", weights, values)
        return attended.reshape(-1) @ self.w_o.astype(dtype), keys, values


def marked(keys: Float[Array, "*n K"], values: Float[Array, "*n K"]) -> tuple[Float[Array, "*n K"], Float[Array, "*n K"]]:
    """The same, and where a value is not finite the key says so instead: the scores of keys that must not be seen are left out,
    while their values are multiplied by zero."""
    spoilt = spoilt_rows(values)
    return replaced(keys, spoilt, math.nan), replaced(values, spoilt, 0.0)


def attend(
    qu: Float[Array, "H B T K"],
    qv: Float[Array, "H B T K"],
    k: Float[Array, "H B S K"],
    v: Float[Array, "H B S K"],
    r: Float[Array, "H P K"],
    horizon: Int[Array, "B T"],
) -> Float[Array, "H B T K"]:
    """Softmax attention of queries with their biases added (q + u, q + v) to keys, values and position keys.

    A segment long against the memory is cut into blocks that look at their own window of keys only, as if each were
    a stream: the cost then grows with T and not with its square.
    """
    heads, streams, steps, head_dim = qu.shape
    memory = k.shape[2] - steps
    blocks = block_count(steps, memory=memory, head_dim=head_dim)
    if blocks == 1:
        return attend_whole(qu, qv, k, v, r, horizon)
    length = -(-steps // blocks)
    spare = blocks * length - steps  # steps that are not there: they see themselves and are dropped

    def cut(x: Float[Array, "H B T K"]) -> Float[Array, "H _ _ K"]:
        return jnp.pad(x, ((0, 0), (0, 0), (0, spare), (0, 0))).reshape(heads, streams * blocks, length, head_dim)

    def windows(x: Float[Array, "H B S K"]) -> Float[Array, "H _ _ K"]:
        x = jnp.pad(x, ((0, 0), (0, 0), (0, spare), (0, 0)))
        each = [x[:, :, block * length : (block + 1) * length + memory] for block in range(blocks)]
        return jnp.stack(each, axis=2).reshape(heads, streams * blocks, length + memory, head_dim)

    horizon = jnp.pad(horizon, ((0, 0), (0, spare))).reshape(streams * blocks, length)
    attended = attend_whole(cut(qu), cut(qv), windows(k), windows(v), r, horizon)
    return attended.reshape(heads, streams, blocks * length, head_dim)[:, :, :steps]


def block_count(steps: int, *, memory: int, head_dim: int) -> int:
    """Into how many blocks to cut a segment: N blocks of C = T / N steps handle N C (C + M) scores and copy N (C + M) K keys."""

    def cost(blocks: int) -> int:
        length = -(-steps // blocks)
        return blocks * (length + memory) * (length + head_dim)

    return min(range(1, steps + 1), key=cost)


@jax.custom_vjp
def attend_whole(
    qu: Float[Array, "H B T K"],
    qv: Float[Array, "H B T K"],
    k: Float[Array, "H B S K"],
    v: Float[Array, "H B S K"],
    r: Float[Array, "H P K"],
    horizon: Int[Array, "B T"],
) -> Float[Array, "H B T K"]:
    """`attend` in one piece. Its derivative is written out below: it keeps the weights and nothing else of their size."""
    return _attend(qu, qv, k, v, r, horizon)[0]


def _attend(qu: Array, qv: Array, k: Array, v: Array, r: Array, horizon: Array) -> tuple[Array, Any]:
    memory = r.shape[1] - 1
    content = jnp.einsum("hbtk,hbsk->hbts", qu, k)
    position = jnp.einsum("hnk,hpk->hnp", _flat(qv), r).reshape(*qv.shape[:3], memory + 1)
    visible = window(horizon, memory=memory)[None]
    weights = masked_softmax((content + by_key(position)) / math.sqrt(qu.shape[-1]), visible=visible)
    weights = checkpoint_name(weights, ATTENTION)
    attended = checkpoint_name(jnp.einsum("hbts,hbsk->hbtk", weights, v), ATTENTION)
    return attended, (qu, qv, k, v, r, weights)


def _attend_backward(saved: Any, d_attended: Array) -> tuple[Array, Array, Array, Array, Array, None]:
    qu, qv, k, v, r, weights = saved
    d_v = jnp.einsum("hbts,hbtk->hbsk", weights, d_attended)
    d_weights = jnp.einsum("hbtk,hbsk->hbts", d_attended, v)
    # Softmax: dS = W * (dW - sum_s W dW). Where W is zero nothing flows. The sum is also dY . Y, with fewer products; but where
    # one weight is 1 it must be that dW to the last bit: what is left is multiplied by keys, which may be large.
    mean = jnp.sum(weights.astype(jnp.float32) * d_weights.astype(jnp.float32), axis=-1, keepdims=True)
    d_scores = weights * (d_weights - mean.astype(weights.dtype)) / math.sqrt(qu.shape[-1])
    d_qu = jnp.einsum("hbts,hbsk->hbtk", d_scores, k)
    d_k = jnp.einsum("hbts,hbtk->hbsk", d_scores, qu)
    d_position = _flat(by_distance(d_scores))
    d_qv = jnp.einsum("hnp,hpk->hnk", d_position, r).reshape(qv.shape)
    d_r = jnp.einsum("hnp,hnk->hpk", d_position, _flat(qv))
    return d_qu, d_qv, d_k, d_v, d_r, None


attend_whole.defvjp(_attend, _attend_backward)


def _flat(x: Float[Array, "H B T N"]) -> Float[Array, "H B*T N"]:
    return x.reshape(x.shape[0], -1, x.shape[-1])


def by_key(position: Float[Array, "*n T P"]) -> Float[Array, "*n T S"]:
    """Scores by distance (farthest first) to scores by key: row t moves t places right. Places outside the window hold
    other rows' scores or zeros and must be masked."""
    *lead, steps, distances = position.shape
    keys = distances - 1 + steps
    padded = jnp.pad(position, [(0, 0)] * (len(lead) + 1) + [(0, steps)])  # rows one longer than the keys: each starts one later
    return padded.reshape(*lead, -1)[..., : steps * keys].reshape(*lead, steps, keys)


def by_distance(scores: Float[Array, "*n T S"]) -> Float[Array, "*n T P"]:
    """The transpose of `by_key` for scores that are zero outside the window: row t moves t places left."""
    *lead, steps, keys = scores.shape
    distances = keys - steps + 1
    padded = jnp.pad(scores.reshape(*lead, -1), [(0, 0)] * len(lead) + [(0, steps)])
    return padded.reshape(*lead, steps, keys + 1)[..., :distances]


def window(horizon: Int[Array, "B T"], *, memory: int) -> Bool[Array, "B T S"]:
    """Which key each query may see: itself and `horizon` steps before it."""
    steps = horizon.shape[1]
    distance = memory + jnp.arange(steps)[:, None] - jnp.arange(memory + steps)[None, :]
    return (distance >= 0)[None] & (distance[None] <= horizon[..., None])


def masked_softmax(scores: Float[Array, "*n S"], *, visible: Bool[Array, "*m S"]) -> Float[Array, "*n S"]:
    """Softmax over the visible keys, in float32. Every row must see at least one."""
    scores32 = jnp.where(visible, scores.astype(jnp.float32), UNSEEN)
    return jax.nn.softmax(scores32, axis=-1).astype(scores.dtype)
