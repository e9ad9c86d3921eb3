"""Deferred effects: what pays, what the box does, when it ends, and which pairings training never shows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.tasks import TaskError
from gtrxl.tasks.first_person.actions import LAB_ACTIONS
from gtrxl.tasks.first_person.levels.rooms import deferred
from gtrxl.tasks.first_person.levels.rooms.deferred import BOX, DOOR_CELL, DeferredEffects
from gtrxl.tasks.first_person.rooms import paint
from gtrxl.tasks.first_person.scene import DOOR, FREE
from tests.tasks.first_person.playing import blind, built, moved, one_step, played, start

FIRE = jnp.int32(list(LAB_ACTIONS).index("fire"))
TRAINING, TEST = blind(DeferredEffects), blind(DeferredEffects, test=1)
DARK, WHITE = int(paint("black", "plain")), int(paint("white", "plain"))


@pytest.fixture(scope="module")
def worlds():
    return jax.tree.map(np.asarray, built(TRAINING, jax.random.key(0)))


def begun(kind: int):
    """A state of a kind of episode."""
    task = TEST if kind == deferred.DOOR_SHUT_AND_BOX else TRAINING
    states = (start(task, jax.random.key(seed)) for seed in range(50))
    return task, next(state for state in states if int(state.world.own.kind) == kind)


def take(task, state, number: int):
    return one_step(task, moved(state, state.world.scene.objects.place[number]), FIRE)


def test_training_shows_three_kinds_about_equally_and_never_door_and_box_together(worlds):
    counts = np.bincount(worlds.own.kind, minlength=4)
    assert (counts[:3] >= 10).all(), counts
    assert counts[3] == 0
    box, door = worlds.scene.objects.there[:, BOX], worlds.scene.wall[:, *DOOR_CELL]
    assert not (box & ((door == DOOR) | (door == FREE))).any()
    np.testing.assert_array_equal(door == FREE, worlds.own.kind == deferred.DOOR_OPEN)
    np.testing.assert_array_equal(worlds.scene.floor[:, *DOOR_CELL] == WHITE, worlds.own.kind == deferred.DOOR_OPEN)
    np.testing.assert_array_equal(worlds.scene.objects.there[:, deferred.CAKES].all(1), worlds.own.kind != 0)


def test_everything_and_the_body_stand_apart_and_episodes_differ(worlds):
    for number in range(64):
        there = worlds.scene.objects.there[number]
        places = np.concatenate([worlds.body.place[number][None], worlds.scene.objects.place[number][there]])
        apart = np.linalg.norm(places[:, None] - places[None], axis=-1) + 9 * np.eye(len(places))
        assert apart.min() >= 1
    assert len({each.tobytes() for each in worlds.scene.objects.place}) == 64


@pytest.mark.parametrize("kind", [deferred.ONE_ROOM_AND_BOX, deferred.DOOR_SHUT_AND_BOX])
def test_the_box_costs_three_turns_the_strip_white_and_opens_the_door_if_there_is_one(kind):
    task, state = begun(kind)
    wall = np.asarray(state.world.scene.wall)
    assert int(state.world.scene.floor[DOOR_CELL]) == DARK
    after, reward = take(task, state, BOX)
    assert float(reward) == -3
    assert not bool(after.world.scene.objects.there[BOX])
    assert int(after.world.scene.floor[DOOR_CELL]) == WHITE
    opened = np.argwhere(np.asarray(after.world.scene.wall) != wall).tolist()
    assert opened == ([list(DOOR_CELL)] if kind == deferred.DOOR_SHUT_AND_BOX else [])
    assert not opened or int(after.world.scene.wall[DOOR_CELL]) == FREE


def test_apples_pay_one_cakes_ten_and_the_tenth_thing_ends():
    task, state = begun(deferred.DOOR_SHUT_AND_BOX)
    total, advance = 0.0, jax.jit(task.advance)
    for count, number in enumerate([BOX, 0, 1, *range(11, 18)], start=1):
        placed = moved(state, state.world.scene.objects.place[number])
        state, reward, terminated, truncated = advance(placed, FIRE)
        assert float(reward) == (-3 if number == BOX else 1 if number < BOX else 10)
        assert bool(terminated) == (count == 10)
        assert not bool(truncated)
        total += float(reward)
    assert total == -3 + 2 + 70


def test_nothing_grows_back_and_without_a_touch_nothing_changes():
    task, state = begun(deferred.DOOR_SHUT)
    taken, _ = take(task, state, 3)
    again, reward = take(task, taken, 3)
    assert float(reward) == 0
    for before, after in zip(jax.tree.leaves(taken.world.scene), jax.tree.leaves(again.world.scene), strict=True):
        np.testing.assert_array_equal(before, after)


def test_test_is_a_switch():
    with pytest.raises(TaskError, match="test must be from 0 to 1, got 2; 1 shows the door and the box together"):
        DeferredEffects(test=2)


@pytest.mark.slow
def test_the_player_takes_the_loss_where_it_pays_and_leaves_it_elsewhere():
    def returns(task):
        rewards = played(task, 400).rewards
        return np.where(np.cumsum(rewards != 0, axis=1) <= 10, rewards, 0).sum(1)  # the tenth pick ends the episode

    training, test = returns(TRAINING), returns(TEST)
    assert np.isin(training, [10, 100]).mean() > 0.97
    assert (test == 87).mean() > 0.95
