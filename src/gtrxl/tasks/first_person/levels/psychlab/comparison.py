"""psychlab_sequential_comparison: is what is shown now the same as what was shown before?

O places for objects, H height and W width of the picture.
"""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from gtrxl.tasks.first_person.level import LevelState, seconds
from gtrxl.tasks.first_person.levels.psychlab.screen import EDGE, Pixels, painted
from gtrxl.tasks.first_person.levels.psychlab.trials import LIT, SHOWN, Staircase, Trial, TwoButtons, TwoButtonsPlayer
from gtrxl.tasks.first_person.rooms import choose

STUDY, BLANK = LIT + 1, LIT + 2
"""Between the cross and the question: what is to be kept in mind, then an empty screen."""
CHANGED, SAME = range(2)
"""The buttons: left and right."""
CELLS = 8
"""Cells of the screen along a side; objects are in the inner 6 x 6."""
CELL = 2 * EDGE / CELLS
_INNER = np.array([(row, column) for row in range(1, 7) for column in range(1, 7) if not {row, column} <= {3, 4}])
PLACES = len(_INNER)
"""Where objects can be: everywhere there but in the four places in the middle."""
_PLACE = np.full((CELLS, CELLS), -1, np.int32)
_PLACE[_INNER[:, 0], _INNER[:, 1]] = np.arange(PLACES)
BOXES = np.array([[-1, 1], [1, 1], [-1, -1], [1, -1]], np.float32) * CELL / 2
"""The four places in the middle, one of which has the box that ends the study."""
BOX = 0.094 * EDGE
"""Half its side."""
DELAYS = np.array([2, 4, 8, 16, 32, 64], np.int32)
"""Steps that the screen is empty for: 8 to 256 frames."""
COLOURS = np.array(
    [(222, 90, 95), (190, 122, 20), (112, 146, 20), (20, 156, 110), (20, 148, 190), (120, 124, 225), (205, 90, 180)]
)
"""Of about the same lightness."""
SQUARE, LETTERS = 0, 4
"""Figures: a square, and from 1 on the letter E in four directions."""
LETTERS_VARY, COLOUR_VARIES, DIRECTION_VARIES, SQUARES, BOTH = range(5)
"""What a trial is about: letters of any colour and direction; of one direction; of one colour; squares; squares and letters."""
TURQUOISE = np.array([50, 205, 205])
_E = np.array([[1, 1, 1, 1, 1], [1, 0, 0, 0, 0], [1, 1, 1, 1, 1], [1, 0, 0, 0, 0], [1, 1, 1, 1, 1]], bool)
_FIGURES = np.stack([np.ones((5, 5), bool), *(np.rot90(_E, turn) for turn in range(LETTERS))])
FILLED = 0.8
"""How much of its cell an object fills, so that neighbours do not run together."""


class Display(eqx.Module):
    """Objects on the screen, by place."""

    there: Bool[Array, "*s O"]
    colour: Int[Array, "*s O"]
    figure: Int[Array, "*s O"]
    """SQUARE, or 1 to 4 for the letter."""


class Comparison(eqx.Module):
    """What was shown, what is shown now, and how hard it is."""

    study: Display
    test: Display
    changed: Bool[Array, "*s"]
    domain: Int[Array, "*s"]
    box: Int[Array, "*s"]
    """Where the box is that ends the study."""
    entered: Bool[Array, "*s"]
    """Whether the gaze is in it."""
    delay: Int[Array, "*s"]
    """Steps that the screen is empty for, those that are left once it is."""
    stairs: Staircase


