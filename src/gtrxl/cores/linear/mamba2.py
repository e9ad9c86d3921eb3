"""Mamba-2 (Dao and Gu, "Transformers are SSMs", 2024). D width, I = 2 D inner width, H heads of P = I / H, N numbers for each.

    x, B, C = convolution(W u), z and dt beside them;   dt = softplus(dt + b),   a = exp(-dt exp(A)) for each head
    S = a S + B (dt x)^T                                 S: [N, P] for each head
    y = S^T C + d x,   out = W_o norm(y * silu(z))

with u the layer's input after a norm, and the output added to the stream. B and C are shared by all heads (the paper's one
group). At first exp(A) lies evenly between 1 and 16 and dt, evenly in its logarithm, between 0.001 and 0.1: decays of a
step to thousands. The paper's language models have 64 to 256 numbers for each channel (N); here 16: every step
goes through all of them. Norms are over the mean square, as the paper's, where a gate comes before; the layer's first norm
is a layer norm.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from gtrxl.cores.errors import at_least
from gtrxl.cores.layers import LayerNorm, Linear, along_last
from gtrxl.cores.linear.convolution import Convolution, Convolved
from gtrxl.cores.linear.stack import Decaying, Stack, cuts, divided, unit_size

EXPAND = 2
"""The inner width, in widths."""


class Driven(eqx.Module):
    """What drives a head: the share that it keeps, dt x, B and C; and x and z for the way out."""

    kept: Float[Array, "*n H"]
    scaled: Float[Array, "*n H P"]
    b: Float[Array, "*n N"]
    c: Float[Array, "*n N"]
    x: Float[Array, "*n I"]
    z: Float[Array, "*n I"]


def first_steps(key: PRNGKeyArray, size: int) -> Float[Array, " H"]:
    """b of softplus(b) evenly in its logarithm between 0.001 and 0.1; DeltaNet's decays begin the same way."""
    dt = jnp.exp(jax.random.uniform(key, (size,), minval=math.log(0.001), maxval=math.log(0.1)))
    return dt + jnp.log(-jnp.expm1(-dt))


def first_rates(key: PRNGKeyArray, size: int) -> Float[Array, " H"]:
    """A of exp(A) evenly between 1 and 16."""
    return jnp.log(jax.random.uniform(key, (size,), minval=1.0, maxval=16.0))


class Mamba2Layer(Convolved, Decaying):
    """One layer; `size` is N."""

    norm: LayerNorm
    inputs: Linear
    convolution: Convolution
    a: Float[Array, " H"]
    dt: Float[Array, " H"]
    d: Float[Array, " H"]
    scale: Float[Array, " I"]
    out: Linear
    size: int = eqx.field(static=True)

    def __init__(self, d_model: int, heads: int, size: int, convolution: int, *, key: PRNGKeyArray):
        at_least("state_size", size, least=1, hint="it is how many numbers each inner channel remembers; 16 is the default")
        in_key, convolution_key, a_key, dt_key, out_key = jax.random.split(key, 5)
        inner = EXPAND * d_model
        divided(inner, heads)
        self.norm = LayerNorm(d_model)
        self.inputs = Linear(d_model, 2 * inner + 2 * size + heads, key=in_key)
        self.convolution = Convolution(inner + 2 * size, convolution, key=convolution_key)
        self.a = first_rates(a_key, heads)
        self.dt = first_steps(dt_key, heads)
        self.d = jnp.ones((heads,), jnp.float32)
        self.scale = jnp.ones((inner,), jnp.float32)
        self.out = Linear(inner, d_model, key=out_key)
        self.size = size

    def inner_state(self) -> Float[Array, "H N P"]:
        """Zeros. The channels are last, where a CPU has its vectors."""
        heads = self.a.shape[0]
        return jnp.zeros((heads, self.size, self.scale.shape[0] // heads), jnp.float32)

    def drive(self, x: Float[Array, "*n D"]) -> tuple[Array, tuple[Array, Array]]:
        """x, B and C for the convolution; z and dt, which pass it by."""
        inner, heads = self.scale.shape[0], self.a.shape[0]
        z, lead, dt = cuts(self.inputs(self.norm(x)), [inner, inner + 2 * self.size, heads])
        return lead, (z, dt.astype(jnp.float32))

    def mixed(self, convolved: Float[Array, "*n C"], passing: tuple[Array, Array]) -> Driven:
        """The decay of each head, and what it writes."""
        z, dt = passing
        inner, heads = self.scale.shape[0], self.a.shape[0]
        x, b, c = cuts(convolved, [inner, self.size, self.size])
        dt = jax.nn.softplus(dt + along_last(self.dt, dt))
        kept = jnp.exp(-dt * along_last(jnp.exp(self.a), dt))
        scaled = dt[..., None] * x.reshape(*x.shape[:-1], heads, inner // heads)
        return Driven(kept=kept, scaled=scaled, b=b, c=c, x=x, z=z)

    def kept(self, driven: Driven, ready: None) -> Float[Array, "H 1 1"]:
        """One number for each head."""
        return driven.kept[:, None, None]

    def written(self, driven: Driven) -> Float[Array, "H N P"]:
        """B (dt x)^T."""
        return driven.scaled[:, None, :] * driven.b[None, :, None]

    def read(self, state: Float[Array, "H N P"], driven: Driven) -> Float[Array, " I"]:
        """S^T C."""
        return jnp.sum(state * driven.c[None, :, None], axis=1).reshape(-1)

    def leave(self, x: Float[Array, "*n D"], read: Float[Array, "*n I"], driven: Driven) -> Float[Array, "*n D"]:
        """The gate, the norm, and the way out."""
        through = jnp.repeat(self.d, self.scale.shape[0] // self.d.shape[0])
        y = read + along_last(through, read) * driven.x
        y = unit_size(y * jax.nn.silu(driven.z.astype(jnp.float32))) * along_last(self.scale, y)
        return x + self.out(y.astype(x.dtype))


class Mamba2(Stack):
    """Mamba-2 layers. `state_size` is N, what each of the 2 x d_model inner channels remembers; `convolution` is how many steps
    the short convolution sees."""

    def __init__(
        self,
        input_size: int,
        *,
        d_model: int = 256,
        layers: int = 1,
        heads: int = 4,
        state_size: int = 16,
        convolution: int = 4,
        dtype: str = "float32",
        key: PRNGKeyArray,
    ):
        def layer(key: PRNGKeyArray) -> Mamba2Layer:
            return Mamba2Layer(d_model, heads, state_size, convolution, key=key)

        self._build(input_size, d_model, layers, dtype, layer, key)
