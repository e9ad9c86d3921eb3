"""A core's state taken apart, as trainers want it: named tensors, or one vector for each stream. B streams, W width.

Trainers keep states in their own buffers and know nothing of records. Only plain states are taken apart: they are right under any
weights, so they may wait in a buffer while the weights change.
"""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils import _pytree as pytree

from gtrxl.cores.errors import CoreError
from gtrxl.torch import State
from gtrxl.torch.cores.contract import leaf_names


class Layout:
    """How the states of a core are built; a core of one's own may have any tree of tensors."""

    def __init__(self, core: Any):
        like = core.plain(core.initial_state(1)) if hasattr(core, "plain") else core.initial_state(1)
        leaves, self._tree = pytree.tree_flatten(like)
        self.names = _names(like)
        self.shapes = [tuple(leaf.shape[1:]) for leaf in leaves]
        self.dtypes = [leaf.dtype for leaf in leaves]
        self.width = sum(math.prod(shape) for shape in self.shapes)

    def parts(self, state: State) -> dict[str, Tensor]:
        """The tensors of a plain state by their names, the streams in front."""
        return dict(zip(self.names, pytree.tree_leaves(state), strict=True))

    def state(self, parts: dict[str, Tensor]) -> State:
        """The state that has these tensors, in the types that the core gave them."""
        found = [parts[name].to(dtype) for name, dtype in zip(self.names, self.dtypes, strict=True)]
        return pytree.tree_unflatten(found, self._tree)

    def packed(self, state: State) -> Float[Tensor, "B W"]:
        """All of a plain state in one vector. Whole numbers survive: they count steps, far below 2**24."""
        leaves = pytree.tree_leaves(state)
        return torch.cat([leaf.reshape(leaf.shape[0], -1).float() for leaf in leaves], dim=1)

    def unpacked(self, vectors: Float[Tensor, "B W"]) -> State:
        """The state out of what `packed` made."""
        if vectors.shape[1] != self.width:
            raise CoreError(
                f"a state of this policy has {self.width} numbers for each task, got {vectors.shape[1]}; "
                "it is of another policy or of other sizes, begin with None"
            )
        pieces = vectors.split([math.prod(shape) for shape in self.shapes], dim=1)
        named = {
            name: piece.reshape(vectors.shape[0], *shape)
            for name, piece, shape in zip(self.names, pieces, self.shapes, strict=True)
        }
        return self.state(named)


def plain(core: Any, state: State) -> State:
    """The state without what `prepare` added; a core may have nothing to prepare."""
    return core.plain(state) if hasattr(core, "plain") else state


def prepared(core: Any, state: State) -> State:
    """The state for many steps under the same weights."""
    return core.prepare(state) if hasattr(core, "prepare") else state


def _names(state: State) -> list[str]:
    """By the fields of records: `layers_0_re`; of any other tree, numbers."""
    if hasattr(type(state), "_fields"):
        return leaf_names(state, joint="_")
    return [f"part_{number}" for number in range(len(pytree.tree_leaves(state)))]
