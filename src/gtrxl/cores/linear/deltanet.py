"""Gated DeltaNet (Yang, Kautz and Hatamizadeh, "Gated Delta Networks", 2024). D width, H heads of K = D / H.

    S = a S (I - b k k^T) + b v k^T,   y = S q                 S: [K, K] for each head, rows for values, columns for keys

A key is first asked for what stands under it (a S k), and what is missing to the new value is written: a memory that can
replace one entry and leave the others. The product with I - b k k^T stands to the right of S; one public program has it on
the left, where it mixes values instead of keys, and agrees with none of the equations. q and k have length 1. As in the
paper q, k and v go through a short convolution, b = sigmoid(.), a = exp(-exp(A) softplus(. + c)) with Mamba-2's first
values (other sources: a sigmoid); the output is brought to unit size in each head, gated by silu(W_z u), mapped, and added
to the stream. Values are as wide as keys (the paper: twice).
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from gtrxl.cores.layers import LayerNorm, Linear, along_last
from gtrxl.cores.linear.convolution import Convolution, Convolved
from gtrxl.cores.linear.mamba2 import first_rates, first_steps
from gtrxl.cores.linear.stack import Stack, cuts, divided, unit_size

LEAST_LENGTH = 1e-6
"""What is added to the square of a key's length: a key of nothing stays nothing."""


class Driven(eqx.Module):
    """What drives each head, and what opens the way out."""

    q: Float[Array, "*n H K"]
    k: Float[Array, "*n H K"]
    v: Float[Array, "*n H K"]
    kept: Float[Array, "*n H"]
    rate: Float[Array, "*n H"]
    z: Float[Array, "*n D"]


class DeltaNetLayer(Convolved):
    """One layer. Its recurrence multiplies by a matrix, so it has no cheap form in rounds: always the loop."""

    norm: LayerNorm
    inputs: Linear
    convolution: Convolution
    a: Float[Array, " H"]
    dt: Float[Array, " H"]
    scale: Float[Array, " D"]
    out: Linear

    def __init__(self, d_model: int, heads: int, convolution: int, *, key: PRNGKeyArray):
        in_key, convolution_key, a_key, dt_key, out_key = jax.random.split(key, 5)
        divided(d_model, heads)
        self.norm = LayerNorm(d_model)
        self.inputs = Linear(d_model, 4 * d_model + 2 * heads, key=in_key)
        self.convolution = Convolution(3 * d_model, convolution, key=convolution_key)
        self.a = first_rates(a_key, heads)
        self.dt = first_steps(dt_key, heads)
        self.scale = jnp.ones((d_model,), jnp.float32)
        self.out = Linear(d_model, d_model, key=out_key)

    def inner_state(self) -> Float[Array, "H K K"]:
        """Zeros. It is S^T that is kept, values along the last axis, where a CPU has its vectors."""
        heads = self.a.shape[0]
        width = self.scale.shape[0] // heads
        return jnp.zeros((heads, width, width), jnp.float32)

    def drive(self, x: Float[Array, "*n D"]) -> tuple[Array, tuple[Array, Array, Array]]:
        """q, k and v for the convolution; the output's gate and the two rates, which pass it by."""
        width, heads = self.scale.shape[0], self.a.shape[0]
        lead, z, kept, rate = cuts(self.inputs(self.norm(x)), [3 * width, width, heads, heads])
        return lead, (z, kept.astype(jnp.float32), rate.astype(jnp.float32))

    def mixed(self, convolved: Float[Array, "*n C"], passing: tuple[Array, Array, Array]) -> Driven:
        """Queries and keys of length 1, and the shares that are kept and written."""
        z, kept, rate = passing
        q, k, v = (part.reshape(*part.shape[:-1], self.a.shape[0], -1) for part in jnp.split(convolved, 3, axis=-1))
        decay = jax.nn.softplus(kept + along_last(self.dt, kept)) * along_last(jnp.exp(self.a), kept)
        return Driven(q=_direction(q), k=_direction(k), v=v, kept=jnp.exp(-decay), rate=jax.nn.sigmoid(rate), z=z)

    def advance(self, state: Float[Array, "H K K"], driven: Driven, ready: None) -> Float[Array, "H K K"]:
        """a S (I - b k k^T) + b v k^T, as a S + b (v - a S k) k^T."""
        state = driven.kept[:, None, None] * state
        key = driven.k[:, :, None]
        missing = driven.v - jnp.einsum("hkv,hk->hv", state, driven.k)
        return state + (driven.rate[:, None] * missing)[:, None, :] * key

    def read(self, state: Float[Array, "H K K"], driven: Driven) -> Float[Array, "H K"]:
        """S q."""
        return jnp.einsum("hkv,hk->hv", state, driven.q)

    def leave(self, x: Float[Array, "*n D"], read: Float[Array, "*n H K"], driven: Driven) -> Float[Array, "*n D"]:
        """Unit size, the gate, and the way out."""
        y = unit_size(read).reshape(x.shape)
        y = y * along_last(self.scale, y) * jax.nn.silu(driven.z.astype(jnp.float32))
        return x + self.out(y.astype(x.dtype))


def _direction(x: Float[Array, "*n K"]) -> Float[Array, "*n K"]:
    return x * jax.lax.rsqrt(jnp.sum(jnp.square(x), axis=-1, keepdims=True) + LEAST_LENGTH)


class DeltaNet(Stack):
    """Gated DeltaNet layers; `convolution` is how many steps the short convolution sees."""

    def __init__(
        self,
        input_size: int,
        *,
        d_model: int = 256,
        layers: int = 1,
        heads: int = 4,
        convolution: int = 4,
        dtype: str = "float32",
        key: PRNGKeyArray,
    ):
        def layer(key: PRNGKeyArray) -> DeltaNetLayer:
            return DeltaNetLayer(d_model, heads, convolution, key=key)

        self._build(input_size, d_model, layers, dtype, layer, key)
