"""How a body walks, what it touches, and whether one place can be seen from another.

R rows and C columns of cells, N objects. Lengths are in cells, angles in degrees a frame in a command.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from gtrxl.tasks.first_person.actions import LAB_PACE, Command, Pace
from gtrxl.tasks.first_person.heights import too_high
from gtrxl.tasks.first_person.scene import FREE, RADIUS, Body, Objects

GRAZE = 1e-4
"""How near to a wall a line of sight may not come: a line through the corner that two walls share is not free."""


def walk(
    wall: Int[Array, "R C"],
    body: Body,
    command: Command,
    *,
    frames: int,
    ground: Float[Array, "R C"] | None = None,
    pace: Pace = LAB_PACE,
) -> Body:
    """Looks and moves for so many frames: a disc of `RADIUS` that slides along walls and round corners, and enters none.

    Angles of a body are in radians. Nobody is faster than `pace`, whatever is pressed together. Where the floor has
    heights (`ground`), cells that are too high to climb are like walls; off an edge one falls at once.
    """
    turn, tilt = jnp.deg2rad(command.look_right), jnp.deg2rad(command.look_up)
    highest = np.deg2rad(pace.highest)
    speed = pace.cells / jnp.maximum(1.0, jnp.hypot(command.move, command.strafe))
    x, y, heading, pitch = body.place[0], body.place[1], body.heading, body.pitch
    # So many frames cannot bring the body to a cell that does not touch the one it began in.
    at_once = int((1 - RADIUS) / pace.cells)
    for begin in range(0, frames, at_once):
        solid, left, top = _surroundings(wall, x, y)
        for _ in range(min(at_once, frames - begin)):
            barred = solid if ground is None else solid | too_high(ground, x, y, left, top)
            heading = heading + turn
            pitch = jnp.clip(pitch + tilt, -highest, highest)
            cos, sin = jnp.cos(heading), jnp.sin(heading)
            x = x + speed * (command.move * cos - command.strafe * sin)
            y = y + speed * (command.move * sin + command.strafe * cos)
            x, y = _pushed_out(barred, left, top, x, y)
            if ground is not None:  # one lands clear of the edge: else the next frame might lead back up
                x, y = _pushed_out(solid | too_high(ground, x, y, left, top), left, top, x, y)
    # Kept within one turn, so that a long episode loses no precision.
    heading = jnp.remainder(heading, 2 * np.pi)
    return Body(place=jnp.stack([x, y]), heading=heading, pitch=pitch)


def touching(body: Body, objects: Objects, *, reach: float = 0.0) -> Bool[Array, " N"]:
    """The objects that are there and that the body overlaps on the floor plan, or comes within `reach` of."""
    away = objects.place - body.place[None, :]
    limit = objects.size / 2 + RADIUS + reach
    return objects.there & (jnp.sum(away**2, -1) < limit**2)


def clear_of(body: Body, place: Float[Array, "N 2"], radius: Float[Array, " N"]) -> Body:
    """The body moved out of round obstacles: off the one that it is deepest in, then off the next; a radius of 0 is none."""
    at = body.place
    for _ in range(2):
        away = at[None, :] - place
        distance = jnp.maximum(jnp.linalg.norm(away, axis=1), 1e-6)
        inside = jnp.where(radius > 0, radius + RADIUS - distance, 0.0)
        worst = jnp.argmax(inside)
        at = at + jnp.maximum(inside[worst], 0.0) * away[worst] / distance[worst]
    return Body(place=at, heading=body.heading, pitch=body.pitch)


def sees(wall: Int[Array, "R C"], start: Float[Array, "2"], end: Float[Array, "2"]) -> Bool[Array, ""]:
    """Whether the straight line between two places is free of walls; one that only grazes a corner is not."""
    begin, finish = _through_cells(wall.shape, start, end - start)
    return ~jnp.any((wall != FREE) & (jnp.maximum(begin, 0.0) <= jnp.minimum(finish, 1.0)))


def free_length(wall: Int[Array, "R C"], start: Float[Array, "2"], heading: Float[Array, ""]) -> Float[Array, ""]:
    """How far a straight line goes before it comes to a wall."""
    begin, finish = _through_cells(wall.shape, start, jnp.stack([jnp.cos(heading), jnp.sin(heading)]))
    return jnp.min(jnp.where((wall != FREE) & (begin <= finish) & (finish > 0), jnp.maximum(begin, 0.0), jnp.inf))


def _through_cells(
    shape: tuple[int, ...], start: Float[Array, "2"], along: Float[Array, "2"]
) -> tuple[Float[Array, "R C"], Float[Array, "R C"]]:
    """Where a line enters and leaves each cell, as parts of `along`; it enters none later than it leaves it that it goes
    through."""
    # The strips of each row and of each column first.
    enter, leave = [], []
    for axis, count in enumerate(shape[::-1]):
        near = jnp.arange(count) - GRAZE - start[axis]
        far = jnp.arange(count) + 1 + GRAZE - start[axis]
        still = jnp.abs(along[axis]) < 1e-9
        step = jnp.where(still, 1.0, along[axis])
        first, last = jnp.minimum(near / step, far / step), jnp.maximum(near / step, far / step)
        within = (near <= 0) & (far >= 0)
        enter.append(jnp.where(still, jnp.where(within, -jnp.inf, jnp.inf), first))
        leave.append(jnp.where(still, jnp.where(within, jnp.inf, -jnp.inf), last))
    return jnp.maximum(enter[0][None, :], enter[1][:, None]), jnp.minimum(leave[0][None, :], leave[1][:, None])


def _surroundings(
    wall: Int[Array, "R C"], x: Float[Array, ""], y: Float[Array, ""]
) -> tuple[Bool[Array, "9"], Float[Array, "9"], Float[Array, "9"]]:
    """The cell at a place and the eight around it: whether they are solid, and their left and top edges."""
    rows = jnp.floor(y).astype(jnp.int32) + jnp.repeat(jnp.arange(-1, 2), 3)
    columns = jnp.floor(x).astype(jnp.int32) + jnp.tile(jnp.arange(-1, 2), 3)
    height, width = wall.shape
    solid = wall[jnp.clip(rows, 0, height - 1), jnp.clip(columns, 0, width - 1)] != FREE
    # The outermost cells are walls for a body whatever they hold: no walk leaves the map.
    outside = (rows <= 0) | (rows >= height - 1) | (columns <= 0) | (columns >= width - 1)
    return solid | outside, columns.astype(jnp.float32), rows.astype(jnp.float32)


def _pushed_out(
    solid: Bool[Array, "9"], left: Float[Array, "9"], top: Float[Array, "9"], x: Float[Array, ""], y: Float[Array, ""]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The nearest place to this one where the disc overlaps no solid cell: first off the faces, then off the corners."""
    beside = solid & (top <= y) & (y < top + 1)
    x = jnp.minimum(x, jnp.min(jnp.where(beside & (x < left), left - RADIUS, jnp.inf)))
    x = jnp.maximum(x, jnp.max(jnp.where(beside & (x >= left + 1), left + 1 + RADIUS, -jnp.inf)))
    beside = solid & (left <= x) & (x < left + 1)
    y = jnp.minimum(y, jnp.min(jnp.where(beside & (y < top), top - RADIUS, jnp.inf)))
    y = jnp.maximum(y, jnp.max(jnp.where(beside & (y >= top + 1), top + 1 + RADIUS, -jnp.inf)))
    # Corners are whole numbers, so the disc can overlap only one, and no face is within reach of where that pushes it.
    away_x, away_y = x - jnp.clip(x, left, left + 1), y - jnp.clip(y, top, top + 1)
    distance = jnp.hypot(away_x, away_y)
    cut = solid & (away_x != 0) & (away_y != 0) & (distance < RADIUS)
    push = jnp.where(cut, (RADIUS - distance) / jnp.where(cut, distance, 1.0), 0.0)
    return x + jnp.sum(push * away_x), y + jnp.sum(push * away_y)
