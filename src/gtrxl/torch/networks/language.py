"""What the agent is told, in PyTorch: `gtrxl.networks.language`. W words, E embedding width, F features."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from gtrxl.tasks.words import BUCKETS
from gtrxl.torch.cores.recurrent import LSTM


class Language(nn.Module):
    """Bucket ids `[*n, W]` -> `[*n, F]`: the LSTM's output at the last word, and zeros when nothing was said."""

    def __init__(self, *, features: int = 64, embedding: int = 20):
        super().__init__()
        self.embedding = nn.Parameter(torch.randn(BUCKETS, embedding))
        self.lstm = LSTM(embedding, d_model=features)
        self.output_size = features

    def forward(self, buckets: Int[Tensor, "*n W"]) -> Float[Tensor, "*n F"]:
        flat = buckets.reshape(-1, buckets.shape[-1])
        words = (flat >= 0).sum(dim=1)
        embedded = self.embedding[flat.clamp(min=0).long()]
        # The LSTM runs over the padding too, which keeps shapes fixed; its output there is never read.
        outputs, _ = self.lstm.unroll(
            embedded, self.lstm.initial_state(flat.shape[0]), resets=torch.zeros_like(flat, dtype=torch.bool)
        )
        last = (words - 1).clamp(min=0)[:, None, None].expand(-1, 1, self.output_size)
        found = torch.where((words > 0)[:, None], outputs.gather(1, last)[:, 0], 0.0)
        return found.reshape(*buckets.shape[:-1], self.output_size)
