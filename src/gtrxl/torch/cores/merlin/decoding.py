"""MERLIN's decoders as parameters: they go both ways with the other weights. What they lose is computed in JAX, where agents are
trained (`gtrxl.cores.merlin.decoding`). Z latents."""

import math
from typing import Any

from torch import nn

from gtrxl.cores.contract import Observed
from gtrxl.cores.merlin.decoding import ADVANTAGE_HIDDEN, FEATURES, SQUARE
from gtrxl.cores.merlin.parts import SMALL
from gtrxl.torch.cores.layers import Linear, Parts
from gtrxl.torch.cores.merlin.parts import MLP


class Painter(nn.Module):
    """z -> the logits of a picture."""

    def __init__(self, latent: int, shape: tuple[int, int, int], *, device: Any):
        super().__init__()
        squares = math.ceil(shape[0] / SQUARE) * math.ceil(shape[1] / SQUARE)
        self.squares = Linear(latent, squares * FEATURES, variance=1.0, device=device)
        self.pixels = Linear(FEATURES, SQUARE * SQUARE * shape[2], variance=SMALL, device=device)


class Decoders(nn.Module):
    """One for each thing that an agent sees and does, for the reward and for the return."""

    def __init__(self, latent: int, observed: Observed, *, hidden: int, device: Any):
        super().__init__()
        acts = sum(observed.choices) + observed.numbers

        def decoder(size: int, *, seen: int = latent, width: int = hidden) -> MLP:
            return MLP(seen, size, hidden=(width,), last=SMALL, device=device)

        if observed.vector:
            self.vector = decoder(observed.vector)
        self.images = Parts({name: Painter(latent, shape, device=device) for name, shape in observed.images})
        self.action = decoder(acts)
        self.reward, self.value = decoder(1), decoder(1)
        self.advantage = decoder(1, seen=latent + acts, width=min(hidden, ADVANTAGE_HIDDEN))
        self.observed = observed
