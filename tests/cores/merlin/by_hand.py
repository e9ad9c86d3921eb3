"""MERLIN and RL-MEM once more, step by step in NumPy and float64, from their equations: for one stream. R rows, Z latents."""

import numpy as np


def of(leaf):
    return np.asarray(leaf, np.float64)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def linear(layer, x):
    return x @ of(layer.weight) + of(layer.bias)


class Memory:
    """Rows in a list, written and read with loops."""

    def __init__(self, size, latent, gamma):
        self.now, self.later = np.zeros((size, latent)), np.zeros((size, latent))
        self.trace, self.usage, self.filled, self.gamma = np.zeros(size), np.zeros(size), 0, gamma

    def read(self, keys, strengths):
        """One key after the other; how each row was weighted is added to the row's usage by `count`."""
        found, weights = [], []
        for key, strength in zip(keys, strengths, strict=True):
            scores = []
            for now, later in zip(self.now, self.later, strict=True):
                row = np.concatenate([now, later])
                scores.append(strength * (key @ row) / (np.sqrt(key @ key + 1e-6) * np.sqrt(row @ row + 1e-6)))
            by = np.exp(np.array(scores) - max(scores))
            by = by / by.sum()
            found.append(sum(weight * np.concatenate(row) for weight, *row in zip(by, self.now, self.later, strict=True)))
            weights.append(by)
        return np.concatenate(found), sum(weights)

    def write(self, z):
        place = self.filled if self.filled < len(self.usage) else int(np.argmin(self.usage))
        most = self.usage.max()
        self.now[place], self.later[place], self.trace[place] = z, 0.0, 0.0
        for row, share in enumerate(self.trace):
            self.later[row] = self.later[row] + share * z
        self.trace = self.gamma * self.trace
        self.trace[place] += 1 - self.gamma
        self.usage[place] = most
        self.filled = min(self.filled + 1, len(self.usage))
        return place


class LSTM:
    def __init__(self, layers):
        self.layers = layers
        self.h = [np.zeros(layers.width) for _ in layers.cells]
        self.c = [np.zeros(layers.width) for _ in layers.cells]

    @property
    def output(self):
        return np.concatenate(self.h)

    def __call__(self, x):
        below = x
        for n, cell in enumerate(self.layers.cells):
            seen = np.concatenate([x, below]) if n else x
            i, f, g, o = np.split(linear(cell.inputs, seen) + self.h[n] @ of(cell.recurrent), 4)
            self.c[n] = sigmoid(f) * self.c[n] + sigmoid(i) * np.tanh(g)
            self.h[n] = sigmoid(o) * np.tanh(self.c[n])
            below = self.h[n]
        return self.output


def keys_of(keys, h):
    made = linear(keys.linear, h).reshape(keys.number, keys.width + 1)
    return made[:, :-1], np.log1p(np.exp(made[:, -1]))


def gaussian(made):
    mean, log = np.split(made, 2)
    return mean, 5 * np.tanh(log / 5)


def mlp(net, x):
    for layer in net.hidden:
        x = np.tanh(linear(layer, x))
    return linear(net.output, x)


def merlin(core, xs, resets, noise):
    """Outputs, what is said (prior's mean and log, posterior's mean and log, z), and the rows at the end."""

    def fresh():
        reads = np.zeros(2 * core.latent * core.predictor_keys.number), np.zeros(2 * core.latent)
        return Memory(core.size, core.latent, core.gamma), LSTM(core.predictor), LSTM(core.policy), *reads

    ys, said = [], []
    memory, predictor, policy, m, m_policy = fresh()
    for x, reset, drawn in zip(of(xs), resets, of(noise), strict=True):
        if reset:
            memory, predictor, policy, m, m_policy = fresh()
        h = predictor.output
        expected = mlp(core.prior, np.concatenate([h, m]))
        prior = gaussian(expected)
        first, second = core.posterior.hidden
        inside = np.tanh(linear(core.embed, x) + linear(first, np.concatenate([h, m, *prior])))
        inside = np.tanh(linear(second, inside))
        mean, log = gaussian(expected + linear(core.posterior.output, inside))
        z = mean + np.exp(log) * drawn
        acts = policy(np.concatenate([z, m_policy]))
        m_policy, by_policy = memory.read(*keys_of(core.policy_keys, acts))
        h = predictor(np.concatenate([z, m]))
        m, by_predictor = memory.read(*keys_of(core.predictor_keys, h))
        memory.usage = memory.usage + by_policy + by_predictor
        memory.write(z)
        ys.append(np.concatenate([z, acts, m_policy]))
        said.append((*prior, mean, log, z))
    return np.stack(ys), [np.stack(part) for part in zip(*said, strict=True)], memory


def rl_mem(core, xs, resets):

    def fresh():
        read = np.zeros(2 * core.latent * core.keys.number)
        return Memory(core.size, core.latent, core.gamma), LSTM(core.controller), read

    ys = []
    memory, lstm, m = fresh()
    for x, reset in zip(of(xs), resets, strict=True):
        if reset:
            memory, lstm, m = fresh()
        z = linear(core.embed, x)
        h = lstm(np.concatenate([z, m]))
        m, by = memory.read(*keys_of(core.keys, h))
        memory.usage = memory.usage + by
        memory.write(linear(core.write, np.concatenate([z, h])))
        ys.append(np.concatenate([z, h, m]))
    return np.stack(ys), memory
