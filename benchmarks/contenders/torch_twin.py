"""Our cores as PyTorch modules (`gtrxl.torch`), eager, as a PyTorch user runs them. T steps, B streams."""

from collections.abc import Sequence

import torch

import gtrxl.torch
from contenders.torch_threads import contender
from costs import Size
from race import Contender

TITLE = "gtrxl.torch"
NAME = "ours in PyTorch"
ACT = f"{NAME}, prepared"


def _model(size: Size) -> gtrxl.torch.Transformer:
    return gtrxl.torch.Transformer(
        size.d_model,
        d_model=size.d_model,
        layers=size.layers,
        heads=size.heads,
        head_dim=size.head_dim,
        mlp=size.mlp,
        memory=size.memory,
    )


def _memory(size: Size, streams: int) -> gtrxl.torch.Memory:
    inputs = torch.randn(streams, size.layers, size.memory, size.d_model)
    return gtrxl.torch.Memory(inputs=inputs, filled=torch.full((streams,), size.memory))


def acting(size: Size, streams: int) -> Sequence[Contender]:
    """One step of every stream, from Python, and its memory carried on."""
    model = _model(size).eval()
    x, reset = torch.randn(streams, size.d_model), torch.zeros(streams, dtype=torch.bool)
    state = [model.prepare(_memory(size, streams))]

    @torch.inference_mode()
    def step() -> None:
        _, state[0] = model.step(x, state[0], reset=reset)

    return [contender(ACT, step, work=streams, model=model, same_model=True)]


def learning(size: Size, streams: int, steps: int) -> Sequence[Contender]:
    """Forward and backward over segments that follow a full memory."""
    model = _model(size).train()
    xs, resets = torch.randn(streams, steps, size.d_model), torch.zeros(streams, steps, dtype=torch.bool)
    memory = _memory(size, streams)

    def gradient() -> None:
        model.zero_grad(set_to_none=True)
        ys, _ = model.unroll(xs, memory, resets=resets)
        ys.square().mean().backward()

    return [contender(NAME, gradient, work=streams * steps, model=model, same_model=True)]
