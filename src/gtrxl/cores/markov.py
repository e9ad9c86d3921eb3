"""No memory at all: the control that shows how much of a score needs none. D_in input width, D width."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from gtrxl.cores.contract import DTYPES, Core, check_dtype
from gtrxl.cores.errors import at_least
from gtrxl.cores.layers import Linear, replaced, spoilt_rows


class NoState(eqx.Module):
    """Nothing to remember."""


class Markov(Core):
    """`layers` linear layers of width `d_model` with ReLU, applied to each step alone."""

    linears: tuple[Linear, ...]
    input_size: int = eqx.field(static=True)
    output_size: int = eqx.field(static=True)
    dtype: str = eqx.field(static=True)

    def __init__(self, input_size: int, *, d_model: int = 256, layers: int = 1, dtype: str = "float32", key: PRNGKeyArray):
        at_least("input_size", input_size, least=1, hint="it is the width of one step's input")
        at_least("d_model", d_model, least=1, hint="it is the width of a layer")
        at_least("layers", layers, least=1, hint="one layer is the least that maps the input to d_model")
        widths = [input_size] + [d_model] * (layers - 1)
        keys = jax.random.split(key, layers)
        self.linears = tuple(Linear(width, d_model, key=key) for width, key in zip(widths, keys, strict=True))
        self.input_size = input_size
        self.output_size = d_model
        self.dtype = check_dtype(dtype)

    def initial_state(self) -> NoState:
        """An empty record."""
        return NoState()

    def _step(self, x: Float[Array, " D_in"], state: NoState, reset: Bool[Array, ""]) -> tuple[Float[Array, " D"], NoState]:
        del reset
        return self._map(x), state

    def _unroll(
        self, xs: Float[Array, "T D_in"], state: NoState, resets: Bool[Array, " T"]
    ) -> tuple[Float[Array, "T D"], NoState]:
        del resets
        return self._map(xs), state

    def _map(self, x: Float[Array, "*n D_in"]) -> Float[Array, "*n D"]:
        x = x.astype(DTYPES[self.dtype])
        spoilt = spoilt_rows(x)
        x = replaced(x, spoilt, 0.0)
        for linear in self.linears:
            x = jax.nn.relu(linear(x))
        return replaced(x, spoilt, math.nan).astype(jnp.float32)
