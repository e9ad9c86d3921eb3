"""RLlib's `GTrXLNet` (torch), as shipped. B streams, T steps, M memory, D width.

RLlib's trajectory view hands the model, at every step, the last M outputs of each layer as `state_in_i [B, M, D]`; the
model returns one new row per layer. Here the caller keeps the memory as tensors and shifts it with one copy, which is
less than RLlib's own collector does (it gathers NumPy rows stream by stream). In training the model gets the M rows
before the segment and the segment; it then attends to all M + t of them, not to a window.
"""

from collections.abc import Sequence

import gymnasium
import numpy as np
import torch
from ray.rllib.models.catalog import MODEL_DEFAULTS
from ray.rllib.models.torch.attention_net import GTrXLNet

from contenders.torch_threads import contender
from costs import Size
from race import Contender

TITLE = "RLlib GTrXLNet"
NAME = "RLlib GTrXLNet"


def _model(size: Size, *, steps: int) -> GTrXLNet:
    return GTrXLNet(
        gymnasium.spaces.Box(-np.inf, np.inf, (size.d_model,), np.float32),
        gymnasium.spaces.Discrete(2),
        None,  # no heads: the core alone
        {**MODEL_DEFAULTS, "max_seq_len": steps},
        "gtrxl",
        num_transformer_units=size.layers,
        attention_dim=size.d_model,
        num_heads=size.heads,
        head_dim=size.head_dim,
        memory_inference=size.memory,
        memory_training=size.memory,
        position_wise_mlp_dim=size.mlp,
        init_gru_gate_bias=2.0,
    )


def _memory(size: Size, streams: int) -> list[torch.Tensor]:
    return [torch.randn(streams, size.memory, size.d_model) for _ in range(size.layers)]


def acting(size: Size, streams: int) -> Sequence[Contender]:
    """One step of every stream, from Python, and the shift of its memory."""
    model = _model(size, steps=95).eval()
    obs, lengths = torch.randn(streams, size.d_model), torch.ones(streams, dtype=torch.int32)
    memory = _memory(size, streams)

    @torch.no_grad()
    def step() -> None:
        _, rows = model.forward({"obs": obs}, memory, lengths)
        for layer, row in enumerate(rows):
            memory[layer] = torch.cat((memory[layer][:, 1:], row[:, None]), dim=1)

    return [contender(NAME, step, work=streams, model=model, same_model=True)]


def learning(size: Size, streams: int, steps: int) -> Sequence[Contender]:
    """Forward and backward over segments that follow a full memory."""
    model = _model(size, steps=steps).train()
    obs, lengths = torch.randn(streams * steps, size.d_model), torch.full((streams,), steps, dtype=torch.int32)
    memory = _memory(size, streams)

    def gradient() -> None:
        model.zero_grad(set_to_none=True)
        ys, _ = model.forward({"obs": obs}, memory, lengths)
        ys.square().mean().backward()

    return [contender(NAME, gradient, work=streams * steps, model=model, same_model=True)]
