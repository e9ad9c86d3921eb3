"""Laser tag: what a shot meets and costs, when who is tagged is back, what opponents see and do, and what pays."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.tasks.episodes import returns
from gtrxl.tasks.errors import TaskError
from gtrxl.tasks.first_person.actions import LAB_ACTIONS
from gtrxl.tasks.first_person.level import LevelState
from gtrxl.tasks.first_person.levels.lasertag.tag import ARMOUR, MEDICINE, LaserTag
from gtrxl.tasks.first_person.opponents import bots
from gtrxl.tasks.first_person.opponents.fighters import (
    BACK,
    FORCED,
    HEALTH,
    LIGHTNING,
    MELEE,
    RAIL,
    RAPID,
    ROCKET,
    SHOTS,
    Fighters,
    exchange,
    start_anew,
)
from gtrxl.tasks.first_person.returning import NEVER, Returning
from gtrxl.tasks.first_person.scene import FREE
from gtrxl.tasks.players.scripted import perfect_memory
from tests.tasks.first_person.playing import blind, moved, one_step, plain, start

FIRE, FORWARD, RIGHT = (jnp.int32(list(LAB_ACTIONS).index(name)) for name in ("fire", "forward", "large look right"))
ONE = blind(LaserTag, size=9, opponents=1, height=8, width=16)
HALL = np.pad(np.zeros((5, 14), np.int32), 1, constant_values=1)
"""One room; a wall that is as wide as the room but for one cell is put into it where it is wanted."""
shoot = jax.jit(lambda fighters, trigger: exchange(jax.random.key(0), jnp.asarray(HALL), fighters, trigger))


def step(state: LevelState, action: jax.Array) -> tuple[LevelState, jax.Array]:
    return one_step(ONE, plain(state), action)


def three(*places: tuple[float, float], gun: int = RAPID) -> Fighters:
    """Fighters who look east; the first has this gun in hand."""
    fighters = Fighters.fresh(jnp.asarray(places), jnp.zeros(len(places)))
    shots = np.zeros((len(places), len(SHOTS)), int)
    shots[:, RAPID] = SHOTS[RAPID]
    shots[0] = np.where(np.arange(len(SHOTS)) == gun, SHOTS[gun], 0)
    return dataclasses.replace(fighters, shots=jnp.asarray(shots, jnp.int32))


FIRST = jnp.array([True, False, False])


@pytest.mark.parametrize(("gun", "cost"), [(MELEE, 0), (RAPID, 7), (LIGHTNING, 16), (ROCKET, 100), (RAIL, 100)])
def test_a_shot_costs_the_nearest_on_its_line(gun, cost):
    found = shoot(three((2.5, 3.5), (6.5, 3.6), (9.5, 3.5), gun=gun), FIRST)
    assert found.fighters.hurt.tolist() == pytest.approx([0, cost, 0])
    assert found.fighters.fired.tolist() == [True, False, False]
    beside = shoot(three((2.5, 3.5), (6.5, 4.0), (9.5, 5.0), gun=gun), FIRST)
    assert float(beside.fighters.hurt.sum()) == 0, "half a cell beside the line"


def test_reach_height_and_walls_end_a_shot():
    near, far = (three((2.5, 3.5), (2.5 + away, 3.5), (3.5, 1.5), gun=MELEE) for away in (0.8, 1.1))
    assert shoot(near, FIRST).fighters.hurt.tolist() == [0, 50, 0]
    assert shoot(far, FIRST).fighters.hurt.tolist() == [0, 0, 0]
    out_of_reach = three((2.5, 3.5), (10.5, 3.5), (3.5, 1.5), gun=LIGHTNING)
    assert shoot(out_of_reach, FIRST).fighters.hurt.tolist() == [0, 0, 0]
    for pitch, cost in ((0.05, 7), (0.3, 0), (-0.3, 0)):
        fighters = dataclasses.replace(three((2.5, 3.5), (6.5, 3.5), (3.5, 1.5)), pitch=jnp.array([pitch, 0.0, 0.0]))
        assert shoot(fighters, FIRST).fighters.hurt.tolist() == [0, cost, 0]
    walled = HALL.copy()
    walled[1:6, 4] = 1
    behind = jax.jit(exchange)(jax.random.key(0), jnp.asarray(walled), three((2.5, 3.5), (6.5, 3.5), (3.5, 1.5), gun=RAIL), FIRST)
    assert behind.fighters.hurt.tolist() == [0, 0, 0]
    assert int(behind.fighters.shots[0, RAIL]) == SHOTS[RAIL] - 1


@pytest.mark.parametrize(("gun", "a_second"), [(RAPID, 10), (LIGHTNING, 20), (RAIL, 1)])
def test_guns_fire_as_often_as_they_can(gun, a_second):
    fighters = three((2.5, 3.5), (6.5, 5.5), (9.5, 1.5), gun=gun)
    for _ in range(15):
        fighters = shoot(fighters, FIRST).fighters
    assert int(SHOTS[gun] - fighters.shots[0, gun]) == a_second


def test_without_shots_the_next_best_gun_is_in_hand():
    fighters = three((2.5, 3.5), (3.2, 3.5), (9.5, 1.5), gun=RAIL)
    assert int(fighters.gun[0]) == RAIL
    emptied = eqx.tree_at(lambda of: of.shots, fighters, fighters.shots.at[0].set(jnp.array([0, 1, 0, 0, 0])))
    after = shoot(emptied, FIRST)
    assert int(after.fighters.gun[0]) == MELEE
    assert int(after.fighters.shots.min()) == 0


def test_a_rocket_hurts_who_is_near_where_it_bursts_and_the_shooter_too():
    found = shoot(three((14.3, 3.5), (14.6, 4.1), (2.5, 1.5), gun=ROCKET), FIRST)
    hurt = found.fighters.hurt.tolist()
    assert 20 < hurt[0] < 100
    assert 20 < hurt[1] < 100
    assert hurt[2] == 0


def test_armour_takes_two_thirds_while_there_is_some():
    fighters = three((2.5, 3.5), (6.5, 3.5), (9.5, 1.5), gun=RAIL)
    fighters = dataclasses.replace(fighters, armour=jnp.array([0.0, 50.0, 0.0]), health=jnp.full(3, 90.0))
    after = shoot(fighters, FIRST)
    assert float(after.fighters.armour[1]) == 0, "66 would be its share, and it has 50"
    assert float(after.fighters.health[1]) == pytest.approx(40)
    assert not after.tagged.any()


def test_health_above_a_hundred_goes_by_one_a_second_and_tags_are_told():
    fighters = three((2.5, 3.5), (6.5, 3.5), (9.5, 1.5), gun=RAIL)
    nobody = jnp.zeros(3, bool)
    for _ in range(15):
        fighters = shoot(fighters, nobody).fighters
    assert fighters.health.tolist() == pytest.approx([HEALTH - 1] * 3)
    weak = dataclasses.replace(fighters, health=jnp.array([100.0, 99.0, 50.0]))
    found = shoot(weak, FIRST)
    assert found.tagged.tolist() == [False, True, False]
    assert int(found.by[1]) == 0
    assert found.fighters.down.tolist() == [0, 1, 0]
    again = shoot(dataclasses.replace(found.fighters, wait=jnp.zeros(3)), jnp.ones(3, bool))
    assert float(again.fighters.hurt[1]) == 0, "who is down is not hit"
    assert not again.fighters.fired[1]
    assert not again.tagged[1]


@pytest.mark.parametrize(("down", "asks", "back"), [(BACK, True, False), (BACK + 1, True, True), (BACK + 1, False, False),
                                                    (FORCED, False, False), (FORCED + 1, False, True)])  # fmt: skip
def test_who_is_tagged_is_back_in_time_far_away(down, asks, back):
    assert (BACK, FORCED) == (26, 300), "1.7 and 20 seconds"
    starts = jnp.array([[1.5, 1.5], [3.5, 1.5], [12.5, 5.5], [13.5, 5.5]])
    fighters = dataclasses.replace(
        three((2.5, 1.5), (6.5, 3.5), (9.5, 1.5)), down=jnp.array([down, 0, 0], jnp.int32), health=jnp.array([0.0, 9.0, 9.0])
    )
    after = jax.jit(start_anew)(jax.random.key(2), fighters, starts, jnp.array([asks, True, True]))
    assert bool(after.up[0]) == back
    assert after.health.tolist() == [HEALTH if back else 0, 9, 9]
    if back:
        assert float(after.place[0, 0]) > 10
        assert after.shots[0].tolist() == [0, 100, 0, 0, 0]


def test_things_come_back_each_in_its_time():
    things = Returning.all_there(jnp.array([2, 5, NEVER]))
    things = things.step(jnp.array([True, True, True]))
    gone = []
    for _ in range(8):
        gone.append((~np.asarray(things.there)).tolist())
        things = things.step(jnp.zeros(3, bool))
    assert np.sum(gone, axis=0).tolist() == [2, 5, 8]


def test_opponents_see_whom_no_wall_hides_where_they_look():
    walled = HALL.copy()
    walled[1:5, 7] = 1
    see = jax.jit(lambda fighters: bots.seen_by(jnp.asarray(walled), fighters))
    fighters = three((11.5, 2.5), (2.5, 2.5), (5.5, 2.5))
    assert see(fighters).tolist() == [[False, False, True], [False, False, False]], "one looks away, a wall hides the agent"
    hurt = dataclasses.replace(fighters, hurt=jnp.array([0.0, 0.0, 7.0]))
    assert see(hurt).tolist()[1] == [False, True, False], "who is hurt looks round"
    down = dataclasses.replace(fighters, down=jnp.array([0, 0, 1], jnp.int32))
    assert not see(down).any()


def test_an_opponent_turns_notices_and_only_then_shoots():
    ways = bots.guide(jnp.asarray(HALL == FREE), jnp.array([[3, 3], [3, 12]]))
    fighters = dataclasses.replace(three((8.5, 3.5), (4.5, 3.5)), heading=jnp.array([0.0, 0.9]))
    minds = bots.Minds.calm(jax.random.key(0), 1, 2)
    play = jax.jit(lambda key, fighters, minds: bots.play(key, jnp.asarray(HALL), ways, fighters, minds))
    shots = []
    for number in range(40):
        before = float(fighters.heading[1])
        fighters, minds, shoots, _ = play(jax.random.key(number), fighters, minds)
        turned = abs((float(fighters.heading[1]) - before + np.pi) % (2 * np.pi) - np.pi)
        assert turned <= np.deg2rad(16) + 1e-5
        shots.append(bool(shoots[0]))
    first = shots.index(True)
    assert first == bots.REACTION[0], "one second"
    assert np.mean(shots[first:]) > 0.9


def test_ways_lead_to_every_place():
    state = start(ONE, jax.random.key(0))
    own, wall = state.world.own, np.asarray(state.world.scene.wall)
    follow = jax.jit(bots.next_place)
    for goal in range(0, len(own.ways), 4):
        place = own.starts[0]
        for _ in range(80):
            place = follow(own.ways[goal], place)
            assert wall[int(place[1]), int(place[0])] == FREE
        assert int(own.ways[goal][int(place[1]), int(place[0])]) == 0


def against(state: LevelState, *, health: float, gun: int = RAIL) -> LevelState:
    """The opponent stands right before the agent, with this health; it has seen nobody."""
    fighters = state.world.own.fighters
    shots = fighters.shots.at[0].set(jnp.where(jnp.arange(len(SHOTS)) == gun, jnp.asarray(SHOTS), 0))
    place, heading = state.world.body.place, state.world.body.heading
    ahead = place + 0.6 * jnp.stack([jnp.cos(heading), jnp.sin(heading)])
    fighters = dataclasses.replace(
        fighters,
        place=jnp.stack([place, ahead]),
        heading=jnp.stack([heading, heading]),
        health=jnp.array([100.0, health]),
        shots=shots,
    )
    return eqx.tree_at(lambda of: of.world.own.fighters, state, fighters)


@pytest.fixture(scope="module")
def begun() -> LevelState:
    """The agent in the middle of a room."""
    state = start(ONE, jax.random.key(1))
    room = np.argwhere(np.asarray(state.world.own.ways[0]) < 1000)
    free = {tuple(cell) for cell in room.tolist()}
    cell = next(c for c in sorted(free) if all((c[0] + r, c[1] + s) in free for r in (-1, 0, 1) for s in (-1, 0, 1)))
    return moved(state, (cell[1] + 0.5, cell[0] + 0.5))


def test_a_tag_pays_one_and_the_opponent_is_gone_for_a_while(begun):
    state = against(begun, health=60.0)
    missed, reward = step(state, FORWARD)
    assert float(reward) == 0
    after, reward = step(state, FIRE)
    assert float(reward) == 1
    assert not after.world.scene.objects.there[0]
    for _ in range(BACK):
        assert not after.world.own.fighters.up[1]
        after, reward = step(after, FIRE)
        assert float(reward) == 0
    assert after.world.own.fighters.up[1]
    assert after.world.scene.objects.there[0]
    np.testing.assert_allclose(after.world.scene.objects.place[0], after.world.own.fighters.place[1])
    assert bool(missed.world.own.fighters.up[1])


def test_ones_own_rocket_costs_one_and_being_tagged_nothing(begun):
    state = against(begun, health=100.0, gun=ROCKET)
    weak = eqx.tree_at(lambda of: of.world.own.fighters.health, state, jnp.array([20.0, 500.0]))
    after, reward = step(weak, FIRE)
    assert float(reward) == -1
    place = after.world.body.place
    for _ in range(3):
        after, reward = step(after, FORWARD)
        assert float(reward) == 0
        np.testing.assert_array_equal(after.world.body.place, place)
    down = eqx.tree_at(lambda of: of.world.own.fighters.down, begun, jnp.array([5, 0], jnp.int32))
    turned, reward = step(down, RIGHT)
    assert float(reward) == 0
    assert float(turned.world.body.heading) == float(begun.world.body.heading), "who is down does not look round"


@pytest.mark.parametrize(
    ("item", "seconds"), [(MEDICINE, 35), (ARMOUR, 25), (LIGHTNING, 5)], ids=["medicine", "armour", "lightning"]
)
def test_things_help_and_come_back(begun, item, seconds):
    own = begun.world.own
    period = jnp.full_like(own.returning.period, seconds * 15)
    state = eqx.tree_at(
        lambda of: (of.world.own.item, of.world.own.returning, of.world.own.fighters.health),
        moved(begun, begun.world.scene.objects.place[1]),
        (jnp.full_like(own.item, item), Returning.all_there(period), jnp.array([30.0, 100.0])),
    )
    after, _ = step(state, RIGHT)
    fighters = after.world.own.fighters
    assert float(fighters.health[0]) == (80 if item == MEDICINE else 30)
    assert float(fighters.armour[0]) == (50 if item == ARMOUR else 0)
    assert int(fighters.shots[0, LIGHTNING]) == (100 if item == LIGHTNING else 0)
    assert not after.world.scene.objects.there[1]
    assert int(after.world.own.returning.left[0]) == seconds * 15
    whole = eqx.tree_at(lambda of: of.world.own.fighters.health, state, jnp.array([100.0, 100.0]))
    if item == MEDICINE:
        assert step(whole, RIGHT)[0].world.scene.objects.there[1], "nobody takes what does not help"


def test_times_and_numbers_of_things_are_those_of_the_rules():
    for task, guns in ((LaserTag(height=8, width=16), 1), (LaserTag(size=21, opponents=3, height=8, width=16), 2)):
        own = jax.eval_shape(task.build, jax.random.key(0)).own
        assert own.item.shape == (3 * guns,)
        assert own.starts.shape == (12, 2)
        assert own.fighters.health.shape == (task.opponents + 1,)
    own = start(ONE, jax.random.key(5)).world.own
    seconds = {MEDICINE: 35, ARMOUR: 25}
    assert own.returning.period.tolist() == [15 * seconds.get(int(kind), 5) for kind in own.item]
    assert LIGHTNING <= int(own.item[0]) <= RAIL
    assert all(int(kind) in seconds for kind in own.item[1:])


def test_the_picture_tells_health_shots_and_who_is_down(begun):
    black = jnp.zeros((40, 60, 3), jnp.uint8)
    task = LaserTag(size=9)

    def seen(**changes) -> np.ndarray:
        fighters = dataclasses.replace(begun.world.own.fighters, **changes)
        return np.asarray(task.overlay(eqx.tree_at(lambda of: of.own.fighters, begun.world, fighters), black)).astype(int)

    def green(picture: np.ndarray) -> int:
        return int(((picture[..., 1] > 150) & (picture[..., 0] < 100)).sum())

    def orange(picture: np.ndarray) -> int:
        return int(((picture[..., 0] > 200) & (picture[..., 2] < 60)).sum())

    full = seen(health=jnp.array([125.0, 1.0]))
    assert green(full) >= 40
    assert green(seen(health=jnp.array([62.5, 1.0]))) == pytest.approx(green(full) / 2, abs=3)
    few = begun.world.own.fighters.shots.at[0, RAPID].set(25)
    assert orange(seen(shots=few)) == pytest.approx(orange(full) / 4, abs=3)
    assert (full[20, 28:32].sum() > 0) | (full[18:22, 30].sum() > 0), "the crosshair"
    hurt = seen(hurt=jnp.array([7.0, 0.0]))
    assert (hurt[0, :, 0] > hurt[0, :, 1] + 100).all(), "red at the rim"
    assert seen(down=jnp.array([3, 0], jnp.int32))[:30].max() < 0.6 * full[:30].max(), "dark while one is down"


@pytest.mark.slow
def test_the_player_tags_its_opponent_again_and_again():
    task = dataclasses.replace(ONE, episode_steps=900)
    found = returns(task, perfect_memory(task), jax.random.key(0), episodes=8)
    assert found.mean() > 2, found


@pytest.mark.parametrize(("arguments", "line"), [
    ({"size": 10}, "size must be odd, got 10; DMLab-30"),
    ({"size": 7}, "size must be from 9 to 31, got 7"),
    ({"opponents": 0}, "opponents must be from 1 to 6, got 0"),
])  # fmt: skip
def test_what_cannot_be_is_said(arguments, line):
    with pytest.raises(TaskError, match=line):
        LaserTag(**arguments)
