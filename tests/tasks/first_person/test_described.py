"""Described objects: the instruction names the one that pays, in words that every process counts alike."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.tasks.first_person.actions import LAB_ACTIONS
from gtrxl.tasks.first_person.level import WORDS
from gtrxl.tasks.first_person.levels.language.described import PLACES, THINGS, DescribedObject
from gtrxl.tasks.first_person.scene import COLOURS, SHAPES
from gtrxl.tasks.words import buckets_of
from tests.tasks.first_person.playing import blind, built, moved, one_step, played, same_alone_and_in_a_batch, start

FIRE = jnp.int32(list(LAB_ACTIONS).index("fire"))
STEPS = 60
SHAPE = blind(DescribedObject, height=16, width=24)
COLOUR = blind(DescribedObject, colours=1, height=16, width=24)


def text(world, number: int) -> list[int]:
    """The instruction that names an object of a world."""
    objects = world.scene.objects
    return buckets_of(SHAPES[int(objects.shape[number])], words=WORDS).tolist()


def test_the_named_object_pays_the_other_costs_and_both_bring_a_new_pair():
    for key in range(6):
        state = start(SHAPE, jax.random.key(key))
        said = state.world.instruction.tolist()
        named = [number for number in (0, 1) if text(state.world, number) == said]
        assert len(named) == 1
        for number in (0, 1):
            after, reward = one_step(SHAPE, moved(state, state.world.scene.objects.place[number]), FIRE)
            assert float(reward) == (10 if number == named[0] else -10)
            assert after.world.body.place.tolist() == [1.5, 2.5]
            new = [text(after.world, each) for each in (0, 1)]
            assert after.world.instruction.tolist() in new


def test_pairs_differ_in_shape_stand_in_two_of_four_places_and_all_things_are_named():
    worlds = built(SHAPE, jax.random.key(0))
    shape = np.asarray(worlds.scene.objects.shape)
    assert (shape[:, 0] != shape[:, 1]).all()
    assert {SHAPES[number] for number in shape.ravel()} == set(THINGS)
    places = {tuple(place) for place in np.asarray(worlds.scene.objects.place).reshape(-1, 2).tolist()}
    assert places == {(column + 0.5, row + 0.5) for row, column in PLACES.tolist()}
    assert len({tuple(each) for each in worlds.instruction.tolist()}) == len(THINGS)
    assert set(worlds.own.target.tolist()) == {0, 1}


def test_with_colours_the_instruction_names_both_and_only_one_object_fits():
    worlds = built(COLOUR, jax.random.key(0))
    shapes, colours = worlds.scene.objects.shape.tolist(), worlds.scene.objects.colour.tolist()
    alike = 0
    for shape, colour, said, target in zip(shapes, colours, worlds.instruction.tolist(), worlds.own.target.tolist(), strict=True):
        names = [buckets_of(f"{COLOURS[c]} {SHAPES[s]}", words=WORDS).tolist() for s, c in zip(shape, colour, strict=True)]
        assert names[target] == said
        assert names[1 - target] != said
        alike += shape[0] == shape[1]
    assert alike > 0, "some differ in colour alone"


@pytest.mark.slow
def test_the_player_takes_what_is_named():
    rewards = played(SHAPE, STEPS).rewards
    assert set(np.unique(rewards)) == {0, 10}
    assert (rewards.sum(1) >= 20).all()


@pytest.mark.slow
def test_an_episode_is_the_same_alone_and_in_a_batch():
    same_alone_and_in_a_batch(SHAPE, played(SHAPE, STEPS), steps=STEPS)


def test_instructions_do_not_depend_on_the_process():
    """Python's own hash() of a text differs from one process to the next; these numbers must not."""
    code = "from gtrxl.tasks.first_person.levels.language.described import _NAMES; print(_NAMES[:, 0].tolist())"
    here = [int(buckets_of(thing, words=1)[0]) for thing in THINGS]
    there = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env={"PYTHONHASHSEED": "7", "JAX_PLATFORMS": "cpu"},
    )
    assert there.stdout.strip() == str(here)
