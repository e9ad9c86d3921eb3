"""The linear cores once more: NumPy in float64, one step after the other, as the publications write them. Nothing is shared
with the package: complex numbers are complex, the delta rule multiplies matrices, the mLSTM has no stabiliser, the FFM sums
powers.

A layer here is a function (weights, episode) -> outputs, for the inputs of one episode from its first step on, [T, D]. So a
reset is simply where one call ends and the next begins.
"""

import itertools

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def silu(x):
    return x * sigmoid(x)


def relu(x):
    return np.maximum(x, 0)


def softplus(x):
    return np.log1p(np.exp(x))


def gelu(x):
    """As JAX has it: the approximation by tanh."""
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def standard(x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def norm(weights, x):
    return standard(x) * weights.scale + weights.offset


def rms(x):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)


def linear(weights, x):
    return x @ weights.weight + weights.bias


def complex_matrix(side_by_side, axis, sign):
    re, im = np.split(side_by_side, 2, axis=axis)
    return re + sign * 1j * im


def recurrence(weights, us):
    lam = np.exp(-np.exp(weights.nu) + 1j * np.exp(weights.theta))
    b = complex_matrix(weights.b, 1, 1)
    c = complex_matrix(weights.c, 0, -1)
    s, ys = np.zeros(len(lam), complex), []
    for u in us:
        s = lam * s + np.sqrt(1 - abs(lam) ** 2) * (u @ b)
        ys.append((s @ c).real + weights.d * u)
    return np.array(ys)


def lru(layer, xs):
    y = linear(layer.glu, gelu(recurrence(layer.recurrence, norm(layer.norm, xs))))
    a, b = np.split(y, 2, axis=-1)
    return xs + a * sigmoid(b)


def s5(layer, xs):
    big, delta = -np.exp(layer.a) + 1j * layer.w, np.exp(layer.t)
    kept = np.exp(big * delta)
    b, c = complex_matrix(layer.b, 1, 1), complex_matrix(layer.c, 0, -1)
    s, ys = np.zeros(len(big), complex), []
    for u in norm(layer.norm, xs):
        s = kept * s + (kept - 1) / big * (u @ b)
        ys.append(2 * (s @ c).real + layer.d * u)
    g = gelu(np.array(ys))
    return xs + g * sigmoid(linear(layer.gate, g))


def never_negative(a):
    return np.where(a >= 0, a + 0.5, sigmoid(a))


def mingru(layer, xs):
    h, ys = 0.0, []
    for x in xs:
        z, new, out = np.split(linear(layer.inputs, norm(layer.norm, x)), 3)
        h = (1 - sigmoid(z)) * h + sigmoid(z) * never_negative(new)
        ys.append(x + linear(layer.out, h * silu(out)))
    return np.array(ys)


def minlstm(layer, xs):
    h, ys = 0.0, []
    for x in xs:
        f, i, new, out = np.split(linear(layer.inputs, norm(layer.norm, x)), 4)
        f, i = sigmoid(f), sigmoid(i)
        h = f / (f + i) * h + i / (f + i) * never_negative(new)
        ys.append(x + linear(layer.out, h * silu(out)))
    return np.array(ys)


def convolved(weights, inputs):
    """The last steps of the episode, the newest with the last row of the kernel."""
    width = len(weights.kernel)
    ys = []
    for t in range(len(inputs)):
        total = weights.bias.copy()
        for back in range(min(width, t + 1)):
            total += weights.kernel[width - 1 - back] * inputs[t - back]
        ys.append(silu(total))
    return np.array(ys)


