"""What joins a submodule's output to the stream that passes it by: the paper's five gates, and the plain sum.

N rows, D width, L layers. The formulas are those of `gtrxl.cores.gates`. A gate's parameters are of L layers at once; `join`
takes one layer's.
"""

import abc
import math
from typing import Any, ClassVar, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from gtrxl import names
from gtrxl.cores import gates as jax_gates
from gtrxl.cores.errors import CoreError
from gtrxl.torch.cores.layers import Stacked, filled, uniform
from gtrxl.torch.cores.products import multiplied, product


class NoWeights(NamedTuple):
    """Of a gate that has none."""


class OneMatrix(NamedTuple):
    """W_g."""

    w_g: Tensor


class OneMatrixAndBias(NamedTuple):
    """W_g and b_g."""

    w_g: Tensor
    b_g: Tensor


class SigTanhWeights(NamedTuple):
    """W_g and U_g side by side, and b_g."""

    wu_g: Tensor
    b_g: Tensor


class GRUWeights(NamedTuple):
    """W_r, W_z, W_g side by side; U_r, U_z side by side; U_g; b_g."""

    w_rzg: Tensor
    u_rz: Tensor
    u_g: Tensor
    b_g: Tensor


class Gate(Stacked, abc.ABC):
    """g(x, y) of L layers. `wide` are its matrices, D times so many D; the rest follows from `Weights`."""

    closes: ClassVar[bool] = True
    first_bias: ClassVar[float | None] = None
    wide: ClassVar[dict[str, int]] = {}

    def __init__(self, d_model: int, *, stack: tuple[int, ...] = (), bias: float | None, variance: float, device: Any = None):
        super().__init__()
        self._stack = stack
        for name in self.Weights._fields:
            if name == "b_g":
                first = self.first_bias or 0.0 if bias is None else bias
                self.b_g = filled(*stack, d_model, value=first, device=device)
            else:
                size = *stack, d_model, self.wide[name] * d_model
                setattr(self, name, uniform(*size, fan_in=d_model, variance=variance, device=device))

    def unbound(self) -> list[Any]:
        """The weights layer by layer."""
        return super().unbound() if self.Weights._fields else [NoWeights()] * self._stack[0]

    @staticmethod
    @abc.abstractmethod
    def join(weights: Any, *, skip: Float[Tensor, "N D"], update: Float[Tensor, "N D"]) -> Float[Tensor, "N D"]:
        """`skip` is x, the stream; `update` is y, the submodule's output."""


class ResidualGate(Gate):
    """No gate: x + y. TrXL and TrXL-I."""

    closes = False
    Weights = NoWeights

    @staticmethod
    def join(weights: Any, *, skip: Float[Tensor, "N D"], update: Float[Tensor, "N D"]) -> Float[Tensor, "N D"]:
        """x + y."""
        return skip + update


class InputGate(Gate):
    """sigmoid(W_g x) * x + y. The paper gives it no bias."""

    Weights = OneMatrix
    wide: ClassVar[dict[str, int]] = {"w_g": 1}

    @staticmethod
    def join(weights: OneMatrix, *, skip: Float[Tensor, "N D"], update: Float[Tensor, "N D"]) -> Float[Tensor, "N D"]:
        """sigmoid(W_g x) * x + y."""
        return torch.addcmul(update, torch.sigmoid(product(skip, weights.w_g)), skip)


class OutputGate(Gate):
    """x + sigmoid(W_g x - b_g) * y."""

    first_bias = 1.0
    Weights = OneMatrixAndBias
    wide: ClassVar[dict[str, int]] = {"w_g": 1}

    @staticmethod
    def join(weights: OneMatrixAndBias, *, skip: Float[Tensor, "N D"], update: Float[Tensor, "N D"]) -> Float[Tensor, "N D"]:
        """x + sigmoid(W_g x - b_g) * y."""
        return torch.addcmul(skip, torch.sigmoid(product(skip, weights.w_g, -weights.b_g)), update)


class HighwayGate(Gate):
    """s * x + (1 - s) * y with s = sigmoid(W_g x + b_g)."""

    first_bias = 1.0
    Weights = OneMatrixAndBias
    wide: ClassVar[dict[str, int]] = {"w_g": 1}

    @staticmethod
    def join(weights: OneMatrixAndBias, *, skip: Float[Tensor, "N D"], update: Float[Tensor, "N D"]) -> Float[Tensor, "N D"]:
        """y + s * (x - y)."""
        return torch.lerp(update, skip, torch.sigmoid(product(skip, weights.w_g, weights.b_g)))


class SigTanhGate(Gate):
    """x + sigmoid(W_g y - b_g) * tanh(U_g y)."""

    first_bias = 1.0
    Weights = SigTanhWeights
    wide: ClassVar[dict[str, int]] = {"wu_g": 2}

    @staticmethod
    def join(weights: SigTanhWeights, *, skip: Float[Tensor, "N D"], update: Float[Tensor, "N D"]) -> Float[Tensor, "N D"]:
        """x + sigmoid(W_g y - b_g) * tanh(U_g y)."""
        opening, content = product(update, weights.wu_g).chunk(2, dim=1)
        return torch.addcmul(skip, torch.sigmoid(opening - weights.b_g), torch.tanh(content))


