"""AGaLiTe: GTrXL's block with an approximate gated linear attention (Pramanik et al., "AGaLiTe: Approximate Gated Linear
Transformers for Online Reinforcement Learning", 2024). D width, H heads of K, E = eta features for each, R frequencies, F =
E K, I = H K.

    keys = relu(p_1) x relu(k), queries = relu(p_2) x relu(q), gates = sigmoid(p_3) x sigmoid(g)      outer products, flat: [E K]
    K_i = (1 - gates) * K_i + gates * keys * cos(w_i t)       V_i = (1 - b) * V_i + b * v * cos(w_i t)       b = sigmoid(.)
    s = (1 - gates) * s + gates * keys                        y = sum_i V_i (K_i . queries) / (2 R (s . queries) + 1e-5)

The sums over cosines stand for the outer products of values and keys, which need E K^2 numbers and here R (E K + K). t
counts the steps of the episode, from 1: a public program lets its clock run on through resets, and then what a step gives
depends on how long ago training began. Paper and program differ in the frequencies; these are the program's, with which its
results were made: R of them evenly from -pi to pi. All around is the paper's GTrXL with GRU gates (`gtrxl_lru`).
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from gtrxl.cores.errors import at_least
from gtrxl.cores.gates import Gate
from gtrxl.cores.layers import INIT_VARIANCE, Linear, with_variance
from gtrxl.cores.linear.gtrxl_lru import GatedBlock, GatedLayer, GatedStack, check_variance, first_bias
from gtrxl.cores.linear.stack import cuts, divided

EPSILON = 1e-5


class TracesState(eqx.Module):
    """The decayed sums, and the steps since the episode began."""

    keys: Float[Array, "*B R H F"]
    values: Float[Array, "*B R H K"]
    sums: Float[Array, "*B H F"]
    clock: Float[Array, "*B"]


class Driven(eqx.Module):
    """Feature maps (F = E K), values, and the shares that are written."""

    keys: Float[Array, "*n H F"]
    queries: Float[Array, "*n H F"]
    gates: Float[Array, "*n H F"]
    values: Float[Array, "*n H K"]
    rate: Float[Array, "*n H K"]


class AGaLiTeLayer(GatedLayer):
    """One layer. What it writes depends on its clock, so the loop is its form."""

    block: GatedBlock
    inputs: Linear
    out: Linear
    heads: int = eqx.field(static=True)
    head_dim: int = eqx.field(static=True)
    eta: int = eqx.field(static=True)
    frequencies: int = eqx.field(static=True)

    def initial_state(self) -> TracesState:
        """Zeros."""
        zeros = lambda *shape: jnp.zeros(shape, jnp.float32)  # noqa: E731
        features = self.eta * self.head_dim
        return TracesState(
            keys=zeros(self.frequencies, self.heads, features),
            values=zeros(self.frequencies, self.heads, self.head_dim),
            sums=zeros(self.heads, features),
            clock=zeros(),
        )

    def ready(self) -> Float[Array, " R"]:
        """w_i."""
        return jnp.linspace(-math.pi, math.pi, self.frequencies)

    def drive(self, x: Float[Array, "*n D"]) -> Driven:
        """All maps in one product; the features are outer products of two of them."""
        mapped = self.inputs(self.block.norm_1(x)).astype(jnp.float32)
        parts = cuts(mapped, [self.heads * self.head_dim] * 5 + [self.heads * self.eta] * 3)
        keys, queries, values, rate, gates, p_1, p_2, p_3 = (
            part.reshape(*part.shape[:-1], self.heads, part.shape[-1] // self.heads) for part in parts
        )
        relu, sigmoid = jax.nn.relu, jax.nn.sigmoid
        return Driven(
            keys=_outer(relu(p_1), relu(keys)),
            queries=_outer(relu(p_2), relu(queries)),
            gates=_outer(sigmoid(p_3), sigmoid(gates)),
            values=values,
            rate=sigmoid(rate),
        )

    def advance(self, state: TracesState, driven: Driven, ready: Float[Array, " R"]) -> TracesState:
        """The clock goes on, and every sum fades and takes something in."""
        clock = state.clock + 1
        swing = jnp.cos(ready * clock)[:, None, None]
        new_keys, new_values = driven.gates * driven.keys, driven.rate * driven.values
        return TracesState(
            keys=(1 - driven.gates)[None] * state.keys + new_keys[None] * swing,
            values=(1 - driven.rate)[None] * state.values + new_values[None] * swing,
            sums=(1 - driven.gates) * state.sums + new_keys,
            clock=clock,
        )

    def read(self, state: TracesState, driven: Driven) -> Float[Array, " I"]:
        """What the queries find."""
        match = jnp.sum(state.keys * driven.queries[None], axis=-1)
        found = jnp.sum(state.values * match[..., None], axis=0)
        weight = 2 * self.frequencies * jnp.sum(state.sums * driven.queries, axis=-1) + EPSILON
        return (found / weight[:, None]).reshape(-1)

    def remembered(self, read: Float[Array, "*n I"], driven: Driven) -> Float[Array, "*n D"]:
        """Through the output map."""
        del driven
        return self.out(read)


def _outer(a: Float[Array, "*n H E"], b: Float[Array, "*n H K"]) -> Float[Array, "*n H F"]:
    return (a[..., :, None] * b[..., None, :]).reshape(*a.shape[:-1], a.shape[-1] * b.shape[-1])


class AGaLiTe(GatedStack):
    """Layers of approximate gated linear attention. `eta` features for each number of a key, `frequencies` cosines."""

    def __init__(
        self,
        input_size: int,
        *,
        d_model: int = 256,
        layers: int = 1,
        heads: int = 4,
        head_dim: int | None = None,
        mlp: int | None = None,
        eta: int = 4,
        frequencies: int = 7,
        gate: str | type[Gate] = "gru",
        gate_bias: float | str | None = None,
        init_variance: float = INIT_VARIANCE,
        dtype: str = "float32",
        key: PRNGKeyArray,
    ):
        variance = check_variance(init_variance)
        bias = first_bias(gate, gate_bias, layers)
        wide = divided(d_model, heads) if head_dim is None else head_dim
        at_least("heads", heads, least=1, hint="4 is usual")
        at_least("head_dim", wide, least=1, hint="leave it out to divide d_model among the heads")
        at_least("eta", eta, least=1, hint="it is how many features each number of a key has; 4 is the default")
        at_least("frequencies", frequencies, least=1, hint="it is the number of cosines; 7 is the default")
        hidden = d_model if mlp is None else mlp

        def layer(key: PRNGKeyArray) -> AGaLiTeLayer:
            block_key, in_key, out_key = jax.random.split(key, 3)
            return AGaLiTeLayer(
                block=GatedBlock(d_model, mlp=hidden, gate=gate, gate_bias=bias, variance=variance, key=block_key),
                inputs=with_variance(Linear(d_model, heads * (5 * wide + 3 * eta), key=in_key), variance),
                out=with_variance(Linear(heads * wide, d_model, key=out_key), variance),
                heads=heads,
                head_dim=wide,
                eta=eta,
                frequencies=frequencies,
            )

        self._build(input_size, d_model, layers, dtype, layer, key)
