"""The states of a transformer: its memory, and the memory prepared for acting.

B streams, L layers, M memory slots, P = M + 1 distances, R > M rows of a buffer, H heads, K head width, D width.
"""

from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor

from gtrxl.torch.cores.block import LayerWeights


class Memory(NamedTuple):
    """The paper's M: the inputs of each layer over the last M steps, newest last, of which the last `filled` are real."""

    inputs: Float[Tensor, "B L M D"]
    filled: Int[Tensor, " B"]


class PreparedMemory(NamedTuple):
    """A memory with its keys, values and position keys under one set of weights, which it names.

    Steps are written one after the other into buffers with some room, which states of successive steps share: the window of a
    state are the M rows before its `cursor`. `written` is how far the buffers are written; a state whose cursor is not there (an
    older one, stepped again) copies them first. So a step changes no state, and yet copies none. Both are numbers of the host.
    """

    inputs: Float[Tensor, "B R L D"]
    keys_values: Float[Tensor, "L 2 H B R K"]
    positions: Float[Tensor, "L H K P"]
    filled: Int[Tensor, " B"]
    cursor: Int[Tensor, ""]
    written: Int[Tensor, ""]
    weights: tuple[LayerWeights, ...]
