"""What joins a submodule's output to the stream that passes it by: the paper's five gates, and the plain sum.

D width. `skip` is x, the stream; `update` is y, the submodule's output. Every gate is written as in the paper
(section "Gating Layers"); matrices that multiply the same vector are stored side by side and applied in one product.
At the initial bias a gate lets most of the stream through; as the bias grows it becomes the identity.
"""

import abc
import math
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from gtrxl import names
from gtrxl.cores.errors import CoreError
from gtrxl.cores.layers import along_last, flat_matmul, uniform_init


class Part(NamedTuple):
    """Columns of one of a gate's matrices: so many times D of them, from so many times D on."""

    field: str
    wide: int
    start: int = 0


class Native(NamedTuple):
    """What the C++ library must know of a gate that it computes too; its formula there is by this class's name.

    `kept`: how many arrays of width D it keeps for its gradient. `matrices`: what C++ calls each matrix when learning.
    `packed`: the same when acting, where matrices are cut. `bias`: whether there is a b_g.
    """

    kept: int
    matrices: Mapping[str, Part]
    packed: Mapping[str, Part]
    bias: bool


class Gate(eqx.Module):
    """g(x, y). Every gate takes `(d_model, bias, key)`, needed or not, so that they can be swapped; see `GATES`."""

    closes: ClassVar[bool] = True
    """Whether it can hold anything back, and so has an openness to report."""
    about: ClassVar[str] = "gates of its own"
    """What the catalogue of cores says of a transformer with it."""
    first_bias: ClassVar[float | None] = None
    """b_g as the paper begins with it; None for a gate without one."""
    native: ClassVar[Native | None] = None
    """What the C++ library must know; without it, and for every subclass, XLA computes the gate."""

    @abc.abstractmethod
    def __init__(self, d_model: int, *, bias: float | None, key: PRNGKeyArray): ...

    @abc.abstractmethod
    def __call__(self, *, skip: Float[Array, "*n D"], update: Float[Array, "*n D"]) -> Float[Array, "*n D"]: ...

    @abc.abstractmethod
    def opening(self, *, skip: Float[Array, "*n D"], update: Float[Array, "*n D"]) -> Float[Array, "*n D"]:
        """From 0, the stream passes unchanged, to 1. What a run reports as the gate's openness."""


class ResidualGate(Gate):
    """No gate: x + y. TrXL and TrXL-I."""

    closes: ClassVar[bool] = False
    native: ClassVar[Native | None] = Native(kept=0, matrices={}, packed={}, bias=False)

    def __init__(self, d_model: int, *, bias: float | None, key: PRNGKeyArray):
        del d_model, bias, key

    def __call__(self, *, skip: Float[Array, "*n D"], update: Float[Array, "*n D"]) -> Float[Array, "*n D"]:
        return skip + update

    def opening(self, *, skip: Float[Array, "*n D"], update: Float[Array, "*n D"]) -> Float[Array, "*n D"]:
        """Always 1."""
        return jnp.ones_like(skip)


class InputGate(Gate):
    """sigmoid(W_g x) * x + y. The paper gives it no bias."""

    about: ClassVar[str] = "the stream gated"
    native: ClassVar[Native | None] = Native(kept=1, matrices={"w": Part("w_g", 1)}, packed={"w": Part("w_g", 1)}, bias=False)

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

    about: ClassVar[str] = "each submodule's output gated"
    first_bias: ClassVar[float | None] = 1.0
    native: ClassVar[Native | None] = Native(kept=1, matrices={"w": Part("w_g", 1)}, packed={"w": Part("w_g", 1)}, bias=True)

    w_g: Float[Array, "D D"]
    b_g: Float[Array, " D"]

    def __init__(self, d_model: int, *, bias: float | None, key: PRNGKeyArray):
        self.w_g = uniform_init(key, (d_model, d_model), fan_in=d_model)
        self.b_g = _bias(d_model, bias, first=self.first_bias)

    def __call__(self, *, skip: Float[Array, "*n D"], update: Float[Array, "*n D"]) -> Float[Array, "*n D"]:
        return skip + self.opening(skip=skip, update=update) * update

    def opening(self, *, skip: Float[Array, "*n D"], update: Float[Array, "*n D"]) -> Float[Array, "*n D"]:
        """sigmoid(W_g x - b_g)."""
        return jax.nn.sigmoid(flat_matmul(skip, self.w_g.astype(skip.dtype)) - along_last(self.b_g, skip))


