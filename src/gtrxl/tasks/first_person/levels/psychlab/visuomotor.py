"""psychlab_arbitrary_visuomotor_mapping: which button belongs to which image.

H height and W width of the picture, I images of an episode, P pixels along a side of an image.
"""

import dataclasses
import functools
import zlib
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from gtrxl.tasks.errors import in_range
from gtrxl.tasks.first_person.actions import LAB_ACTIONS, MAPPING_ACTIONS, Command
from gtrxl.tasks.first_person.level import LevelState, Verdict, World, seconds
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
from gtrxl.tasks.first_person.looks.materials import PAINT
from gtrxl.tasks.first_person.rooms import choose
from gtrxl.tasks.first_person.scene import BRIGHT, COLOURS
from gtrxl.tasks.players.steering import Shadow

CROSS, CHOICE, ANSWER = range(3)
"""What is on the screen: a cross to look at; an image and four buttons; the same, and which button was right."""
POOL = 64
"""How many images there are."""
PIXELS = 6
"""Along a side of an image."""

IMAGE = 0.75 * EDGE
"""Half the side of the image: it covers three quarters of the screen's."""
BUTTONS = (EDGE - TENTH) * np.array([[0, 1], [0, -1], [1, 0], [-1, 0]], np.float32)
"""North, south, east, west, at the edges."""
REVEAL = 2
"""Steps that the answer is shown for."""

_DULL_RED, _DULL_GREEN, _DARK = (np.array(rgb) for rgb in ((170, 80, 80), (80, 170, 80), (60, 60, 90)))


class Trials(eqx.Module):
    """The mapping of an episode, and the trial under way."""

    image: Int[Array, "*s I"]
    """Which images the episode has."""
    right: Int[Array, "*s I"]
    """The button that belongs to each."""
    met: Bool[Array, "*s I"]
    """Which have been shown before this trial."""
    order: Int[Array, "*s I"]
    """In which order they come in this round; only the first `size` do."""
    size: Int[Array, "*s"]
    """Images in this round."""
    place: Int[Array, "*s"]
    """Where in the round this trial is."""
    perfect: Bool[Array, "*s"]
    """Whether every answer of this round was right."""
    phase: Int[Array, "*s"]
    held: Int[Array, "*s"]
    """Steps in which the answer was shown."""
    done: Int[Array, "*s"]
    """Trials that are over."""

    @property
    def current(self) -> Int[Array, ""]:
        """Which of the episode's images this trial is about."""
        return self.order[self.place]


@dataclasses.dataclass(frozen=True)
class VisuomotorMapping(ScreenLevel):
    """A white screen in a frame, which the gaze moves over. A trial begins with a cross; once it is looked at an image appears on
    three quarters of the screen, with four buttons at its edges: north, south, east, west. Looking at a button answers: 1 if it
    belongs to the image, else nothing; the right one is shown for two steps, and the next trial begins. Which button belongs to
    which image is drawn for the episode. When an image is shown for the first time its button is green and the others red; later
    all are dark, and one must remember.

    Images come in rounds of random order. The first round has one; after a round without mistakes the next has one more, until
    there are `images`. The episode ends after `trials` trials. Actions are the paper's five for this level, or with `reduced=0`
    the usual fifteen, of which those that do not look do nothing.

    Unlike DMLab-30's: the images are patterns of two colours instead of photographs; an answer is paid when the button is looked
    at and not when it is left; anywhere on the cross is looked at, not its inner half alone, because a look turns by 4.2 degrees,
    and for a step, which has four frames, not for one.
    """

    images: int = 12
    """How many there are at most; a perfect player meets 11 of them in 60 trials."""
    trials: int = 60
    reduced: int = 1
    """1: five actions; 0: fifteen."""
    episode_steps: int = seconds(300)

    field: ClassVar[float] = 96.0
    """All of the screen: the buttons say what is right."""

    def __post_init__(self):
        super().__post_init__()
        in_range("images", self.images, least=1, most=POOL, hint="60 trials have room for 11")
        in_range("trials", self.trials, least=1, hint="DMLab-30 has 60")
        in_range("reduced", self.reduced, least=0, most=1, hint="1 takes the paper's five actions, 0 the usual fifteen")

    @property
    def actions(self) -> dict[str, tuple[int, ...]]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The paper's five for this level, or its fifteen."""
        return MAPPING_ACTIONS if self.reduced else LAB_ACTIONS

    def build(self, key: PRNGKeyArray) -> World:
        """The mapping, and the cross; one looks somewhere beside it."""
        image_key, right_key, heading_key = jax.random.split(key, 3)
        own = Trials(
            image=jax.random.permutation(image_key, POOL)[: self.images].astype(jnp.int32),
            right=jax.random.randint(right_key, (self.images,), 0, len(BUTTONS), jnp.int32),
            met=jnp.zeros(self.images, bool),
            order=jnp.arange(self.images, dtype=jnp.int32),
            size=jnp.int32(1),
            place=jnp.int32(0),
            perfect=jnp.ones((), bool),
            phase=jnp.int32(CROSS),
            held=jnp.int32(0),
            done=jnp.int32(0),
        )
        return self.screen(own, heading_key)

    def judge(self, world: World, command: Command, key: PRNGKeyArray) -> Verdict:
        """Where the gaze is, and what that means now."""
        own: Trials = world.own
        gaze = gaze_of(world.body)
        appears = (own.phase == CROSS) & jnp.all(jnp.abs(gaze) <= TENTH)
        looked_at = jnp.all(jnp.abs(gaze[None] - BUTTONS) <= TENTH, axis=1)
        answered = (own.phase == CHOICE) & jnp.any(looked_at)
        correct = answered & (jnp.argmax(looked_at) == own.right[own.current])
        held = jnp.where(own.phase == ANSWER, own.held + 1, 0)
        over = (own.phase == ANSWER) & (held >= REVEAL)
        phase = jnp.where(appears, CHOICE, jnp.where(answered, ANSWER, jnp.where(over, CROSS, own.phase)))
        going = dataclasses.replace(
            own,
            phase=phase.astype(jnp.int32),
            held=jnp.where(over, 0, held),
            perfect=own.perfect & (~answered | correct),
            done=own.done + answered,
        )
        own = choose(over, self._following(key, going), going)
        ended = (own.done >= self.trials) & (own.phase == CROSS)
        return Verdict(world=dataclasses.replace(world, own=own), reward=correct.astype(jnp.float32), terminated=ended)

    def player(self) -> "VisuomotorMappingPlayer":
        """Remembers every button."""
        return VisuomotorMappingPlayer(self)

    def _following(self, key: PRNGKeyArray, own: Trials) -> Trials:
        """The next trial; at the end of a round a new one."""
        met = own.met.at[own.current].set(True)
        last = own.place + 1 >= own.size
        size = jnp.where(last & own.perfect, jnp.minimum(own.size + 1, self.images), own.size)
        number = jnp.arange(self.images)
        shuffled = jnp.argsort(jax.random.uniform(key, (self.images,)) + (number >= size)).astype(jnp.int32)
        return dataclasses.replace(
            own,
            met=met,
            size=size,
            order=jnp.where(last, shuffled, own.order),
            place=jnp.where(last, 0, own.place + 1),
            perfect=own.perfect | last,
        )

    def paint(self, world: World, pixels: Pixels, empty: Int[Array, "H W 3"]) -> Int[Array, "H W 3"]:
        """A cross; or an image and four buttons."""
        own: Trials = world.own
        crossed = painted(pixels.cross(TENTH), RED, empty)
        row, column = pixels.cells((0, 0), IMAGE, PIXELS)
        drawn = jnp.asarray(images())[own.image[own.current]][row, column]
        chosen = painted(pixels.square((0, 0), IMAGE), drawn, empty)
        for number, place in enumerate(BUTTONS):
            right, answer = own.right[own.current] == number, own.phase == ANSWER
            told = jnp.where(right, _DULL_GREEN, _DULL_RED)
            shown = jnp.where(own.met[own.current], _DARK, told)
            colour = jnp.where(answer, jnp.where(right, GREEN, RED), shown)
            chosen = painted(pixels.square(place, TENTH), colour, chosen)
        return jnp.where(own.phase == CROSS, crossed, chosen)