@dataclasses.dataclass(frozen=True)
class SequentialComparison(TwoButtons):
    """A white screen that the gaze moves over. Looking at the red cross brings an array of coloured objects, squares or
    letters E in four directions, and a hollow turquoise box near the middle. One may look for as long as one likes: the array
    goes when the gaze has been in the box and leaves it. After an empty screen of 8 to 256 frames an array comes back, with a
    black button at the left and at the right edge. With probability 1/2 one object has changed. Left means changed, right the
    same. The button that is looked at turns green if that is right, red if not; when the gaze leaves it, a right answer pays
    1, and the cross is back.

    Each trial is one of five kinds: letters of any colour and direction, letters that differ in colour alone, in direction
    alone, squares, or squares and letters; what differs there is what can change. The first array has one object. At K
    objects there are K trials: if all were right there is one object more, if at most half were there is one less. The
    episode ends after `trials` trials. Actions are the usual fifteen, of which those that do not look do nothing.

    Unlike DMLab-30's: objects fill eight tenths of their places, which touch each other there; the colours are seven of our
    own; anywhere on the cross is looked at, not its inner half alone, because a look turns by 4.2 degrees; a step has four
    frames, so the cross is back at once and not a frame later.
    """

    trials: int = 60
    episode_steps: int = seconds(300)

    def first(self, key: PRNGKeyArray) -> Comparison:
        """One object to begin with."""
        nothing = Display(jnp.zeros(PLACES, bool), jnp.zeros(PLACES, jnp.int32), jnp.zeros(PLACES, jnp.int32))
        no, zero = jnp.zeros((), bool), jnp.int32(0)
        return Comparison(nothing, nothing, no, zero, zero, no, zero, Staircase.first())

    def following(self, task: Comparison, key: PRNGKeyArray) -> Comparison:
        """An array, and what becomes of it."""
        where_key, colour_key, figure_key, which_key, change_key, domain_key, box_key, delay_key = jax.random.split(key, 8)
        domain = jax.random.randint(domain_key, (), 0, 5, jnp.int32)
        colours = jax.random.randint(colour_key, (PLACES,), 0, len(COLOURS), jnp.int32)
        figures = _figures(figure_key, domain)
        there = jnp.argsort(jnp.argsort(jax.random.uniform(where_key, (PLACES,)))) < task.stairs.level
        study = Display(
            there=there, colour=jnp.where(domain == DIRECTION_VARIES, colours[0], colours), figure=figures.astype(jnp.int32)
        )
        changed = jax.random.bernoulli(change_key)
        test = choose(changed, _changed(which_key, study, domain), study)
        return dataclasses.replace(
            task,
            study=study,
            test=test,
            changed=changed,
            domain=domain,
            box=jax.random.randint(box_key, (), 0, len(BOXES), jnp.int32),
            entered=jnp.zeros((), bool),
            delay=jax.random.choice(delay_key, jnp.asarray(DELAYS)),
        )

    def is_right(self, task: Comparison) -> Int[Array, ""]:
        """Left if something has changed."""
        return jnp.where(task.changed, CHANGED, SAME)

    def after(self, task: Comparison, correct: Bool[Array, ""]) -> Comparison:
        """One object more or less, if it is time."""
        return dataclasses.replace(task, stairs=task.stairs.after(correct, highest=PLACES))

    def opening(self) -> int:
        """The study."""
        return STUDY

    def between(self, trial: Trial, gaze: Float[Array, "2"]) -> Trial:
        """The study ends when the gaze leaves the box, the empty screen by the clock."""
        task: Comparison = trial.task
        inside = jnp.all(jnp.abs(gaze - jnp.asarray(BOXES)[task.box]) <= BOX)
        left = (trial.phase == STUDY) & task.entered & ~inside
        delay = task.delay - (trial.phase == BLANK)
        comes = (trial.phase == BLANK) & (delay <= 0)
        phase = jnp.where(left, BLANK, jnp.where(comes, SHOWN, trial.phase))
        entered = (trial.phase == STUDY) & inside
        return dataclasses.replace(
            trial, phase=phase.astype(jnp.int32), task=dataclasses.replace(task, entered=entered, delay=delay)
        )

    def question(self, trial: Trial, pixels: Pixels, empty: Int[Array, "H W 3"]) -> Int[Array, "H W 3"]:
        """The array of this moment; in the study also the box."""
        task: Comparison = trial.task
        shown = choose(trial.phase == STUDY, task.study, task.test)
        row, column = pixels.cells((0, 0), EDGE, CELLS)
        place = jnp.asarray(_PLACE)[row, column]
        # Within its cell, from 0 to 1 over what the object fills.
        left, top = (column + 0.5 - FILLED / 2) * CELL - EDGE, EDGE - (row + 0.5 - FILLED / 2) * CELL
        across, down = (pixels.x - left) / (FILLED * CELL), (top - pixels.y) / (FILLED * CELL)
        filled = (across >= 0) & (across < 1) & (down >= 0) & (down < 1)
        grain = tuple(jnp.clip(jnp.floor(part * 5), 0, 4).astype(jnp.int32) for part in (down, across))
        inked = jnp.asarray(_FIGURES)[shown.figure[place], grain[0], grain[1]]
        objects = filled & inked & (place >= 0) & shown.there[place]
        array = painted(objects, jnp.asarray(COLOURS)[shown.colour[place]], empty)
        middle = jnp.asarray(BOXES)[task.box]
        frame = pixels.square(middle, BOX) & ~pixels.square(middle, BOX - max(1.0, pixels.scale))
        study = painted(frame, TURQUOISE, array)
        return jnp.where(trial.phase == BLANK, empty, jnp.where(trial.phase == STUDY, study, array))

    def is_telling(self, state: LevelState) -> bool:
        """Not the empty screen."""
        return super().is_telling(state) and int(state.world.own.phase) != BLANK

    def player(self) -> "SequentialComparisonPlayer":
        """Forgets no array."""
        return SequentialComparisonPlayer(self)


