"""What surrounds a core is made of: a linear layer for any axes in front."""

import math

from jaxtyping import Float
from torch import Tensor

from gtrxl.torch.cores.layers import INIT_VARIANCE, Linear


class Dense(Linear):
    """y = x @ weight + bias along the last axis. First weights are `gain` times those of JAX's `Linear`."""

    def __init__(self, input_size: int, output_size: int, *, gain: float = 1.0):
        super().__init__(input_size, output_size, variance=gain**2 * INIT_VARIANCE)

    def forward(self, x: Float[Tensor, "*n D_in"]) -> Float[Tensor, "*n D_out"]:
        """Of any number of steps."""
        if x.ndim == 2:
            return super().forward(x)
        rows = super().forward(x.reshape(math.prod(x.shape[:-1]), x.shape[-1]))
        return rows.reshape(*x.shape[:-1], rows.shape[-1])
