"""What a GTrXL-GRU must do at the least: operations and bytes, counted by hand.

L layers, D width, HK heads x head width, F MLP width, M memory, T steps, B streams. The input is D wide.
"""

from dataclasses import dataclass

FLOAT = 4


@dataclass(frozen=True)
class Size:
    """The sizes of a core, and how many steps one compiled acting loop takes."""

    name: str
    layers: int
    d_model: int
    heads: int
    head_dim: int
    mlp: int
    memory: int
    loop: int

    @property
    def inner(self) -> int:
        """H x K."""
        return self.heads * self.head_dim


SIZES = {
    "small": Size("small", layers=4, d_model=64, heads=4, head_dim=16, mlp=64, memory=64, loop=95),
    "paper": Size("paper", layers=12, d_model=512, heads=8, head_dim=64, mlp=512, memory=512, loop=20),
    "wide": Size("wide", layers=4, d_model=256, heads=4, head_dim=64, mlp=256, memory=64, loop=20),
}
"""The two sizes of the comparison, and the wider one for cost against memory length."""


def useful_flops(size: Size, *, steps: int, streams: int) -> float:
    """Operations per frame, forward and backward, that no way of computing the same gradients can leave out.

    Masked scores, recomputation, norms, softmax and everything elementwise count nothing. Two operations per
    multiply-and-add.
    """
    D, HK, F, M = size.d_model, size.inner, size.mlp, size.memory
    segment = (
        4 * D * HK  # W_Q, W_K, W_V and the output Linear of the frame itself
        + 2 * D * F  # the MLP
        + 12 * D * D  # two GRU gates of six matrices
        + 3 * (M + 1) * HK  # query-key, query-position and weight-value products over the window: M slots and itself
    )
    # Keys and values of the memory, once per segment; position keys, once per batch.
    memory = 2 * D * HK * M / steps
    positions = D * HK * (M + 1) / (steps * streams)
    embedding = D * D
    # Backward, a product costs itself twice more (gradients of both factors), but once where the input needs none:
    # the stored memory, the position code, the core's input.
    multiplications = size.layers * (3 * segment + 2 * memory + 2 * positions) + 2 * embedding
    return 2 * multiplications


def acting_flops(size: Size) -> float:
    """Operations per step of one stream, with keys, values and position keys at hand."""
    D, HK, F, M = size.d_model, size.inner, size.mlp, size.memory
    return 2 * (size.layers * (4 * D * HK + 2 * D * F + 12 * D * D + 3 * (M + 1) * HK) + D * D)


def bytes_read_as_inputs(size: Size, *, parameters: int, streams: int) -> float:
    """Weights once and the stored memory M of every stream once: L M D floats."""
    return FLOAT * (parameters + streams * size.layers * size.memory * size.d_model)


def bytes_read_as_keys_and_values(size: Size, *, parameters: int, streams: int) -> float:
    """Weights once and the keys and values of every stream once, what a step with a cache reads: 2 L M H K floats."""
    return FLOAT * (parameters + streams * 2 * size.layers * size.memory * size.inner)
