"""A policy of Stable-Baselines3 whose memory is a core of `gtrxl.torch`.

B sequences of T steps each (B tasks and T = 1 while acting), F features, D the core's width, W numbers of state.

sb3-contrib keeps a recurrent state as two tensors [layers, tasks, width] of one shape. A core's state is one vector of W
numbers for each task, cut into two halves: so it goes through its buffers, its `predict` and its callbacks as an LSTM's does.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from gymnasium import spaces
from jaxtyping import Float
from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy
from sb3_contrib.common.recurrent.type_aliases import RNNStates
from stable_baselines3.common.distributions import Distribution
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.torch_layers import CombinedExtractor, FlattenExtractor, MlpExtractor, NatureCNN
from stable_baselines3.common.type_aliases import Schedule
from torch import Tensor, nn

from gtrxl.cores.errors import CoreError
from gtrxl.torch import Core, State, make_core
from gtrxl.trainers.sb3.pair import Pair
from gtrxl.trainers.states import Layout, plain

CRITICS = ("own", "shared")
Halves = tuple[Float[Tensor, "1 B H"], ...]
"""A state as sb3-contrib carries it; H = ceil(W / 2)."""


class _Size(NamedTuple):
    """What `RecurrentPPO` asks of the LSTM to size its buffers."""

    num_layers: int
    hidden_size: int


class GTrXLPolicy(RecurrentActorCriticPolicy):
    """Observation -> features -> core -> policy, and the same with a core of its own for the value.

    `core` is a name of `gtrxl.torch.make_core`, or anything that is called with the input's width and `core_kwargs` and returns a
    core; `core_kwargs` are its sizes. `critic` is "own", a second core of the same kind for the value, or "shared".
    `output_norm` brings the core's output to zero mean and unit variance before policy and value see it: a transformer's output
    has no size of its own, and PPO's steps depend on it. The other arguments are those of `ActorCriticPolicy`. Vectors,
    pictures and Dict observations each have the features extractor that Stable-Baselines3 has for them.
    """

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        lr_schedule: Schedule,
        *,
        core: str | Callable[..., Core] = "gtrxl-gru",
        core_kwargs: dict[str, Any] | None = None,
        critic: str = "own",
        output_norm: bool = True,
        features_extractor_class: Any = None,
        share_features_extractor: bool = True,
        **others: Any,
    ):
        if not share_features_extractor:
            raise CoreError(
                "share_features_extractor must be True, got False; the cores of policy and value see the same features"
            )
        if critic not in CRITICS:
            raise CoreError(f"critic must be one of {', '.join(CRITICS)}, got {critic!r}; it says which core the value has")
        self.core_name, self.core_kwargs = core, dict(core_kwargs or {})
        self.critic_kind, self.output_norm = critic, output_norm
        extractor = features_extractor_class or _extractor(observation_space)
        # The parent would build its LSTMs; its own parent builds the rest.
        ActorCriticPolicy.__init__(
            self, observation_space, action_space, lr_schedule, features_extractor_class=extractor, **others
        )

    def _build_mlp_extractor(self) -> None:
        """Makes the core too: this is where its input's width is known, and the optimiser is made right after."""
        actor = self._make()
        self.core: Any = Pair(actor, self._make()) if self.critic_kind == "own" else actor
        self.layout = Layout(self.core)
        half = (self.layout.width + 1) // 2
        self.lstm_actor = _Size(num_layers=1, hidden_size=half)  # pyright: ignore[reportAttributeAccessIssue]
        self.lstm_hidden_state_shape = (1, 1, half)
        self.mlp_extractor = MlpExtractor(
            actor.output_size, net_arch=self.net_arch, activation_fn=self.activation_fn, device=self.device
        )

    def _make(self) -> Any:
        if isinstance(self.core_name, str):
            return make_core(self.core_name, input_size=self.features_dim, **self.core_kwargs)
        return self.core_name(self.features_dim, **self.core_kwargs)

    def _get_constructor_parameters(self) -> dict[str, Any]:
        ours = {"core": self.core_name, "core_kwargs": self.core_kwargs, "critic": self.critic_kind}
        return super()._get_constructor_parameters() | ours | {"output_norm": self.output_norm}

    def halves(self, state: State, tasks: int) -> Halves:
        """The state of so many tasks, plain or prepared, as sb3-contrib carries it."""
        half = self.lstm_hidden_state_shape[2]
        if not half:
            return (nothing := torch.zeros(1, tasks, 0, device=self.device)), nothing
        packed = self.layout.packed(plain(self.core, state))[None]
        second = packed[..., half:]
        return packed[..., :half].contiguous(), nn.functional.pad(second, (0, half - second.shape[2]))

    def state(self, halves: Halves) -> State:
        """The core's state out of its halves."""
        both = torch.cat(tuple(halves), dim=2)[0]
        return self.layout.unpacked(both[:, :-1] if both.shape[1] == self.layout.width + 1 else both)

    def remember(self, obs: Any, state: State, episode_starts: Tensor, *, sequences: int) -> tuple[Float[Tensor, "N D"], State]:
        """What the core says to the observations of B sequences, which lie one after the other: N = B * T."""
        features = self.extract_features(obs)
        assert isinstance(features, Tensor)
        resets = episode_starts.bool()
        if sequences == len(features):
            ys, state = self.core.step(features, state, reset=resets.reshape(-1))
        else:
            xs = features.reshape(sequences, -1, features.shape[1])
            ys, state = self.core.unroll(xs, state, resets=resets.reshape(xs.shape[:2]))
        return ys.reshape(len(features), -1), state

    def act(self, obs: Any, state: State, episode_starts: Tensor, deterministic: bool = False) -> tuple[Any, ...]:
        """Actions, values, log probabilities, and the core's next state, which stays prepared if it was."""
        ys, state = self.remember(obs, state, episode_starts, sequences=len(episode_starts))
        distribution = self._distribution(ys)
        actions = distribution.get_actions(deterministic=deterministic)
        log_prob = distribution.log_prob(actions)
        return actions.reshape((-1, *(self.action_space.shape or ()))), self._values(ys), log_prob, state

    # What RecurrentPPO calls.

    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, obs: Any, lstm_states: RNNStates, episode_starts: Tensor, deterministic: bool = False
    ) -> tuple[Tensor, Tensor, Tensor, RNNStates]:
        """Actions, values, log probabilities and the next state."""
        actions, values, log_prob, state = self.act(obs, self.state(lstm_states.pi), episode_starts, deterministic)
        halves = self.halves(state, len(episode_starts))
        return actions, values, log_prob, RNNStates(halves, halves)

    def get_distribution(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, obs: Any, lstm_states: Halves, episode_starts: Tensor
    ) -> tuple[Distribution, Halves]:
        """The distribution of actions, and the next state."""
        tasks = lstm_states[0].shape[1]
        ys, state = self.remember(obs, self.state(lstm_states), episode_starts, sequences=tasks)
        return self._distribution(ys), self.halves(state, tasks)

    def predict_values(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, obs: Any, lstm_states: Halves, episode_starts: Tensor
    ) -> Tensor:
        """What the critic expects."""
        tasks = lstm_states[0].shape[1]
        return self._values(self.remember(obs, self.state(lstm_states), episode_starts, sequences=tasks)[0])

    def evaluate_actions(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, obs: Any, actions: Tensor, lstm_states: RNNStates, episode_starts: Tensor
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Values, log probabilities and entropies of whole sequences, from the state before each of them."""
        sequences = lstm_states.pi[0].shape[1]
        ys, _ = self.remember(obs, self.state(lstm_states.pi), episode_starts, sequences=sequences)
        distribution = self._distribution(ys)
        return self._values(ys), distribution.log_prob(actions), distribution.entropy()

    def _distribution(self, ys: Float[Tensor, "N D"]) -> Distribution:
        return self._get_action_dist_from_latent(self.mlp_extractor.forward_actor(self._parts(ys)[0]))

    def _values(self, ys: Float[Tensor, "N D"]) -> Float[Tensor, "N 1"]:
        return self.value_net(self.mlp_extractor.forward_critic(self._parts(ys)[1]))

    def _parts(self, ys: Float[Tensor, "N D"]) -> tuple[Tensor, Tensor]:
        """What the policy sees of the core's output, and what the value."""
        actors, critics = ys.chunk(2, dim=1) if self.critic_kind == "own" else (ys, ys)
        if self.output_norm:
            width = actors.shape[1:]
            return nn.functional.layer_norm(actors, width), nn.functional.layer_norm(critics, width)
        return actors, critics


def _extractor(space: spaces.Space) -> Any:
    if isinstance(space, spaces.Dict):
        return CombinedExtractor
    return NatureCNN if is_image_space(space) else FlattenExtractor
