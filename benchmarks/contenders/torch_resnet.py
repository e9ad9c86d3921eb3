"""The IMPALA ResNet in PyTorch, tensors channels last, which suits oneDNN."""

import math

import numpy as np
import torch
from torch import nn

from contenders.torch_threads import contender
from race import Contender


class Block(nn.Module):
    """x + conv(relu(conv(relu(x))))."""

    def __init__(self, channels: int):
        super().__init__()
        self.inner = nn.Sequential(nn.ReLU(), conv(channels, channels), nn.ReLU(), conv(channels, channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One batch."""
        return x + self.inner(x)


def conv(before: int, after: int) -> nn.Module:
    """3x3, the size kept."""
    return nn.Conv2d(before, after, 3, padding=1)


def resnet(size: tuple[int, int], channels: tuple[int, ...], features: int) -> nn.Module:
    """Pictures [N, 3, H, W] from 0 to 1 -> [N, features]."""
    layers: list[nn.Module] = []
    before, (height, width) = 3, size
    for after in channels:
        layers += [conv(before, after), nn.MaxPool2d(3, 2, padding=1), Block(after), Block(after)]
        before, height, width = after, math.ceil(height / 2), math.ceil(width / 2)
    return nn.Sequential(*layers, nn.ReLU(), nn.Flatten(), nn.Linear(height * width * before, features), nn.ReLU())


def contenders(
    name: str, size: tuple[int, int], channels: tuple[int, ...], *, features: int, pictures: int
) -> dict[str, Contender]:
    """Forward, and forward and backward, of so many pictures of bytes."""
    net = resnet(size, channels, features)
    net.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]  # its overloads of modules lack it
    drawn = np.random.default_rng(0).integers(0, 256, (pictures, 3, *size), np.uint8)
    images = torch.from_numpy(drawn).contiguous(memory_format=torch.channels_last)

    def forward() -> None:
        with torch.no_grad():
            net(images.float() / 255)

    def learning() -> None:
        net.zero_grad()
        net(images.float() / 255).square().sum().backward()

    runs = {"forward": forward, "learning": learning}
    return {part: contender(name, run, work=pictures, model=net, same_model=True) for part, run in runs.items()}
