"""What an agent sees -> the core's input, in PyTorch: `gtrxl.networks.encoder`. O numbers in an observation, D width."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gtrxl.networks.errors import AgentError
from gtrxl.networks.scaling import TANH
from gtrxl.networks.vision import SMALL_CHANNELS
from gtrxl.tasks.specs import VECTOR, ObservationSpec
from gtrxl.torch.cores.layers import Parts
from gtrxl.torch.networks.language import Language
from gtrxl.torch.networks.layers import Dense
from gtrxl.torch.networks.vision import ResNet


class Torso(nn.Module):
    """Two layers with tanh."""

    def __init__(self, input_size: int, width: int):
        super().__init__()
        self.first = Dense(input_size, width, gain=TANH)
        self.second = Dense(width, width, gain=TANH)
        self.output_size = width

    def forward(self, x: Float[Tensor, "*n O"]) -> Float[Tensor, "*n D"]:
        return torch.tanh(self.second(torch.tanh(self.first(x))))


class Encoder(nn.Module):
    """Observations with pictures or texts in them, a dict of tensors with any axes in front -> `[*n, D]`."""

    def __init__(self, spec: ObservationSpec, width: int, *, channels: Sequence[int] = SMALL_CHANNELS, features: int = 256):
        super().__init__()
        self.spec = spec
        images = {
            name: ResNet((height, wide), colours=colours, channels=channels, features=features)
            for name, (height, wide, colours) in spec.images
        }
        texts = {name: Language() for name, _ in spec.texts}
        size = sum(part.output_size for part in (*images.values(), *texts.values()))
        self.images, self.texts = Parts(images), Parts(texts)
        self.torso = Torso(spec.vector + size, width)
        self.output_size = width

    def forward(self, observation: Any) -> Float[Tensor, "*n D"]:
        names = {VECTOR} if self.spec.vector else set()
        names |= {name for name, _ in (*self.spec.images, *self.spec.texts)}
        if not isinstance(observation, dict) or set(observation) != names:
            got = sorted(observation) if isinstance(observation, dict) else type(observation).__name__
            raise AgentError(f"an observation must be a dict of {', '.join(sorted(names))}, got {got}; a task's Lens makes it so")
        parts = [observation[VECTOR]] if self.spec.vector else []
        parts += [self.images[name](observation[name]) for name, _ in self.spec.images]
        parts += [self.texts[name](observation[name]) for name, _ in self.spec.texts]
        return self.torso(torch.cat(parts, dim=-1))


def make_torso(spec: ObservationSpec, width: int, *, channels: Sequence[int] = SMALL_CHANNELS) -> Torso | Encoder:
    """What observations need: a `Torso` for numbers alone, an `Encoder` for anything else."""
    return Torso(spec.vector, width) if spec.only_vector else Encoder(spec, width, channels=channels)
