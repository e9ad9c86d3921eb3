"""The PyTorch twin of a whole agent: what JAX built says what to build here, so that no size is written twice."""

from typing import Any

import numpy as np
import torch

from gtrxl.evaluation.restored import named
from gtrxl.networks import SMALL_CHANNELS
from gtrxl.networks import agent as jax_agent
from gtrxl.networks import encoder as jax_encoder
from gtrxl.networks import normaliser as jax_normaliser
from gtrxl.tasks.specs import ObservationSpec
from gtrxl.torch.networks.agent import Agent
from gtrxl.torch.networks.encoder import Encoder, Torso
from gtrxl.torch.networks.normaliser import Normaliser
from gtrxl.torch.weights import from_jax


def twin(agent: jax_agent.Agent) -> Agent:
    """The same agent as an `nn.Module`: the same parameters, in `state_dict` under the names that `gtrxl export` writes."""
    module = Agent(
        torso=_torso(agent.torso),
        core=from_jax(agent.core),
        actions=agent.head.spec,
        hidden=agent.policy.hidden.bias.shape[0],
        values=agent.values,
        output_norm=agent.output_norm,
        widest_noise=agent.head.widest,
        cells=None if agent.pixel_control is None else agent.pixel_control.cells,
    )
    module.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in named(agent).items()})
    return module.eval()


def seen_by(agent: jax_agent.Agent) -> ObservationSpec:
    """What an agent is shown."""
    torso = agent.torso
    return ObservationSpec(torso.first.weight.shape[0]) if isinstance(torso, jax_encoder.Torso) else torso.spec


def _torso(torso: Any) -> Torso | Encoder | Normaliser:
    if isinstance(torso, jax_normaliser.Normaliser):
        inner = _torso(torso.torso)
        assert not isinstance(inner, Normaliser)
        return Normaliser(inner, torso.spec)
    if isinstance(torso, jax_encoder.Encoder):
        first = next(iter(torso.images.values()), None)  # all have the same sizes
        channels = SMALL_CHANNELS if first is None else [section.conv.kernel.shape[-1] for section in first.sections]
        features = 0 if first is None else first.output_size
        return Encoder(torso.spec, torso.output_size, channels=channels, features=features)
    return Torso(torso.first.weight.shape[0], torso.output_size)
