"""A transformer with memory written the plain way in JAX, that can be told to make one mistake. Shares nothing with the project.

Without a mistake it keeps the contract and gives the paper's numbers (`test_mistakes.py` checks both), so what is found
with one is that one's doing. T steps, L layers, M memory slots, D width; weights by the paper's symbols.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np


class NaiveMemory(eqx.Module):
    """Each layer's inputs, and the keys and values made from them: those only a mistake uses."""

    inputs: jax.Array
    keys: jax.Array
    values: jax.Array
    filled: jax.Array


class Naive(eqx.Module):
    """GTrXL with GRU gates. No embedding: inputs have the width D."""

    weights: tuple[dict[str, jax.Array], ...]
    heads: int = eqx.field(static=True)
    memory: int = eqx.field(static=True)
    mistake: str = eqx.field(static=True, default="")

    @property
    def input_size(self):
        return self.weights[0]["W_Q"].shape[0]

    output_size = input_size

    @property
    def layers(self):
        return len(self.weights)

    def initial_state(self):
        zeros = jnp.zeros((self.layers, self.memory, self.input_size))
        filled = self.memory if self.mistake == "unfilled slots seen as zeros" else 0
        return NaiveMemory(zeros, zeros, zeros, jnp.asarray(filled, jnp.int32))

    def remembering(self, inputs, filled):
        """A state that holds these inputs."""
        made = [
            self._keys_and_values(weights, of_layer) for weights, of_layer in zip(self.weights, jnp.asarray(inputs), strict=True)
        ]
        keys, values = (jnp.stack(parts) for parts in zip(*made, strict=True))
        return NaiveMemory(jnp.asarray(inputs), keys, values, jnp.asarray(filled, jnp.int32))

    def prepare(self, state):
        return state

    def plain(self, state):
        return state

    def step(self, x, state, *, reset):
        ys, state = self._run(x[None], state, jnp.asarray(reset)[None], cached=self.mistake.startswith("stale keys"))
        return ys[0], state

    def unroll(self, xs, state, *, resets):
        return self._run(xs, state, resets, cached=self.mistake == "stale keys everywhere")

    def _run(self, xs, state, resets, *, cached):
        steps, memory = xs.shape[0], self.memory
        if self.mistake != "gradient into the memory":
            state = jax.lax.stop_gradient(state)
        counted = jnp.asarray(resets)
        if self.mistake == "a reset inside an unroll ignored":
            counted = counted & (jnp.arange(steps) == 0)
        if self.mistake == "a reset at the start of an unroll ignored":
            counted = counted & ((jnp.arange(steps) > 0) | (steps == 1))
        began = jax.lax.cummax(jnp.where(counted, jnp.arange(steps), -state.filled))
        seen = jnp.arange(steps) - began
        horizon = seen if self.mistake == "learning sees the whole segment" else jnp.minimum(seen, memory)
        if self.mistake == "window one short":
            horizon = jnp.minimum(horizon, memory - 1)
        distance = memory + jnp.arange(steps)[:, None] - jnp.arange(memory + steps)[None]
        nearest = {"current step missing from the keys": 1, "the next step seen": -1}.get(self.mistake, 0)
        visible = (distance >= nearest) & (distance <= horizon[:, None])
        segment, kept = xs, []
        for layer, weights in enumerate(self.weights):
            old = NaiveMemory(state.inputs[layer], state.keys[layer], state.values[layer], state.filled)
            segment, inputs, keys, values = self._layer(weights, segment, old, distance, visible, cached=cached)
            kept.append(jax.lax.stop_gradient((inputs, keys, values)))
        inputs, keys, values = (jnp.stack(parts)[:, steps:] for parts in zip(*kept, strict=True))
        if self.mistake == "relu on the final output":
            segment = jax.nn.relu(segment)
        return segment, NaiveMemory(inputs, keys, values, jnp.minimum(seen[-1] + 1, memory))

    def _layer(self, weights, segment, old, distance, visible, *, cached):
        learned = jax.lax.stop_gradient(segment) if self.mistake == "only the current step learns" else segment
        new_keys, new_values = self._keys_and_values(weights, learned)
        old_keys, old_values = (old.keys, old.values) if cached else self._keys_and_values(weights, old.inputs)
        keys, values = jnp.concatenate([old_keys, new_keys]), jnp.concatenate([old_values, new_values])
        queries = segment if self.mistake == "queries not normalised" else self._norm(weights, "ln1", segment)
        q = self._by_head(queries @ weights["W_Q"])
        k, v = self._by_head(keys), self._by_head(values)
        r = self._by_head(self._code(distance.reshape(-1)) @ weights["W_R"]).reshape(self.heads, *distance.shape, -1)
        scores = jnp.einsum("htk,hsk->hts", q + weights["u"][:, None], k) + jnp.einsum(
            "htk,htsk->hts", q + weights["v"][:, None], r
        )
        scores = scores / math.sqrt(self.input_size if self.mistake == "scores over sqrt of the model width" else q.shape[-1])
        shares = jax.nn.softmax(jnp.where(visible[None], scores, -jnp.inf), axis=-1)
        seen = jnp.where(visible[None, :, :, None], v[:, None], 0)  # pair by pair: 0 * nan is not 0
        attended = jnp.swapaxes(jnp.einsum("hts,htsk->htk", shares, seen), 0, 1).reshape(segment.shape[0], -1) @ weights["W_O"]
        if self.mistake != "no relu after attention":
            attended = jax.nn.relu(attended)
        y = self._gate(weights, "mha_", segment, attended)
        normed = self._norm(weights, "ln2", y)
        update = jax.nn.relu(normed @ weights["W_1"] + weights["b_1"][None]) @ weights["W_2"] + weights["b_2"][None]
        if self.mistake != "no relu after the mlp":
            update = jax.nn.relu(update)
        inputs = jnp.concatenate([old.inputs, segment])
        return self._gate(weights, "mlp_", y, update), inputs, keys, values

    def _keys_and_values(self, weights, x):
        normed = self._norm(weights, "ln1", x)
        return normed @ weights["W_K"], normed @ weights["W_V"]

    def _by_head(self, x):
        return jnp.swapaxes(x.reshape(x.shape[0], self.heads, -1), 0, 1)

    def _norm(self, weights, name, x):
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = jnp.mean(centred**2, axis=-1, keepdims=True)
        return centred / jnp.sqrt(variance + 1e-5) * weights[f"{name}_scale"][None] + weights[f"{name}_offset"][None]

    def _code(self, distance):
        waves = distance[:, None] / 10000 ** (np.arange(0, self.input_size, 2) / self.input_size)[None]
        return jnp.concatenate([jnp.sin(waves), jnp.cos(waves)], axis=-1)

    def _gate(self, weights, prefix, x, y):
        if self.mistake == "gate arguments swapped":
            x, y = y, x
        w = {name.removeprefix(prefix): value for name, value in weights.items()}
        r = jax.nn.sigmoid(y @ w["W_r"] + x @ w["U_r"])
        z = jax.nn.sigmoid(y @ w["W_z"] + x @ w["U_z"] - w["b_g"][None])
        return (1 - z) * x + z * jnp.tanh(y @ w["W_g"] + (r * x) @ w["U_g"])