class GRUGate(Gate):
    """(1 - z) * x + z * h with r = sigmoid(W_r y + U_r x), z = sigmoid(W_z y + U_z x - b_g), h = tanh(W_g y + U_g (r * x))."""

    first_bias = 2.0
    Weights = GRUWeights
    wide: ClassVar[dict[str, int]] = {"w_rzg": 3, "u_rz": 2, "u_g": 1}

    @staticmethod
    def join(weights: GRUWeights, *, skip: Float[Tensor, "N D"], update: Float[Tensor, "N D"]) -> Float[Tensor, "N D"]:
        """x + z * (h - x)."""
        if torch.is_grad_enabled():
            found: Any = _GRUJoin.apply(skip, update, *weights)
            return found
        return _gru_join(skip, update, *weights)[0]


def _gru_join(x: Tensor, y: Tensor, w_rzg: Tensor, u_rz: Tensor, u_g: Tensor, b_g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The output, r and z side by side, and h."""
    size = x.shape[1]
    y_rz, y_g = multiplied(y, w_rzg).split((2 * size, size), dim=1)
    rz = multiplied(x, u_rz, plus=y_rz)
    rz[:, size:].sub_(b_g)
    r, z = rz.sigmoid_().chunk(2, dim=1)
    h = multiplied(r * x, u_g, plus=y_g).tanh_()
    return torch.lerp(x, h, z), rz, h


class _GRUJoin(torch.autograd.Function):
    """Its derivative is written out: six products, and as few passes over what lies between them as there can be."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, w_rzg: Tensor, u_rz: Tensor, u_g: Tensor, b_g: Tensor) -> Tensor:
        joined, rz, h = _gru_join(x, y, w_rzg, u_rz, u_g, b_g)
        ctx.save_for_backward(x, y, w_rzg, u_rz, u_g, rz, h)
        return joined

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        x, y, w_rzg, u_rz, u_g, rz, h = ctx.saved_tensors
        (gradient,), size = gradients, x.shape[1]
        r, z = rz.chunk(2, dim=1)
        d_h = gradient * z
        d_x = gradient - d_h
        d_g = torch.ops.aten.tanh_backward(d_h, h)
        d_rx = multiplied(d_g, u_g.mT)
        d_rz = torch.cat([d_rx * x, gradient * (h - x)], dim=1)
        d_rz = torch.ops.aten.sigmoid_backward(d_rz, rz)
        d_x = multiplied(d_rz, u_rz.mT, plus=torch.addcmul(d_x, d_rx, r))
        d_rzg = torch.cat([d_rz, d_g], dim=1)
        d_b = d_rz[:, size:].sum(dim=0).neg()
        d_y, d_w_rzg = multiplied(d_rzg, w_rzg.mT), multiplied(y.mT, d_rzg)
        return d_x, d_y, d_w_rzg, multiplied(x.mT, d_rz), multiplied((r * x).mT, d_g), d_b


def bias_by_depth(gate: type[Gate], layers: int) -> float | None:
    """A first b_g for a stack of so many layers: of what goes in, as much passes as through 4 layers at the paper's b_g, never
    less than that b_g (why: `gtrxl.cores.gates.bias_by_depth`). None for a gate without one."""
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
"""Gates by the names of `gtrxl.cores.gates.GATES`."""


def find_gate(gate: Any) -> type[Gate]:
    """A gate by its name in `GATES`, or the class itself."""
    if isinstance(gate, type) and issubclass(gate, Gate):
        return gate
    if not isinstance(gate, str) or gate not in GATES:
        near = names.meant(gate, GATES) if isinstance(gate, str) else ""
        raise CoreError(f"gate must be one of {', '.join(GATES)}, or a class built on gtrxl.torch.Gate, got {gate!r}{near}")
    return GATES[gate]


def first_bias(gate: type[Gate], gate_bias: float | str | None, layers: int) -> float | None:
    """b_g as a number, from what `gate_bias` may be."""
    if gate_bias == "depth":
        return bias_by_depth(gate, layers)
    if isinstance(gate_bias, str):
        raise CoreError(f"gate_bias must be a number, 'depth' or None, got {gate_bias!r}; None is the paper's")
    return gate_bias


def name_of(gate: Any) -> str:
    """The name that a gate has in `GATES`, here or in JAX."""
    for known in (GATES, jax_gates.GATES):
        for name, kind in known.items():
            if kind is type(gate):
                return name
    raise CoreError(
        f"gate must be one of {', '.join(GATES)} to have a twin, got {type(gate).__name__}; "
        "write it on gtrxl.Gate and on gtrxl.torch.Gate"
    )
