"""The explore levels: what pays, what a restart keeps and what it draws anew, and that a way always exists."""

import jax
import numpy as np
import pytest

from gtrxl.tasks import TaskError, make_task
from gtrxl.tasks.first_person.levels.explore.mazes import GoalLocations, ObjectLocations, ObstructedGoals
from gtrxl.tasks.first_person.scene import COLOURS, DOOR, FREE, PATTERNS, SHAPES
from tests.tasks.first_person.walks import blind, journey

pytestmark = pytest.mark.slow  # compiling mazes takes long

DOORS, APPLES = blind(ObstructedGoals), blind(ObjectLocations, size=9)
MANY = 256


def play(key: jax.Array):
    """An episode that begins with two goals. Where there are no doors the rules are the same."""
    return journey(DOORS, key, steps=12, visits=2)


@pytest.fixture(scope="module")
def keys():
    return jax.random.split(jax.random.key(5), MANY)


@pytest.fixture(scope="module")
def found(keys):
    """256 episodes side by side."""
    return jax.tree.map(np.asarray, jax.jit(jax.vmap(play))(keys))


def test_a_goal_pays_ten_and_the_body_starts_elsewhere(found):
    assert (found.reward[:, :2] == 10).all()
    before, after = found.before.world.own, found.after.world.own
    np.testing.assert_array_equal(after.restarts - before.restarts, found.reward / 10)
    assert ((after.start != before.start) == (found.reward > 0)).all()
    body = np.floor(found.after.world.body.place[..., ::-1])
    episode, time = np.indices(found.reward.shape)
    assert (body == after.starts[episode, time, after.start])[found.reward > 0].all()
    assert len(np.unique(np.round(found.after.world.body.heading[:, 0], 3))) > MANY // 2


def test_elsewhere_nothing_is_paid_and_nobody_is_moved(found):
    jump = np.linalg.norm(found.after.world.body.place - found.before.world.body.place, axis=-1) > 0.22
    np.testing.assert_array_equal(jump[:, 2:], found.reward[:, 2:] > 0)
    still = found.reward == 0
    np.testing.assert_array_equal(found.after.world.scene.wall[still], found.before.world.scene.wall[still])


def test_a_restart_keeps_goal_maze_and_colours(found):
    first, last = (jax.tree.map(lambda leaf, at=at: leaf[:, at], found.after.world) for at in (0, -1))
    for before, after in zip(jax.tree.leaves(first.scene.objects), jax.tree.leaves(last.scene.objects), strict=True):
        np.testing.assert_array_equal(before, after)
    np.testing.assert_array_equal(first.scene.floor, last.scene.floor)
    np.testing.assert_array_equal(first.own.door, last.own.door)
    np.testing.assert_array_equal(first.scene.wall[~first.own.door], last.scene.wall[~first.own.door])
    assert first.own.door.any(axis=(1, 2)).all()


def test_doors_change_and_a_way_always_exists(found):
    walls = found.before.world.scene.wall[:, :3]
    changed = (walls[:, 1:] != walls[:, :-1]).any(axis=(2, 3))
    assert changed.mean() > 0.5
    np.testing.assert_array_equal((walls == DOOR) & ~found.before.world.own.door[:, :3], np.zeros_like(walls, bool))
    assert (walls == DOOR).any()
    free = walls.reshape(-1, *walls.shape[2:]) == FREE
    reached = np.zeros_like(free)
    reached[:, 1, 1] = True
    for _ in range(free[0].size):
        reached[:, 1:-1, 1:-1] |= reached[:, 2:, 1:-1] | reached[:, :-2, 1:-1] | reached[:, 1:-1, 2:] | reached[:, 1:-1, :-2]
        reached &= free
    np.testing.assert_array_equal(reached, free)


def test_goals_stand_in_rooms_and_episodes_differ(found):
    goal = np.floor(found.before.world.scene.objects.place[:, 0, 0, ::-1]).astype(int)
    assert len({tuple(cell) for cell in goal}) > 20
    assert len({wall.tobytes() for wall in found.before.world.scene.wall[:, 0]}) == MANY
    assert (found.before.world.scene.objects.shape == SHAPES.index("flag")).all()
    starts = found.before.world.own.starts[:, 0]
    assert all(len({tuple(cell) for cell in cells}) == 20 for cells in starts), "five for each of four rooms"
    wall = found.before.world.scene.wall[:, 0]
    free = np.pad(wall == FREE, ((0, 0), (1, 1), (1, 1)))
    around = np.all([[free[:, r : r + 11, c : c + 11] for r in range(3)] for c in range(3)], axis=(0, 1))
    near = np.pad(around, ((0, 0), (1, 1), (1, 1)))
    inside = np.any([[near[:, r : r + 11, c : c + 11] for r in range(3)] for c in range(3)], axis=(0, 1))
    assert inside[np.arange(MANY)[:, None], starts[..., 0], starts[..., 1]].all(), "in rooms, whose cells are 3 x 3 or more"
    assert (np.abs(starts - goal[:, None]).max(axis=-1) >= 2).all()


