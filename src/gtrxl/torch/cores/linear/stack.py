"""What all linear cores share: an embedding and a stack of layers whose memory is a recurrence. T steps, B streams, D width.

Inside, time is the first axis and steps of streams are the N = T B rows of matrices: a layer is some products of all rows, with a
light loop over time between them (`scan`). The recurrence is computed in float32 at least, whatever the products are computed in.

What is not finite is dealt with here once, for every core: it spoils the steps that see it until the next reset, and
nothing else.
"""

import abc
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from gtrxl.cores.errors import at_least
from gtrxl.torch.cores.contract import Core, State, check_dtype
from gtrxl.torch.cores.inputs import check_like, shapes_of
from gtrxl.torch.cores.layers import NORM_EPSILON, Linear, replaced, spoilt_rows, surely_finite
from gtrxl.torch.cores.linear.scan import along, exact
from gtrxl.torch.cores.recurrent import since_reset


class Layer(nn.Module, abc.ABC):
    """One layer. Its state is a tensor or a record of tensors, zeros at the start of an episode."""

    @abc.abstractmethod
    def zeros(self) -> State:
        """The state of one stream that has seen nothing, without numbers (on the meta device)."""

    @abc.abstractmethod
    def forward(self, x: Float[Tensor, "N D"], state: State, resets: Bool[Tensor, "T B"]) -> tuple[Float[Tensor, "N D"], State]:
        """What goes on to the next layer, the residual sum included, and the states after the last step."""


class StackState(NamedTuple):
    """The states of the layers, the first one first."""

    layers: tuple[Any, ...]


class Stack(Core):
    """A linear embedding and layers above it. A core's own class says which layers, and what they are made with."""

    layers: Any

    def __init__(self, input_size: int, *, d_model: int, layers: int, dtype: str, make: Callable[[], Layer], device: Any):
        super().__init__()
        at_least("input_size", input_size, least=1, hint="it is the width of one step's input")
        at_least("d_model", d_model, least=1, hint="it is the width of a layer; 128 learns on a CPU")
        at_least("layers", layers, least=1, hint="for no memory at all use the core 'none'")
        self.embed = Linear(input_size, d_model, device=device)
        self.layers = nn.ModuleList(make() for _ in range(layers))
        self.input_size = input_size
        self.output_size = d_model
        self.dtype = check_dtype(dtype)
        self._shapes = shapes_of(self._zeros())

    @classmethod
    def sizes(cls, core: Any) -> dict[str, Any]:
        """The arguments of a core like this one, in PyTorch or in JAX: all it takes but those of its first weights."""
        shared = {"d_model": core.output_size, "layers": len(core.layers), "dtype": core.dtype}
        return shared | cls._own_sizes(core.layers[0])

    @staticmethod
    def _own_sizes(layer: Any) -> dict[str, Any]:
        """Of these the ones that are only this core's."""
        del layer
        return {}

    def _zeros(self) -> StackState:
        return StackState(tuple(layer.zeros() for layer in self.layers))

    def _each(self) -> list[Any]:
        return list(self.layers)

    def initial_state(self, batch: int = 1, *, device: Any = None, dtype: torch.dtype | None = None) -> StackState:
        """Zeros."""
        home = self._home()
        device, dtype = home.device if device is None else device, exact(home).dtype if dtype is None else dtype
        return pytree.tree_map(lambda leaf: torch.zeros(batch, *leaf.shape, device=device, dtype=dtype), self._zeros())

    def _check_state(self, state: Any, *, streams: int) -> None:
        check_like("", state, self._shapes, streams=streams)

    def _step(
        self, x: Float[Tensor, "B D_in"], state: StackState, reset: Bool[Tensor, " B"], *, computing: torch.dtype
    ) -> tuple[Float[Tensor, "B D"], StackState]:
        ys, state = self._unroll(x[:, None], state, reset[:, None], computing=computing)
        return ys[:, 0], state

    def _unroll(
        self, xs: Float[Tensor, "B T D_in"], state: StackState, resets: Bool[Tensor, "B T"], *, computing: torch.dtype
    ) -> tuple[Float[Tensor, "B T D"], StackState]:
        streams, steps, size = xs.shape
        xs = xs.to(computing)
        leaves, tree = pytree.tree_flatten(state)
        sound, spoilt = surely_finite(xs, *leaves), torch.zeros_like(resets)
        if not sound:
            bad, worn = spoilt_rows(xs), torch.stack([worn_streams(leaf) for leaf in leaves]).any(dim=0)
            spoilt = since_reset(bad, resets, start=worn)
            xs = replaced(xs, bad, 0.0)
            leaves = [leaf.masked_fill(along(worn, leaf), 0.0) for leaf in leaves]
        x, after = self.embed(xs.transpose(0, 1).reshape(-1, size)), []
        for layer, of_layer in zip(
            self.layers, pytree.tree_unflatten([exact(leaf) for leaf in leaves], tree).layers, strict=True
        ):
            x, of_layer = layer(x, of_layer, resets.T)
            after.append(of_layer)
        ys = x.view(steps, streams, -1).transpose(0, 1).to(self._home().dtype)
        if not sound:
            ys = replaced(ys, spoilt, math.nan)
            after = pytree.tree_map(lambda leaf: leaf.masked_fill(along(spoilt[:, -1], leaf), math.nan), after)
        ends = [end.detach().to(leaf.dtype) for end, leaf in zip(pytree.tree_leaves(after), leaves, strict=True)]
        return ys, pytree.tree_unflatten(ends, tree)


def unit_size(x: Float[Tensor, "*n D"]) -> Float[Tensor, "*n D"]:
    """A mean square of 1 along the last axis: RMS norm before its scale."""
    return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + NORM_EPSILON)


def nothing(*shape: int) -> Tensor:
    """A shape, as a tensor without numbers."""
    return torch.empty(shape, device="meta")


def worn_streams(leaf: Float[Tensor, "B *s"]) -> Bool[Tensor, " B"]:
    """Which streams have something in their state that is not finite."""
    return spoilt_rows(leaf.reshape(leaf.shape[0], -1, leaf.shape[-1] if leaf.ndim > 1 else 1)).any(dim=1)
