"""Natlab: mushrooms pay once and grow again in their time, obstacles stand in the way, and every place can be reached."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.tasks.episodes import returns
from gtrxl.tasks.errors import TaskError
from gtrxl.tasks.first_person.actions import LAB_ACTIONS
from gtrxl.tasks.first_person.land.heights import CLIMB, NEVER, ways_down
from gtrxl.tasks.first_person.land.terrain import RIM, country, hills
from gtrxl.tasks.first_person.level import LevelState
from gtrxl.tasks.first_person.levels.natlab.forage import MAPS, REGROWTH, Forage
from gtrxl.tasks.first_person.looks.daylight import TIMES, lit_at
from gtrxl.tasks.first_person.motion import clear_of
from gtrxl.tasks.first_person.scene import RADIUS, Body
from gtrxl.tasks.players.scripted import perfect_memory
from tests.tasks.first_person.playing import blind, built, moved, one_step, plain, start

FORWARD, RIGHT = (jnp.int32(list(LAB_ACTIONS).index(name)) for name in ("forward", "large look right"))
AGAIN = blind(Forage, side=12, least=3, most=9, obstacles=12, height=8, width=16)
ONCE = blind(Forage, side=12, least=3, most=9, obstacles=12, regrow=0, fixed=1, height=8, width=16)


def step(state: LevelState, action: jax.Array) -> tuple[LevelState, jax.Array]:
    return one_step(AGAIN, plain(state), action)


@pytest.fixture(scope="module")
def worlds():
    return built(AGAIN, jax.random.key(0))


@pytest.fixture(scope="module")
def always():
    return built(ONCE, jax.random.key(0))


def mushrooms(state: LevelState) -> np.ndarray:
    return np.flatnonzero(state.world.own.planted)


def away(state: LevelState) -> LevelState:
    """At the cliff in a corner, where nothing grows."""
    return moved(state, (RIM + 0.3, RIM + 0.3))


def test_a_mushroom_pays_one_and_grows_again_in_its_own_time():
    state = start(AGAIN, jax.random.key(0))
    first = int(mushrooms(state)[0])
    period = int(state.world.own.returning.period[first])
    state, reward = step(moved(state, state.world.scene.objects.place[first]), RIGHT)
    assert float(reward) == 1
    assert not state.world.scene.objects.there[first]
    state = away(state)
    before = int(np.asarray(state.world.scene.objects.there).sum())
    nearly = eqx.tree_at(
        lambda of: of.world.own.returning.left,
        state,
        state.world.own.returning.left - jnp.where(jnp.arange(21) == first, period - 2, 0),
    )
    nearly, reward = step(nearly, RIGHT)
    assert not nearly.world.scene.objects.there[first]
    assert float(reward) == 0
    back, reward = step(nearly, RIGHT)
    assert back.world.scene.objects.there[first]
    assert float(reward) == 0
    assert int(np.asarray(back.world.scene.objects.there).sum()) == before + 1
    _, reward = step(moved(back, back.world.scene.objects.place[first]), RIGHT)
    assert float(reward) == 1, "it can be taken again"


def test_one_that_stands_where_it_was_taken_gets_nothing_more():
    state = start(AGAIN, jax.random.key(0))
    first = int(mushrooms(state)[0])
    state = moved(state, state.world.scene.objects.place[first])
    rewards = []
    for _ in range(4):
        state, reward = step(state, RIGHT)
        rewards.append(float(reward))
    assert rewards == [1, 0, 0, 0]


def test_times_of_regrowth_and_numbers_of_mushrooms_are_spread(worlds):
    assert (REGROWTH[0] / 15, REGROWTH[1] / 15) == (48, 72)
    period = np.asarray(worlds.own.returning.period)
    assert period.min() >= REGROWTH[0]
    assert period.max() <= REGROWTH[1]
    assert period.std() > 80
    count = np.asarray(worlds.own.planted).sum(1)
    assert count.min() == 3
    assert count.max() == 9


def test_maps_differ_by_number_alone_and_there_are_a_hundred(worlds):
    numbers = np.asarray(worlds.own.number)
    assert len(set(numbers.tolist())) > 30
    assert numbers.max() < MAPS
    ground, times = np.asarray(worlds.scene.ground), np.asarray(worlds.own.time)
    for number in range(64):
        same = numbers == numbers[number]
        assert (np.abs(ground - ground[number]).max((1, 2))[same] == 0).all()
        assert (times[same] == times[number]).all()
        assert np.abs(ground - ground[number]).max((1, 2))[~same].min() > 0.05
    assert set(times.tolist()) == {0, 1, 2}


@pytest.mark.slow
def test_the_fixed_map_is_the_same_at_all_times_of_the_day(always):
    assert np.asarray(always.own.returning.period).min() > 120 * 15, "nothing grows again in an episode"
    for leaf in (always.scene.ground, always.scene.objects.place, always.own.planted):
        assert (np.asarray(leaf) == np.asarray(leaf)[:1]).all()
    assert set(np.asarray(always.own.time).tolist()) == {0, 1, 2}
    starts = {tuple(place) for place in np.asarray(always.body.place).round(3).tolist()}
    assert len(starts) == 10
    assert len(set(np.asarray(always.body.heading).tolist())) > 50


def test_one_can_walk_from_every_start_to_every_mushroom_past_all_obstacles(worlds):
    """On a finer map: where a body's middle can be."""
    fine = 5
    for number in range(0, 64, 8):
        objects, own = worlds.scene.objects, worlds.own
        side = worlds.scene.wall.shape[1]
        y, x = (np.indices((side * fine, side * fine)) + 0.5) / fine
        inside = (x > RIM + RADIUS) & (x < side - RIM - RADIUS) & (y > RIM + RADIUS) & (y < side - RIM - RADIUS)
        for (px, py), radius in zip(np.asarray(objects.place[number]), np.asarray(own.radius[number]), strict=True):
            if radius > 0:
                inside &= np.hypot(x - px, y - py) > radius + RADIUS
        place = np.asarray(worlds.body.place[number])
        target = np.zeros(inside.shape, bool)
        target[int(place[1] * fine), int(place[0] * fine)] = True
        far = np.asarray(_steps(jnp.asarray(~inside, jnp.int32), jnp.asarray(target)))
        for one in np.flatnonzero(own.planted[number]):
            px, py = np.asarray(objects.place[number, one])
            assert far[np.hypot(x - px, y - py) < 0.4].min() < NEVER