class HighwayGate(Gate):
    """s * x + (1 - s) * y with s = sigmoid(W_g x + b_g)."""

    about: ClassVar[str] = "highway gates"
    first_bias: ClassVar[float | None] = 1.0
    native: ClassVar[Native | None] = Native(kept=1, matrices={"w": Part("w_g", 1)}, packed={"w": Part("w_g", 1)}, bias=True)

    w_g: Float[Array, "D D"]
    b_g: Float[Array, " D"]

    def __init__(self, d_model: int, *, bias: float | None, key: PRNGKeyArray):
        self.w_g = uniform_init(key, (d_model, d_model), fan_in=d_model)
        self.b_g = _bias(d_model, bias, first=self.first_bias)

    def __call__(self, *, skip: Float[Array, "*n D"], update: Float[Array, "*n D"]) -> Float[Array, "*n D"]:
        dtype = skip.dtype
        carry = jax.nn.sigmoid(flat_matmul(skip, self.w_g.astype(dtype)) + along_last(self.b_g, skip))
        return carry * skip + (1 - carry) * update

    def opening(self, *, skip: Float[Array, "*n D"], update: Float[Array, "*n D"]) -> Float[Array, "*n D"]:
        """1 - s."""
        return jax.nn.sigmoid(-flat_matmul(skip, self.w_g.astype(skip.dtype)) - along_last(self.b_g, skip))


class SigTanhGate(Gate):
    """x + sigmoid(W_g y - b_g) * tanh(U_g y)."""

    about: ClassVar[str] = "sigmoid-tanh gates"
    first_bias: ClassVar[float | None] = 1.0
    native: ClassVar[Native | None] = Native(kept=2, matrices={"w": Part("wu_g", 2)}, packed={"w": Part("wu_g", 2)}, bias=True)

    wu_g: Float[Array, "D 2*D"]
    b_g: Float[Array, " D"]

    def __init__(self, d_model: int, *, bias: float | None, key: PRNGKeyArray):
        self.wu_g = uniform_init(key, (d_model, 2 * d_model), fan_in=d_model)
        self.b_g = _bias(d_model, bias, first=self.first_bias)

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

    about: ClassVar[str] = "GRU gates: the paper's best"
    first_bias: ClassVar[float | None] = 2.0
    native: ClassVar[Native | None] = Native(
        kept=3,
        matrices={"w": Part("w_rzg", 3), "u_rz": Part("u_rz", 2), "u_g": Part("u_g", 1)},
        packed={"w": Part("w_rzg", 2), "w_g": Part("w_rzg", 1, 2), "u_rz": Part("u_rz", 2), "u_g": Part("u_g", 1)},
        bias=True,
    )

    w_rzg: Float[Array, "D 3*D"]
    u_rz: Float[Array, "D 2*D"]
    u_g: Float[Array, "D D"]
    b_g: Float[Array, " D"]

    def __init__(self, d_model: int, *, bias: float | None, key: PRNGKeyArray):
        w_key, rz_key, g_key = jax.random.split(key, 3)
        self.w_rzg = uniform_init(w_key, (d_model, 3 * d_model), fan_in=d_model)
        self.u_rz = uniform_init(rz_key, (d_model, 2 * d_model), fan_in=d_model)
        self.u_g = uniform_init(g_key, (d_model, d_model), fan_in=d_model)
        self.b_g = _bias(d_model, bias, first=self.first_bias)

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


def _bias(d_model: int, bias: float | None, *, first: float | None) -> Array:
    return jnp.full((d_model,), first or 0.0 if bias is None else bias, jnp.float32)


def bias_by_depth(gate: type[Gate], layers: int) -> float | None:
    """A first b_g for a stack of so many layers, never less than the paper's; None for a gate without one.

    At its first bias a gate lets about sigmoid(b_g) of the stream pass (it is that of a GRU gate whose inputs are zero), and a
    layer has two gates. The paper's ablation of b_g has 4 layers, and sigmoid(2)^8 = 0.36 of the stream passes those; at 12
    layers it is 0.05, at 52 two millionths. Here the share of the whole stack is that of 4 layers:
    sigmoid(b)^(2 L) = sigmoid(b_g)^8.

        >>> [round(bias_by_depth(GRUGate, layers), 2) for layers in (2, 4, 12, 52)]
        [2.0, 2.0, 3.14, 4.62]
    """
    if gate.first_bias is None:
        return None
    passed = (4 / layers) * -math.log1p(math.exp(-gate.first_bias))  # log of what one gate lets pass
    return max(gate.first_bias, -math.log(math.expm1(-passed)))


GATES: dict[str, type[Gate]] = {
    "none": ResidualGate,
    "input": InputGate,
    "output": OutputGate,
    "highway": HighwayGate,
    "sigtanh": SigTanhGate,
    "gru": GRUGate,
}
"""Gates by name; each that closes is also a core, `gtrxl-` and its name. The C++ library numbers its own in this order.
`bias=None` means the paper's: 2 for GRU, 1 for output, highway and sigtanh."""


def find_gate(gate: Any) -> type[Gate]:
    """A gate by its name in `GATES`, by a place `package.module:Class`, or the class itself."""
    if isinstance(gate, str) and names.is_place(gate):
        try:
            gate = names.find(gate, what="the gate")
        except names.PlaceError as error:
            raise CoreError(str(error)) from error
    if isinstance(gate, type) and issubclass(gate, Gate):
        return gate
    if not isinstance(gate, str):
        raise CoreError(f"gate must be a name, package.module:Class or a class built on gtrxl.cores.gates.Gate, got {gate!r}")
    if gate not in GATES:
        near = names.meant(gate, GATES)
        raise CoreError(f"gate must be one of {', '.join(GATES)}, or package.module:Class, got {gate!r}{near}")
    return GATES[gate]
