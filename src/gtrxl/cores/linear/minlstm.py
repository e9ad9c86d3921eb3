"""The minimal LSTM: minLSTM (Feng et al., "Were RNNs All We Needed?", 2024). D width, N units.

    f = sigmoid(W_f u), i = sigmoid(W_i u),   h = f / (f + i) * h + i / (f + i) * g(W_h u)

with g and all that is around it as in `mingru`. f / (f + i) is computed as one sigmoid, of log f - log i, which stays
finite where both are tiny. At first f stands open and the bias of i is drawn so that units remember between 2 and `longest`
steps; the paper moves the bias of f alone, but f cannot exceed 1, so against an i of 1/2 nothing would last longer than 3
steps.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from gtrxl.cores.linear.stack import Stack
from gtrxl.cores.linear.units import Units, lasting, positive


class MinLSTMLayer(Units):
    """Three maps of the input: f, i, and what is new."""

    def __init__(self, d_model: int, state_size: int, *, longest: int, key: PRNGKeyArray):
        build_key, bias_key = jax.random.split(key)
        self._build(d_model, state_size, gates=3, key=build_key)
        # log sigmoid(b_f) cannot exceed 0, so the whole ratio f / i is made by i: f stands open, i = 1 / (T - 1) of it.
        bias = jnp.concatenate([jnp.full((state_size,), 2.0), -lasting(bias_key, state_size, longest)])
        self.inputs = eqx.tree_at(lambda of: of.bias, self.inputs, self.inputs.bias.at[: 2 * state_size].set(bias))

    def shares(self, *gates: Float[Array, "*n N"]) -> tuple[Array, Array]:
        """f / (f + i), and i / (f + i) * g."""
        f, i, new = gates
        ratio = jax.nn.log_sigmoid(f) - jax.nn.log_sigmoid(i)
        return jax.nn.sigmoid(ratio), jax.nn.sigmoid(-ratio) * positive(new)


class MinLSTM(Stack):
    """Layers of minimal LSTMs. `state_size=None` is as many units as the width."""

    def __init__(
        self,
        input_size: int,
        *,
        d_model: int = 256,
        layers: int = 1,
        state_size: int | None = None,
        longest: int = 256,
        dtype: str = "float32",
        key: PRNGKeyArray,
    ):
        size = d_model if state_size is None else state_size
        self._build(input_size, d_model, layers, dtype, lambda key: MinLSTMLayer(d_model, size, longest=longest, key=key), key)
