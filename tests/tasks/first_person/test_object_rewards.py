"""Object rewards: half of the categories pay, which ones is fixed for the episode, and a restart changes the places alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.tasks.errors import TaskError
from gtrxl.tasks.first_person.actions import LAB_ACTIONS
from gtrxl.tasks.first_person.levels.explore.object_rewards import ObjectRewards
from tests.tasks.first_person.playing import blind, built, moved, one_step, played, same_alone_and_in_a_batch, start

FIRE = jnp.int32(list(LAB_ACTIONS).index("fire"))
STEPS = 100
TASK = blind(ObjectRewards, room=6, objects=6, categories=4, height=16, width=24)


def test_good_objects_pay_two_bad_ones_cost_one_and_the_last_good_one_restarts_the_level():
    state = start(TASK, jax.random.key(0))
    own = state.world.own
    good = np.asarray(own.good)[np.asarray(own.of)]
    order = [*np.flatnonzero(~good)[:1], *np.flatnonzero(good)]
    for number in order[:-1]:
        state, reward = one_step(TASK, moved(state, state.world.scene.objects.place[number]), FIRE)
        assert float(reward) == (2 if good[number] else -1)
        assert not bool(state.world.scene.objects.there[number])
    before = state.world
    state, reward = one_step(TASK, moved(state, before.scene.objects.place[order[-1]]), FIRE)
    after = state.world
    assert float(reward) == 2
    assert bool(after.scene.objects.there.all())
    assert (np.asarray(after.scene.objects.place) != np.asarray(before.scene.objects.place)).any()
    assert (np.asarray(after.body.place) != np.asarray(before.scene.objects.place[order[-1]])).any()
    for fixed in ("good", "shape", "colour"):
        np.testing.assert_array_equal(getattr(after.own, fixed), getattr(before.own, fixed))


def test_half_of_the_categories_are_good_and_each_has_an_object_of_its_own_colour():
    worlds = built(TASK, jax.random.key(1))
    assert (worlds.own.good.sum(1) == TASK.categories // 2).all()
    assert len({tuple(each) for each in worlds.own.good.tolist()}) > 3, "which ones are good is drawn"
    for colours, of, objects in zip(
        worlds.own.colour.tolist(), worlds.own.of.tolist(), worlds.scene.objects.colour.tolist(), strict=True
    ):
        assert len(set(colours)) == TASK.categories
        assert set(of) == set(range(TASK.categories))
        assert objects == [colours[each] for each in of]


def test_the_looks_of_objects_do_not_tell_what_is_good():
    worlds = built(TASK, jax.random.key(1))
    verdicts: dict[int, set[bool]] = {}
    for colours, good in zip(worlds.own.colour.tolist(), worlds.own.good.tolist(), strict=True):
        for colour, pays in zip(colours, good, strict=True):
            verdicts.setdefault(colour, set()).add(pays)
    assert all(seen == {True, False} for seen in verdicts.values())


@pytest.mark.slow
def test_the_player_tries_a_bad_category_once_at_most():
    rewards = played(TASK, STEPS).rewards
    # A bad object that it has not seen yet may be behind it: hence not quite always.
    assert ((rewards < 0).sum(1) <= TASK.categories // 2).mean() > 0.97
    assert (rewards.sum(1) >= 2).all()
    assert rewards.sum(1).mean() > 8


@pytest.mark.slow
def test_an_episode_is_the_same_alone_and_in_a_batch():
    same_alone_and_in_a_batch(TASK, played(TASK, STEPS), steps=STEPS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"categories": 3}, "categories must be even, got 3"),
        ({"objects": 3}, "objects must be from 4 to 120, got 3"),
        ({"categories": 10}, "categories must be from 2 to 8, got 10"),
    ],
)
def test_bad_settings_are_refused_in_one_line(arguments, message):
    with pytest.raises(TaskError, match=message) as caught:
        ObjectRewards(**arguments)
    assert "; " in str(caught.value)
