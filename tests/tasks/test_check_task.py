"""`check_task`: silent about what keeps its promises, one clear line for each that is broken."""

import dataclasses
import itertools
from typing import Any, ClassVar

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.tasks import GridNumpad, Numpad, Recall, TMaze
from gtrxl.tasks.contract import Step
from gtrxl.testing import TaskViolation, check_task
from tests.tasks.own import Coloured, Echo
from tests.training.toy_tasks import Aim, Shades


@dataclasses.dataclass(frozen=True)
class Costly(Echo):
    """In two halves."""

    costly_observation: ClassVar[bool] = True

    def advance(self, state, action):
        state, step = Echo.step(self, state, action)
        return state, step.reward, step.terminated, step.truncated

    def observe(self, state):
        return self.show(state)


GOOD = [Echo(), Shades(), Aim(), Costly(), GridNumpad(episode_steps=9), Numpad(episode_steps=9), TMaze(4, 2), Recall(2, 1)]


@pytest.mark.parametrize("task", GOOD, ids=lambda task: type(task).__name__)
def test_tasks_that_keep_their_promises_pass(task):
    check_task(task)


def changed(state: Any, step: Step, **changes: Any) -> tuple[Any, Step]:
    return state, dataclasses.replace(step, **changes)


class Grows(Echo):
    def step(self, state, action):
        state, step = super().step(state, action)
        return dataclasses.replace(state, past=jnp.append(state.past, 0)), step


class Widens(Echo):
    def step(self, state, action):
        state, step = super().step(state, action)
        return dataclasses.replace(state, past=state.past.astype(jnp.float32)), step


class Branches(Echo):
    def step(self, state, action):
        return super().step(state, action if action else action + 1)


class Endless(Echo):
    def step(self, state, action):
        state, step = super().step(state, action)
        return changed(state, step, truncated=jnp.zeros((), bool))


class Both(Echo):
    def step(self, state, action):
        state, step = super().step(state, action)
        return changed(state, step, terminated=step.truncated)


class Loud(Echo):
    def show(self, state):
        return 2 * super().show(state)


class Wide(Echo):
    def show(self, state):
        return jnp.zeros(4)


class Counts(Echo):
    def step(self, state, action):
        state, step = super().step(state, action)
        return state, eqx.tree_at(lambda of: of.reward, step, jnp.int32(1))


class Positional(Echo):
    def step(self, state, action) -> Any:
        state, step = super().step(state, action)
        return state, step.observation, step.reward, step.truncated


calls = itertools.count()


class Impure(Echo):
    def step(self, state, action):
        state, step = super().step(state, action)
        return changed(state, step, reward=step.reward + next(calls))


class Together(Echo):
    """Every stream is shown what depends on how many there are."""

    def step(self, state, action):
        state, step = super().step(state, action)
        loud = jax.custom_batching.custom_vmap(lambda reward: reward)
        loud.def_vmap(lambda size, batched, reward: (reward - reward.mean(), True))
        return changed(state, step, reward=loud(step.reward))


class Strings(Echo):
    @property
    def observation_space(self) -> gymnasium.Space:
        return gymnasium.spaces.Text(3)


class Halves(Costly):
    def step(self, state, action):
        state, step = super().step(state, action)
        return changed(state, step, reward=step.reward + 1)


class Nameless(Echo):
    __hash__ = None  # pyright: ignore[reportAssignmentType]


@pytest.mark.parametrize(
    ("task", "line"),
    [
        (
            Grows(),
            r"must keep its structure, shapes and dtypes, got \.past int32\[4\] in place of int32\[3\] after a step",
        ),
        (Widens(), r"got \.past float32\[3\] in place of int32\[3\] after a step; cast it back"),
        (Branches(), "step must run under jit, got TracerBoolConversionError: .*; use jax.numpy"),
        (Endless(), "must end within episode_steps = 12, got one that does not; truncate it"),
        (Both(), "must be terminated or truncated, got both"),
        (Loud(), r"the observation must stay in its space, got 2\.0; widen the bounds"),
        (Wide(), r"reset must show as float32\[3\], got float32\[4\]; make it so"),
        (Counts(), r"reward must be one float, got int32\[\]; cast it"),
        (Positional(), "step must return the next state and a gtrxl.Step"),
        (Impure(), "the same key and actions must give the same episode, got another one"),
        (Together(), "the same alone and beside others under vmap, got another"),
        (Echo(episode_steps=0), "episode_steps must be a whole number from 1, got 0"),
        (Strings(), "observation_space must be a space that an agent can take, got TaskError: a compiled task shows floats"),
        (Halves(), "advance and then observe must be what step is"),
        (Nameless(), "a task must be hashable, .*got unhashable type"),
        (Coloured(colour="blue"), "a frozen record of whole numbers, got colour='blue'"),
        (np.zeros(3), "a task derives from gtrxl.Task, got ndarray"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_each_broken_promise_has_its_line(task, line):
    with pytest.raises(TaskViolation, match=line) as caught:
        check_task(task)
    said = str(caught.value).splitlines()
    assert len(said) == 1 + len(caught.value.broken)
    assert all("\n" not in each for each in caught.value.broken)
