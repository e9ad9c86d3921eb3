"""What MERLIN and its control are made of: LSTM layers side by side, what makes keys, an MLP. B streams, T steps, K keys."""

import abc
import math
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional
from torch.utils import _pytree as pytree

from gtrxl.torch.cores.contract import Core, State
from gtrxl.torch.cores.inputs import check_like, shapes_of
from gtrxl.torch.cores.layers import Linear, replaced, spoilt_rows, surely_finite
from gtrxl.torch.cores.linear.scan import along, exact
from gtrxl.torch.cores.linear.stack import nothing, worn_streams
from gtrxl.torch.cores.merlin.rows import Rows
from gtrxl.torch.cores.recurrent import LSTMCell, LSTMState, since_reset


class MLP(nn.Module):
    """Hidden layers with tanh, then a linear one."""

    def __init__(self, input_size: int, output_size: int, *, hidden: tuple[int, ...], last: float = 1.0, device: Any):
        super().__init__()
        sizes = (input_size, *hidden)
        self.hidden: Any = nn.ModuleList(
            Linear(below, above, variance=1.0, device=device) for below, above in zip(sizes, hidden, strict=False)
        )
        self.output = Linear(sizes[-1], output_size, variance=last, device=device)

    def forward(self, x: Float[Tensor, "N I"]) -> Float[Tensor, "N O"]:
        """Of a matrix of rows."""
        for layer in self.hidden:
            x = torch.tanh(layer(x))
        return self.output(x)


class Layers(nn.Module):
    """LSTM layers, each above the one before and above the input; their outputs side by side."""

    def __init__(self, input_size: int, width: int, layers: int, *, device: Any):
        super().__init__()
        sizes = [input_size] + [input_size + width] * (layers - 1)
        self.cells: Any = nn.ModuleList(LSTMCell(size, width, device=device) for size in sizes)
        self.width = width

    @property
    def output_size(self) -> int:
        """Of all layers."""
        return len(self.cells) * self.width

    def zeros(self) -> LSTMState:
        """The shapes of one stream's state."""
        shape = len(self.cells), self.width
        return LSTMState(hidden=nothing(*shape), cell=nothing(*shape))

    def forward(self, x: Float[Tensor, "B I"], state: LSTMState) -> tuple[Float[Tensor, "B O"], LSTMState]:
        """One step."""
        below, after = x, []
        for number, cell in enumerate(self.cells):
            seen = torch.cat([x, below], dim=1) if number else below
            of_layer = state.hidden[:, number], state.cell[:, number]
            after.append(cell.advance(cell.inputs(seen), of_layer, cell.weights(x.dtype)))
            below = after[-1][0]
        state = LSTMState(*(torch.stack(parts, dim=1) for parts in zip(*after, strict=True)))
        return state.hidden.flatten(1), state


class Keys(nn.Module):
    """K keys as wide as a row, and how much each insists, from an LSTM's output."""

    def __init__(self, input_size: int, width: int, number: int, *, device: Any):
        super().__init__()
        self.linear = Linear(input_size, number * (width + 1), variance=1.0, device=device)
        self.number, self.width = number, width

    def forward(self, h: Float[Tensor, "B H"]) -> tuple[Float[Tensor, "B K W"], Float[Tensor, "B K"]]:
        """Keys, and strengths above zero."""
        made = self.linear(h).view(-1, self.number, self.width + 1)
        return made[..., :-1], functional.softplus(made[..., -1])


