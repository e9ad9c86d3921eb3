"""Between any Gymnasium task and an agent: a `Lens` for what the task shows, a `Hand` for what the agent does."""

import dataclasses

import gymnasium

from gtrxl.gym.spaces.hand import Hand
from gtrxl.gym.spaces.lens import Lens, Previous
from gtrxl.gym.spaces.views import ObservationView
from gtrxl.tasks.specs import ActionSpec, ObservationSpec

__all__ = ["ActionSpec", "Hand", "Lens", "ObservationSpec", "Previous", "Spaces"]


@dataclasses.dataclass(frozen=True)
class Spaces:
    """How an agent sees a task and acts on it."""

    lens: Lens
    hand: Hand

    @classmethod
    def of(
        cls,
        env: gymnasium.Env,
        *,
        previous: Previous = "action",
        views: tuple[ObservationView, ...] = (),
        raw: gymnasium.Space | None = None,
    ) -> "Spaces":
        """Of a Gymnasium environment; `views` and `raw` as in `Lens.of`."""
        hand = Hand.of(env.action_space)
        return cls(lens=Lens.of(env.observation_space, hand=hand, previous=previous, views=views, raw=raw), hand=hand)