def test_a_flag_is_seen_in_its_room(found):
    """It is yellow, except in yellow rooms."""
    scene = jax.tree.map(lambda leaf: leaf[:, 0], found.before.world.scene)
    row, column = np.floor(scene.objects.place[:, 0, ::-1]).astype(int).T
    around = (scene.floor[np.arange(MANY), row, column] - 1) // len(PATTERNS)
    assert (scene.objects.colour[:, 0] != around).all()
    yellow = COLOURS.index("yellow")
    np.testing.assert_array_equal(scene.objects.colour[:, 0] == yellow, around != yellow)
    assert (around == yellow).any()


def test_apples_pay_one_each_and_come_back_together():
    found = jax.tree.map(np.asarray, jax.jit(lambda key: journey(APPLES, key, steps=10, visits=8))(jax.random.key(1)))
    there = found.after.world.scene.objects.there
    assert there.shape == (10, 8), "on half of four places in each of four rooms"
    # The body is put on one after another, and may touch the next as well.
    taken = (~there[:7]).sum(1)
    np.testing.assert_array_equal(np.cumsum(found.reward)[:7], taken)
    end = int(np.argmax(there.all(1)))
    assert found.reward[: end + 1].sum() == 8
    own = jax.tree.map(lambda leaf: leaf[end], found.after.world.own)
    assert found.after.world.own.restarts[: end + 1].tolist() == [0] * end + [1]
    assert np.floor(found.after.world.body.place[end, ::-1]).tolist() == own.starts[own.start].tolist()
    np.testing.assert_array_equal(found.after.world.scene.objects.place[-1], found.before.world.scene.objects.place[0])
    assert not found.after.world.own.door.any()
    np.testing.assert_array_equal(found.after.world.scene.wall[-1], found.before.world.scene.wall[0])


def test_in_the_large_maze_apples_are_in_rooms_at_most_four_in_each_and_one_starts_beside_them():
    task = blind(ObjectLocations, size=17)
    worlds = jax.tree.map(np.asarray, jax.jit(jax.vmap(task.build))(jax.random.split(jax.random.key(0), 32)))
    for number in range(32):
        wall, place = worlds.scene.wall[number], worlds.scene.objects.place[number]
        cells = {tuple(cell) for cell in np.floor(place[:, ::-1]).astype(int).tolist()}
        assert len(cells) == 18
        # A cell of a room is in a square of 3 x 3 free cells; corridors are one cell wide.
        free = np.pad(wall == FREE, 1)
        squares = np.all([free[r : r + 17, c : c + 17] for r in range(3) for c in range(3)], 0)
        inside = np.any([np.pad(squares, 1)[r : r + 17, c : c + 17] for r in range(3) for c in range(3)], 0)
        assert squares.sum() == 9, "nine rooms of nine cells"
        assert all(inside[cell] for cell in cells)
        for row, column in np.argwhere(squares):
            assert sum(abs(cell[0] - row) <= 1 and abs(cell[1] - column) <= 1 for cell in cells) <= 4
        starts = {tuple(cell) for cell in worlds.own.starts[number].tolist()}
        assert len(starts) == 45
        assert not starts & cells
        assert all(inside[cell] for cell in starts)


@pytest.mark.slow
def test_an_episode_is_the_same_alone_and_among_256(found, keys):
    alone = jax.jit(play)
    for number in (0, 137):
        for one, many in zip(jax.tree.leaves(alone(keys[number])), jax.tree.leaves(found), strict=True):
            np.testing.assert_array_equal(one, many[number])


def test_names_and_dials():
    assert make_task("explore_goal_locations_small") == GoalLocations(size=11, episode_steps=1350)
    assert make_task("explore_goal_locations_large") == GoalLocations(size=17, episode_steps=1800)
    assert make_task("explore_obstructed_goals_small") == ObstructedGoals(size=11, episode_steps=1350)
    assert make_task("explore_obstructed_goals_large") == ObstructedGoals(size=17, episode_steps=1800)
    assert make_task("explore_object_locations_small:height=24") == ObjectLocations(height=24)
    assert make_task("explore_object_locations_large") == ObjectLocations(size=17, episode_steps=1800)
    for size, message in ((10, "size must be odd, got 10"), (5, "size must be from 7 to 21, got 5")):
        with pytest.raises(TaskError, match=message):
            GoalLocations(size=size)
