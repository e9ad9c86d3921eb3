"""Two cores that see the same and are carried as one: the actor's and the critic's. B streams, T steps, E both widths.

PPO limits how far a batch moves the policy, but not how far the value's loss moves what the policy stands on. With many epochs
over few frames a shared core is torn about by the value, so sb3-contrib gives the critic an LSTM of its own, and we a core.
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from gtrxl.torch import State
from gtrxl.trainers.states import plain, prepared


class Both(NamedTuple):
    """The states of the two."""

    actor: State
    critic: State


class Pair(nn.Module):
    """A core by its calls; its output is the actor's and then the critic's."""

    def __init__(self, actor: Any, critic: Any):
        super().__init__()
        self.actor, self.critic = actor, critic
        self.output_size = actor.output_size + critic.output_size

    def initial_state(self, batch: int = 1) -> Both:
        """Nothing seen."""
        return Both(self.actor.initial_state(batch), self.critic.initial_state(batch))

    def step(self, x: Float[Tensor, "B F"], state: Both, *, reset: Bool[Tensor, " B"]) -> tuple[Float[Tensor, "B E"], Both]:
        """One step of both."""
        y, actor = self.actor.step(x, state.actor, reset=reset)
        other, critic = self.critic.step(x, state.critic, reset=reset)
        return torch.cat([y, other], dim=1), Both(actor, critic)

    def unroll(
        self, xs: Float[Tensor, "B T F"], state: Both, *, resets: Bool[Tensor, "B T"]
    ) -> tuple[Float[Tensor, "B T E"], Both]:
        """T steps of both."""
        ys, actor = self.actor.unroll(xs, state.actor, resets=resets)
        others, critic = self.critic.unroll(xs, state.critic, resets=resets)
        return torch.cat([ys, others], dim=2), Both(actor, critic)

    def prepare(self, state: Both) -> Both:
        """For many steps under the same weights."""
        return Both(prepared(self.actor, state.actor), prepared(self.critic, state.critic))

    def plain(self, state: Both) -> Both:
        """Back."""
        return Both(plain(self.actor, state.actor), plain(self.critic, state.critic))
