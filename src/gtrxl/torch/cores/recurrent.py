"""The recurrent networks: LSTM and GRU. B streams, T steps, L layers, W width, G = 4 W (LSTM) or 3 W (GRU), D_in input width.

With `skip=True` every layer also sees the core's input and the output is all layers' outputs side by side, as in the
paper's 3 x 256 LSTM. The input's share of each layer is one product for the whole segment; only the recurrent share is
computed step by step.
"""

import abc
import math
from typing import Any, NamedTuple, TypeVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from gtrxl.cores.errors import at_least
from gtrxl.torch.cores.contract import Core, check_dtype
from gtrxl.torch.cores.inputs import check_kind, check_shape
from gtrxl.torch.cores.layers import Linear, replaced, spoilt_rows, surely_finite, uniform


class LSTMState(NamedTuple):
    """Hidden and cell vectors of every layer."""

    hidden: Float[Tensor, "B L W"]
    cell: Float[Tensor, "B L W"]


class GRUState(NamedTuple):
    """The hidden vector of every layer."""

    hidden: Float[Tensor, "B L W"]


S = TypeVar("S", LSTMState, GRUState)
Vectors = tuple[Float[Tensor, "B W"], ...]
"""One layer's part of a state, hidden first."""


class LSTMCell(nn.Module):
    """One layer: i, f, g, o side by side; the forget gate starts one more open."""

    def __init__(self, input_size: int, width: int, *, device: Any = None):
        super().__init__()
        self.inputs = Linear(input_size, 4 * width, device=device)
        self.recurrent = uniform(width, 4 * width, fan_in=width, device=device)
        with torch.no_grad():
            self.inputs.bias[width : 2 * width] = 1.0

    def weights(self, dtype: torch.dtype) -> tuple[Tensor, ...]:
        """What a step needs, in this type."""
        return (self.recurrent.to(dtype),)

    @staticmethod
    def advance(driven: Float[Tensor, "B G"], state: Vectors, weights: tuple[Tensor, ...]) -> Vectors:
        """`driven` is the input's share of the four gates."""
        hidden, cell = state
        i, f, g, o = torch.addmm(driven, hidden, weights[0]).chunk(4, dim=1)
        cell = torch.addcmul(torch.sigmoid(f) * cell, torch.sigmoid(i), torch.tanh(g))
        return torch.sigmoid(o) * torch.tanh(cell), cell


class GRUCell(nn.Module):
    """One layer: r, z, and the candidate tanh(W x + U (r * h)), as in Cho et al. 2014."""

    def __init__(self, input_size: int, width: int, *, device: Any = None):
        super().__init__()
        self.inputs = Linear(input_size, 3 * width, device=device)
        self.recurrent_rz = uniform(width, 2 * width, fan_in=width, device=device)
        self.recurrent_g = uniform(width, width, fan_in=width, device=device)

    def weights(self, dtype: torch.dtype) -> tuple[Tensor, ...]:
        """What a step needs, in this type."""
        return self.recurrent_rz.to(dtype), self.recurrent_g.to(dtype)

    @staticmethod
    def advance(driven: Float[Tensor, "B G"], state: Vectors, weights: tuple[Tensor, ...]) -> Vectors:
        """`driven` is the input's share of r, z and the candidate."""
        (hidden,), width = state, state[0].shape[1]
        x_rz, x_g = driven.split((2 * width, width), dim=1)
        r, z = torch.sigmoid(torch.addmm(x_rz, hidden, weights[0])).chunk(2, dim=1)
        candidate = torch.tanh(torch.addmm(x_g, r * hidden, weights[1]))
        return (torch.lerp(hidden, candidate, z),)


