"""A short convolution over the last steps of the episode, before a recurrence: Mamba-2's and DeltaNet's. T steps, B streams,
C channels, W steps that it sees (the present one is the last), V = W - 1 before it.

silu(sum_j kernel_j * x_{t - j} + bias), each channel by itself. What it remembers are the W - 1 inputs before, zeros at the
start of an episode.
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from gtrxl.cores.errors import at_least
from gtrxl.torch.cores.layers import filled, uniform
from gtrxl.torch.cores.linear.scan import along, exact
from gtrxl.torch.cores.linear.stack import nothing


class ConvolvedState(NamedTuple):
    """The inputs before, and what the recurrence remembers."""

    window: Float[Tensor, "B V C"]
    inner: Tensor


class Convolution(nn.Module):
    """Oldest step first."""

    def __init__(self, channels: int, width: int, *, device: Any):
        super().__init__()
        at_least("convolution", width, least=1, hint="it is how many steps the short convolution sees; 4 is usual")
        self.kernel = uniform(width, channels, fan_in=width, device=device)
        self.bias = filled(channels, device=device)

    def zeros(self) -> Tensor:
        """Of one stream."""
        return nothing(self.kernel.shape[0] - 1, self.kernel.shape[1])

    def forward(
        self, x: Float[Tensor, "N C"], before: Float[Tensor, "B V C"], resets: Bool[Tensor, "T B"]
    ) -> tuple[Float[Tensor, "N C"], Float[Tensor, "B V C"]]:
        """T steps of B streams: W shifted copies, each without what lies before the episode's start; of one step a sum."""
        kernel, bias, (steps, past) = exact(self.kernel), exact(self.bias), (len(resets), self.kernel.shape[0] - 1)
        if steps == 1:
            seen = torch.cat([before.masked_fill(along(resets[0], before), 0.0), exact(x)[:, None]], dim=1)
            return functional.silu((kernel * seen).sum(dim=1) + bias), seen[:, 1:]
        seen = torch.cat([before.transpose(0, 1), exact(x).view(*resets.shape, -1)])
        at = torch.arange(-past, steps, device=x.device)[:, None]
        began = torch.where(resets, at[past:], -past).cummax(dim=0).values
        ys = bias.expand(*resets.shape, -1)
        for place in range(past + 1):
            hidden = at[place : place + steps] < began
            ys = torch.addcmul(ys, kernel[place], seen[place : place + steps].masked_fill(along(hidden, seen), 0.0))
        after = seen[steps:].masked_fill(along(at[steps:] < began[-1], seen), 0.0)
        return functional.silu(ys).flatten(0, 1), after.transpose(0, 1)