class MemoryCore(Core):
    """A core that goes step by step from a state whose zeros are a fresh one.

    A subclass says what its state is (`_zeros`), what is known of all steps before the first (`_before`), and makes one step
    (`_advance`).
    """

    size: int
    latent: int

    @abc.abstractmethod
    def _zeros(self) -> State:
        """The shapes of one stream's state, those of whole numbers as such."""

    @abc.abstractmethod
    def _before(self, xs: Float[Tensor, "B T D_in"], state: State, resets: Bool[Tensor, "B T"]) -> tuple[Tensor, ...]:
        """What does not depend on the steps before, with B and T in front."""

    @abc.abstractmethod
    def _advance(self, state: Any, *known: Tensor) -> tuple[State, Float[Tensor, "B D_out"]]:
        """One step within an episode: the next state and the output."""

    def _empty(self) -> Rows:
        single = nothing(self.size)
        return Rows(nothing(self.size, 2 * self.latent), single, single, nothing().long())

    def initial_state(self, batch: int = 1, *, device: Any = None, dtype: torch.dtype | None = None) -> Any:
        """Zeros. What adds up over many steps is kept in float32 at least, whatever the core computes in."""
        home = self._home()
        device, own = home.device if device is None else device, torch.bfloat16 if self.dtype == "bfloat16" else home.dtype

        def zeros(leaf: Tensor) -> Tensor:
            kind = (own if dtype is None else dtype) if leaf.is_floating_point() else leaf.dtype
            return torch.zeros(batch, *leaf.shape, device=device, dtype=kind)

        made = pytree.tree_map(zeros, self._zeros())
        return _summing(made, made.rows) if dtype is None else made

    def _check_state(self, state: Any, *, streams: int) -> None:
        check_like("", state, self._shapes(), streams=streams)

    def _shapes(self) -> Any:
        return shapes_of(self._zeros())

    def _step(
        self, x: Float[Tensor, "B D_in"], state: State, reset: Bool[Tensor, " B"], *, computing: torch.dtype
    ) -> tuple[Float[Tensor, "B D_out"], State]:
        ys, state = self._unroll(x[:, None], state, reset[:, None], computing=computing)
        return ys[:, 0], state

    def _unroll(
        self, xs: Float[Tensor, "B T D_in"], state: Any, resets: Bool[Tensor, "B T"], *, computing: torch.dtype
    ) -> tuple[Float[Tensor, "B T D_out"], State]:
        """What is not finite shows until the next reset, in outputs and state, and nowhere else."""
        xs = xs.to(computing)
        leaves, tree = pytree.tree_flatten(state)
        floats = [leaf for leaf in leaves if leaf.is_floating_point()]
        sound, spoilt = surely_finite(xs, *floats), torch.zeros_like(resets)
        if not sound:
            bad = spoilt_rows(xs)
            spoilt = since_reset(bad, resets, start=torch.stack([worn_streams(leaf) for leaf in floats]).any(dim=0))
            xs = replaced(xs, bad, 0.0)
        given = pytree.tree_map(lambda leaf: leaf.to(computing) if leaf.is_floating_point() else leaf, state)
        state = _summing(given, state.rows)
        ys, known = [], zip(*(part.unbind(1) for part in self._before(xs, state, resets)), strict=True)
        for of_step, anew in zip(known, (resets | spoilt).unbind(1), strict=True):
            state = pytree.tree_map(lambda leaf, anew=anew: leaf.masked_fill(along(anew, leaf), 0), state)
            state, y = self._advance(state, *of_step)
            ys.append(y)
        found = torch.stack(ys, dim=1).to(self._home().dtype)
        if not sound:
            found, last = replaced(found, spoilt, math.nan), spoilt[:, -1]
            hide = lambda leaf: leaf.masked_fill(along(last, leaf), math.nan) if leaf.is_floating_point() else leaf  # noqa: E731
            state = pytree.tree_map(hide, state)
        ends = [end.detach().to(leaf.dtype) for end, leaf in zip(pytree.tree_leaves(state), leaves, strict=True)]
        return found, pytree.tree_unflatten(ends, tree)


def _summing(state: Any, rows: Rows) -> Any:
    """The state with the trace and the usage of these rows, as exactly as they must be."""
    return state._replace(rows=state.rows._replace(trace=exact(rows.trace), usage=exact(rows.usage)))
