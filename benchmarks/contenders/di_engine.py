"""DI-engine's `GTrXL` (torch), as shipped. It keeps its memory itself; its MLP is as wide as the model. T steps, B streams.

It shares u and v among layers, has biases on all its Linear maps and a ReLU on its embedding; the sizes and the gates are ours.
"""

from collections.abc import Sequence

import torch
from ding.torch_utils.network.gtrxl import GTrXL

from contenders.torch_threads import contender
from costs import Size
from race import Contender

TITLE = "DI-engine GTrXL"
NAME = "DI-engine GTrXL"


def _model(size: Size) -> GTrXL:
    if size.mlp != size.d_model:
        raise ValueError(f"DI-engine's MLP is as wide as the model, got mlp {size.mlp} for {size.d_model}; make them equal")
    return GTrXL(
        input_dim=size.d_model,
        head_dim=size.head_dim,
        embedding_dim=size.d_model,
        head_num=size.heads,
        mlp_num=2,
        layer_num=size.layers,
        memory_len=size.memory,
    )


def _memory(size: Size, streams: int) -> torch.Tensor:
    return torch.randn(size.layers + 1, size.memory, streams, size.d_model)


def acting(size: Size, streams: int) -> Sequence[Contender]:
    """One step of every stream, from Python."""
    model = _model(size).eval()
    model.reset_memory(state=_memory(size, streams))
    x = torch.randn(1, streams, size.d_model)

    @torch.no_grad()
    def step() -> None:
        model(x)

    return [contender(NAME, step, work=streams, model=model, same_model=True)]


def learning(size: Size, streams: int, steps: int) -> Sequence[Contender]:
    """Forward and backward over segments that follow a full memory."""
    model = _model(size).train()
    xs, memory = torch.randn(steps, streams, size.d_model), _memory(size, streams)

    def gradient() -> None:
        model.zero_grad(set_to_none=True)
        model.reset_memory(state=memory)
        model(xs)["logit"].square().mean().backward()

    return [contender(NAME, gradient, work=streams * steps, model=model, same_model=True)]
