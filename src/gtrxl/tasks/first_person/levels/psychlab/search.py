"""psychlab_visual_search: is there a magenta T among the shapes?

O places for shapes, H height and W width of the picture.
"""

import dataclasses
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from gtrxl.tasks.first_person.level import LevelState, seconds
from gtrxl.tasks.first_person.levels.psychlab.screen import EDGE, Pixels, painted
from gtrxl.tasks.first_person.levels.psychlab.trials import BOTTOM, Staircase, Trial, TwoButtons, TwoButtonsPlayer

ABSENT, PRESENT = range(2)
"""The buttons: left and right."""
ROWS = 6
"""Places along a side of the grid."""
PLACES = ROWS * ROWS
GRID = 0.8 * EDGE
"""Half the side of the grid: the middle 80 % of the screen."""
CELL = 2 * GRID / ROWS
SIZE = 2 * EDGE * 56 / 512
"""Of a shape."""
NUMBERS = np.array([1, 1, 1, 2, 2, 4, 8, 16, 24, 32], np.int32)
"""How many shapes there are, stage by stage."""
_DRAWN = """
    #####  ..#..  #....  ....#  ####.  .####  .####  #####
    ..#..  ..#..  #....  ....#  #...#  #...#  #....  ...#.
    ..#..  ..#..  #....  ....#  ####.  .####  .###.  ..#..
    ..#..  ..#..  #....  ....#  #..#.  .#..#  ....#  .#...
    ..#..  #####  #####  #####  #...#  #...#  ####.  #####
"""
SHAPES = np.array([[part == "#" for part in line] for line in _DRAWN.replace(" ", "").split()]).reshape(5, 8, 5).swapaxes(0, 1)
"""T, the same upside down, L, its mirror image, R, its mirror image, S and Z; 5 x 5 cells each."""
COLOURS = np.array([(225, 30, 190), (235, 200, 30), (110, 185, 245), (25, 40, 150), (115, 55, 165)])
"""Magenta, yellow, light blue, dark blue, purple."""
T, MAGENTA = 0, 0
BY_SHAPE, BY_COLOUR, BY_BOTH = range(3)
"""How the others differ from a magenta T: in shape, in colour, in either or both."""


class Searched(eqx.Module):
    """The shapes on the screen, by place, and how hard it is."""

    there: Bool[Array, "*s O"]
    shape: Int[Array, "*s O"]
    colour: Int[Array, "*s O"]
    present: Bool[Array, "*s"]
    mode: Int[Array, "*s"]
    stairs: Staircase


