"""Between any Gymnasium task and an agent: a `Lens` for what the task shows, a `Hand` for what the agent does."""

import dataclasses

import gymnasium

from gtrxl.envs.hand import Hand
from gtrxl.envs.lens import Lens, Previous
from gtrxl.envs.specs import ActionSpec, ObservationSpec

__all__ = ["ActionSpec", "Hand", "Lens", "ObservationSpec", "Previous", "Spaces"]


@dataclasses.dataclass(frozen=True)
class Spaces:
    """How an agent sees a task and acts on it."""

    lens: Lens
    hand: Hand

    @classmethod
    def of(cls, env: gymnasium.Env, *, previous: Previous = "action") -> "Spaces":
        """Of a Gymnasium environment."""
        hand = Hand.of(env.action_space)
        return cls(lens=Lens.of(env.observation_space, hand=hand, previous=previous), hand=hand)
