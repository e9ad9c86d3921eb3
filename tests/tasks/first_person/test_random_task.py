"""Random tasks: the instruction, as a person reads it, means exactly the objects that pay; decoys are there; what ends a task."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.tasks.drawing.plan import read
from gtrxl.tasks.first_person.actions import LAB_ACTIONS
from gtrxl.tasks.first_person.levels.language import random_task
from gtrxl.tasks.first_person.levels.language.random_task import KINDS, RandomTask
from gtrxl.tasks.first_person.parts.naming import HUES, THINGS
from gtrxl.tasks.first_person.parts.suites import SUITES
from gtrxl.tasks.first_person.scene import COLOURS, FREE, SHAPES
from tests.tasks.first_person.playing import blind, moved, one_step, played, start

FIRE = jnp.int32(list(LAB_ACTIONS).index("fire"))
TASK = blind(RandomTask)
MANY = 512


def plan_of(world) -> int:
    """By the walls alone."""
    free = np.asarray(world.scene.wall) == FREE
    return next(plan for plan in range(4) if np.array_equal(free, SUITES.free[plan]))


def seen(world) -> list[tuple[str, str, int]]:
    """Hue, name and room of each object."""
    objects, room = world.scene.objects, SUITES.room[plan_of(world)]
    cells = np.floor(np.asarray(objects.place)[:, ::-1]).astype(int)
    return [
        (COLOURS[int(objects.colour[i])], SHAPES[int(objects.shape[i])], int(room[tuple(cells[i])]))
        for i in range(len(cells))
        if bool(objects.there[i])
    ]


def meant(text: str, things: list[tuple[str, str, int]]) -> list[int]:
    """The objects that a text means."""

    def fits(description: list[str], thing: tuple[str, str, int]) -> bool:
        return all(word in thing[:2] or word == "object" for word in description)

    words = text.removeprefix("every ").split()
    what, _, anchor = " ".join(words).partition(" near ")
    found = [i for i, thing in enumerate(things) if fits(what.split(), thing)]
    if anchor:
        rooms = [{other[2] for j, other in enumerate(things) if j != i and fits(anchor.split(), other)} for i in found]
        found = [i for i, near in zip(found, rooms, strict=True) if things[i][2] in near]
    return found


@functools.cache
def worlds():
    made = jax.tree.map(np.asarray, jax.jit(jax.vmap(TASK.build))(jax.random.split(jax.random.key(0), MANY)))
    return [jax.tree.map(lambda leaf, at=at: leaf[at], made) for at in range(MANY)]


def test_the_instruction_means_the_goals_and_nothing_else():
    for world in worlds():
        text, things = read(world.instruction), seen(world)
        goals = np.flatnonzero(world.own.goal).tolist()
        assert meant(text, things) == goals, (text, things)
        assert text.startswith("every ") == (len(goals) > 1)
        assert int(world.own.others) == len(things) - len(goals)


def test_there_are_decoys_for_every_part_of_an_instruction():
    for world in worlds():
        text, things = read(world.instruction), seen(world)
        hue, name, room = things[0]
        family = int(world.own.family)
        others = things[1:]
        if family == random_task.PICK:
            assert not any(other[0] == hue or other[1] == name for other in others)
        elif family == random_task.BOTH:
            same_hue, same_name = (sum(other[at] == things[0][at] for other in others) for at in (0, 1))
            assert same_hue == same_name == len(others) // 2
        elif family >= random_task.THING_NEAR_THING:
            what, _, anchor = text.partition(" near ")
            assert len(meant(what, others)) >= 1, "the same beside something else"
            assert all(others[i][2] != room for i in meant(what, others))
            if len(things) == 8:
                assert len(meant(anchor, things)) >= 2, "the anchor beside something else"
    assert {text for world in worlds() for text in read(world.instruction).split()} >= {*HUES, *THINGS}


def test_kinds_come_as_often_as_they_should():
    counts: dict[tuple[int, int], int] = {}
    for world in worlds():
        rooms = {0: 2, 1: 2, 2: 4, 3: 6}[plan_of(world)]
        counts[int(world.own.family), rooms] = counts.get((int(world.own.family), rooms), 0) + 1
    total = sum(kind.weight for kind in KINDS)
    assert set(counts) == {(kind.family, kind.rooms) for kind in KINDS}
    for kind in KINDS:
        expected = MANY * kind.weight / total
        assert abs(counts[kind.family, kind.rooms] - expected) < 5 * np.sqrt(expected)
    words = [len(read(world.instruction).split()) for world in worlds() if int(world.own.family) == random_task.PICK]
    assert 0.2 < np.mean(np.array(words) == 2) < 0.47


@pytest.mark.slow
def test_a_single_goal_pays_ten_another_object_costs_its_share_and_both_end_the_task():
    tried = set()
    for seed in range(24):
        state = start(TASK, jax.random.key(seed))
        things, goals = seen(state.world), meant(TASK.instruction(state), seen(state.world))
        if len(goals) > 1 or len(things) in tried:
            continue
        tried.add(len(things))
        for number in range(len(things)):
            after, reward = one_step(TASK, moved(state, state.world.scene.objects.place[number]), FIRE)
            share = {2: 5, 3: 3, 4: 3, 6: 2, 7: 1, 8: 1, 10: 1}[len(things) - 1]
            assert float(reward) == (10 if number in goals else -share)
            assert int(after.world.own.trial) == 1
    assert len(tried) >= 4


@pytest.mark.slow
def test_of_every_each_pays_one_the_last_eleven_and_a_wrong_one_ends_it():
    states = (start(TASK, jax.random.key(seed)) for seed in range(60))
    state = next(state for state in states if np.asarray(state.world.own.goal).sum() > 2)
    goals, others = int(state.world.own.goal.sum()), int(state.world.own.others)
    wrong, cost = one_step(TASK, moved(state, state.world.scene.objects.place[goals]), FIRE)
    assert float(cost) == -np.floor((goals + 10) / others + 0.5)
    assert int(wrong.world.own.trial) == 1
    for number in range(goals):
        state, reward = one_step(TASK, moved(state, state.world.scene.objects.place[number]), FIRE)
        last = number == goals - 1
        assert float(reward) == (11 if last else 1)
        assert int(state.world.own.trial) == last
        assert last or not bool(state.world.scene.objects.there[number])


@pytest.mark.slow
def test_the_player_does_what_it_is_told():
    rewards = played(TASK, 300).rewards
    assert (rewards > 0).sum() > 50 * (rewards < 0).sum()
    assert (rewards.sum(1) > 0).mean() > 0.95
