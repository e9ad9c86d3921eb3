"""`torch.nn.LSTM`, 3 x 256: what most agents remember with. A reference line, not a model of the same kind."""

from collections.abc import Sequence

import torch

from contenders.torch_threads import contender
from costs import Size
from race import Contender

TITLE = "torch.nn.LSTM"
NAME = "torch.nn.LSTM 3 x 256"


def _model(size: Size) -> torch.nn.LSTM:
    return torch.nn.LSTM(size.d_model, 256, num_layers=3, batch_first=True)


def acting(size: Size, streams: int) -> Sequence[Contender]:
    """One step of every stream, from Python."""
    model = _model(size).eval()
    x = torch.randn(streams, 1, size.d_model)
    state = [(torch.zeros(3, streams, 256), torch.zeros(3, streams, 256))]

    @torch.no_grad()
    def step() -> None:
        _, state[0] = model(x, state[0])

    return [contender(NAME, step, work=streams, model=model)]


def learning(size: Size, streams: int, steps: int) -> Sequence[Contender]:
    """Forward and backward over segments."""
    model = _model(size).train()
    xs = torch.randn(streams, steps, size.d_model)

    def gradient() -> None:
        model.zero_grad(set_to_none=True)
        ys, _ = model(xs)
        ys.square().mean().backward()

    return [contender(NAME, gradient, work=streams * steps, model=model)]
