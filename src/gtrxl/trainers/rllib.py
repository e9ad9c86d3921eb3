"""A core as an `RLModule` of RLlib's new stack. B sequences, T steps, F features, D the core's width, W numbers of state.

    sizes = {"d_model": 64, "layers": 2, "heads": 4, "memory": 32}
    spec = RLModuleSpec(
        module_class=CoreRLModule, model_config={"core": "gtrxl-gru", "core_kwargs": sizes, "max_seq_len": 32}
    )
    config = PPOConfig().environment(...).rl_module(rl_module_spec=spec)

RLlib cuts episodes into sequences of at most `max_seq_len` steps, pads the last one, and gives each the state that acting had
at its first step: so a sequence begins at its first step alone, and what is padded comes after all that counts.

Needs RLlib: `pip install 'gtrxl[rllib]'`.
"""

import dataclasses
import itertools
import math
from typing import Any

import numpy as np
from gymnasium import spaces
from jaxtyping import Float

from gtrxl.cores.errors import CoreError
from gtrxl.trainers.extras import need

need("torch", "ray", "tree", "pyarrow", extra="rllib")  # the last two come with Ray's extra `rllib`

import torch
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis import ValueFunctionAPI
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.core.rl_module.torch import TorchRLModule
from torch import Tensor, nn

from gtrxl.torch import make_core
from gtrxl.trainers.states import Layout, plain

SETTINGS = ("core", "core_kwargs", "encoder", "head", "output_norm", "max_seq_len")
RLLIB_S = {field.name for field in dataclasses.fields(DefaultModelConfig)}
"""Settings of RLlib's own networks, some of which its algorithms add to anybody's."""
STATE = "memory"
"""The state's one key: a core's whole state is one vector."""


class CoreRLModule(TorchRLModule, ValueFunctionAPI):
    """Observation -> encoder -> core -> policy and value, which share the core. `model_config` has

    `core`, `core_kwargs`: a name of `gtrxl.torch.make_core`, or what is called with the input's width and `core_kwargs`;
    `encoder`: what is called with the observation space and returns a module whose output is `[N, F]`; without one a Box is
    taken as a vector and a Discrete as one of its numbers; `head`: widths of the layers of policy and of value after the core
    (64); `output_norm`: the core's output at unit size (True); `max_seq_len`: of RLlib, how many steps a sequence has.
    """

    def setup(self) -> None:
        """Makes the networks."""
        given = dict(self.model_config)
        for name in given:
            if name not in SETTINGS and name not in RLLIB_S:
                raise CoreError(f"model_config of CoreRLModule takes no {name!r}; it takes {', '.join(SETTINGS)}")
        if "max_seq_len" not in given:
            raise CoreError("model_config must have max_seq_len, got none; RLlib cuts episodes into sequences of so many steps")
        encoder = given.get("encoder")
        self.encoder = _Vector(self.observation_space) if encoder is None else encoder(self.observation_space)
        with torch.no_grad():
            example = torch.as_tensor(np.asarray(self.observation_space.sample()))[None]
            features = self.encoder(example).shape[-1]
        core, sizes = given.get("core", "gtrxl-gru"), given.get("core_kwargs", {})
        self.core: Any = make_core(core, input_size=features, **sizes) if isinstance(core, str) else core(features, **sizes)
        self.layout = Layout(self.core)
        self.output_norm = given.get("output_norm", True)
        widths = [self.core.output_size, *given.get("head", (64,))]
        self.policy = _head(widths, _parameters(self.action_space))
        self.value = _head(widths, 1)

    def get_initial_state(self) -> Any:
        """Of one stream, without an axis for streams; a core that remembers nothing has none."""
        if not self.layout.width:
            return {}
        return {STATE: self.layout.packed(plain(self.core, self.core.initial_state(1)))[0].cpu().numpy()}

    def _forward(self, batch: dict[str, Any], **_: Any) -> dict[str, Any]:
        ys, after = self._remember(batch)
        return {Columns.ACTION_DIST_INPUTS: self.policy(ys), **after}

    def _forward_train(self, batch: dict[str, Any], **_: Any) -> dict[str, Any]:
        ys, after = self._remember(batch)
        return {Columns.ACTION_DIST_INPUTS: self.policy(ys), Columns.EMBEDDINGS: ys, **after}

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> Tensor:
        """What the critic expects, of what the core said if that is known already."""
        ys = self._remember(batch)[0] if embeddings is None else embeddings
        return self.value(ys).squeeze(-1)

    def _remember(self, batch: dict[str, Any]) -> tuple[Float[Tensor, "*n D"], dict[str, Any]]:
        """What the core says to each step, `[B, T, D]`, and the states after the last; `[B, D]` of a core that remembers
        nothing."""
        seen = batch[Columns.OBS]
        if not self.layout.width:
            features = self.encoder(seen)
            resets = torch.zeros(len(features), dtype=torch.bool, device=features.device)
            ys, _ = self.core.step(features, self.core.initial_state(len(features)), reset=resets)
            return self._normed(ys), {}
        B, T = seen.shape[:2]
        xs = self.encoder(seen.flatten(0, 1)).view(B, T, -1)
        resets = torch.zeros(B, T, dtype=torch.bool, device=xs.device)
        before = self.layout.unpacked(batch[Columns.STATE_IN][STATE].to(xs.dtype))
        ys, after = self.core.unroll(xs, before, resets=resets)
        return self._normed(ys), {Columns.STATE_OUT: {STATE: self.layout.packed(after)}}

    def _normed(self, ys: Float[Tensor, "*n D"]) -> Float[Tensor, "*n D"]:
        return nn.functional.layer_norm(ys, ys.shape[-1:]) if self.output_norm else ys


class _Vector(nn.Module):
    """Observations as vectors: of a Box all its numbers, of a Discrete a one at its place."""

    def __init__(self, space: Any):
        super().__init__()
        if not isinstance(space, spaces.Box | spaces.Discrete):
            raise CoreError(
                f"observations must be a Box or a Discrete, got {type(space).__name__}; "
                "give model_config an encoder, or RLlib's FlattenObservations connector"
            )
        self.choices = int(space.n) if isinstance(space, spaces.Discrete) else 0
        self.axes = 0 if self.choices else len(space.shape or ())

    def forward(self, seen: Tensor) -> Float[Tensor, "N F"]:
        if self.choices:
            return nn.functional.one_hot(seen.long(), self.choices).float()
        return seen.flatten(-self.axes).float() if self.axes else seen[..., None].float()


def _head(widths: list[int], outputs: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(widths):
        layers += [nn.Linear(before, after), nn.Tanh()]
    last = nn.Linear(widths[-1], outputs)
    nn.init.orthogonal_(last.weight, gain=0.01 if outputs > 1 else 1.0)  # policies begin undecided
    return nn.Sequential(*layers, last)


def _parameters(space: Any) -> int:
    """Of the distribution that RLlib has for the space."""
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if isinstance(space, spaces.Box):
        return 2 * math.prod(space.shape)
    raise CoreError(f"actions must be a Discrete or a Box, got {type(space).__name__}; RLlib has a distribution for those two")
