"""A rollout as segments of one length, with resets inside them and no padding. B segments of T steps, H half a state.

The state is kept at each segment's start alone. sb3-contrib's buffer keeps four tensors of a state's size for every step, which
is little for an LSTM and gigabytes for a memory, and it pads sequences that it cuts at every episode's end.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from sb3_contrib.common.recurrent.type_aliases import RecurrentRolloutBufferSamples, RNNStates
from stable_baselines3.common.buffers import DictRolloutBuffer, RolloutBuffer

from gtrxl.cores.errors import CoreError

PARTS = ("actions", "values", "log_probs", "advantages", "returns", "episode_starts")


class _Segments:
    """Over a `RolloutBuffer` or a `DictRolloutBuffer`, which hold everything but the states."""

    def __init__(self, *sizes: Any, segment: int, **others: Any):
        self.segment = segment
        super().__init__(*sizes, **others)

    def reset(self) -> None:
        """Forget the rollout."""
        self.starts: list[Any] = []
        super().reset()  # pyright: ignore[reportAttributeAccessIssue]

    def begins_segment(self) -> bool:
        """Whether the next step is the first of a segment, so that `add` wants the state before it."""
        return self.pos % self.segment == 0  # pyright: ignore[reportAttributeAccessIssue]

    def add(self, *step: Any, state: Any = None) -> None:
        """One step of every task; `state` is what the policy's `halves` gave before it, where a segment begins."""
        if self.begins_segment():
            self.starts.append(state)
        super().add(*step)  # pyright: ignore[reportAttributeAccessIssue]

    def get(self: Any, batch_size: int | None = None) -> Iterator[RecurrentRolloutBufferSamples]:
        """Every segment once, in a new order, as many at a time as `batch_size` steps are."""
        assert self.full, "a rollout is learned from when it is whole"
        if not self.generator_ready:
            self._lay_out()
            self.generator_ready = True
        segments = self.buffer_size * self.n_envs // self.segment
        at_once = segments if batch_size is None else max(1, batch_size // self.segment)
        order = np.random.permutation(segments)
        for first in range(0, segments, at_once):
            yield self._samples(order[first : first + at_once])

    def _lay_out(self: Any) -> None:
        """The steps of a task one after the other, task by task: segment after segment."""
        if isinstance(self.observations, dict):
            self.observations = {key: self.swap_and_flatten(each) for key, each in self.observations.items()}
        else:
            self.observations = self.swap_and_flatten(self.observations)
        for name in PARTS:
            setattr(self, name, self.swap_and_flatten(getattr(self, name)))
        # [1, tasks, H] of each start -> [1, tasks * starts, H], a task's starts one after the other
        self.states = tuple(torch.stack([start[half] for start in self.starts], dim=2).flatten(1, 2) for half in (0, 1))

    def _samples(self: Any, chosen: np.ndarray) -> RecurrentRolloutBufferSamples:
        steps = (chosen[:, None] * self.segment + np.arange(self.segment)).reshape(-1)
        scalars = {name: self.to_torch(getattr(self, name)[steps].reshape(-1)) for name in PARTS if name != "actions"}
        whole = self.observations
        seen: Any = (
            {key: self.to_torch(each[steps]) for key, each in whole.items()}
            if isinstance(whole, dict)
            else self.to_torch(whole[steps])
        )
        halves = tuple(each[:, torch.as_tensor(chosen, device=each.device)] for each in self.states)
        return RecurrentRolloutBufferSamples(
            observations=seen,
            actions=self.to_torch(self.actions[steps].astype(np.float32, copy=False)),
            old_values=scalars["values"],
            old_log_prob=scalars["log_probs"],
            advantages=scalars["advantages"],
            returns=scalars["returns"],
            lstm_states=RNNStates(halves, halves),
            episode_starts=scalars["episode_starts"],
            mask=torch.ones_like(scalars["returns"]),
        )


class SegmentBuffer(_Segments, RolloutBuffer):  # pyright: ignore[reportIncompatibleMethodOverride]
    """Of vectors and pictures."""


class DictSegmentBuffer(_Segments, DictRolloutBuffer):  # pyright: ignore[reportIncompatibleMethodOverride]
    """Of Dict observations."""


def segment_buffer(space: spaces.Space, *sizes: Any, segment: int, **others: Any) -> SegmentBuffer | DictSegmentBuffer:
    """The one for this space of observations."""
    kind = DictSegmentBuffer if isinstance(space, spaces.Dict) else SegmentBuffer
    return kind(*sizes, segment=segment, **others)


def check_segment(segment: int, *, n_steps: int, batch_size: int | None) -> int:
    """Raise unless rollouts and batches are whole segments."""
    if segment < 1 or n_steps % segment:
        raise CoreError(f"segment must divide n_steps = {n_steps}, got {segment}; a rollout is cut into segments of one length")
    if batch_size is not None and batch_size % segment:
        raise CoreError(f"segment must divide batch_size = {batch_size}, got {segment}; a batch is so many whole segments")
    return segment
