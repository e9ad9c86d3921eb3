"""Words of instructions are told apart: those of DMLab-30's language levels, from their descriptions, and those of our levels."""

import itertools
import zlib

import numpy as np

from gtrxl.tasks.first_person.scene import COLOURS, SHAPES
from gtrxl.tasks.words import BUCKETS, NO_WORD, VOCABULARY, buckets_of

_THINGS = """
    apple2 ball balloon banana bottle cake can car cassette chair cherries cow flower fork fridge guitar hair_brush
    hammer hat ice_lolly jug key knife ladder mug pencil pig pincer plant saxophone shoe spoon suitcase tennis_racket
    tomato toothbrush tree tv wine_glass zebra
"""
THINGS = _THINGS.split()
PAINTS = ["red", "green", "blue", "cyan", "magenta", "yellow"]


def sentences():
    """All that the four language levels of DMLab-30 can say."""
    yield from THINGS
    yield from PAINTS
    for colour, thing in itertools.product(PAINTS, THINGS):
        yield f"{colour} {thing}"
        yield f"{thing} near {colour} object"
        yield f"Are all {thing} objects {colour}?"
        yield f"Is any {thing} {colour}?"
        yield f"Are most {thing} objects {colour}?"
    for one, other in itertools.permutations(PAINTS, 2):
        yield f"Pick the {one} object in the {other} room"
        yield f"{one} object near {other} object"
    for one, other in itertools.permutations(THINGS, 2):
        yield f"{one} near {other}"
    for thing in THINGS:
        yield f"Every {thing}"
        yield thing.replace("_", " ")
    for colour in PAINTS:
        yield f"Every {colour} object"
        yield f"Is anything {colour}?"


def test_every_instruction_of_the_language_levels_is_told_apart():
    """By hash alone "cow" was "blue", "saxophone" "balloon" and "near" "mug"."""
    said = set(sentences())
    words = {word for sentence in said for word in sentence.lower().split()}
    assert len(words) == len({int(buckets_of(word, words=1)[0]) for word in words})
    assert len(said) == len({buckets_of(sentence, words=8).tobytes() for sentence in said})
    assert words <= set(VOCABULARY)


def test_every_known_word_has_a_bucket_of_its_own():
    assert len(set(VOCABULARY)) == len(VOCABULARY)
    assert len({int(buckets_of(word, words=1)[0]) for word in VOCABULARY}) == len(VOCABULARY) < BUCKETS == 1000
    assert {*COLOURS, *SHAPES} <= set(VOCABULARY), "what our levels can name"


def test_words_that_agents_of_ours_were_trained_with_stay_where_they_were():
    """As any word does that nobody knew of."""
    first = "red green blue yellow magenta cyan orange white purple brown cake car cassette hat tv pick up the object unheard-of"
    for word in first.split():
        assert buckets_of(word, words=1).tolist() == [zlib.crc32(word.encode()) % 1000]
    assert buckets_of("Cow  zebra", words=3).tolist()[2] == NO_WORD
    assert not np.array_equal(buckets_of("cow", words=1), buckets_of("blue", words=1))
