"""Suites of two, four or six rooms with places for objects, as tables: one of them is looked up by its number.

P plans, R rows and C columns of cells, K rooms at most, two places a room, N places in all.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from gtrxl.tasks.first_person.scene import FREE, centre

HALL, PAIR, FOUR, SIX = range(4)
"""The plans: a hall with two halves, two rooms with a corridor, four rooms around a cross, six along a corridor."""
ROOMS = np.array([2, 2, 4, 6], np.int32)
MOST_ROOMS, A_ROOM = 6, 2
"""Rooms of the largest plan, and places for objects in each room."""
NO_ROOM = -1

# A figure is a cell of a room, a dot one of a corridor; * is a place for an object, + where one can start.
_PLANS = (
    ("*00 11*", "00+ +11", "*00 11*"),  # the blank column is cut out: a hall has no wall between its halves
    ("*00   11*", "00+...+11", "*00   11*"),
    (
        "*0*   *1*", "000...111", "00+ . +11", " .  .  . ", " ....... ", " .  .  . ", "22+ . +33", "222...333", "*2*   *3*",
    ),
    (
        "*00   11*", "00+...+11", "*00 . 11*", "    .    ", "*22 . 33*", "22+...+33", "*22 . 33*", "    .    ", "*44 . 55*",
        "44+...+55", "*44   55*",
    ),
)  # fmt: skip
ROWS, COLUMNS = 13, 11
"""Of every plan, with the walls around it; the smaller ones are in the upper left corner."""


class Suites(NamedTuple):
    """What is known of each plan."""

    free: Bool[np.ndarray, "P R C"]
    room: Int[np.ndarray, "P R C"]
    """The number of the room of a cell; NO_ROOM elsewhere."""
    places: Int[np.ndarray, "P K 2 2"]
    """Cells (row, column) for objects; zeros past the plan's last room."""
    starts: Int[np.ndarray, "P K 2"]
    """A cell of each room at its inner edge."""


def _read() -> Suites:
    count = len(_PLANS)
    found = Suites(
        free=np.zeros((count, ROWS, COLUMNS), bool),
        room=np.full((count, ROWS, COLUMNS), NO_ROOM, np.int32),
        places=np.zeros((count, MOST_ROOMS, A_ROOM, 2), np.int32),
        starts=np.zeros((count, MOST_ROOMS, 2), np.int32),
    )
    for plan, lines in enumerate(_PLANS):
        lines = [line.replace(" ", "") for line in lines] if plan == HALL else lines
        cells = np.array([list(line) for line in lines])
        inside = np.s_[1 : 1 + cells.shape[0], 1 : 1 + cells.shape[1]]
        found.free[plan][inside] = cells != " "
        for number in range(ROOMS[plan]):
            # Rooms are 3 x 3: the figures say where, and the marks stand within.
            row, column = (axis.min() for axis in np.nonzero(cells == str(number)))
            of_room = np.zeros(cells.shape, bool)
            of_room[row : row + 3, column : column + 3] = True
            found.room[plan][inside][of_room] = number
            found.places[plan, number] = np.argwhere(of_room & (cells == "*")) + 1
            (found.starts[plan, number],) = np.argwhere(of_room & (cells == "+")) + 1
    return found


SUITES = _read()


def layout(
    plan: Int[Array, ""], *, wall: Int[Array, ""], corridor: Int[Array, ""], floors: Int[Array, " K"]
) -> tuple[Int[Array, "R C"], Int[Array, "R C"]]:
    """Walls and floor of a plan; each room has its own floor."""
    room = jnp.asarray(SUITES.room)[plan]
    return jnp.where(jnp.asarray(SUITES.free)[plan], FREE, wall), jnp.where(room == NO_ROOM, corridor, floors[room])


def deal(
    key: PRNGKeyArray, plan: Int[Array, ""], *, together: int | Int[Array, ""]
) -> tuple[Float[Array, "N 2"], Int[Array, " N"]]:
    """A place and a room for each of the objects that a plan has room for, drawn at random; the others are nowhere, at 0. So many
    of the first are in pairs: 2 if the first two share a room, 4 if the next two share another one, and so on."""
    rooms_key, others_key, sides_key = jax.random.split(key, 3)
    count = jnp.asarray(ROOMS)[plan]
    number = np.arange(A_ROOM * MOST_ROOMS)

    room_of_slot = jnp.argsort(jnp.where(jnp.arange(MOST_ROOMS) < count, jax.random.uniform(rooms_key, (MOST_ROOMS,)), 2.0))
    # The first ones keep their places, and so do those that the plan has no place for; the others are shuffled between them.
    moves = (number >= together) & (number < A_ROOM * count)
    slot = jnp.argsort(jnp.where(moves, together + jax.random.uniform(others_key, number.shape), number + 0.0))
    room = room_of_slot[slot // A_ROOM]
    flip = jax.random.bernoulli(sides_key, 0.5, (MOST_ROOMS,)).astype(jnp.int32)
    side = (slot + flip[room]) % A_ROOM
    place = centre(jnp.asarray(SUITES.places)[plan, room, side])
    return jnp.where((number < A_ROOM * count)[:, None], place, 0.0), room.astype(jnp.int32)