def mamba2(layer, xs):
    heads, size, inner = len(layer.a), layer.size, len(layer.scale)
    mapped = linear(layer.inputs, norm(layer.norm, xs))
    zs, leads, dts = np.split(mapped, [inner, 2 * inner + 2 * size], axis=-1)
    states, ys = np.zeros((heads, inner // heads, size)), []
    for x, z, lead, dt in zip(xs, zs, convolved(layer.convolution, leads), dts, strict=True):
        v, b, c = np.split(lead, [inner, inner + size])
        dt, y = softplus(dt + layer.dt), []
        for head, part in enumerate(np.split(v, heads)):
            states[head] = np.exp(-dt[head] * np.exp(layer.a[head])) * states[head] + dt[head] * np.outer(part, b)
            y.append(states[head] @ c + layer.d[head] * part)
        ys.append(x + linear(layer.out, rms(np.concatenate(y) * silu(z)) * layer.scale))
    return np.array(ys)


def deltanet(layer, xs):
    heads, width = len(layer.a), len(layer.scale)
    mapped = linear(layer.inputs, norm(layer.norm, xs))
    leads, zs, decays, rates = np.split(mapped, [3 * width, 4 * width, 4 * width + heads], axis=-1)
    size = width // heads
    states, ys = np.zeros((heads, size, size)), []
    for x, lead, z, decay, rate in zip(xs, convolved(layer.convolution, leads), zs, decays, rates, strict=True):
        queries, keys, values = (np.split(part, heads) for part in np.split(lead, 3))
        y = []
        for head in range(heads):
            q, k, v = queries[head], keys[head], values[head]
            q, k = q / np.sqrt(q @ q + 1e-6), k / np.sqrt(k @ k + 1e-6)
            a, b = np.exp(-np.exp(layer.a[head]) * softplus(decay[head] + layer.dt[head])), sigmoid(rate[head])
            states[head] = a * states[head] @ (np.eye(size) - b * np.outer(k, k)) + b * np.outer(v, k)
            y.append(rms(states[head] @ q))
        ys.append(x + linear(layer.out, np.concatenate(y) * layer.scale * silu(z)))
    return np.array(ys)


def mlstm(layer, xs):
    heads, width = layer.heads, len(layer.scale)
    size = width // heads
    cells, sums, ys = np.zeros((heads, size, size)), np.zeros((heads, size)), []
    for x in xs:
        q, k, v, out, f, i = np.split(linear(layer.inputs, norm(layer.norm, x)), np.cumsum([width] * 4 + [heads]))
        queries, keys, values = (np.split(part, heads) for part in (q, k / np.sqrt(size), v))
        y = []
        for head in range(heads):
            cells[head] = sigmoid(f[head]) * cells[head] + np.exp(i[head]) * np.outer(values[head], keys[head])
            sums[head] = sigmoid(f[head]) * sums[head] + np.exp(i[head]) * keys[head]
            y.append(standard(cells[head] @ queries[head] / max(abs(sums[head] @ queries[head]), 1)))
        ys.append(x + linear(layer.out, np.concatenate(y) * layer.scale * sigmoid(out)))
    return np.array(ys)


def ffm(layer, xs):
    """Not the recurrence: the sum over all steps so far, each faded by its age."""
    traces, width = len(layer.a), xs.shape[1]
    gamma = np.exp(-abs(layer.a)[:, None] + 1j * layer.w[None])
    written, ys = [], []
    for x in xs:
        new, opening, gate, past = np.split(linear(layer.inputs, x), [traces, 2 * traces, 2 * traces + width])
        written.append(new * sigmoid(opening))
        state = np.sum([gamma**age * one[:, None] for age, one in enumerate(reversed(written))], axis=0)
        z = linear(layer.mix, np.concatenate([state.real.ravel(), state.imag.ravel()]))
        ys.append(standard(z) * sigmoid(gate) + past * (1 - sigmoid(gate)))
    return np.array(ys)


def gru_gate(weights, x, y):
    size = len(x)
    w_r, w_z, w_g = (weights.w_rzg[:, n * size : (n + 1) * size] for n in range(3))
    u_r, u_z = weights.u_rz[:, :size], weights.u_rz[:, size:]
    r = sigmoid(y @ w_r + x @ u_r)
    z = sigmoid(y @ w_z + x @ u_z - weights.b_g)
    return (1 - z) * x + z * np.tanh(y @ w_g + (r * x) @ weights.u_g)


def block(weights, x, remembered):
    y = gru_gate(weights.gate_1, x, relu(remembered))
    through = linear(weights.mlp.second, relu(linear(weights.mlp.first, norm(weights.norm_2, y))))
    return gru_gate(weights.gate_2, y, relu(through))


def gtrxl_lru(layer, xs):
    found = recurrence(layer.recurrence, norm(layer.block.norm_1, xs))
    return np.array([block(layer.block, x, y) for x, y in zip(xs, found, strict=True)])


def agalite(layer, xs):
    heads, size, eta, count = layer.heads, layer.head_dim, layer.eta, layer.frequencies
    features = eta * size
    keys, values, sums = np.zeros((count, heads, features)), np.zeros((count, heads, size)), np.zeros((heads, features))
    ys = []
    for t, x in enumerate(xs, start=1):
        mapped = linear(layer.inputs, norm(layer.block.norm_1, x))
        parts = np.split(mapped, np.cumsum([heads * size] * 5 + [heads * eta] * 2))
        k, q, v, beta, gamma, p_1, p_2, p_3 = (np.split(part, heads) for part in parts)
        found = []
        for h in range(heads):
            psi, phi = np.outer(relu(p_1[h]), relu(k[h])).ravel(), np.outer(relu(p_2[h]), relu(q[h])).ravel()
            gate = np.outer(sigmoid(p_3[h]), sigmoid(gamma[h])).ravel()
            sums[h] = (1 - gate) * sums[h] + gate * psi
            total = 0.0
            for n, w in enumerate(np.linspace(-np.pi, np.pi, count)):
                keys[n, h] = (1 - gate) * keys[n, h] + gate * psi * np.cos(w * t)
                values[n, h] = (1 - sigmoid(beta[h])) * values[n, h] + sigmoid(beta[h]) * v[h] * np.cos(w * t)
                total = total + values[n, h] * (keys[n, h] @ phi)
            found.append(total / (2 * count * (sums[h] @ phi) + 1e-5))
        ys.append(block(layer.block, x, linear(layer.out, np.concatenate(found))))
    return np.array(ys)


LAYERS = {
    "lru": lru, "s5": s5, "mingru": mingru, "minlstm": minlstm, "mamba2": mamba2, "mlstm": mlstm, "deltanet": deltanet,
    "ffm": ffm, "agalite": agalite, "gtrxl-lru": gtrxl_lru,
}  # fmt: skip


def outputs(name, core, xs, resets):
    """Of a core whose arrays are float64: each episode by itself, from nothing."""
    begins = [0, *(t for t in range(1, len(xs)) if resets[t]), len(xs)]
    found = []
    for start, end in itertools.pairwise(begins):
        stream = linear(core.embed, xs[start:end])
        for layer in core.layers:
            stream = LAYERS[name](layer, stream)
        found.append(stream)
    return np.concatenate(found)