@jax.jit
def _steps(wall: jax.Array, target: jax.Array) -> jax.Array:
    return ways_down(jnp.zeros(wall.shape), wall, target)


def test_hills_can_be_walked_and_cliffs_cannot():
    inside = country(15)
    for ground in np.asarray(jax.jit(jax.vmap(lambda key: hills(key, 15)))(jax.random.split(jax.random.key(0), 20))):
        steps = [np.abs(np.diff(np.where(inside, ground, np.nan), axis=axis)) for axis in (0, 1)]
        assert max(np.nanmax(step) for step in steps) < CLIMB
        assert ground[inside].max() - ground[inside].min() > 0.4, "there are hills"
        assert ground[~inside].min() > ground[inside].max() + 1


def test_nobody_walks_into_an_obstacle():
    place, radius = jnp.array([[3.0, 3.0], [4.2, 3.0], [9.0, 9.0]]), jnp.array([0.4, 0.4, 0.0])
    push = jax.jit(lambda at: clear_of(Body(place=at, heading=jnp.float32(0), pitch=jnp.float32(0)), place, radius).place)
    for begin in ((2.5, 3.0), (3.1, 3.1), (3.6, 2.9), (4.0, 3.3)):
        end = np.asarray(push(jnp.array(begin)))
        assert np.linalg.norm(np.asarray(place[:2]) - end, axis=1).min() >= 0.6 - 1e-2
    np.testing.assert_allclose(push(jnp.array([9.0, 9.1])), [9.0, 9.1], atol=1e-6, err_msg="a mushroom is no obstacle")
    state = start(AGAIN, jax.random.key(0))
    rock = int(np.flatnonzero(np.asarray(state.world.own.radius) > 0)[0])
    at = state.world.scene.objects.place[rock]
    state = moved(state, at - jnp.array([1.0, 0.0]))
    state = eqx.tree_at(lambda of: of.world.body, state, dataclasses.replace(state.world.body, heading=jnp.float32(0)))
    nearest = []
    for _ in range(8):
        state, _ = step(state, FORWARD)
        nearest.append(float(jnp.linalg.norm(state.world.body.place - at)))
    assert min(nearest) == pytest.approx(float(state.world.own.radius[rock]) + RADIUS, abs=1e-3)


def test_the_light_of_the_day():
    grey = jnp.full((2, 2, 3), 200, jnp.uint8)
    dawn, day, night = (np.asarray(lit_at(grey, jnp.int32(TIMES.index(name))))[0, 0].astype(int) for name in TIMES)
    assert day.tolist() == [200, 200, 200]
    assert dawn[0] > dawn[2] + 30, "dawn is red"
    assert night.max() < 130, "night is dark"
    assert night[2] > night[0], "and blue"


@pytest.mark.slow
def test_the_player_finds_nearly_all_mushrooms():
    task = dataclasses.replace(AGAIN, least=9, regrow=0, episode_steps=600)
    found = returns(task, perfect_memory(task), jax.random.key(0), episodes=8)
    assert found.mean() > 8, found
    assert found.max() == 9, "and no more than there are"


@pytest.mark.parametrize(("arguments", "line"), [
    ({"least": 9, "most": 8}, "most must be at least `least` \\(9\\), got 8"),
    ({"side": 5}, "side must be from 8 to 60, got 5"),
    ({"side": 10, "most": 30, "least": 2}, "at most 22 together, got 70; make side larger"),
    ({"regrow": 2}, "regrow must be from 0 to 1, got 2"),
])  # fmt: skip
def test_what_cannot_be_is_said(arguments, line):
    with pytest.raises(TaskError, match=line):
        Forage(**arguments)
