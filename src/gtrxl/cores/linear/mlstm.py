"""The matrix LSTM: mLSTM of xLSTM (Beck et al., "xLSTM: Extended Long Short-Term Memory", 2024). D width, H heads of K = D / H.

    C = f C + i v k^T,   n = f n + i k,   y = C q / max(|n . q|, 1),   i = exp(.), f = sigmoid(.), one number for each head

with k divided by sqrt(K). exp(.) does not fit a float, so C and n are kept divided by exp(m), m = max(log f + m, log i):
then f is exp(log f + m' - m), i is exp(log i - m), and the 1 under the fraction becomes exp(-m). Sources differ just there:
some keep the 1, with which the result depends on the stabiliser, which is to have no say in it. Around it is the later,
leaner layer (xLSTM 7B, Beck et al. 2025) without convolution and without a wider inner part: the output is standardised in
each head, gated by sigmoid(W_o u), mapped, and added to the stream. The biases of f are 3 to 6 over the heads at first, as
published; those of i are 0.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from gtrxl.cores.layers import LayerNorm, Linear, along_last, standardise
from gtrxl.cores.linear.stack import Layer, Stack, cuts, divided

LARGEST = 80.0
"""Of what is taken to the power of e: exp(-m) beyond it divides a memory that holds nothing."""


class MatrixState(eqx.Module):
    """C^T and n divided by exp(m), and m. Values are last, where a CPU has its vectors."""

    c: Float[Array, "*B H K K"]
    n: Float[Array, "*B H K"]
    m: Float[Array, "*B H"]


class Driven(eqx.Module):
    """What drives each head, and what opens the way out."""

    q: Float[Array, "*n H K"]
    k: Float[Array, "*n H K"]
    v: Float[Array, "*n H K"]
    log_f: Float[Array, "*n H"]
    log_i: Float[Array, "*n H"]
    opening: Float[Array, "*n D"]


class MLSTMLayer(Layer):
    """One layer. m is a maximum over the past, so the loop is its form."""

    norm: LayerNorm
    inputs: Linear
    scale: Float[Array, " D"]
    out: Linear
    heads: int = eqx.field(static=True)

    def __init__(self, d_model: int, heads: int, *, key: PRNGKeyArray):
        in_key, out_key = jax.random.split(key)
        divided(d_model, heads)
        inputs = Linear(d_model, 4 * d_model + 2 * heads, key=in_key)
        bias = inputs.bias.at[4 * d_model : 4 * d_model + heads].set(jnp.linspace(3.0, 6.0, heads))
        self.norm = LayerNorm(d_model)
        self.inputs = eqx.tree_at(lambda of: of.bias, inputs, bias)
        self.scale = jnp.ones((d_model,), jnp.float32)
        self.out = Linear(d_model, d_model, key=out_key)
        self.heads = heads

    def initial_state(self) -> MatrixState:
        """Zeros."""
        heads, width = self.heads, self.scale.shape[0] // self.heads
        zeros = lambda *shape: jnp.zeros(shape, jnp.float32)  # noqa: E731
        return MatrixState(c=zeros(heads, width, width), n=zeros(heads, width), m=zeros(heads))

    def drive(self, x: Float[Array, "*n D"]) -> Driven:
        """All maps in one product."""
        width = self.scale.shape[0]
        q, k, v, opening, f, i = cuts(self.inputs(self.norm(x)), [width] * 4 + [self.heads] * 2)
        q, k, v = (part.astype(jnp.float32).reshape(*part.shape[:-1], self.heads, -1) for part in (q, k, v))
        k = k / (width // self.heads) ** 0.5
        f, i = f.astype(jnp.float32), i.astype(jnp.float32)
        return Driven(q=q, k=k, v=v, log_f=jax.nn.log_sigmoid(f), log_i=i, opening=opening)

    def advance(self, state: MatrixState, driven: Driven, ready: None) -> MatrixState:
        """The two sums, divided by the exponential of the new m."""
        m = jnp.maximum(driven.log_f + state.m, driven.log_i)
        f, i = jnp.exp(driven.log_f + state.m - m), jnp.exp(driven.log_i - m)
        new = (i[:, None] * driven.v)[:, None, :] * driven.k[:, :, None]
        return MatrixState(c=f[:, None, None] * state.c + new, n=f[:, None] * state.n + i[:, None] * driven.k, m=m)

    def read(self, state: MatrixState, driven: Driven) -> Float[Array, "H K"]:
        """C q / max(|n . q|, exp(-m))."""
        found = jnp.einsum("hkv,hk->hv", state.c, driven.q)
        weight = jnp.abs(jnp.sum(state.n * driven.q, axis=-1))
        return found / jnp.maximum(weight, jnp.exp(jnp.minimum(-state.m, LARGEST)))[:, None]

    def leave(self, x: Float[Array, "*n D"], read: Float[Array, "*n H K"], driven: Driven) -> Float[Array, "*n D"]:
        """Standardised, gated, and mapped."""
        y = standardise(read).reshape(x.shape)
        y = y * along_last(self.scale, y) * jax.nn.sigmoid(driven.opening.astype(jnp.float32))
        return x + self.out(y.astype(x.dtype))


class MLSTM(Stack):
    """Layers of matrix LSTMs."""

    def __init__(
        self,
        input_size: int,
        *,
        d_model: int = 256,
        layers: int = 1,
        heads: int = 4,
        dtype: str = "float32",
        key: PRNGKeyArray,
    ):
        self._build(input_size, d_model, layers, dtype, lambda key: MLSTMLayer(d_model, heads, key=key), key)
