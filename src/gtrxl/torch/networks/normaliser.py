"""Numbers of unknown size -> numbers of about 1, in PyTorch: `gtrxl.networks.normaliser`. O numbers in an observation.

The statistics are buffers: they travel with `state_dict`, and no optimiser touches them. They are those of the training; here
they only are applied.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gtrxl.networks.normaliser import LEAST_SPREAD, MOST
from gtrxl.tasks.specs import VECTOR, ObservationSpec
from gtrxl.torch.networks.encoder import Encoder, Torso


class Normaliser(nn.Module):
    """A torso whose measured numbers are brought to a common size first."""

    mean: Tensor
    variance: Tensor
    count: Tensor
    measured: Tensor

    def __init__(self, torso: Torso | Encoder, spec: ObservationSpec):
        super().__init__()
        self.torso = torso
        self.register_buffer("mean", torch.zeros(spec.vector))
        self.register_buffer("variance", torch.ones(spec.vector))
        self.register_buffer("count", torch.zeros(()))
        measured = torch.zeros(spec.vector, dtype=torch.bool)
        for first, end in spec.measured:
            measured[first:end] = True
        self.register_buffer("measured", measured, persistent=False)  # follows from the task, so it is no weight
        self.spec = spec
        self.output_size = torso.output_size

    def forward(self, observation: Any) -> Float[Tensor, "*n D"]:
        x = observation if self.spec.only_vector else observation[VECTOR]
        spread = self.variance.sqrt().clamp(min=LEAST_SPREAD)
        scaled = torch.where(self.measured, ((x - self.mean) / spread).clamp(-MOST, MOST), x)
        return self.torso(scaled if self.spec.only_vector else {**observation, VECTOR: scaled})