@dataclasses.dataclass(frozen=True)
class VisualSearch(TwoButtons):
    """A white screen that the gaze moves over. Looking at the red cross brings shapes on a grid of 6 x 6 places, and black
    buttons in the lower corners. With probability 1/2 one of the shapes is a magenta T. Left means that there is none, right
    that there is one. The button that is looked at turns green if that is right, red if not; when the gaze leaves it, a right
    answer pays 1, and the cross is back.

    There are eight shapes (T, upside-down T, L, mirrored L, R, mirrored R, S, Z) and five colours (magenta, yellow, light
    blue, dark blue, purple). In a trial the others are all magenta and no T, or all T and not magenta, or anything but a
    magenta T. At the ten stages there are 1, 1, 1, 2, 2, 4, 8, 16, 24 and 32 shapes. Stage K has K trials: if all were right
    the next stage comes, if at most half were the one before. The episode ends after `trials` trials. Actions are the usual
    fifteen, of which those that do not look do nothing.

    Unlike DMLab-30's: letters of 5 x 5 cells with some room between them; where both differ, the others have any other pair
    of shape and colour; anywhere on the cross is looked at, not its inner half alone, because a look turns by 4.2 degrees; a
    step has four frames, so the cross is back at once and not a frame later.
    """

    trials: int = 80
    episode_steps: int = seconds(150)

    buttons: ClassVar[Float[np.ndarray, "2 2"]] = BOTTOM

    def first(self, key: PRNGKeyArray) -> Searched:
        """One shape to begin with."""
        zeros = jnp.zeros(PLACES, jnp.int32)
        return Searched(zeros > 0, zeros, zeros, jnp.zeros((), bool), jnp.int32(0), Staircase.first())

    def following(self, task: Searched, key: PRNGKeyArray) -> Searched:
        """New shapes, with or without the one that is looked for."""
        where_key, shape_key, colour_key, pair_key, present_key, mode_key = jax.random.split(key, 6)
        count = jnp.asarray(NUMBERS)[task.stairs.level - 1]
        order = jnp.argsort(jnp.argsort(jax.random.uniform(where_key, (PLACES,))))
        mode = jax.random.randint(mode_key, (), 0, 3, jnp.int32)
        present = jax.random.bernoulli(present_key)
        target = present & (order == 0)
        # A pair of shape and colour by number; 0 is the target's.
        pair = jax.random.randint(pair_key, (PLACES,), 1, len(SHAPES) * len(COLOURS), jnp.int32)
        others = jax.random.randint(shape_key, (PLACES,), 1, len(SHAPES), jnp.int32)
        shape = jnp.where(mode == BY_SHAPE, others, jnp.where(mode == BY_COLOUR, T, pair % len(SHAPES)))
        others = jax.random.randint(colour_key, (PLACES,), 1, len(COLOURS), jnp.int32)
        colour = jnp.where(mode == BY_SHAPE, MAGENTA, jnp.where(mode == BY_COLOUR, others, pair // len(SHAPES)))
        return Searched(
            there=order < count,
            shape=jnp.where(target, T, shape).astype(jnp.int32),
            colour=jnp.where(target, MAGENTA, colour).astype(jnp.int32),
            present=present,
            mode=mode,
            stairs=task.stairs,
        )

    def is_right(self, task: Searched) -> Int[Array, ""]:
        """Right if it is there."""
        return jnp.where(task.present, PRESENT, ABSENT)

    def after(self, task: Searched, correct: Bool[Array, ""]) -> Searched:
        """Another stage, if it is time."""
        return dataclasses.replace(task, stairs=task.stairs.after(correct, highest=len(NUMBERS)))

    def question(self, trial: Trial, pixels: Pixels, empty: Int[Array, "H W 3"]) -> Int[Array, "H W 3"]:
        """The shapes."""
        task: Searched = trial.task
        row, column = pixels.cells((0, 0), GRID, ROWS)
        place = row * ROWS + column
        left, top = (column + 0.5) * CELL - GRID - SIZE / 2, GRID - (row + 0.5) * CELL + SIZE / 2
        across, down = (pixels.x - left) / SIZE, (top - pixels.y) / SIZE
        filled = (across >= 0) & (across < 1) & (down >= 0) & (down < 1)
        grain = tuple(jnp.clip(jnp.floor(part * 5), 0, 4).astype(jnp.int32) for part in (down, across))
        inked = jnp.asarray(SHAPES)[task.shape[place], grain[0], grain[1]]
        return painted(filled & inked & task.there[place], jnp.asarray(COLOURS)[task.colour[place]], empty)

    def player(self) -> "VisualSearchPlayer":
        """Looks at all of them."""
        return VisualSearchPlayer(self)


@dataclasses.dataclass(frozen=True)
class VisualSearchPlayer(TwoButtonsPlayer):
    """Sees every shape at once, from the middle of the screen, where a trial begins. There is nothing to remember."""

    task: VisualSearch

    def first(self, state: LevelState) -> Any:
        """Nothing."""
        return jnp.zeros(())

    def answer(self, memory: Any, trial: Trial) -> Int[Array, ""]:
        """Right if there is a magenta T."""
        task: Searched = trial.task
        return jnp.where(jnp.any(task.there & (task.shape == T) & (task.colour == MAGENTA)), PRESENT, ABSENT)
