"""What three psychlab levels share: trials that begin at a cross and end at one of two buttons, and difficulty that follows.

H height and W width of the picture, K trials of a block.
"""

import abc
import dataclasses
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from gtrxl.tasks.errors import in_range
from gtrxl.tasks.first_person.actions import LAB_ACTIONS, LAB_PACE, REPEAT, Command
from gtrxl.tasks.first_person.level import LevelState, Verdict, World
from gtrxl.tasks.first_person.levels.psychlab.screen import (
    EDGE,
    GREEN,
    RED,
    TENTH,
    Pixels,
    ScreenLevel,
    angles_of,
    gaze_of,
    painted,
)
from gtrxl.tasks.first_person.rooms import choose
from gtrxl.tasks.players.steering import Shadow

CROSS, SHOWN, LIT = range(3)
"""What is on the screen: a cross; a question and two buttons; the same, with the button that was looked at green or red. A level
may have more of its own, from 3 on, between the cross and the question."""
SIDES = np.array([[TENTH - EDGE, 0], [EDGE - TENTH, 0]], np.float32)
"""Two buttons at the left and the right edge."""
BOTTOM = np.array([[TENTH - EDGE, TENTH - EDGE], [EDGE - TENTH, TENTH - EDGE]], np.float32)
"""Two buttons in the lower corners."""
INK = np.array([0, 0, 0])


class Trial(eqx.Module):
    """The trial under way."""

    phase: Int[Array, "*s"]
    answer: Int[Array, "*s"]
    """The button that was looked at."""
    done: Int[Array, "*s"]
    """Trials that are over."""
    task: Any
    """What it is about: the level's own record."""


