"""The external memory: rows that are found by content, written one a step. The rules are in `gtrxl.cores.merlin.rows`.

B streams, R rows, Z numbers of what is written, W = 2 Z, K keys.
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gtrxl.cores.merlin.rows import EPSILON
from gtrxl.torch.cores.linear.scan import exact


class Rows(NamedTuple):
    """What is remembered. All zeros is a memory that holds nothing."""

    content: Float[Tensor, "B R W"]
    trace: Float[Tensor, "B R"]
    usage: Float[Tensor, "B R"]
    filled: Int[Tensor, " B"]


def weights(
    content: Float[Tensor, "B R W"], keys: Float[Tensor, "B K W"], strengths: Float[Tensor, "B K"]
) -> Float[Tensor, "B K R"]:
    """softmax over the rows of strength * cos(key, row)."""
    content, keys = exact(content), exact(keys)
    along_rows, along_keys = (torch.rsqrt(x.square().sum(dim=2) + EPSILON) for x in (content, keys))
    cosine = (keys @ content.mT) * along_keys[:, :, None] * along_rows[:, None]
    return (exact(strengths)[:, :, None] * cosine).softmax(dim=2)


def read(content: Float[Tensor, "B R W"], by: Float[Tensor, "B K R"]) -> Float[Tensor, "B KW"]:
    """What each key found, side by side."""
    return (by.to(content.dtype) @ content).flatten(1)


def used(rows: Rows, by: Float[Tensor, "B K R"]) -> Rows:
    """The same after it was read so; no gradient."""
    return rows._replace(usage=rows.usage + by.detach().sum(dim=1))


def written(rows: Rows, z: Float[Tensor, "B Z"], *, gamma: float) -> Rows:
    """The same with z in one more row, and in the retroactive half of those before it."""
    size = rows.usage.shape[1]
    place = torch.where(rows.filled < size, rows.filled, rows.usage.argmin(dim=1))
    here = torch.arange(size, device=z.device) == place[:, None]
    w, trace = here.to(rows.trace.dtype), rows.trace.masked_fill(here, 0.0)
    content = rows.content.masked_fill(here[:, :, None], 0.0)
    add = torch.stack([w, trace], dim=2)[..., None] * exact(z)[:, None, None]
    most: Any = rows.usage.amax(dim=1, keepdim=True)
    return Rows(
        content=content + add.flatten(2).to(content.dtype),
        trace=gamma * trace + (1 - gamma) * w,
        usage=torch.where(here, most, rows.usage),
        filled=(rows.filled + 1).clamp(max=size),
    )
