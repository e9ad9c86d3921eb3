"""What an agent is shown of a task where that is not what the task itself shows: a view.

A view takes what the task shows, or what it has made of that already: `view(view(x))` is `view(x)`. So an agent that was trained
with one can be given either. It is a frozen record and can be sent to other processes.
"""

import abc
import dataclasses
import re
from collections.abc import Mapping
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces

from gtrxl.tasks.errors import TaskError

VELOCITIES = {
    "CartPole": (1, 3),
    "Pendulum": (2,),
    "Acrobot": (4, 5),
    "MountainCar": (1,),
    "MountainCarContinuous": (1,),
    "LunarLander": (2, 3, 5),
}
"""Where the observations of these tasks hold velocities."""


class ObservationView(abc.ABC):
    """From one observation to another."""

    @abc.abstractmethod
    def space(self, space: gymnasium.Space) -> gymnasium.Space:
        """The space of what it gives, for the space of what the task shows."""

    @abc.abstractmethod
    def __call__(self, observation: Any) -> Any:
        """What the agent is shown; what does not fit is left as it is, for a lens to complain about."""


class Viewed(gymnasium.ObservationWrapper):
    """A task seen through a view."""

    def __init__(self, env: gymnasium.Env, view: ObservationView):
        super().__init__(env)
        self.view = view
        self.observation_space = view.space(env.observation_space)

    def observation(self, observation: Any) -> Any:
        """Through the view."""
        return self.view(observation)


def views_of(env: gymnasium.Env) -> tuple[ObservationView, ...]:
    """The views that were put around an environment, in the order in which they are applied."""
    views: list[ObservationView] = []
    while isinstance(env, Viewed):
        views.insert(0, env.view)
        env = env.env
    return tuple(views)


def raw_space(env: gymnasium.Env) -> gymnasium.Space:
    """What an environment shows without its views."""
    while isinstance(env, Viewed):
        env = env.env
    return env.observation_space


@dataclasses.dataclass(frozen=True)
class WithoutVelocities(ObservationView):
    """Velocities read 0, so that they must be told from what was seen before."""

    places: tuple[int, ...]

    @classmethod
    def of(cls, task: str) -> "WithoutVelocities":
        """For the classic control task of this id."""
        base = re.sub(r"-v\d+$", "", task.rpartition(":")[2])
        if base not in VELOCITIES:
            raise TaskError(
                f"mask_velocity must come with one of {', '.join(VELOCITIES)}, got {task!r}; leave it out for this task"
            )
        return cls(VELOCITIES[base])

    def space(self, space: gymnasium.Space) -> gymnasium.Space:
        """The same: 0 is always a possible velocity."""
        return space

    def __call__(self, observation: Any) -> Any:
        """With zeros. Whether they were there already cannot be seen, and does not matter."""
        masked = np.array(observation)
        if masked.ndim == 1 and len(masked) > max(self.places):
            masked[list(self.places)] = 0
        return masked


@dataclasses.dataclass(frozen=True)
class OneHotCells(ObservationView):
    """MiniGrid's cells (an object, a colour and a state, each a number) one-hot; without the mission where it never changes."""

    mission: bool
    """It is different from episode to episode, so it is shown."""

    counts: tuple[int, int, int]
    """Objects, colours and states that MiniGrid knows."""

    IMAGE: ClassVar[str] = "image"
    MISSION: ClassVar[str] = "mission"

    @classmethod
    def of(cls, space: gymnasium.Space) -> "OneHotCells | None":
        """For the space that a task of MiniGrid shows; None for one without cells."""
        from minigrid.core.constants import COLOR_TO_IDX, OBJECT_TO_IDX, STATE_TO_IDX  # pyright: ignore[reportMissingImports]
        from minigrid.core.mission import MissionSpace  # pyright: ignore[reportMissingImports]

        if not isinstance(space, spaces.Dict) or cls.IMAGE not in space.spaces:
            return None
        mission = space.spaces.get(cls.MISSION)
        # The missions of BabyAI are a kind of their own, which has no placeholders but differs from episode to episode.
        fixed = type(mission) is MissionSpace and mission.ordered_placeholders is None
        return cls(mission=not fixed, counts=(len(OBJECT_TO_IDX), len(COLOR_TO_IDX), len(STATE_TO_IDX)))

    def space(self, space: gymnasium.Space) -> gymnasium.Space:
        """With as many numbers in a cell as there are objects, colours and states."""
        assert isinstance(space, spaces.Dict)
        height, width, _ = space.spaces[self.IMAGE].shape or (0, 0, 0)
        kept = {name: part for name, part in space.spaces.items() if self.mission or name != self.MISSION}
        return spaces.Dict({**kept, self.IMAGE: spaces.Box(0, 255, (height, width, sum(self.counts)), np.uint8)})

    def __call__(self, observation: Any) -> Any:
        """Cells of three numbers become one-hot; others have been seen through this view already."""
        if not isinstance(observation, Mapping) or self.IMAGE not in observation:
            return observation
        kept = {name: part for name, part in observation.items() if self.mission or name != self.MISSION}
        cells = np.asarray(observation[self.IMAGE])
        if cells.ndim != 3 or cells.shape[-1] != len(self.counts) or cells.dtype.kind not in "iu":
            return kept
        if (cells >= self.counts).any() or (cells < 0).any():
            return kept
        parts = [np.eye(count, dtype=np.uint8)[cells[..., i]] for i, count in enumerate(self.counts)]
        return {**kept, self.IMAGE: np.concatenate(parts, axis=-1)}
