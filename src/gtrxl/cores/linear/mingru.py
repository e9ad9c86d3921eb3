"""The minimal GRU: minGRU (Feng et al., "Were RNNs All We Needed?", 2024). D width, N units.

    z = sigmoid(W_z u),   h = (1 - z) * h + z * g(W_h u),   g(a) = a + 0.5 for a >= 0, else sigmoid(a)

with u the layer's input after a norm: the gates do not see h, so it is a linear recurrence. What leaves the layer is x + W
(h * silu(W_o u)); the paper has plain layers in small tasks and an MLP after each in language, of which this gate is the
cheaper half. g keeps h positive; the paper's scan in logarithms needs that, and its equations keep it. The bias of z is
drawn so that a unit at first remembers between 2 and `longest` steps, evenly (Tallec and Ollivier 2018): with zeros half of
h is gone after one.
"""

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray

from gtrxl.cores.linear.stack import Stack
from gtrxl.cores.linear.units import Units, lasting, positive


class MinGRULayer(Units):
    """Two maps of the input: z, and what is new."""

    def __init__(self, d_model: int, state_size: int, *, longest: int, key: PRNGKeyArray):
        build_key, bias_key = jax.random.split(key)
        self._build(d_model, state_size, gates=2, key=build_key)
        bias = self.inputs.bias.at[:state_size].set(-lasting(bias_key, state_size, longest))
        self.inputs = eqx.tree_at(lambda of: of.bias, self.inputs, bias)

    def shares(self, *gates: Float[Array, "*n N"]) -> tuple[Array, Array]:
        """1 - z, and z * g."""
        z, new = gates
        return jax.nn.sigmoid(-z), jax.nn.sigmoid(z) * positive(new)


class MinGRU(Stack):
    """Layers of minimal GRUs. `state_size=None` is as many units as the width."""

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
        self._build(input_size, d_model, layers, dtype, lambda key: MinGRULayer(d_model, size, longest=longest, key=key), key)
