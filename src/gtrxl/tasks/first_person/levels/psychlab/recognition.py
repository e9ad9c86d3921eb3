"""psychlab_continuous_recognition: was this picture shown before?

P pictures of an episode, H height and W width of what is seen.
"""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from gtrxl.tasks.errors import in_range
from gtrxl.tasks.first_person.level import LevelState, seconds
from gtrxl.tasks.first_person.levels.psychlab.drawings import GRAIN, POOL, drawing
from gtrxl.tasks.first_person.levels.psychlab.screen import EDGE, Pixels, painted
from gtrxl.tasks.first_person.levels.psychlab.trials import LIT, Trial, TwoButtons, TwoButtonsPlayer

NEW, OLD = range(2)
"""The buttons: left and right."""
HALF = 0.75 * EDGE
"""Half the side of the picture: it takes three quarters of the screen."""


class Seen(eqx.Module):
    """The pictures of an episode, in the order in which they are new."""

    pictures: Int[Array, "*s P"]
    count: Int[Array, "*s"]
    """How many have been shown."""
    which: Int[Array, "*s"]
    """The one that is shown now."""
    new: Bool[Array, "*s"]
    """Whether it is shown for the first time."""

    @property
    def picture(self) -> Int[Array, ""]:
        """The number of the one that is shown now."""
        return self.pictures[self.which]


@dataclasses.dataclass(frozen=True)
class ContinuousRecognition(TwoButtons):
    """A white screen that the gaze moves over. Looking at the red cross in its middle brings a picture on three quarters of
    the screen, and a black button at the left and at the right edge. Left means that the picture is new, right that it was
    shown before in this episode. The button that is looked at turns green if that is right, red if not; when the gaze leaves
    it, a right answer pays 1, and the cross is back.

    The first picture is new. Each later one is new with probability 1/2, else one of those shown before, each of them as
    likely. What there is to remember grows: about 30 pictures in the end. The episode ends after `trials` trials. Actions are
    the usual fifteen, of which those that do not look do nothing.

    Unlike DMLab-30's: 2,500 drawings (a figure of ten shapes and ten colours on five patterns in five pairs of colours)
    instead of as many photographs of things; anywhere on the cross is looked at, not its inner half alone, because a look
    turns by 4.2 degrees; a step has four frames, so the cross is back at once and not a frame later.
    """

    trials: int = 60
    episode_steps: int = seconds(300)

    def __post_init__(self):
        super().__post_init__()
        in_range("trials", self.trials, least=1, most=POOL, hint="there are no more pictures; DMLab-30 has 60 trials")

    def first(self, key: PRNGKeyArray) -> Seen:
        """Which pictures will be new, one after the other."""
        pictures = jax.random.permutation(key, POOL)[: self.trials].astype(jnp.int32)
        return Seen(pictures=pictures, count=jnp.int32(0), which=jnp.int32(0), new=jnp.ones((), bool))

    def following(self, task: Seen, key: PRNGKeyArray) -> Seen:
        """A new picture, or one of the others."""
        new_key, which_key = jax.random.split(key)
        new = (task.count == 0) | jax.random.bernoulli(new_key)
        old = jax.random.randint(which_key, (), 0, jnp.maximum(task.count, 1), jnp.int32)
        return dataclasses.replace(task, count=task.count + new, which=jnp.where(new, task.count, old), new=new)

    def is_right(self, task: Seen) -> Int[Array, ""]:
        """Left if it is new."""
        return jnp.where(task.new, NEW, OLD)

    def question(self, trial: Trial, pixels: Pixels, empty: Int[Array, "H W 3"]) -> Int[Array, "H W 3"]:
        """The picture."""
        row, column = pixels.cells((0, 0), HALF, GRAIN)
        return painted(pixels.square((0, 0), HALF), drawing(trial.task.picture, row, column), empty)

    def player(self) -> "ContinuousRecognitionPlayer":
        """Forgets no picture."""
        return ContinuousRecognitionPlayer(self)


@dataclasses.dataclass(frozen=True)
class ContinuousRecognitionPlayer(TwoButtonsPlayer):
    """Knows which pictures it has seen."""

    task: ContinuousRecognition

    def first(self, state: LevelState) -> Bool[Array, "2500"]:
        """None."""
        return jnp.zeros(POOL, bool)

    def answer(self, memory: Bool[Array, "2500"], trial: Trial) -> Int[Array, ""]:
        """Right if it was among them."""
        return jnp.where(memory[trial.task.picture], OLD, NEW)

    def learn(self, memory: Any, before: LevelState, action: Int[Array, ""], after: LevelState) -> Any:
        """The picture that was answered."""
        trial: Trial = after.world.own
        return jnp.where(trial.phase == LIT, memory.at[trial.task.picture].set(True), memory)
