"""The IMPALA ResNet in PyTorch: `gtrxl.networks.vision`. N images, H height, W width, C channels, F features.

Parameters lie as JAX keeps them, kernels [3, 3, C_in, C_out] and images [H, W, C], so that weights go both ways as they are;
PyTorch's own layout is made of them at every call, which costs little beside the convolution.
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as f
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from gtrxl.networks.errors import AgentError
from gtrxl.networks.scaling import PLAIN, RELU
from gtrxl.torch.cores.layers import INIT_VARIANCE, filled, uniform
from gtrxl.torch.networks.layers import Dense


class Conv(nn.Module):
    """A 3x3 convolution of stride 1 that keeps height and width. Images are [N, C, H, W] here."""

    def __init__(self, input_channels: int, output_channels: int, *, gain: float):
        super().__init__()
        variance = gain**2 * INIT_VARIANCE
        self.kernel = uniform(3, 3, input_channels, output_channels, fan_in=9 * input_channels, variance=variance)
        self.bias = filled(output_channels)

    def forward(self, x: Float[Tensor, "N C_in H W"]) -> Float[Tensor, "N C_out H W"]:
        return f.conv2d(x, self.kernel.permute(3, 2, 0, 1), self.bias, padding=1)


class Residual(nn.Module):
    """x + conv(relu(conv(relu(x))))."""

    def __init__(self, channels: int):
        super().__init__()
        self.first = Conv(channels, channels, gain=RELU)
        self.second = Conv(channels, channels, gain=RELU / 4)

    def forward(self, x: Float[Tensor, "N C H W"]) -> Float[Tensor, "N C H W"]:
        return x + self.second(torch.relu(self.first(torch.relu(x))))


class Section(nn.Module):
    """Convolution, max-pool to half the size, two residual blocks."""

    def __init__(self, input_channels: int, output_channels: int):
        super().__init__()
        self.conv = Conv(input_channels, output_channels, gain=PLAIN)
        self.residuals = nn.ModuleList([Residual(output_channels), Residual(output_channels)])

    def forward(self, x: Float[Tensor, "N C_in H W"]) -> Float[Tensor, "N C_out H_half W_half"]:
        x = max_pool(self.conv(x))
        for residual in self.residuals:
            x = residual(x)
        return x


class ResNet(nn.Module):
    """Images `[*n, H, W, C]` -> `[*n, F]`, as `gtrxl.networks.ResNet`: uint8 images are scaled to 0..1, others taken as is."""

    def __init__(self, image_size: tuple[int, int], *, colours: int, channels: Sequence[int], features: int = 256):
        super().__init__()
        widths = zip((colours, *channels), channels, strict=False)
        self.sections = nn.ModuleList(Section(before, after) for before, after in widths)
        height, width = (math.ceil(size / 2 ** len(channels)) for size in image_size)
        self.linear = Dense(height * width * channels[-1], features, gain=RELU)
        self.shape = (*image_size, colours)
        self.output_size = features

    def forward(self, image: UInt8[Tensor, "*n H W C"] | Float[Tensor, "*n H W C"]) -> Float[Tensor, "*n F"]:
        if tuple(image.shape[-3:]) != self.shape:
            raise AgentError(
                f"image must have shape {list(self.shape)} (height first; any axes before it), got {list(image.shape)}; "
                "make the ResNet for this size"
            )
        x = image.reshape(-1, *self.shape)
        x = x.to(self.linear.weight.dtype) / 255 if image.dtype == torch.uint8 else x
        x = x.permute(0, 3, 1, 2)
        for section in self.sections:
            x = section(x)
        x = torch.relu(x).permute(0, 2, 3, 1).flatten(1)  # by rows, columns, then channels: as the linear layer's weights lie
        return torch.relu(self.linear(x)).reshape(*image.shape[:-3], self.output_size)


def max_pool(x: Float[Tensor, "N C H W"]) -> Float[Tensor, "N C H_half W_half"]:
    """The largest of each 3x3 window, stride 2, SAME: at an even size there is room after the image alone, at an odd one on both
    sides, and what lies outside never wins."""
    room = []
    for size in (x.shape[3], x.shape[2]):
        lacking = 1 if size % 2 == 0 else 2
        room += [lacking // 2, lacking - lacking // 2]
    return f.max_pool2d(f.pad(x, room, value=-math.inf), kernel_size=3, stride=2)
