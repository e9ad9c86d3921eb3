"""The paper in plain NumPy, float64, loop by loop: what the fast code is held against. Shares nothing with the project.

T steps, M memory slots, H heads, K head width, D width. Weights are dictionaries by the paper's symbols, as in
`tests/golden/README.md`: row vectors, `y = x @ W`, head h has columns h*K .. (h+1)*K; gates are `mha_*` and `mlp_*`.

Where the paper leaves something open, `tests/golden/README.md` decides: scores are divided by sqrt(K), layer norm has
epsilon 1e-5, the position code is sines then cosines, and a query sees itself and the M steps before it of its episode.
"""

import math

import numpy as np

NORM_EPSILON = 1e-5
VARIANTS = ("trxl", "trxl-i", "gtrxl-input", "gtrxl-output", "gtrxl-highway", "gtrxl-sigtanh", "gtrxl-gru")


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def relu(x):
    return np.maximum(x, 0)


def layer_norm(x, scale, offset):
    """One vector."""
    mean = sum(x) / len(x)
    variance = sum((x - mean) ** 2) / len(x)
    return (x - mean) / math.sqrt(variance + NORM_EPSILON) * scale + offset


def position_code(distance, size):
    """One row of Phi."""
    waves = [distance / 10000 ** (2 * i / size) for i in range(size // 2)]
    return np.array([math.sin(wave) for wave in waves] + [math.cos(wave) for wave in waves])


def episodes(resets, filled, memory):
    """The episode of every key, oldest first: None for a slot that holds nothing, 0 for the one under way at the start."""
    of = [None] * (memory - filled) + [0] * filled
    current = 0
    for reset in resets:
        current += int(reset)
        of.append(current)
    return of


def attention(weights, attended_to, heads, resets, filled, memory):
    """RelativeMultiHeadAttention (appendix C.2): `attended_to` is E~ = [M, E], normalised or not; returns [T, D].

    Every query-key pair on its own: alpha = (Q . K + Q . R + u . K + v . R) / sqrt(K), softmax over what is visible.
    """
    episode = episodes(resets, filled, memory)
    size = attended_to.shape[1]
    head_dim = weights["W_Q"].shape[1] // heads
    outputs = []
    for t in range(len(resets)):
        query_at = memory + t
        heads_out = []
        for h in range(heads):
            columns = slice(h * head_dim, (h + 1) * head_dim)
            q = attended_to[query_at] @ weights["W_Q"][:, columns]
            u, v = weights["u"][h], weights["v"][h]
            scores, values = [], []
            for key_at in range(memory + len(resets)):
                distance = query_at - key_at
                if not 0 <= distance <= memory or episode[key_at] != episode[query_at]:
                    continue
                k = attended_to[key_at] @ weights["W_K"][:, columns]
                r = position_code(distance, size) @ weights["W_R"][:, columns]
                scores.append((q @ k + q @ r + u @ k + v @ r) / math.sqrt(head_dim))
                values.append(attended_to[key_at] @ weights["W_V"][:, columns])
            shares = np.exp(np.array(scores) - max(scores))
            shares = shares / shares.sum()
            heads_out.append(sum(share * value for share, value in zip(shares, values, strict=True)))
        outputs.append(np.concatenate(heads_out) @ weights["W_O"])
    return np.array(outputs)


def gate(kind, weights, x, y):
    """g(x, y) of the section "Gating Layers", one vector each; x is the stream, y the submodule's output."""
    match kind:
        case "none":
            return x + y
        case "input":
            return sigmoid(x @ weights["W_g"]) * x + y
        case "output":
            return x + sigmoid(x @ weights["W_g"] - weights["b_g"]) * y
        case "highway":
            s = sigmoid(x @ weights["W_g"] + weights["b_g"])
            return s * x + (1 - s) * y
        case "sigtanh":
            return x + sigmoid(y @ weights["W_g"] - weights["b_g"]) * np.tanh(y @ weights["U_g"])
        case "gru":
            r = sigmoid(y @ weights["W_r"] + x @ weights["U_r"])
            z = sigmoid(y @ weights["W_z"] + x @ weights["U_z"] - weights["b_g"])
            h = np.tanh(y @ weights["W_g"] + (r * x) @ weights["U_g"])
            return (1 - z) * x + z * h
    raise ValueError(kind)


def gate_of(variant):
    return variant.removeprefix("gtrxl-") if variant.startswith("gtrxl-") else "none"


def mlp(weights, x):
    return relu(x @ weights["W_1"] + weights["b_1"]) @ weights["W_2"] + weights["b_2"]


def part(weights, prefix):
    return {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}


def block(variant, weights, segment, memory, heads, resets, filled):
    """E^(l) from E^(l-1) [T, D] and M^(l-1) [M, D]."""
    kind = gate_of(variant)
    norm_1 = (weights["ln1_scale"], weights["ln1_offset"])
    norm_2 = (weights["ln2_scale"], weights["ln2_offset"])
    both = np.concatenate([memory, segment])
    if variant == "trxl":
        attended = attention(weights, both, heads, resets, filled, len(memory))
        outputs = []
        for x, update in zip(segment, attended, strict=True):
            y = layer_norm(x + update, *norm_1)
            outputs.append(layer_norm(y + mlp(weights, y), *norm_2))
        return np.array(outputs)
    normed = np.array([layer_norm(row, *norm_1) for row in both])
    attended = attention(weights, normed, heads, resets, filled, len(memory))
    outputs = []
    for x, update in zip(segment, attended, strict=True):
        y = gate(kind, part(weights, "mha_"), x, relu(update))
        outputs.append(gate(kind, part(weights, "mlp_"), y, relu(mlp(weights, layer_norm(y, *norm_2)))))
    return np.array(outputs)


def stack(variant, layers, xs, memory, heads, resets, filled):
    """The whole network on E^(0) = xs [T, D] with memory [L, M, D]; returns the outputs and every layer's inputs [L, T, D].

    The inputs are what the memory holds next. No norm and no activation after the last layer.
    """
    segment, inputs = np.asarray(xs, np.float64), []
    for weights, of_layer in zip(layers, np.asarray(memory, np.float64), strict=True):
        inputs.append(segment)
        segment = block(variant, weights, segment, of_layer, heads, resets, int(filled))
    return segment, np.array(inputs)
