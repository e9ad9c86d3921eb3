"""What things and colours are called in instructions, and sentences made of such words inside a compiled program.

N words.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from gtrxl.tasks.first_person.level import WORDS
from gtrxl.tasks.first_person.scene import COLOURS, SHAPES
from gtrxl.tasks.words import NO_WORD, buckets_of

HUES = ("red", "green", "blue", "cyan", "magenta", "yellow")
"""Colours that are named; objects, floors and words count them alike."""
THINGS = (
    "apple", "ball", "balloon", "banana", "bottle", "cake", "can", "car", "cassette", "chair", "cherries", "cow", "flower",
    "fork", "fridge", "guitar", "hair_brush", "hammer", "hat", "ice_lolly", "jug", "key", "knife", "ladder", "mug", "pencil",
    "pig", "pincer", "plant", "saxophone", "shoe", "spoon", "suitcase", "tennis_racket", "tomato", "toothbrush", "tree", "tv",
    "wine_glass", "zebra",
)  # fmt: skip
"""The forty everyday things that are named, each one word."""
HUE_COLOURS = np.array([COLOURS.index(name) for name in HUES], np.int32)
"""Their numbers in COLOURS."""
THING_SHAPES = np.array([SHAPES.index(name) for name in THINGS], np.int32)
"""Their numbers in SHAPES."""


def _word(text: str) -> int:
    return int(buckets_of(text, words=1)[0])


HUE_WORDS = np.array([_word(name) for name in HUES], np.int32)
ASKED_WORDS = np.array([_word(f"{name}?") for name in HUES], np.int32)
THING_WORDS = np.array([_word(name) for name in THINGS], np.int32)


def hue(number: Int[Array, ""]) -> Int[Array, ""]:
    """The word for a colour of HUES."""
    return jnp.asarray(HUE_WORDS)[number]


def asked(number: Int[Array, ""]) -> Int[Array, ""]:
    """The word for a colour of HUES at the end of a question: its mark belongs to it."""
    return jnp.asarray(ASKED_WORDS)[number]


def thing(number: Int[Array, ""]) -> Int[Array, ""]:
    """The word for one of THINGS."""
    return jnp.asarray(THING_WORDS)[number]


def sentence(*parts: str | Int[Array, ""]) -> Int[Array, " N"]:
    """An instruction: text as it is, and words that are only known when it is said. A word of `NO_WORD` must come last."""
    words: list[Array] = []
    for part in parts:
        words += [jnp.int32(_word(each)) for each in part.split()] if isinstance(part, str) else [jnp.asarray(part, jnp.int32)]
    return jnp.stack(words + [jnp.int32(NO_WORD)] * (WORDS - len(words)))
