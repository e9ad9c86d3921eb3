"""Mazes: all of one is reachable, with doors shut too; rooms look alike; distances are those of a slow search."""

import collections
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.tasks.first_person import mazes
from gtrxl.tasks.first_person.scene import COLOURS, DOOR, FREE, GLASS, PATTERNS

MANY = 64


@pytest.fixture(scope="module", params=[11, 17])
def drawn(request):
    """Many mazes of a size: painted, with one drawing of shut doors each, and how far every cell is from a corner."""

    def draw(key):
        maze_key, paint_key, doors_key = jax.random.split(key, 3)
        maze = mazes.carve(maze_key, size=request.param, loops=0.4)
        closed = mazes.close_doors(doors_key, maze.free, maze.door)
        away = mazes.distances(maze.free, jnp.zeros_like(maze.free).at[1, 1].set(True))
        wall, floor, _ = mazes.paint(paint_key, maze)
        return Drawn(maze, closed, away, wall, floor, mazes.shut(wall, maze.door, closed))

    return jax.tree.map(np.asarray, jax.jit(jax.vmap(draw))(jax.random.split(jax.random.key(0), MANY)))


class Drawn(NamedTuple):
    maze: mazes.Maze
    closed: Any
    away: Any
    wall: Any
    floor: Any
    with_doors: Any


def steps_from(free: np.ndarray, start: tuple[int, int]) -> dict[tuple[int, int], int]:
    """A breadth-first search, in plain Python."""
    found, queue = {start: 0}, collections.deque([start])
    while queue:
        row, column = queue.popleft()
        for near in ((row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)):
            if free[near] and near not in found:
                found[near] = found[row, column] + 1
                queue.append(near)
    return found


def test_every_free_cell_is_reachable_whatever_doors_are_shut(drawn):
    maze, closed = drawn.maze, drawn.closed
    for free, shut in zip(maze.free, closed, strict=True):
        assert len(steps_from(free, (1, 1))) == free.sum()
        assert len(steps_from(free & ~shut, (1, 1))) == (free & ~shut).sum()


def test_half_of_the_doors_to_spare_are_shut(drawn):
    """A tree over pieces needs one way less than there are pieces; what is beyond is to spare."""
    maze, closed = drawn.maze, drawn.closed
    for free, door, room, shut in zip(maze.free, maze.door, maze.room, closed, strict=True):
        assert not (shut & ~door).any()
        open_only = free & ~door
        left = {tuple(cell) for cell in np.argwhere(open_only)}
        pieces = 0
        while left:
            pieces += 1
            left -= set(steps_from(open_only, left.pop()))
        assert room.max() >= 0
        spare = door.sum() - (pieces - 1)
        assert shut.sum() == (spare + 1) // 2


def test_the_outside_is_wall_and_rooms_are_as_many_and_as_large_as_they_should_be(drawn):
    maze = drawn.maze
    size = maze.free.shape[1]
    count, largest = {11: (4, 5), 17: (9, 3)}[size]
    edge = np.ones((size, size), bool)
    edge[1:-1, 1:-1] = False
    assert not maze.free[:, edge].any()
    for free, room in zip(maze.free, maze.room, strict=True):
        assert set(np.unique(room)) == {mazes.NO_ROOM, *range(count)}
        assert free[room != mazes.NO_ROOM].all()
        for number in range(count):
            rows, columns = np.nonzero(room == number)
            height, width = np.ptp(rows) + 1, np.ptp(columns) + 1
            assert height * width == len(rows), "a rectangle"
            assert {height, width} <= set(range(3, largest + 1, 2))


def test_mazes_differ(drawn):
    maze = drawn.maze
    assert len({free.tobytes() for free in maze.free}) > MANY // 4


def test_a_door_is_an_opening_of_a_room(drawn):
    maze = drawn.maze
    beside = np.zeros(maze.free.shape, bool)
    inside = maze.room != mazes.NO_ROOM
    beside[:, 1:] |= inside[:, :-1]
    beside[:, :-1] |= inside[:, 1:]
    beside[:, :, 1:] |= inside[:, :, :-1]
    beside[:, :, :-1] |= inside[:, :, 1:]
    np.testing.assert_array_equal(maze.door, maze.free & ~inside & beside & ~_nodes(maze.free.shape))


def _nodes(shape: tuple[int, ...]) -> np.ndarray:
    nodes = np.zeros(shape, bool)
    nodes[:, 1::2, 1::2] = True
    return nodes


