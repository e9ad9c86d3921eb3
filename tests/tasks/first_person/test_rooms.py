"""Levels of open rooms: what pays, where one is put, what can be known, and that their players make no mistakes."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.tasks.errors import TaskError
from gtrxl.tasks.first_person.actions import LAB_ACTIONS
from gtrxl.tasks.first_person.level import LevelState
from gtrxl.tasks.first_person.levels.rooms import collect, nonmatching, watermaze
from gtrxl.tasks.first_person.levels.rooms.collect import CollectGood
from gtrxl.tasks.first_person.levels.rooms.nonmatching import LEFT, PAD, RIGHT, SHOWN, SelectNonmatching
from gtrxl.tasks.first_person.levels.rooms.watermaze import PLATFORM, Watermaze
from gtrxl.tasks.first_person.rooms import KINDS, kind, scatter
from gtrxl.tasks.first_person.scene import FREE, GLASS, Objects
from gtrxl.tasks.players.steering import bearing
from tests.tasks.first_person.playing import blind, built, moved, one_step, played, same_alone_and_in_a_batch, start

NAMES = list(LAB_ACTIONS)
FIRE, FORWARD, LARGE_RIGHT = (jnp.int32(NAMES.index(name)) for name in ("fire", "forward", "large look right"))
STEPS = 80
PAIRS = blind(SelectNonmatching, room=3, objects=4, fresh=1, trial_steps=40, height=16, width=24)
SAME = blind(SelectNonmatching, room=5, objects=4, height=16, width=24)
GOOD_OBJECTS = blind(CollectGood, room=6, height=16, width=24)
POOL = blind(Watermaze, arena=7, height=16, width=24)


def object_at(state: LevelState, number: int) -> jax.Array:
    return state.world.scene.objects.place[number]


def in_second_room(task, key: int) -> LevelState:
    state = start(task, jax.random.key(key))
    return one_step(task, moved(state, object_at(state, PAD)), FIRE)[0]


def looks(objects: Objects, number: int) -> tuple[int, int]:
    return int(objects.shape[number]), int(objects.colour[number])


def test_no_two_kinds_look_alike_and_near_ones_share_nothing():
    shapes, colours = kind(jnp.arange(KINDS))
    assert len(set(zip(shapes.tolist(), colours.tolist(), strict=True))) == KINDS
    assert len(set(shapes.tolist()[:7])) == len(set(colours.tolist()[:7])) == 7


def test_places_are_different_free_cells_away_from_the_body():
    away = jnp.array([2.5, 2.5])
    draw = jax.jit(jax.vmap(lambda key: scatter(key, 10, rows=5, columns=5, away=away)))
    for places in np.asarray(draw(jax.random.split(jax.random.key(0), 20))):
        assert len({tuple(place) for place in places}) == 10
        assert (places > 1).all() and (places < 6).all()  # noqa: PT018
        assert np.linalg.norm(places - np.asarray(away), axis=1).min() > 1.5


def test_the_pad_pays_and_leads_to_the_second_room():
    state = start(PAIRS, jax.random.key(0))
    state, reward = one_step(PAIRS, moved(state, object_at(state, PAD)), FIRE)
    assert float(reward) == 1
    assert bool(state.world.own.second)
    assert float(state.world.body.place[0]) > PAIRS.room + 3
    assert float(state.world.body.heading) == 0


@pytest.mark.parametrize("task", [PAIRS, SAME], ids=["fresh", "same"])
def test_the_matching_object_costs_ten_the_other_pays_ten_and_both_lead_back(task):
    for key in range(4):
        state = in_second_room(task, key)
        matching = int(state.world.own.matching)
        for number, pays in ((matching, -10), (LEFT + RIGHT - matching, 10)):
            after, reward = one_step(task, moved(state, object_at(state, number)), FIRE)
            assert float(reward) == pays
            assert not bool(after.world.own.second)
            assert int(after.world.own.clock) == 0
            assert after.world.body.place.tolist() == [1.5, 1.5 + task.room // 2]


def test_what_matches_is_what_was_shown():
    for key in range(4):
        first, second = start(PAIRS, jax.random.key(key)), in_second_room(PAIRS, key)
        shown = looks(first.world.scene.objects, SHOWN)
        matching = int(second.world.own.matching)
        assert looks(second.world.scene.objects, matching) == shown
        assert looks(second.world.scene.objects, LEFT + RIGHT - matching) != shown


def test_the_second_room_does_not_tell_which_one_was_shown():
    """Two trials with the same two objects on the same sides, one of which was shown in each: only memory tells them apart."""
    state = start(PAIRS, jax.random.key(0))
    pair = state.world.own
    pair = eqx.tree_at(
        lambda of: (of.second, of.shown, of.other, of.matching), pair, (jnp.ones((), bool), *map(jnp.int32, (0, 1, LEFT)))
    )
    other = eqx.tree_at(lambda of: (of.shown, of.other, of.matching), pair, tuple(map(jnp.int32, (1, 0, RIGHT))))
    objects_of = jax.jit(lambda each: PAIRS._scene(each, pad_row=jnp.int32(2), niche_row=jnp.int32(2)).objects)
    one, two = objects_of(pair), objects_of(other)
    assert looks(one, SHOWN) != looks(two, SHOWN)
    assert [looks(one, side) for side in (LEFT, RIGHT)] == [looks(two, side) for side in (LEFT, RIGHT)]


def test_the_same_object_is_shown_for_the_episode_and_with_fresh_another():
    shown = {}
    for task in (SAME, PAIRS):
        state = start(task, jax.random.key(3))
        shown[task] = []
        for _ in range(8):
            shown[task].append(looks(state.world.scene.objects, SHOWN))
            state, _ = one_step(task, moved(state, object_at(state, PAD)), FIRE)
            state, reward = one_step(task, moved(state, object_at(state, LEFT)), FIRE)
            assert abs(float(reward)) == 10
    assert len(set(shown[SAME])) == 1
    assert len(set(shown[PAIRS])) > 1


def test_unmixed_kinds_have_their_sides_so_that_what_was_shown_says_which_way_to_go():
    task = SelectNonmatching(room=3, objects=2, fresh=1, mixed=0, height=16, width=24)
    built = jax.jit(jax.vmap(task.build))(jax.random.split(jax.random.key(0), 16))
    shape, shown, matching = built.scene.objects.shape, built.own.shown.tolist(), built.own.matching.tolist()
    assert len(set(shape[:, LEFT].tolist())) == len(set(shape[:, RIGHT].tolist())) == 1
    assert set(zip(shown, matching, strict=True)) == {(0, LEFT), (1, RIGHT)}


def test_a_trial_that_takes_too_long_leads_back_to_the_first_room():
    state = in_second_room(PAIRS, 0)
    state = eqx.tree_at(lambda of: of.world.own.clock, state, jnp.int32(PAIRS.trial_steps - 2))
    state, _ = one_step(PAIRS, state, FIRE)
    assert bool(state.world.own.second)
    state, reward = one_step(PAIRS, state, FIRE)
    assert float(reward) == 0
    assert not bool(state.world.own.second)
    assert int(state.world.own.clock) == 0


def test_the_shown_object_is_behind_glass():
    state = start(SAME, jax.random.key(0))
    niche = object_at(state, SHOWN)
    state = moved(state, [SAME.room + 0.7, niche[1]])
    state = eqx.tree_at(lambda of: of.world.scene.objects.there, state, state.world.scene.objects.there.at[PAD].set(False))
    for _ in range(4):
        state, reward = one_step(SAME, state, FORWARD)
        assert float(reward) == 0
    assert float(state.world.body.place[0]) < SAME.room + 1
    assert int(state.world.scene.wall[int(niche[1]), int(niche[0])]) == GLASS, "it is seen"


def test_what_is_shown_is_left_or_right_and_straight_ahead_in_small_rooms():
    rows = {task: np.asarray(built(task, jax.random.key(2)).scene.objects.place[:, SHOWN, 1]) for task in (SAME, PAIRS)}
    assert set(rows[SAME].tolist()) == {1.5, SAME.room + 0.5}
    assert 0.25 < (rows[SAME] == 1.5).mean() < 0.75
    assert set(rows[PAIRS].tolist()) == {1.5 + PAIRS.room // 2}


@pytest.mark.parametrize("task", [PAIRS, SAME], ids=["small", "usual"])
def test_both_rooms_are_entered_with_all_that_matters_in_view(task):
    first, second = start(task, jax.random.key(1)), in_second_room(task, 1)
    for state, numbers in ((first, (SHOWN, PAD)), (second, (LEFT, RIGHT))):
        aside = np.asarray(bearing(state.world.body, state.world.scene.objects.place[jnp.array(numbers)]))
        assert np.rad2deg(np.abs(aside)).max() < 35


def test_the_player_never_takes_what_matches():
    rewards = played(PAIRS, STEPS).rewards
    assert set(np.unique(rewards)) == {0, 1, 10}
    assert (rewards.sum(1) >= 33).all(), "three trials and more"


def test_good_objects_pay_bad_ones_cost_and_what_is_taken_is_gone():
    state = start(GOOD_OBJECTS, jax.random.key(0))
    for number in range(collect.OBJECTS - 1):
        good = bool(state.world.own.good[number])
        state, reward = one_step(GOOD_OBJECTS, moved(state, object_at(state, number)), FIRE)
        assert float(reward) == (1 if good else -1)
        assert not bool(state.world.scene.objects.there[number])
    assert int(state.world.scene.objects.there.sum()) == 1
    before = state.world.scene.objects
    state, reward = one_step(GOOD_OBJECTS, moved(state, object_at(state, 9)), FIRE)
    after = state.world.scene.objects
    assert float(reward) == 1
    assert bool(after.there.all()), "the last good one brings new objects"
    assert (np.asarray(after.place) != np.asarray(before.place)).any()
    assert after.shape.tolist() == before.shape.tolist()
    assert np.linalg.norm(np.asarray(after.place - state.world.body.place[None]), axis=1).min() > 1


def test_training_never_shows_the_pairing_that_the_test_shows():
    def pairings(task):
        states = built(task, jax.random.key(0))
        return set(zip(states.own.look.tolist(), states.own.group.tolist(), strict=True)), states

    train, worlds = pairings(GOOD_OBJECTS)
    test, _ = pairings(CollectGood(test=1))
    assert train == set(collect.TRAINING)
    assert test == set(collect.HELD_OUT)
    objects = worlds.scene.objects
    seen = zip(objects.shape.ravel().tolist(), objects.colour.ravel().tolist(), worlds.own.good.ravel().tolist(), strict=True)
    assert len(set(seen)) == 4, "what is good depends on the kind alone"


@pytest.mark.slow
def test_the_player_takes_good_objects():
    rewards = played(GOOD_OBJECTS, STEPS).rewards
    assert (rewards.sum(1) >= 1).all()
    # A bad object that it has not seen yet may be behind it.
    assert (rewards < 0).sum() <= 0.01 * (rewards > 0).sum()


def test_the_platform_holds_one_and_pays_every_62_frames_five_times_and_then_one_is_elsewhere():
    state = start(POOL, jax.random.key(0))
    platform = object_at(state, PLATFORM)
    state, reward = one_step(POOL, moved(state, platform), FIRE)
    assert float(reward) == 0, "not at once"
    paid = []
    for step in range(1, 79):
        assert bool(state.world.scene.objects.there[PLATFORM]), "it has risen"
        np.testing.assert_array_equal(state.world.body.place, platform)
        before = float(state.world.body.heading)
        state, reward = one_step(POOL, state, FORWARD if step % 2 else LARGE_RIGHT)
        assert float(state.world.body.heading) != before or step % 2, "one can look round"
        paid += [4 * step] * int(reward)
    # A step has four frames: at the end of the one in which they are full.
    assert paid == [4 * -(-62 * time // 4) for time in range(1, 6)]
    assert np.linalg.norm(np.asarray(state.world.body.place - platform)) > 1
    assert not bool(state.world.scene.objects.there[PLATFORM])
    np.testing.assert_array_equal(object_at(state, PLATFORM), platform)
    assert int(state.world.own.held) == 0


def test_one_is_put_at_one_of_eight_places_at_the_rim_facing_the_middle():
    worlds = built(POOL, jax.random.key(4))
    place, heading = np.asarray(worlds.body.place), np.asarray(worlds.body.heading)
    inward = np.full(2, POOL.arena / 2 + 1) - place
    far = np.linalg.norm(inward, axis=1)
    np.testing.assert_allclose(far, POOL.arena / 2 - 1, atol=1e-4)
    np.testing.assert_allclose(np.stack([np.cos(heading), np.sin(heading)], 1), inward / far[:, None], atol=1e-4)
    assert len({tuple(each) for each in place.round(3).tolist()}) == 8
    away = np.linalg.norm(place - np.asarray(worlds.scene.objects.place[:, PLATFORM]), axis=1)
    assert away.min() > 2 * watermaze.PLATFORM_RADIUS


def test_the_platform_is_felt_only_from_itself():
    state = start(POOL, jax.random.key(0))
    middle, platform = np.full(2, POOL.arena / 2 + 1), np.asarray(object_at(state, PLATFORM))
    inward = (middle - platform) / max(np.linalg.norm(middle - platform), 1e-6)
    for away, on in ((0.7, True), (0.9, False)):
        after, _ = one_step(POOL, moved(state, platform + away * inward), FIRE)
        assert bool(after.world.scene.objects.there[PLATFORM]) == on
        assert bool(after.world.own.held > 0) == on


def test_the_pool_is_closed_and_every_platform_and_start_is_in_it():
    worlds = built(POOL, jax.random.key(1))
    wall = np.asarray(worlds.scene.wall)
    assert (wall[:, [0, -1]] != FREE).all()
    assert (wall[:, :, [0, -1]] != FREE).all()
    for place in (np.asarray(worlds.scene.objects.place[:, PLATFORM]), np.asarray(worlds.body.place)):
        for number, (x, y) in enumerate(place):
            assert wall[number, int(y), int(x)] == FREE
    assert len({tuple(each) for each in np.asarray(worlds.scene.objects.place[:, PLATFORM])}) == 64
    assert all(len(set(each[each != FREE])) == watermaze.SECTORS for each in wall)


@pytest.mark.slow
def test_the_player_finds_the_platform_and_comes_straight_back():
    rewards = played(POOL, 300).rewards
    assert (rewards > 0).any(1).mean() > 0.95
    gaps = [np.diff(np.flatnonzero(row)) for row in rewards]
    across = POOL.arena / 0.2 + 10 + watermaze.BETWEEN / 4
    assert np.concatenate(gaps).max() <= across, "once it is known no way back is longer than across the pool"


@pytest.mark.parametrize(
    "task",
    [PAIRS, *(pytest.param(each, marks=pytest.mark.slow) for each in (GOOD_OBJECTS, POOL))],
    ids=lambda task: type(task).__name__,
)
def test_an_episode_is_the_same_alone_and_in_a_batch(task):
    same_alone_and_in_a_batch(task, played(task, STEPS), steps=STEPS)


@pytest.mark.parametrize(
    ("kind_of", "arguments", "message"),
    [
        (SelectNonmatching, {"room": 2}, "room must be from 3 to 15, got 2"),
        (SelectNonmatching, {"objects": 1}, "objects must be from 2 to 56, got 1"),
        (SelectNonmatching, {"fresh": 2}, "fresh must be from 0 to 1, got 2"),
        (SelectNonmatching, {"mixed": 2}, "mixed must be from 0 to 1, got 2"),
        (CollectGood, {"room": 4}, "room must be from 5 to 30, got 4"),
        (Watermaze, {"arena": 3}, "arena must be from 4 to 40, got 3"),
        (Watermaze, {"episode_steps": 0}, "episode_steps must be at least 1, got 0"),
    ],
)
def test_bad_settings_are_refused_in_one_line(kind_of, arguments, message):
    with pytest.raises(TaskError, match=message) as caught:
        kind_of(**arguments)
    assert "; " in str(caught.value)


def test_rewards_are_those_of_the_level():
    assert (nonmatching.PAD_REWARD, nonmatching.GOOD, nonmatching.SelectNonmatching().penalty, watermaze.LIMIT) == (1, 10, 10, 5)