class Staircase(eqx.Module):
    """How hard it is now. Level K lasts for K trials: all right leads one up, at most half of them right one down."""

    level: Int[Array, "*s"]
    """From 1."""
    tried: Int[Array, "*s"]
    """Trials at this level."""
    right: Int[Array, "*s"]
    """Those of them that were right."""

    @classmethod
    def first(cls) -> "Staircase":
        """The lowest step."""
        return cls(level=jnp.int32(1), tried=jnp.int32(0), right=jnp.int32(0))

    def after(self, correct: Bool[Array, ""], *, highest: int) -> "Staircase":
        """One more trial."""
        tried, right = self.tried + 1, self.right + correct
        over = tried >= self.level
        up, down = over & (right == tried), over & (right <= self.level // 2)
        level = jnp.clip(self.level + up - down, 1, highest).astype(jnp.int32)
        return Staircase(level=level, tried=jnp.where(over, 0, tried), right=jnp.where(over, 0, right).astype(jnp.int32))


@dataclasses.dataclass(frozen=True)
class TwoButtons(ScreenLevel):
    """The base of levels with two answers. A white screen. Looking at the red cross in the middle begins a trial; looking at a
    black button answers: it turns green if that is right, red if it is wrong. When the gaze leaves it a right answer pays 1 and
    the cross is back."""

    trials: int = 60

    buttons: ClassVar[Float[np.ndarray, "2 2"]] = SIDES

    def __post_init__(self):
        super().__post_init__()
        in_range("trials", self.trials, least=1, hint=f"DMLab-30 has {type(self).trials}")

    @abc.abstractmethod
    def first(self, key: PRNGKeyArray) -> Any:
        """The record of `Trial.task` before the first trial."""

    @abc.abstractmethod
    def following(self, task: Any, key: PRNGKeyArray) -> Any:
        """The next trial, drawn when its cross is looked at."""

    @abc.abstractmethod
    def is_right(self, task: Any) -> Int[Array, ""]:
        """Which of the buttons is right."""

    def after(self, task: Any, correct: Bool[Array, ""]) -> Any:
        """What an answer changes."""
        return task

    def opening(self) -> int:
        """What comes when the cross was looked at."""
        return SHOWN

    def between(self, trial: Trial, gaze: Float[Array, "2"]) -> Trial:
        """A step of the level's own phases."""
        return trial

    @abc.abstractmethod
    def question(self, trial: Trial, pixels: Pixels, empty: Int[Array, "H W 3"]) -> Int[Array, "H W 3"]:
        """What is asked, without its buttons."""

    def build(self, key: PRNGKeyArray) -> World:
        """The cross; one looks somewhere beside it."""
        heading_key, task_key = jax.random.split(key)
        own = Trial(phase=jnp.int32(CROSS), answer=jnp.int32(0), done=jnp.int32(0), task=self.first(task_key))
        return self.screen(own, heading_key)

    def judge(self, world: World, command: Command, key: PRNGKeyArray) -> Verdict:
        """Where the gaze is, and what that means now."""
        own: Trial = world.own
        gaze = gaze_of(world.body)
        looked_at = jnp.all(jnp.abs(gaze[None] - self.buttons) <= TENTH, axis=1)
        begins = (own.phase == CROSS) & jnp.all(jnp.abs(gaze) <= TENTH)
        answers = (own.phase == SHOWN) & jnp.any(looked_at)
        leaves = (own.phase == LIT) & ~looked_at[own.answer]
        correct = own.answer == self.is_right(own.task)
        within = self.between(own, gaze)
        phase = jnp.where(begins, self.opening(), jnp.where(answers, LIT, jnp.where(leaves, CROSS, within.phase)))
        task = choose(begins, self.following(own.task, key), choose(leaves, self.after(own.task, correct), within.task))
        own = Trial(
            phase=phase.astype(jnp.int32),
            answer=jnp.where(answers, jnp.argmax(looked_at), own.answer).astype(jnp.int32),
            done=own.done + leaves,
            task=task,
        )
        ended = leaves & (own.done >= self.trials)
        reward = (leaves & correct).astype(jnp.float32)
        return Verdict(world=dataclasses.replace(world, own=own), reward=reward, terminated=ended)

    def paint(self, world: World, pixels: Pixels, empty: Int[Array, "H W 3"]) -> Int[Array, "H W 3"]:
        """The cross, or the question and its buttons."""
        own: Trial = world.own
        asked = self.question(own, pixels, empty)
        lit = jnp.where(own.answer == self.is_right(own.task), GREEN, RED)
        answered = asked
        for number, place in enumerate(self.buttons):
            colour = jnp.where((own.phase == LIT) & (own.answer == number), lit, INK)
            answered = painted(pixels.square(place, TENTH), colour, answered)
        asked = jnp.where((own.phase == SHOWN) | (own.phase == LIT), answered, asked)
        return jnp.where(own.phase == CROSS, painted(pixels.cross(TENTH), RED, empty), asked)

    def is_telling(self, state: LevelState) -> bool:
        """What is asked, seen from the middle."""
        own: Trial = state.world.own
        return int(own.phase) not in (CROSS, LIT) and bool(np.abs(gaze_of(state.world.body)).max() < 3 * TENTH)


LARGE, SMALL = (pixels * LAB_PACE.degrees * REPEAT for pixels in (60, 10))
"""Degrees that a large and a small look turn in a step."""
_NAMES = list(LAB_ACTIONS)
_LOOKS = {name: _NAMES.index(name) for name in _NAMES if "look" in name and "forward" not in name}


def look_at(gaze: Float[Array, "2"], target: Float[Array, "2"]) -> Int[Array, ""]:
    """The action that brings the gaze soonest to a place, first along the row; nothing once it is there."""
    now = angles_of(gaze)
    # How far up depends on how far aside one looks when one gets there: as far as now, or it comes to that.
    across, along = angles_of(target)[0] - now[0], angles_of(jnp.stack([gaze[0], target[1]]))[1] - now[1]
    large = jnp.where(across > 0, _LOOKS["large look right"], _LOOKS["large look left"])
    small = jnp.where(across > 0, _LOOKS["small look right"], _LOOKS["small look left"])
    up = jnp.where(along > 0, _LOOKS["look up"], _LOOKS["look down"])
    near = 0.5 * SMALL + 0.1
    row = jnp.where(jnp.abs(across) > 0.5 * LARGE, large, small)
    there = jnp.where(jnp.abs(along) > near, up, _NAMES.index("fire"))
    return jnp.where(jnp.abs(across) > near, row, there)


@dataclasses.dataclass(frozen=True)
class TwoButtonsPlayer(Shadow):
    """Looks at the cross, finds out what the answer is, looks at its button and away again. A subclass says the rest."""

    task: TwoButtons

    @abc.abstractmethod
    def first(self, state: LevelState) -> Any:
        """What is known at the start."""

    @abc.abstractmethod
    def answer(self, memory: Any, trial: Trial) -> Int[Array, ""]:
        """Which button, now that a question is shown."""

    def elsewhere(self, trial: Trial, gaze: Float[Array, "2"]) -> Float[Array, "2"]:
        """Where to look while no question is shown."""
        return jnp.zeros(2)

    def choose(self, memory: Any, state: LevelState) -> Int[Array, ""]:
        """The next look."""
        trial: Trial = state.world.own
        gaze = gaze_of(state.world.body)
        button = jnp.asarray(self.task.buttons)[self.answer(memory, trial)]
        return look_at(gaze, jnp.where(trial.phase == SHOWN, button, self.elsewhere(trial, gaze)))

    def learn(self, memory: Any, before: LevelState, action: Int[Array, ""], after: LevelState) -> Any:
        """Nothing, unless there is something to learn."""
        return memory