def test_distances_are_those_of_a_search(drawn):
    maze = drawn.maze
    for away, cells in zip(drawn.away, maze.free, strict=True):
        expected = np.full(cells.shape, mazes.UNREACHED)
        for cell, steps in steps_from(cells, (1, 1)).items():
            expected[cell] = steps
        np.testing.assert_array_equal(away, expected)


def test_ways_across_corners_cut_no_walls_and_cells_can_cost_more():
    block = np.array([[0, 0, 0, 0, 0], [0, 1, 1, 1, 0], [0, 1, 0, 1, 0], [0, 1, 1, 1, 0], [0, 0, 0, 0, 0]], bool)
    target = jnp.zeros((5, 5), bool).at[3, 3].set(True)
    costs = np.zeros((5, 5), np.int32)
    costs[1, 3] = 9

    @jax.jit
    def away(free, extra):
        return mazes.distances(free, target, straight=5, diagonal=7, extra=extra)

    around = away(block, 0 * costs)
    assert int(around[1, 1]) == 20, "around the block"
    assert int(away(np.pad(np.ones((3, 3), bool), 1), 0 * costs)[1, 1]) == 14, "across"
    assert int(away(block, costs)[1, 2]) == 24
    assert int(away(block, costs)[1, 1]) == 20, "the other way"


def test_picked_cells_are_different_and_among_those_given():
    cells = jnp.zeros((6, 7), bool).at[1:4, 2:6].set(True)
    found = np.asarray(jax.jit(jax.vmap(lambda key: mazes.pick(key, cells, 12)))(jax.random.split(jax.random.key(0), 4)))
    for twelve in found:
        assert len({tuple(cell) for cell in twelve}) == 12
        assert np.asarray(cells)[twelve[:, 0], twelve[:, 1]].all()
    assert (found[0] != found[1]).any()


def test_things_are_not_painted_like_the_floor_below_them(drawn):
    floor, cells = jnp.asarray(drawn.floor[0]), np.argwhere(drawn.maze.free[0])
    below = (drawn.floor[0][tuple(cells.T)] - 1) // len(PATTERNS)
    usual = below[0]
    painted = mazes.unlike(floor, jnp.asarray(cells), usual=COLOURS[usual], otherwise=COLOURS[usual - 1])
    np.testing.assert_array_equal(painted, np.where(below == usual, usual - 1, usual) % len(COLOURS))


def test_all_rooms_look_alike_and_all_corridors_and_pictures_hang_on_a_tenth_of_the_walls(drawn):
    maze = drawn.maze
    np.testing.assert_array_equal(drawn.wall == FREE, maze.free)
    pictured = drawn.wall > GLASS
    for wall, floor, room, free in zip(drawn.wall, drawn.floor, maze.room, maze.free, strict=True):
        inside, corridors = (set(floor[free & where].tolist()) for where in (room != mazes.NO_ROOM, room == mazes.NO_ROOM))
        assert len(inside) == 1
        assert len(corridors) <= 1
        assert not inside & corridors
        assert len(set(wall[~free & (wall <= GLASS)].tolist())) <= 2
        hung = wall[wall > GLASS].tolist()
        assert len(set(hung)) >= 0.8 * len(hung), "hardly two are the same"
    assert abs(pictured.sum() / (~maze.free).sum() - 0.1) < 0.02


def test_without_loops_one_way_leads_from_place_to_place():
    """As many ways as a tree has: one less than its nodes, where a room is one node."""
    carve = jax.jit(jax.vmap(lambda key: mazes.carve(key, size=11, loops=0.0)))
    maze = jax.tree.map(np.asarray, carve(jax.random.split(jax.random.key(1), 16)))
    for free, room in zip(maze.free, maze.room, strict=True):
        nodes = room[1::2, 1::2]
        pieces = (nodes == mazes.NO_ROOM).sum() + len(set(nodes[nodes != mazes.NO_ROOM].tolist()))
        ways = free.copy()
        ways[1::2, 1::2] = False
        assert (ways & (room == mazes.NO_ROOM)).sum() == pieces - 1


def test_shut_doors_are_seen_and_leave_no_trace(drawn):
    np.testing.assert_array_equal(drawn.with_doors == DOOR, drawn.closed)
    again = mazes.shut(jnp.asarray(drawn.with_doors[0]), jnp.asarray(drawn.maze.door[0]), jnp.zeros_like(drawn.closed[0]))
    np.testing.assert_array_equal(again, drawn.wall[0])