class Recurrent(Core):
    """A stack of recurrent layers; `LSTM` and `GRU` say which."""

    def __init__(
        self,
        input_size: int,
        *,
        d_model: int = 256,
        layers: int = 1,
        skip: bool = False,
        dtype: str = "float32",
        device: Any = None,
    ):
        super().__init__()
        at_least("input_size", input_size, least=1, hint="it is the width of one step's input")
        at_least("d_model", d_model, least=1, hint="it is the width of a layer; the paper's LSTM has 256")
        at_least("layers", layers, least=1, hint="the paper's LSTM has 3; for no memory at all use the core 'none'")
        widths = [input_size] + [d_model + (input_size if skip else 0)] * (layers - 1)
        self.cells = nn.ModuleList(self._cell(width, d_model, device) for width in widths)
        self.input_size = input_size
        self.output_size = d_model * layers if skip else d_model
        self.width = d_model
        self.skip = skip
        self.dtype = check_dtype(dtype)

    _State: type[Any]

    @classmethod
    def sizes(cls, core: Any) -> dict[str, Any]:
        """The arguments of a core like this one, in PyTorch or in JAX."""
        return {"d_model": core.width, "layers": len(core.cells), "skip": core.skip, "dtype": core.dtype}

    @staticmethod
    @abc.abstractmethod
    def _cell(input_size: int, width: int, device: Any) -> nn.Module: ...

    def initial_state(self, batch: int = 1, *, device: Any = None, dtype: torch.dtype | None = None) -> Any:
        """Zeros."""
        home = self._home()
        own = torch.bfloat16 if self.dtype == "bfloat16" else home.dtype
        given = {"device": home.device if device is None else device, "dtype": own if dtype is None else dtype}
        return self._State(*(torch.zeros(batch, len(self.cells), self.width, **given) for _ in self._State._fields))

    def _check_state(self, state: Any, *, streams: int) -> None:
        check_kind(state, self._State)
        for name, tensor in zip(self._State._fields, state, strict=True):
            check_shape(name, tensor, (streams, len(self.cells), self.width))

    def _step(
        self, x: Float[Tensor, "B D_in"], state: S, reset: Bool[Tensor, " B"], *, computing: torch.dtype
    ) -> tuple[Float[Tensor, "B D_out"], S]:
        ys, state = self._unroll(x[:, None], state, reset[:, None], computing=computing)
        return ys[:, 0], state

    def _unroll(
        self, xs: Float[Tensor, "B T D_in"], state: Any, resets: Bool[Tensor, "B T"], *, computing: torch.dtype
    ) -> tuple[Float[Tensor, "B T D_out"], Any]:
        inputs, kinds = xs.to(computing), [part.dtype for part in state]
        sound = surely_finite(inputs, *state)
        spoilt = torch.zeros_like(resets) if sound else spoilt_rows(inputs)
        below = inputs = inputs if sound else replaced(inputs, spoilt, 0.0)
        outputs, states = [], []
        for layer, cell in enumerate(self.cells):
            seen = torch.cat([inputs, below], dim=2) if self.skip and layer else below
            start = tuple(part[:, layer].to(computing) for part in state)
            if not sound:
                began = torch.stack([spoilt_rows(part) for part in start]).any(dim=0)
                spoilt = since_reset(spoilt, resets, start=began)
            below, end = _run(cell, seen, start, resets | spoilt)
            outputs.append(below if sound else replaced(below, spoilt, math.nan))
            states.append([part if sound else replaced(part, spoilt[:, -1], math.nan) for part in end])
        ys = torch.cat(outputs, dim=2) if self.skip else outputs[-1]
        ends = (torch.stack(parts, dim=1).detach().to(kind) for parts, kind in zip(zip(*states, strict=True), kinds, strict=True))
        return ys.to(self._home().dtype), self._State(*ends)


def _run(cell: Any, seen: Float[Tensor, "B T D_in"], state: Vectors, anew: Bool[Tensor, "B T"]) -> tuple[Tensor, Vectors]:
    """One layer over a segment; `anew` says at which steps it begins with zeros."""
    streams, steps, size = seen.shape
    driven = cell.inputs(seen.reshape(-1, size)).view(streams, steps, -1).unbind(1)
    weights, hidden = cell.weights(seen.dtype), []
    for of_step, fresh in zip(driven, anew[..., None].unbind(1), strict=True):
        state = cell.advance(of_step, tuple(part.masked_fill(fresh, 0.0) for part in state), weights)
        hidden.append(state[0])
    return torch.stack(hidden, dim=1), state


def since_reset(marked: Bool[Tensor, "B T"], resets: Bool[Tensor, "B T"], *, start: Bool[Tensor, " B"]) -> Bool[Tensor, "B T"]:
    """Which steps have a marked one in their episode, themselves or before; `start` marks what came before the first."""
    steps = torch.arange(marked.shape[1], device=marked.device)
    newest = torch.where(marked, steps, torch.where(start, -1, -2)[:, None]).cummax(dim=1).values
    return newest >= torch.where(resets, steps, -1).cummax(dim=1).values


class LSTM(Recurrent):
    """Long short-term memory."""

    _State = LSTMState

    @staticmethod
    def _cell(input_size: int, width: int, device: Any) -> LSTMCell:
        return LSTMCell(input_size, width, device=device)


class GRU(Recurrent):
    """The gated recurrent unit as a recurrent network (not the gate of that name)."""

    _State = GRUState

    @staticmethod
    def _cell(input_size: int, width: int, device: Any) -> GRUCell:
        return GRUCell(input_size, width, device=device)
