"""The linear recurrent unit: LRU (Orvieto et al., "Resurrecting Recurrent Neural Networks for Long Sequences", 2023).

D width, N complex numbers that remember.

    s = lambda * s + gamma * (B u),   lambda = exp(-exp(nu) + i exp(theta)),   gamma = sqrt(1 - |lambda|^2)
    y = Re(C s) + d * u

with u the layer's input after a norm; y goes through GELU and a gated linear unit and is added to the stream, as in the
paper's block. At first |lambda| lies evenly (by area) in a ring and the angle between 0 and a small one, as the paper has
it for its longest sequences. Sources differ in gamma: the paper's program trains it from that value on; here it follows
lambda, so that the state keeps its size whatever lambda becomes. The norm is a layer norm (the paper: batch norm, which a
stream of one step does not have).
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from gtrxl.cores.errors import CoreError, at_least
from gtrxl.cores.layers import LayerNorm, Linear, along_last, flat_matmul
from gtrxl.cores.linear import scan
from gtrxl.cores.linear.scan import Pair
from gtrxl.cores.linear.stack import Decaying, Stack, half

LARGEST_ANGLE = math.pi / 10
"""A turn in 20 steps is the fastest at first."""


class LinearRecurrence(eqx.Module):
    """The recurrence and its two maps, without the block around it. Complex weights are kept as real and imaginary parts."""

    nu: Float[Array, " N"]
    theta: Float[Array, " N"]
    b: Float[Array, "D 2*N"]
    c: Float[Array, "2*N D"]
    d: Float[Array, " D"]

    def __init__(self, d_model: int, state_size: int, *, shortest: float, longest: float, key: PRNGKeyArray):
        at_least("state_size", state_size, least=1, hint="it is how many complex numbers remember; half of d_model is usual")
        if not 0 <= shortest < longest < 1:
            raise CoreError(
                f"shortest and longest must be 0 <= shortest < longest < 1, got {shortest} and {longest}; "
                "they are how much is kept from one step to the next, 0.9 and 0.999 at first"
            )
        ring_key, turn_key, b_key, c_key, d_key = jax.random.split(key, 5)
        area = jax.random.uniform(ring_key, (state_size,), minval=shortest**2, maxval=longest**2)
        self.nu = jnp.log(-0.5 * jnp.log(jnp.maximum(area, 1e-12)))
        self.theta = jnp.log(LARGEST_ANGLE * jax.random.uniform(turn_key, (state_size,), minval=1e-3))
        self.b = jax.random.normal(b_key, (d_model, 2 * state_size)) / math.sqrt(2 * d_model)
        self.c = jax.random.normal(c_key, (2 * state_size, d_model)) / math.sqrt(state_size)
        self.d = jax.random.normal(d_key, (d_model,))

    def initial_state(self) -> Pair:
        """Zeros."""
        return Pair(re=jnp.zeros_like(self.nu), im=jnp.zeros_like(self.nu))

    def kept(self) -> Pair:
        """lambda."""
        size, angle = jnp.exp(-jnp.exp(self.nu)), jnp.exp(self.theta)
        return Pair(re=size * jnp.cos(angle), im=size * jnp.sin(angle))

    def written(self, u: Float[Array, "*n D"]) -> Pair:
        """gamma * (B u)."""
        gamma = jnp.sqrt(-jnp.expm1(-2 * jnp.exp(self.nu)))
        re, im = jnp.split(flat_matmul(u, self.b.astype(u.dtype)).astype(jnp.float32), 2, axis=-1)
        return Pair(re=re * along_last(gamma, re), im=im * along_last(gamma, im))

    def out(self, state: Pair, u: Float[Array, "*n D"]) -> Float[Array, "*n D"]:
        """Re(C s) + d * u; the rows of `c` that meet the imaginary part hold -Im(C)."""
        both = jnp.concatenate([state.re, state.im], axis=-1).astype(u.dtype)
        return flat_matmul(both, self.c.astype(u.dtype)) + along_last(self.d, u) * u


class LRULayer(Decaying):
    """x + glu(gelu(recurrence(norm(x))))."""

    norm: LayerNorm
    recurrence: LinearRecurrence
    glu: Linear

    def __init__(self, d_model: int, state_size: int, *, shortest: float, longest: float, key: PRNGKeyArray):
        recurrence_key, glu_key = jax.random.split(key)
        self.norm = LayerNorm(d_model)
        self.recurrence = LinearRecurrence(d_model, state_size, shortest=shortest, longest=longest, key=recurrence_key)
        self.glu = Linear(d_model, 2 * d_model, key=glu_key)

    times = staticmethod(scan.turned)

    def initial_state(self) -> Pair:
        """Zeros."""
        return self.recurrence.initial_state()

    def drive(self, x: Float[Array, "*n D"]) -> tuple[Array, Pair]:
        """The input after its norm, and what it writes."""
        u = self.norm(x)
        return u, self.recurrence.written(u)

    def ready(self) -> Pair:
        """lambda."""
        return self.recurrence.kept()

    def kept(self, driven: tuple[Array, Pair], ready: Pair) -> Pair:
        """The same at every step."""
        del driven
        return ready

    def written(self, driven: tuple[Array, Pair]) -> Pair:
        """gamma * (B u)."""
        return driven[1]

    def leave(self, x: Float[Array, "*n D"], read: Pair, driven: tuple[Array, Pair]) -> Float[Array, "*n D"]:
        """The gated unit's output on top of the stream."""
        y = jax.nn.gelu(self.recurrence.out(read, driven[0]))
        return x + jax.nn.glu(self.glu(y))


class LRU(Stack):
    """Layers of linear recurrent units. `state_size=None` is a complex number for two of the width: as many real ones as there.
    `shortest` and `longest` bound how much they keep from step to step at first."""

    def __init__(
        self,
        input_size: int,
        *,
        d_model: int = 256,
        layers: int = 1,
        state_size: int | None = None,
        shortest: float = 0.9,
        longest: float = 0.999,
        dtype: str = "float32",
        key: PRNGKeyArray,
    ):
        size = half(d_model) if state_size is None else state_size

        def layer(key: PRNGKeyArray) -> LRULayer:
            return LRULayer(d_model, size, shortest=shortest, longest=longest, key=key)

        self._build(input_size, d_model, layers, dtype, layer, key)
