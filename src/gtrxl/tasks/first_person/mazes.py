"""Mazes of rooms and corridors, drawn by a key: where one can go, where doors may stand, how far it is, what it looks like.

R rows and C columns of cells (R = C = the size, an odd number), V nodes a side, E ways between neighbouring nodes, K things.

The cells with odd row and odd column are nodes and always free. Rooms are rectangles of nodes with all between them; a random
spanning tree joins rooms and the remaining nodes, and some more openings into rooms make loops. So all is reachable.
"""

import functools
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from gtrxl.tasks.first_person.scene import BRIGHT, COLOURS, DOOR, FREE, PATTERNS, PICTURES, Body, centre, picture, wall_material

UNREACHED = 1 << 20
"""The distance of a cell from which no way leads to a target."""
NO_ROOM = -1
PICTURED = 0.1
"""The share of walls that have a picture."""


class Maze(eqx.Module):
    """Where one can go when all doors are open."""

    free: Bool[Array, "R C"]
    room: Int[Array, "R C"]
    """The number of the room that a cell belongs to; `NO_ROOM` in corridors, openings and walls."""
    door: Bool[Array, "R C"]
    """Openings of rooms: where a door may stand."""


class Rooms(NamedTuple):
    """How many rooms a maze has, and how large they are."""

    side: int
    """There are so many squared."""
    least: int
    """Nodes along a room's side: n of them are 2 n - 1 cells."""
    most: int

    @classmethod
    def usual(cls, size: int) -> "Rooms":
        """For a maze of this size: rooms of 3 cells along a side, or also 5 where there are four."""
        side = rooms_a_side(size)
        return cls(side=side, least=2, most=3 if side == 2 else 2)


def rooms_a_side(size: int) -> int:
    """There are so many rooms squared in a maze of this size: 4 in one of 11, 9 in one of 17."""
    nodes = size // 2
    return 1 if nodes < 4 else 2 if nodes < 7 else 3


def carve(key: PRNGKeyArray, *, size: int, loops: float, rooms: "Rooms | None" = None) -> Maze:
    """A maze. `loops` is the share of the places where a room could have one more opening that get it."""
    places_key, tree_key, loops_key = jax.random.split(key, 3)
    room = _rooms(places_key, size=size, rooms=rooms or Rooms.usual(size))
    graph = _graph(size)
    one, other = room.ravel()[graph.one], room.ravel()[graph.other]
    inside = (one == other) & (one != NO_ROOM)
    count = room.size
    # A room is one piece from the start; a node outside is a piece of its own.
    pieces = jnp.where(room.ravel() == NO_ROOM, jnp.arange(count), count + room.ravel())
    order = jax.random.permutation(tree_key, len(graph.one))
    tree = _spanning(graph, order, usable=~inside, pieces=pieces, wanted=jnp.ones((), bool))
    by_room = ((one != NO_ROOM) | (other != NO_ROOM)) & ~inside
    more = by_room & (jax.random.uniform(loops_key, by_room.shape) < loops)
    door = by_room & (tree | more)
    corner = (room[:-1, :-1] == room[1:, 1:]) & (room[:-1, 1:] == room[1:, :-1]) & (room[:-1, :-1] == room[1:, :-1])
    corner &= room[:-1, :-1] != NO_ROOM
    cells = functools.partial(_cells, graph, size)
    return Maze(
        free=cells(nodes=jnp.ones_like(room, bool), ways=inside | tree | more, corners=corner, otherwise=False),
        room=cells(
            nodes=room, ways=jnp.where(inside, one, NO_ROOM), corners=jnp.where(corner, room[1:, 1:], NO_ROOM), otherwise=NO_ROOM
        ),
        door=cells(nodes=jnp.zeros_like(room, bool), ways=door, corners=jnp.zeros_like(corner), otherwise=False),
    )