def _figures(key: PRNGKeyArray, domain: Int[Array, ""]) -> Int[Array, " O"]:
    """The figure of every place."""
    any_key, letter_key = jax.random.split(key)
    either = jax.random.randint(any_key, (PLACES,), 0, 1 + LETTERS, jnp.int32)
    letters = jax.random.randint(letter_key, (PLACES,), 1, 1 + LETTERS, jnp.int32)
    letters = jnp.where(domain == COLOUR_VARIES, letters[0], letters)
    return jnp.where(domain == SQUARES, SQUARE, jnp.where(domain == BOTH, either, letters))


def _changed(key: PRNGKeyArray, array: Display, domain: Int[Array, ""]) -> Display:
    """The array with one of its objects changed, in something in which they differ."""
    which_key, what_key, colour_key, figure_key = jax.random.split(key, 4)
    which = jnp.argmax(jnp.where(array.there, jax.random.uniform(which_key, (PLACES,)), -1.0))
    never, always = (domain == DIRECTION_VARIES), (domain == COLOUR_VARIES) | (domain == SQUARES)
    by_colour = always | (~never & jax.random.bernoulli(what_key))
    colour = (array.colour[which] + jax.random.randint(colour_key, (), 1, len(COLOURS), jnp.int32)) % len(COLOURS)
    turned = 1 + (array.figure[which] - 1 + jax.random.randint(figure_key, (), 1, LETTERS, jnp.int32)) % LETTERS
    other = (array.figure[which] + jax.random.randint(figure_key, (), 1, 1 + LETTERS, jnp.int32)) % (1 + LETTERS)
    figure = jnp.where(domain == BOTH, other, turned)
    return dataclasses.replace(
        array,
        colour=jnp.where(by_colour, array.colour.at[which].set(colour), array.colour),
        figure=jnp.where(by_colour, array.figure, array.figure.at[which].set(figure)),
    )


@dataclasses.dataclass(frozen=True)
class SequentialComparisonPlayer(TwoButtonsPlayer):
    """Keeps the array in mind, and compares object by object."""

    task: SequentialComparison

    def first(self, state: LevelState) -> Display:
        """An empty one."""
        return state.world.own.task.study

    def answer(self, memory: Display, trial: Trial) -> Int[Array, ""]:
        """Left if one object looks different."""
        shown: Display = trial.task.test
        other = (shown.colour != memory.colour) | (shown.figure != memory.figure)
        return jnp.where(jnp.any(shown.there & other), CHANGED, SAME)

    def elsewhere(self, trial: Trial, gaze: Float[Array, "2"]) -> Float[Array, "2"]:
        """Into the box while there is one, and out of it again."""
        box = jnp.asarray(BOXES)[trial.task.box]
        return jnp.where(trial.phase == STUDY, jnp.where(trial.task.entered, -3 * box, box), jnp.zeros(2))

    def learn(self, memory: Any, before: LevelState, action: Int[Array, ""], after: LevelState) -> Any:
        """What is shown in the study."""
        trial: Trial = after.world.own
        return choose(trial.phase == STUDY, trial.task.study, memory)
