"""What joins a submodule's output to the stream that passes it by: the paper's five gates, and the plain sum.

D width. `skip` is x, the stream; `update` is y, the submodule's output. Every gate is written as in the paper
(section "Gating Layers"); matrices that multiply the same vector are stored side by side and applied in one product.
At the initial bias a gate lets most of the stream through; as the bias grows it becomes the identity.
"""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from gtrxl.cores.layers import along_last, flat_matmul, uniform_init


class Gate(eqx.Module):
    """g(x, y). Every gate takes `(d_model, bias, key)`, needed or not, so that they can be swapped; see `GATES`."""

    @abc.abstractmethod
    def __init__(self, d_model: int, *, bias: float | None, key: PRNGKeyArray): ...

    @abc.abstractmethod
    def __call__(self, *, skip: Float[Array, "*n D"], update: Float[Array, "*n D"]) -> Float[Array, "*n D"]: ...

    @abc.abstractmethod
    def opening(self, *, skip: Float[Array, "*n D"], update: Float[Array, "*n D"]) -> Float[Array, "*n D"]:
        """From 0, the stream passes unchanged, to 1. What a run reports as the gate's openness."""


class ResidualGate(Gate):
    """No gate: x + y. TrXL and TrXL-I."""

    def __init__(self, d_model: int, *, bias: float | None, key: PRNGKeyArray):
        del d_model, bias, key

    def __call__(self, *, skip: Float[Array, "*n D"], update: Float[Array, "*n D"]) -> Float[Array, "*n D"]:
        return skip + update

    def opening(self, *, skip: Float[Array, "*n D"], update: Float[Array, "*n D"]) -> Float[Array, "*n D"]:
        """Always 1."""
        return jnp.ones_like(skip)


class InputGate(Gate):
    """sigmoid(W_g x) * x + y. The paper gives it no bias."""

    w_g: Float[Array, "D D"]

    def __init__(self, d_model: int, *, bias: float | None, key: PRNGKeyArray):
        del bias
        self.w_g = uniform_init(key, (d_model, d_model), fan_in=d_model)

    def __call__(self, *, skip: Float[Array, "*n D"], update: Float[Array, "*n D"]) -> Float[Array, "*n D"]:
        return jax.nn.sigmoid(flat_matmul(skip, self.w_g.astype(skip.dtype))) * skip + update

    def opening(self, *, skip: Float[Array, "*n D"], update: Float[Array, "*n D"]) -> Float[Array, "*n D"]:
        """1 - sigmoid(W_g x): how much of the stream is held back. The update always passes."""
        return jax.nn.sigmoid(-flat_matmul(skip, self.w_g.astype(skip.dtype)))


class OutputGate(Gate):
    """x + sigmoid(W_g x - b_g) * y."""

    w_g: Float[Array, "D D"]
    b_g: Float[Array, " D"]

    def __init__(self, d_model: int, *, bias: float | None, key: PRNGKeyArray):
        self.w_g = uniform_init(key, (d_model, d_model), fan_in=d_model)
        self.b_g = _bias(d_model, bias, default=1.0)

    def __call__(self, *, skip: Float[Array, "*n D"], update: Float[Array, "*n D"]) -> Float[Array, "*n D"]:
        return skip + self.opening(skip=skip, update=update) * update

    def opening(self, *, skip: Float[Array, "*n D"], update: Float[Array, "*n D"]) -> Float[Array, "*n D"]:
        """sigmoid(W_g x - b_g)."""
        return jax.nn.sigmoid(flat_matmul(skip, self.w_g.astype(skip.dtype)) - along_last(self.b_g, skip))


class HighwayGate(Gate):
    """s * x + (1 - s) * y with s = sigmoid(W_g x + b_g)."""

    w_g: Float[Array, "D D"]
    b_g: Float[Array, " D"]

    def __init__(self, d_model: int, *, bias: float | None, key: PRNGKeyArray):
        self.w_g = uniform_init(key, (d_model, d_model), fan_in=d_model)
        self.b_g = _bias(d_model, bias, default=1.0)

    def __call__(self, *, skip: Float[Array, "*n D"], update: Float[Array, "*n D"]) -> Float[Array, "*n D"]:
        dtype = skip.dtype
        carry = jax.nn.sigmoid(flat_matmul(skip, self.w_g.astype(dtype)) + along_last(self.b_g, skip))
        return carry * skip + (1 - carry) * update

    def opening(self, *, skip: Float[Array, "*n D"], update: Float[Array, "*n D"]) -> Float[Array, "*n D"]:
        """1 - s."""
        return jax.nn.sigmoid(-flat_matmul(skip, self.w_g.astype(skip.dtype)) - along_last(self.b_g, skip))


