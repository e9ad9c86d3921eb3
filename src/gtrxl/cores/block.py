"""One transformer layer: attention and MLP, with the norm and the gate where each variant puts them.

B streams, T steps, M memory slots, P = M + 1 distances, H heads, K head width, D width, F MLP width.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from gtrxl.cores.attention import RelativeAttention
from gtrxl.cores.gates import Gate, find_gate
from gtrxl.cores.layers import LayerNorm, Linear


class FeedForward(eqx.Module):
    """relu(x W_1 + b_1) W_2 + b_2."""

    first: Linear
    second: Linear

    def __init__(self, d_model: int, hidden: int, *, key: PRNGKeyArray):
        first_key, second_key = jax.random.split(key)
        self.first = Linear(d_model, hidden, key=first_key)
        self.second = Linear(hidden, d_model, key=second_key)

    def __call__(self, x: Float[Array, "*n D"]) -> Float[Array, "*n D"]:
        return self.second(jax.nn.relu(self.first(x)))


class Block(eqx.Module):
    """TrXL: norm after each sum. TrXL-I and GTrXL: norm on each submodule's input, ReLU on its output, then sum or gate.

    In the second form nothing but gates lies on the way from the layer's input to its output.
    """

    attention: RelativeAttention
    mlp: FeedForward
    norm_1: LayerNorm
    norm_2: LayerNorm
    gate_1: Gate
    gate_2: Gate
    norm_inputs: bool = eqx.field(static=True)

    def __init__(
        self,
        d_model: int,
        *,
        heads: int,
        head_dim: int,
        mlp: int,
        gate: str | type[Gate],
        gate_bias: float | None,
        norm_inputs: bool,
        key: PRNGKeyArray,
    ):
        attention_key, mlp_key, gate_1_key, gate_2_key = jax.random.split(key, 4)
        self.attention = RelativeAttention(d_model, heads=heads, head_dim=head_dim, key=attention_key)
        self.mlp = FeedForward(d_model, mlp, key=mlp_key)
        self.norm_1 = LayerNorm(d_model)
        self.norm_2 = LayerNorm(d_model)
        self.gate_1 = find_gate(gate)(d_model, bias=gate_bias, key=gate_1_key)
        self.gate_2 = find_gate(gate)(d_model, bias=gate_bias, key=gate_2_key)
        self.norm_inputs = norm_inputs

    def unroll(
        self,
        segment: Float[Array, "B T D"],
        memory: Float[Array, "B M D"],
        *,
        horizon: Int[Array, "B T"],
        code: Float[Array, "P D"],
    ) -> Float[Array, "B T D"]:
        """E^(l) from E^(l-1) and M^(l-1), for B streams."""
        norm = self.norm_1 if self.norm_inputs else None
        return self._join(segment, self.attention.unroll(segment, memory, norm=norm, horizon=horizon, code=code))

    def openness(
        self,
        segment: Float[Array, "B T D"],
        memory: Float[Array, "B M D"],
        *,
        horizon: Int[Array, "B T"],
        code: Float[Array, "P D"],
    ) -> Float[Array, " 2"]:
        """How far the gate after attention and the gate after the MLP stand open, on average; of variants with norm on inputs."""
        attended = self.attention.unroll(segment, memory, norm=self.norm_1, horizon=horizon, code=code)
        update = jax.nn.relu(attended)
        y = self.gate_1(skip=segment, update=update)
        first = self.gate_1.opening(skip=segment, update=update)
        second = self.gate_2.opening(skip=y, update=jax.nn.relu(self.mlp(self.norm_2(y))))
        return jnp.stack([jnp.mean(first), jnp.mean(second)]).astype(jnp.float32)

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
        """The same for one step, against rings of projected keys and values."""
        attended, keys, values = self.attention.act(
            self._attention_input(x), keys, values, positions=positions, cursor=cursor, visible=visible
        )
        return self._join(x, attended), keys, values

    def project(self, memory: Float[Array, "M D"]) -> tuple[Float[Array, "H M K"], Float[Array, "H M K"]]:
        """The keys and values of a memory under these weights."""
        return self.attention.keys_and_values(self._attention_input(memory))

    def _attention_input(self, x: Float[Array, "*n D"]) -> Float[Array, "*n D"]:
        return self.norm_1(x) if self.norm_inputs else x

    def _join(self, x: Float[Array, "*n D"], attended: Float[Array, "*n D"]) -> Float[Array, "*n D"]:
        if self.norm_inputs:
            y = self.gate_1(skip=x, update=jax.nn.relu(attended))
            return self.gate_2(skip=y, update=jax.nn.relu(self.mlp(self.norm_2(y))))
        y = self.norm_1(self.gate_1(skip=x, update=attended))
        return self.norm_2(self.gate_2(skip=y, update=self.mlp(y)))


def steps_back(resets: Bool[Array, " T"], *, filled: Int[Array, ""], memory: int) -> Int[Array, " T"]:
    """How many earlier steps each step may see: those of its own episode, at most `memory`.

    `filled` is how many remembered steps belong to the episode that is under way when the segment begins.
    """
    steps = jnp.arange(resets.shape[0])
    began = jax.lax.cummax(jnp.where(resets, steps, -filled))
    return jnp.minimum(steps - began, memory)


def sees_any(remembered: Bool[Array, "B M"], steps: Bool[Array, "B T"], *, horizon: Int[Array, "B T"]) -> Bool[Array, "B T"]:
    """Which steps see one that is marked, among those remembered or those of the segment up to themselves."""
    slots, at = remembered.shape[1], jnp.arange(remembered.shape[1] + steps.shape[1])
    marked = jnp.concatenate([remembered, steps], axis=1)
    newest = jax.lax.cummax(jnp.where(marked, at[None], -1), axis=1)[:, slots:]
    return newest >= at[None, slots:] - horizon
