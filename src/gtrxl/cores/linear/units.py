"""Units that keep a share of themselves and take in a share of something new: what minGRU and minLSTM have in common.

D width, N units, G gates.
"""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from gtrxl.cores.errors import at_least
from gtrxl.cores.layers import LayerNorm, Linear
from gtrxl.cores.linear.stack import Decaying


class Driven(eqx.Module):
    """What the input decides: the share that is kept, what is added, and what opens the way out."""

    kept: Float[Array, "*n N"]
    written: Float[Array, "*n N"]
    opening: Float[Array, "*n N"]


def positive(a: Float[Array, "*n N"]) -> Float[Array, "*n N"]:
    """g(a) = a + 0.5 for a >= 0, else sigmoid(a): continuous, and never negative."""
    return jnp.where(a >= 0, a + 0.5, jax.nn.sigmoid(a))


def lasting(key: PRNGKeyArray, units: int, longest: int) -> Float[Array, " N"]:
    """The logits of how much is kept, for units that remember between 2 and `longest` steps, evenly: log(T - 1)."""
    at_least("longest", longest, least=3, hint="it is how many steps the slowest units remember at first")
    return jnp.log(jax.random.uniform(key, (units,), minval=1.0, maxval=float(longest - 1)))


class Units(Decaying):
    """x + W (h * silu(W_o u)) with h = kept * h + written and u = norm(x)."""

    norm: LayerNorm
    inputs: Linear
    out: Linear
    units: int = eqx.field(static=True)

    def _build(self, d_model: int, units: int, *, gates: int, key: PRNGKeyArray) -> None:
        """`gates` maps of the input are the unit's, one more is the way out: side by side in one product."""
        at_least("state_size", units, least=1, hint="it is the number of units; d_model is usual")
        in_key, out_key = jax.random.split(key)
        self.norm = LayerNorm(d_model)
        self.inputs = Linear(d_model, (gates + 1) * units, key=in_key)
        self.out = Linear(units, d_model, key=out_key)
        self.units = units

    def initial_state(self) -> Float[Array, " N"]:
        """Zeros."""
        return jnp.zeros((self.units,), jnp.float32)

    @abc.abstractmethod
    def shares(self, *gates: Float[Array, "*n N"]) -> tuple[Array, Array]:
        """How much is kept, and what is added, from the maps of the input."""

    def drive(self, x: Float[Array, "*n D"]) -> Driven:
        """All gates in one product."""
        mapped = self.inputs(self.norm(x))
        *gates, opening = jnp.split(mapped, mapped.shape[-1] // self.units, axis=-1)
        kept, written = self.shares(*(gate.astype(jnp.float32) for gate in gates))
        return Driven(kept=kept, written=written, opening=opening)

    def kept(self, driven: Driven, ready: None) -> Float[Array, " N"]:
        """The share of h that stays."""
        return driven.kept

    def written(self, driven: Driven) -> Float[Array, " N"]:
        """What is new."""
        return driven.written

    def leave(self, x: Float[Array, "*n D"], read: Float[Array, "*n N"], driven: Driven) -> Float[Array, "*n D"]:
        """What the gate lets out, on top of the stream."""
        return x + self.out(read.astype(x.dtype) * jax.nn.silu(driven.opening))