@functools.cache
def images() -> Int[np.ndarray, "64 P P 3"]:
    """All images: mirrored patterns of two colours. No two have the same two colours for figure and ground."""
    paints = np.array([PAINT[name] for name in COLOURS])
    found = np.zeros((POOL, PIXELS, PIXELS, 3), np.int64)
    for number in range(POOL):
        figure = number % BRIGHT
        ground = (figure + 1 + number // BRIGHT) % BRIGHT
        bits = zlib.crc32(f"image {number}".encode())
        half = np.array([[bits >> (3 * row + column) & 1 for column in range(3)] for row in range(PIXELS)])
        pattern = np.concatenate([half, half[:, ::-1]], axis=1)
        found[number] = paints[np.where(pattern, figure, ground)]
    return found


class Mapping(eqx.Module):
    """The button of each image that was met, -1 of the others."""

    right: Int[Array, "*s 64"]


@dataclasses.dataclass(frozen=True)
class VisuomotorMappingPlayer(Shadow):
    """Looks at the cross, at the image, and at the button that was green when it met the image."""

    task: VisuomotorMapping

    def first(self, state: LevelState) -> Mapping:
        """Nothing."""
        return Mapping(right=jnp.full(POOL, -1, jnp.int32))

    def choose(self, memory: Mapping, state: LevelState) -> Int[Array, ""]:
        """Moves the gaze along the axis on which it is farther off."""
        own: Trials = state.world.own
        gaze = gaze_of(state.world.body)
        button = jnp.maximum(memory.right[own.image[own.current]], 0)
        target = jnp.where(own.phase == CHOICE, jnp.asarray(BUTTONS)[button], jnp.zeros(2))
        off = angles_of(target) - angles_of(gaze)
        names = list(self.task.actions)
        left, right, down, up = (names.index(name) for name in ("small look left", "small look right", "look down", "look up"))
        still = names.index("nothing" if self.task.reduced else "fire")
        across, along = jnp.where(off[0] > 0, right, left), jnp.where(off[1] > 0, up, down)
        way = jnp.where(jnp.abs(off[0]) > jnp.abs(off[1]), across, along)
        return jnp.where(jnp.max(jnp.abs(off)) > 2.2, way, still)

    def learn(self, memory: Mapping, before: LevelState, action: Int[Array, ""], after: LevelState) -> Mapping:
        """The green button, while it is shown."""
        own: Trials = after.world.own
        told = (own.phase == ANSWER) | ((own.phase == CHOICE) & ~own.met[own.current])
        known = memory.right.at[own.image[own.current]].set(own.right[own.current])
        return Mapping(right=jnp.where(told, known, memory.right))
