"""Quantitative questions: the answer that pays is what counting gives, yes and no come alike, and only balls answer."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.tasks.drawing.plan import read
from gtrxl.tasks.first_person.actions import LAB_ACTIONS
from gtrxl.tasks.first_person.levels.language.quantitative import BALLS, STARTS, QuantitativeQuestion
from gtrxl.tasks.first_person.parts.naming import HUES, THINGS
from gtrxl.tasks.first_person.scene import COLOURS, SHAPES
from tests.tasks.first_person.playing import blind, moved, one_step, played, start

FIRE = jnp.int32(list(LAB_ACTIONS).index("fire"))
TASK = blind(QuantitativeQuestion)
MANY = 1024


@functools.cache
def worlds():
    made = jax.tree.map(np.asarray, jax.jit(jax.vmap(TASK.build))(jax.random.split(jax.random.key(0), MANY)))
    return [jax.tree.map(lambda leaf, at=at: leaf[at], made) for at in range(MANY)]


def things(world) -> list[tuple[str, str]]:
    """Hue and name of the four objects."""
    objects = world.scene.objects
    return [(COLOURS[int(c)], SHAPES[int(s)]) for c, s in zip(objects.colour[:4], objects.shape[:4], strict=True)]


def truth(text: str, found: list[tuple[str, str]]) -> bool:
    """What a person answers."""
    match text.removesuffix("?").split():
        case ["are", "all", name, "objects", hue]:
            return all(each[0] == hue for each in found if each[1] == name)
        case ["is", "any", name, hue]:
            return (hue, name) in found
        case ["is", "anything", hue]:
            return any(each[0] == hue for each in found)
        case ["are", "most", name, "objects", hue]:
            hues = [each[0] == hue for each in found if each[1] == name]
            return 2 * sum(hues) > len(hues)
        case other:
            raise AssertionError(other)


def kind_of(text: str) -> str:
    return text.split()[1]


def test_the_answer_is_what_counting_gives():
    for world in worlds():
        text = read(world.instruction)
        assert truth(text, things(world)) == bool(world.own.answer), (text, things(world))


def test_what_is_asked_about_is_there_and_all_words_are_used():
    texts = [read(world.instruction) for world in worlds()]
    for world, text in zip(worlds(), texts, strict=True):
        if kind_of(text) != "anything":
            assert text.split()[2] in [name for _, name in things(world)]
    said = {word.removesuffix("?") for text in texts for word in text.split()}
    assert said == {*HUES, *THINGS, "are", "all", "objects", "is", "any", "anything", "most"}


def test_questions_are_equally_likely_and_so_are_yes_and_no_in_each():
    texts = [read(world.instruction) for world in worlds()]
    for kind in ("all", "any", "anything", "most"):
        answers = [bool(world.own.answer) for world, text in zip(worlds(), texts, strict=True) if kind_of(text) == kind]
        assert abs(len(answers) - MANY / 4) < 5 * np.sqrt(MANY / 4 * 0.75)
        assert abs(np.mean(answers) - 0.5) < 5 * 0.5 / np.sqrt(len(answers))


def test_neither_colour_nor_shape_alone_gives_the_answer_away():
    """Where one object or more has the colour, both answers happen."""
    for kind in ("all", "any", "most"):
        for count in (1, 2, 3):
            answers = set()
            for world in worlds():
                text = read(world.instruction)
                hue = text.removesuffix("?").split()[-1]
                if kind_of(text) == kind and sum(each[0] == hue for each in things(world)) == count:
                    answers.add(bool(world.own.answer))
            assert answers == {True, False}


@pytest.mark.slow
def test_right_pays_ten_wrong_costs_ten_and_objects_are_walked_through():
    for seed in range(6):
        state = start(TASK, jax.random.key(seed))
        answer = truth(TASK.instruction(state), things(state.world))
        for ball, says in zip(BALLS, (True, False), strict=True):
            after, reward = one_step(TASK, moved(state, ball), FIRE)
            assert float(reward) == (10 if says == answer else -10)
            assert after.world.body.place.tolist() in STARTS.tolist()
            assert abs((float(after.world.body.heading) + np.pi) % (2 * np.pi) - np.pi) <= np.deg2rad(10) + 1e-6
            assert truth(TASK.instruction(after), things(after.world)) == bool(after.world.own.answer)
        through, reward = one_step(TASK, moved(state, state.world.scene.objects.place[seed % 4]), FIRE)
        assert float(reward) == 0
        assert bool(through.world.scene.objects.there.all())
        np.testing.assert_array_equal(through.world.instruction, state.world.instruction)


@pytest.mark.slow
def test_the_player_is_always_right():
    rewards = played(TASK, 200).rewards
    assert set(np.unique(rewards)) == {0, 10}
    assert (rewards.sum(1) >= 60).all()
