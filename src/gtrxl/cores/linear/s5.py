"""The simplified state space layer: S5 (Smith et al. 2023); in reinforcement learning Lu et al., "Structured State Space
Models for In-Context Reinforcement Learning", 2023.

D width, N complex numbers that remember: half of a real state of 2 N, the other half being their conjugates.

    s = exp(L delta) * s + ((exp(L delta) - 1) / L) * (B u)         L = -exp(a) + i w, delta = exp(t): zero-order hold
    y = 2 Re(C s) + d * u

with u the layer's input after a norm. As in the paper, g = gelu(y) leaves as x + g * sigmoid(W g). L begins as the
eigenvalues of HiPPO-LegS's normal part (all of real part -1/2), B and C in their basis, delta evenly in its logarithm
between 0.001 and 0.1. Sources differ in how L's real part is kept negative (clipped, or left alone): here it is minus an
exponential. One block of eigenvalues (the paper has several in larger models).
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from gtrxl.cores.errors import at_least
from gtrxl.cores.layers import LayerNorm, Linear, along_last, flat_matmul
from gtrxl.cores.linear import scan
from gtrxl.cores.linear.scan import Pair
from gtrxl.cores.linear.stack import Decaying, Stack, half

SHORTEST, LONGEST = 0.001, 0.1
"""Of the time that a step lasts, at first."""


def hippo_basis(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Of HiPPO-LegS's normal part, a matrix of 2 N: the N positive frequencies, and the vectors that belong to them, in columns.

    The matrix is -1/2 on its diagonal and otherwise skew, so its eigenvectors are those of a Hermitian one.
    """
    root = np.sqrt(np.arange(2 * size) + 0.5)
    skew = np.triu(np.outer(root, root), 1)
    frequencies, vectors = np.linalg.eigh(-1j * (skew - skew.T))
    return frequencies[size:], vectors[:, size:]


class S5Layer(Decaying):
    """x + g * sigmoid(W g) with g = gelu(state space(norm(x)))."""

    norm: LayerNorm
    a: Float[Array, " N"]
    w: Float[Array, " N"]
    t: Float[Array, " N"]
    b: Float[Array, "D 2*N"]
    c: Float[Array, "2*N D"]
    d: Float[Array, " D"]
    gate: Linear

    def __init__(self, d_model: int, state_size: int, *, key: PRNGKeyArray):
        at_least("state_size", state_size, least=1, hint="it is how many complex numbers remember; half of d_model is usual")
        time_key, b_key, c_key, d_key, gate_key = jax.random.split(key, 5)
        frequencies, vectors = hippo_basis(state_size)
        re, im = jnp.asarray(np.real(vectors), jnp.float32), jnp.asarray(np.imag(vectors), jnp.float32)
        self.norm = LayerNorm(d_model)
        self.a = jnp.full((state_size,), math.log(0.5), jnp.float32)
        self.w = jnp.asarray(frequencies, jnp.float32)
        self.t = jax.random.uniform(time_key, (state_size,), minval=math.log(SHORTEST), maxval=math.log(LONGEST))
        b = jax.random.normal(b_key, (d_model, 2 * state_size)) / math.sqrt(d_model)
        self.b = jnp.concatenate([b @ re, -b @ im], axis=1)  # V^H B
        c = jax.random.normal(c_key, (2 * state_size, d_model)) / math.sqrt(2 * state_size)
        self.c = jnp.concatenate([re.T @ c, -im.T @ c], axis=0)  # C V
        self.d = jax.random.normal(d_key, (d_model,))
        self.gate = Linear(d_model, d_model, key=gate_key)

    times = staticmethod(scan.turned)

    def initial_state(self) -> Pair:
        """Zeros."""
        return Pair(re=jnp.zeros_like(self.a), im=jnp.zeros_like(self.a))

    def ready(self) -> Pair:
        """exp(L delta)."""
        delta = jnp.exp(self.t)
        size, angle = jnp.exp(-jnp.exp(self.a) * delta), self.w * delta
        return Pair(re=size * jnp.cos(angle), im=size * jnp.sin(angle))

    def drive(self, x: Float[Array, "*n D"]) -> tuple[Array, Pair]:
        """The input after its norm, and ((exp(L delta) - 1) / L) * (B u)."""
        u = self.norm(x)
        re, im = jnp.split(flat_matmul(u, self.b.astype(u.dtype)).astype(jnp.float32), 2, axis=-1)
        decay, kept = jnp.exp(self.a), self.ready()
        # (k - 1) / L = (k - 1) conj(L) / |L|^2 with conj(L) = -decay - i w
        length = jnp.square(decay) + jnp.square(self.w)
        hold_re = (-decay * (kept.re - 1) + self.w * kept.im) / length
        hold_im = (-decay * kept.im - self.w * (kept.re - 1)) / length
        hold = Pair(re=along_last(hold_re, re), im=along_last(hold_im, im))
        return u, scan.turned(hold, Pair(re=re, im=im))

    def kept(self, driven: tuple[Array, Pair], ready: Pair) -> Pair:
        """The same at every step."""
        del driven
        return ready

    def written(self, driven: tuple[Array, Pair]) -> Pair:
        """What the input writes."""
        return driven[1]

    def leave(self, x: Float[Array, "*n D"], read: Pair, driven: tuple[Array, Pair]) -> Float[Array, "*n D"]:
        """2 Re(C s) + d * u, gated, on top of the stream; the rows of `c` that meet the imaginary part hold -Im(C)."""
        u = driven[0]
        both = jnp.concatenate([read.re, read.im], axis=-1).astype(u.dtype)
        g = jax.nn.gelu(2 * flat_matmul(both, self.c.astype(u.dtype)) + along_last(self.d, u) * u)
        return x + g * jax.nn.sigmoid(self.gate(g))


class S5(Stack):
    """State space layers. `state_size=None` is as many complex numbers as half the width: a real state of the width."""

    def __init__(
        self,
        input_size: int,
        *,
        d_model: int = 256,
        layers: int = 1,
        state_size: int | None = None,
        dtype: str = "float32",
        key: PRNGKeyArray,
    ):
        size = half(d_model) if state_size is None else state_size
        self._build(input_size, d_model, layers, dtype, lambda key: S5Layer(d_model, size, key=key), key)