def close_doors(
    key: PRNGKeyArray, free: Bool[Array, "R C"], door: Bool[Array, "R C"], *, wanted: Bool[Array, ""] | bool = True
) -> Bool[Array, "R C"]:
    """Which doors are shut: half of those that are to spare, so that a way leads everywhere; none unless `wanted`.

    A random spanning tree of the ways says which doors are not to spare.
    """
    tree_key, half_key = jax.random.split(key)
    graph = _graph(free.shape[0])
    usable, gated = free[graph.row, graph.column], door[graph.row, graph.column]
    wanted = jnp.asarray(wanted)
    order = jnp.argsort(jnp.where(gated, jax.random.uniform(tree_key, gated.shape), -1.0))
    tree = _spanning(graph, order, usable=usable, pieces=jnp.arange((free.shape[0] // 2) ** 2), wanted=wanted)
    spare = usable & gated & ~tree
    rank = jnp.argsort(jnp.argsort(jnp.where(spare, jax.random.uniform(half_key, spare.shape), 2.0)))
    shut = spare & (rank < (jnp.sum(spare) + 1) // 2) & wanted
    return jnp.zeros_like(free).at[graph.row, graph.column].set(shut)


def distances(
    free: Bool[Array, "R C"],
    targets: Bool[Array, "R C"],
    *,
    straight: int = 1,
    diagonal: int | None = None,
    extra: Int[Array, "R C"] | None = None,
) -> Int[Array, "R C"]:
    """How far each cell is from the nearest target over free cells: 0 on it, `UNREACHED` where no way leads.

    A step to one of four neighbours costs `straight`; one across a corner costs `diagonal` and cuts no walls; without it there
    are none. `extra` is what it costs besides to leave a cell.
    """
    start = jnp.where(free & targets, 0, UNREACHED).astype(jnp.int32)
    own = jnp.zeros_like(start) if extra is None else extra
    # Which of the eight neighbours one can step to does not change while the distances do.
    ways = [(shift, straight, free) for shift in ((0, 1), (0, -1), (1, 0), (-1, 0))]
    if diagonal is not None:
        for shift in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
            both = free & _beside(free, (shift[0], 0), False) & _beside(free, (0, shift[1]), False)
            ways.append((shift, diagonal, both))

    def relax(carry: tuple[Int[Array, "R C"], Bool[Array, ""]]) -> tuple[Int[Array, "R C"], Bool[Array, ""]]:
        now, _ = carry
        best = now
        for shift, cost, allowed in ways:
            best = jnp.minimum(best, jnp.where(allowed, _beside(now, shift, UNREACHED) + cost + own, UNREACHED))
        return best, jnp.any(best != now)

    return jax.lax.while_loop(lambda carry: carry[1], relax, (start, jnp.ones((), bool)))[0]


def pick(key: PRNGKeyArray, cells: Bool[Array, "R C"], count: int) -> Int[Array, "K 2"]:
    """So many different ones of these cells, each as likely as every other. There must be as many."""
    scores = jnp.where(cells, jax.random.uniform(key, cells.shape), -1.0)
    _, found = jax.lax.top_k(scores.ravel(), count)
    return jnp.stack([found // cells.shape[1], found % cells.shape[1]], axis=-1).astype(jnp.int32)


def stand(key: PRNGKeyArray, cell: Int[Array, "2"]) -> Body:
    """A body in the middle of a cell that looks anywhere, level."""
    heading = jax.random.uniform(key, (), maxval=2 * np.pi)
    return Body(place=centre(cell).astype(jnp.float32), heading=heading, pitch=jnp.float32(0))


def far_from(cell: Int[Array, "2"], *, size: int, least: int) -> Bool[Array, "R C"]:
    """The cells that are at least so many rows or columns away."""
    line = jnp.arange(size)
    return jnp.maximum(jnp.abs(line[:, None] - cell[0]), jnp.abs(line[None, :] - cell[1])) >= least


def paint(key: PRNGKeyArray, maze: Maze) -> tuple[Int[Array, "R C"], Int[Array, "R C"], Int[Array, ""]]:
    """Walls (all doors open), floor and sky of a maze. All rooms look alike, and all corridors; one tells places by the pictures
    on some walls, of which hardly two are the same."""
    colours_key, walls_key, floors_key, sky_key, hung_key, pictures_key = jax.random.split(key, 6)
    colour = jax.random.permutation(colours_key, BRIGHT)[:2]
    walls = wall_material(colour, jax.random.randint(walls_key, (2,), 0, len(PATTERNS)))
    floors = wall_material(colour, jax.random.randint(floors_key, (2,), 0, len(PATTERNS)))
    inside = maze.room != NO_ROOM
    # A wall looks like the room that it touches.
    touched = inside
    for shift in ((0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (1, -1), (-1, 1), (-1, -1)):
        touched |= _beside(inside, shift, False)
    hung = jax.random.uniform(hung_key, maze.free.shape) < PICTURED
    kinds = jax.random.permutation(pictures_key, BRIGHT * len(PICTURES))
    kind = jnp.resize(kinds, maze.free.shape)
    solid = jnp.where(hung, picture(kind // len(PICTURES), kind % len(PICTURES)), walls[touched.astype(jnp.int32)])
    sky = jax.random.randint(sky_key, (), 0, BRIGHT)
    return jnp.where(maze.free, FREE, solid), floors[inside.astype(jnp.int32)], sky


def unlike(floor: Int[Array, "R C"], cells: Int[Array, "K 2"], *, usual: str, otherwise: str) -> Int[Array, " K"]:
    """The colours of things in these cells of a painted maze: the usual one, or the other one where walls and floor have it."""
    there = (floor[cells[:, 0], cells[:, 1]] - 1) // len(PATTERNS)
    return jnp.where(there == COLOURS.index(usual), COLOURS.index(otherwise), COLOURS.index(usual)).astype(jnp.int32)


def shut(wall: Int[Array, "R C"], door: Bool[Array, "R C"], closed: Bool[Array, "R C"]) -> Int[Array, "R C"]:
    """The walls with these of the doors closed and all others open."""
    return jnp.where(closed, DOOR, jnp.where(door, FREE, wall))


class _Graph(NamedTuple):
    """The ways between neighbouring nodes: the nodes at both ends, and the cell between them."""

    one: Int[np.ndarray, " E"]
    other: Int[np.ndarray, " E"]
    row: Int[np.ndarray, " E"]
    column: Int[np.ndarray, " E"]


@functools.cache
def _graph(size: int) -> _Graph:
    side = size // 2
    number = np.arange(side * side).reshape(side, side)
    one = np.concatenate([number[:, :-1].ravel(), number[:-1].ravel()])
    other = np.concatenate([number[:, 1:].ravel(), number[1:].ravel()])
    # Nodes are at odd cells: the cell between two is the mean of theirs.
    return _Graph(one, other, row=one // side + other // side + 1, column=one % side + other % side + 1)


def _cells(
    graph: _Graph, size: int, *, nodes: Array, ways: Array, corners: Array, otherwise: bool | int
) -> Bool[Array, "R C"] | Int[Array, "R C"]:
    """Spreads what is known of nodes, ways and what lies between four nodes over the cells."""
    cells = jnp.full((size, size), otherwise, nodes.dtype)
    cells = cells.at[1::2, 1::2].set(nodes).at[2:-1:2, 2:-1:2].set(corners)
    return cells.at[graph.row, graph.column].set(ways)


def _rooms(key: PRNGKeyArray, *, size: int, rooms: Rooms) -> Int[Array, "V V"]:
    """The room of each node. The nodes are cut into blocks, as equal as can be, and there is a room somewhere in each block."""
    rows_key, columns_key, sizes_key, offsets_key = jax.random.split(key, 4)
    nodes, side = size // 2, rooms.side

    def blocks(key: PRNGKeyArray) -> tuple[Int[Array, " S"], Int[Array, " S"], Int[Array, " V"]]:
        lengths = nodes // side + (jax.random.permutation(key, side) < nodes % side).astype(jnp.int32)
        starts = jnp.cumsum(lengths) - lengths
        return lengths, starts, jnp.sum(jnp.arange(nodes)[:, None] >= starts[None], axis=1) - 1

    line = jnp.arange(nodes)
    inside = []
    for axis, (lengths, starts, block) in enumerate((blocks(rows_key), blocks(columns_key))):
        allowed = jnp.broadcast_to(lengths[:, None] if axis == 0 else lengths[None], (side, side))
        length_key, offset_key = jax.random.fold_in(sizes_key, axis), jax.random.fold_in(offsets_key, axis)
        length = jax.random.randint(length_key, (side, side), rooms.least, jnp.minimum(allowed, rooms.most) + 1)
        offset = jax.random.randint(offset_key, (side, side), 0, allowed - length + 1)
        inside.append((block, line - starts[block], offset, length))
    (down, row, top, height), (right, column, left, width) = inside
    room = down[:, None] * side + right[None]
    top, height, left, width = (each.ravel()[room] for each in (top, height, left, width))
    row, column = jnp.broadcast_to(row[:, None], room.shape), jnp.broadcast_to(column[None], room.shape)
    within = (row >= top) & (row < top + height) & (column >= left) & (column < left + width)
    return jnp.where(within, room, NO_ROOM)


def _spanning(
    graph: _Graph, order: Int[Array, " E"], *, usable: Bool[Array, " E"], pieces: Int[Array, " N"], wanted: Bool[Array, ""]
) -> Bool[Array, " E"]:
    """Kruskal: the ways that join two pieces, taken in this order, until all is one piece (or at once if not wanted)."""
    ends = jnp.stack([jnp.asarray(graph.one), jnp.asarray(graph.other)], axis=1)

    def join(carry: tuple[Int[Array, ""], Int[Array, " N"], Bool[Array, " E"]]):
        number, piece, tree = carry
        way = order[number]
        one, other = piece[ends[way, 0]], piece[ends[way, 1]]
        joins = usable[way] & (one != other)
        return number + 1, jnp.where(joins & (piece == other), one, piece), tree.at[way].set(joins)

    def unfinished(carry: tuple[Int[Array, ""], Int[Array, " N"], Bool[Array, " E"]]) -> Bool[Array, ""]:
        return wanted & (carry[0] < order.size) & jnp.any(carry[1] != carry[1][0])

    return jax.lax.while_loop(unfinished, join, (jnp.int32(0), pieces, jnp.zeros(order.shape, bool)))[2]


def _beside(cells: Array, shift: tuple[int, int], outside: bool | int | Float[Array, ""]) -> Array:
    """What the neighbour that many rows down and columns right has."""
    rows, columns = cells.shape
    padded = jnp.pad(cells, 1, constant_values=outside)
    return padded[1 + shift[0] : 1 + shift[0] + rows, 1 + shift[1] : 1 + shift[1] + columns]
