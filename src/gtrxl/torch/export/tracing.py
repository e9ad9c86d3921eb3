"""What a program is traced from where a core's own step would not do: without a look at numbers, and without running maxima.

B streams, L layers, M memory slots, P = M + 1 distances, D width.
"""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gtrxl.torch.cores.attention import window_code
from gtrxl.torch.cores.contract import Core
from gtrxl.torch.cores.memory import Memory
from gtrxl.torch.cores.transformer import Transformer


def step(core: Core, x: Float[Tensor, "B D_in"], state: Any, reset: Bool[Tensor, " B"]) -> tuple[Float[Tensor, "B D_out"], Any]:
    """`core.step` from a plain state."""
    return _transformer(core, x, state, reset) if isinstance(core, Transformer) else core.step(x, state, reset=reset)


def _transformer(
    core: Transformer, x: Float[Tensor, "B D_in"], state: Memory, reset: Bool[Tensor, " B"]
) -> tuple[Float[Tensor, "B D"], Memory]:
    """A step sees every slot of its episode, and those that are not of it are zeroed here: no number that is not finite can get
    past a reset, without the search for such rows that steps of a longer segment need."""
    horizon = torch.where(reset, 0, state.filled)
    back = torch.arange(core.memory, -1, -1, device=x.device)
    hidden = (back > horizon[:, None])[:, None]
    memory = state.inputs.masked_fill(hidden[:, :, :-1, None], 0.0)
    code = window_code(core.memory, size=core.output_size, like=memory)
    y, inputs = core.embed(x)[:, None], []
    for layer, weights in enumerate(core.blocks.unbound(memory.dtype)):
        inputs.append(y)
        y = core.blocks.run(y, memory[:, layer], weights, hidden=hidden, code=code)
    remembered = torch.cat([memory, torch.stack(inputs, dim=1)], dim=2)[:, :, 1:]
    return y[:, 0], Memory(inputs=remembered, filled=(horizon + 1).clamp(max=core.memory))


def _running_maximum(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """`torch.cummax` of a few steps, one by one: ONNX has no such operator. Recurrent networks ask for it to find numbers that
    are not finite: over the one step of a core, over the words of an instruction."""
    best, *others = x.unbind(dim)
    at = torch.zeros_like(best, dtype=torch.int64)
    values, places = [best], [at]
    for place, now in enumerate(others, start=1):
        newer = now >= best
        best, at = torch.where(newer, now, best), torch.where(newer, place, at)
        values.append(best)
        places.append(at)
    return torch.stack(values, dim), torch.stack(places, dim)


DECOMPOSED: dict[Any, Callable[..., Any]] = {torch.ops.aten.cummax.default: _running_maximum}
"""Operators that ONNX lacks -> the same in those that it has."""