class SigTanhGate(Gate):
    """x + sigmoid(W_g y - b_g) * tanh(U_g y)."""

    wu_g: Float[Array, "D 2*D"]
    b_g: Float[Array, " D"]

    def __init__(self, d_model: int, *, bias: float | None, key: PRNGKeyArray):
        self.wu_g = uniform_init(key, (d_model, 2 * d_model), fan_in=d_model)
        self.b_g = _bias(d_model, bias, default=1.0)

    def __call__(self, *, skip: Float[Array, "*n D"], update: Float[Array, "*n D"]) -> Float[Array, "*n D"]:
        dtype = skip.dtype
        opening, content = jnp.split(flat_matmul(update, self.wu_g.astype(dtype)), 2, axis=-1)
        return skip + jax.nn.sigmoid(opening - along_last(self.b_g, skip)) * jnp.tanh(content)

    def opening(self, *, skip: Float[Array, "*n D"], update: Float[Array, "*n D"]) -> Float[Array, "*n D"]:
        """sigmoid(W_g y - b_g)."""
        opening, _ = jnp.split(flat_matmul(update, self.wu_g.astype(skip.dtype)), 2, axis=-1)
        return jax.nn.sigmoid(opening - along_last(self.b_g, skip))


class GRUGate(Gate):
    """(1 - z) * x + z * h with r = sigmoid(W_r y + U_r x), z = sigmoid(W_z y + U_z x - b_g), h = tanh(W_g y + U_g (r * x))."""

    w_rzg: Float[Array, "D 3*D"]
    u_rz: Float[Array, "D 2*D"]
    u_g: Float[Array, "D D"]
    b_g: Float[Array, " D"]

    def __init__(self, d_model: int, *, bias: float | None, key: PRNGKeyArray):
        w_key, rz_key, g_key = jax.random.split(key, 3)
        self.w_rzg = uniform_init(w_key, (d_model, 3 * d_model), fan_in=d_model)
        self.u_rz = uniform_init(rz_key, (d_model, 2 * d_model), fan_in=d_model)
        self.u_g = uniform_init(g_key, (d_model, d_model), fan_in=d_model)
        self.b_g = _bias(d_model, bias, default=2.0)

    def __call__(self, *, skip: Float[Array, "*n D"], update: Float[Array, "*n D"]) -> Float[Array, "*n D"]:
        dtype = skip.dtype
        y_r, y_z, y_g = jnp.split(flat_matmul(update, self.w_rzg.astype(dtype)), 3, axis=-1)
        x_r, x_z = jnp.split(flat_matmul(skip, self.u_rz.astype(dtype)), 2, axis=-1)
        r = jax.nn.sigmoid(y_r + x_r)
        z = jax.nn.sigmoid(y_z + x_z - along_last(self.b_g, skip))
        h = jnp.tanh(y_g + flat_matmul(r * skip, self.u_g.astype(dtype)))
        return (1 - z) * skip + z * h

    def opening(self, *, skip: Float[Array, "*n D"], update: Float[Array, "*n D"]) -> Float[Array, "*n D"]:
        """z."""
        dtype, size = skip.dtype, skip.shape[-1]
        y_z = flat_matmul(update, self.w_rzg[:, size : 2 * size].astype(dtype))
        x_z = flat_matmul(skip, self.u_rz[:, size:].astype(dtype))
        return jax.nn.sigmoid(y_z + x_z - along_last(self.b_g, skip))


def _bias(d_model: int, bias: float | None, *, default: float) -> Array:
    return jnp.full((d_model,), default if bias is None else bias, jnp.float32)


GATES: dict[str, type[Gate]] = {
    "none": ResidualGate,
    "input": InputGate,
    "output": OutputGate,
    "highway": HighwayGate,
    "sigtanh": SigTanhGate,
    "gru": GRUGate,
}
"""Gates by name. `bias=None` means the paper's: 2 for GRU, 1 for output, highway and sigtanh."""
