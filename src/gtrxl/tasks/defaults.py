"""The settings that a task is known to be learned with. Needs no JAX."""

import dataclasses
import types
from collections.abc import Mapping
from typing import Any, Literal


@dataclasses.dataclass(frozen=True)
class TaskDefaults:
    """What a run of a task begins with unless it is told otherwise; None leaves the usual value (docs/learning.md has the runs
    that found these)."""

    memory: int
    """Steps to look back: an episode, where that is affordable."""
    steps: int = 1_000_000
    """Environment steps."""
    streams: int | None = None
    unroll: int | None = None
    discount: float | None = None
    # Solved in a few thousand updates; at a rate of 1e-3 simple tasks are then lost again and found again (docs/log.md).
    vmpo: Mapping[str, float] = dataclasses.field(
        default_factory=lambda: types.MappingProxyType(
            {"eps_eta": 0.2, "eps_alpha": 0.02, "alpha_init": 0.3, "learning_rate": 3e-4}
        )
    )
    """Settings of V-MPO."""
    recurrent: Mapping[str, float] = dataclasses.field(default_factory=lambda: types.MappingProxyType({}))
    """Those of them that are others for cores that keep no window of steps (LSTM, GRU)."""
    recurrent_unroll: int | None = None
    """Steps of an unroll for such cores, where others are needed: they learn from what one spans, and have no window beyond."""
    algorithm: str = "vmpo"
    """What learns it."""
    with_ppo: Mapping[str, Any] = dataclasses.field(default_factory=lambda: types.MappingProxyType({}))
    """Settings of a run with PPO, where they are others; those of `learner`, `gym` and `fleet` by name in one of these."""
    paper: Literal["numpad", "memory_maze", "dmlab30"] = "numpad"
    """Which of the paper's domains it counts as: its settings and budget are taken for `--preset paper`."""

    @property
    def sizes(self) -> dict[str, int | float]:
        """Those of steps, streams, unroll and discount that are said."""
        named = {"steps": self.steps, "streams": self.streams, "unroll": self.unroll, "discount": self.discount}
        return {name: value for name, value in named.items() if value is not None}


def looking_back(episode_steps: int) -> int:
    """A memory that holds an episode, within reason."""
    return min(max(64, episode_steps), 256)
