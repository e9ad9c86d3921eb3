"""What the agent answers from the core's output, in PyTorch: `gtrxl.networks.heads`. D core width, A actions."""

import torch
import torch.nn.functional as f
from jaxtyping import Float
from torch import Tensor, nn

from gtrxl.networks.scaling import RELU
from gtrxl.torch.cores.layers import filled, uniform
from gtrxl.torch.networks.layers import Dense


class MLP(nn.Module):
    """Linear, ReLU, linear: what a policy is made of, or one value per task. Its first answers are small, as in training."""

    def __init__(self, input_size: int, output_size: int, *, hidden: int):
        super().__init__()
        self.hidden = Dense(input_size, hidden, gain=RELU)
        self.output = Dense(hidden, output_size, gain=0.1)

    def forward(self, x: Float[Tensor, "*n D"]) -> Float[Tensor, "*n O"]:
        return self.output(torch.relu(self.hidden(x)))


class Deconv(nn.Module):
    """A transposed convolution with no padding; images are [N, C, H, W] here. JAX's kernel is that of an ordinary convolution
    over the image with gaps in it, PyTorch's the same the other way round."""

    def __init__(self, input_channels: int, output_channels: int, *, size: int, stride: int):
        super().__init__()
        fan_in = (size // stride) ** 2 * input_channels
        self.kernel = uniform(size, size, input_channels, output_channels, fan_in=fan_in)
        self.bias = filled(output_channels)
        self.stride = stride

    def forward(self, x: Float[Tensor, "N C_in H W"]) -> Float[Tensor, "N C_out H_out W_out"]:
        return f.conv_transpose2d(x, self.kernel.flip(0, 1).permute(2, 3, 0, 1), self.bias, stride=self.stride)


class PixelControl(nn.Module):
    """Action values of how much each cell of the image changes: `[*n, D]` -> `[*n, cells, A]`. Learning asks it, acting never."""

    def __init__(self, input_size: int, actions: int, *, cells: tuple[int, int], channels: int = 32):
        super().__init__()
        self.start = (channels, (cells[0] - 6) // 2, (cells[1] - 6) // 2)
        self.linear = Dense(input_size, self.start[0] * self.start[1] * self.start[2])
        self.first = Deconv(channels, channels, size=3, stride=1)
        self.second = Deconv(channels, actions + 1, size=4, stride=2)

    def forward(self, x: Float[Tensor, "*n D"]) -> Float[Tensor, "*n cells_high cells_wide A"]:
        channels, height, width = self.start
        begun = torch.relu(self.linear(x)).reshape(-1, height, width, channels).permute(0, 3, 1, 2)
        both = self.second(torch.relu(self.first(begun))).permute(0, 2, 3, 1)
        advantages, value = both[..., :-1], both[..., -1:]
        found = value + advantages - advantages.mean(dim=-1, keepdim=True)
        return found.reshape(*x.shape[:-1], *found.shape[1:])
