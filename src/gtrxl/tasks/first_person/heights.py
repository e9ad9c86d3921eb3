"""Floors of different height: what can be climbed, which way leads down to a place, and the picture of steps and towers.

R rows and C columns of cells, H height and W width of the picture, K lines of the grid that a ray can cross.

A scene with a `ground` has a floor of its own height in every cell, solid down to the depths. One steps up by no more than
`CLIMB` and falls down any step at once. A cell without ground (`NO_GROUND`) is never entered and not seen: the sky shows
through it. Walls stand on their cell's ground. Objects are lifted from 0, not from the ground; pads are not drawn here.

In the picture a ray sees the first cell whose front or top it does not pass above. That asks for no march along the ray: of all
crossings with lines of the grid, a pixel takes the nearest whose cell reaches up to it.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from gtrxl.tasks.first_person import things
from gtrxl.tasks.first_person.camera import NOWHERE, SIDES, Camera, clear, dimmed, lit, pack
from gtrxl.tasks.first_person.looks import hangings
from gtrxl.tasks.first_person.looks.materials import MEAN, RGB, TEXELS
from gtrxl.tasks.first_person.scene import EYES, FREE, WALL_HEIGHT, Scene

NO_GROUND = -1000.0
"""The height of a cell without a floor."""
CLIMB = 0.25
"""The highest step up that one takes."""
FRONTS = 0.78
"""Light on the fronts of steps and walls; their tops have all of it."""
NEVER = 1 << 24
"""More steps than any way has."""
_FINE = 1 << 14
"""Parts of a cell by which depths are told apart."""
_LINES = 1 << 8
"""More crossings than a ray has: their numbers are the low bits of what is compared."""


def ground_at(ground: Float[Array, "R C"], x: Float[Array, "*n"], y: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """How high the floor is at some places; the nearest cell's outside of the map."""
    rows, columns = ground.shape
    row, column = (jnp.floor(at).astype(jnp.int32) for at in (y, x))
    return ground[jnp.clip(row, 0, rows - 1), jnp.clip(column, 0, columns - 1)]


def too_high(
    ground: Float[Array, "R C"], x: Float[Array, ""], y: Float[Array, ""], left: Float[Array, "9"], top: Float[Array, "9"]
) -> Bool[Array, "9"]:
    """Which cells with these left and top edges cannot be entered from a place: too high to climb, or nothing to stand on."""
    there = ground_at(ground, left + 0.5, top + 0.5)
    return (there > ground_at(ground, x, y) + CLIMB) | (there <= NO_GROUND)


def ways_down(ground: Float[Array, "R C"], wall: Int[Array, "R C"], target: Bool[Array, "R C"]) -> Int[Array, "R C"]:
    """How many cells it is from each cell to the nearest target, by what can be climbed; `NEVER` where no way leads."""
    rows, columns = ground.shape
    open_ = (ground > NO_GROUND) & (wall == FREE)
    wide = jnp.pad(ground, 1, constant_values=NO_GROUND)

    def beside(cells: Array, down: int, right: int) -> Array:
        return cells[1 + down : 1 + down + rows, 1 + right : 1 + right + columns]

    ways = [(shift, beside(wide, *shift) <= ground + CLIMB) for shift in ((0, 1), (0, -1), (1, 0), (-1, 0))]

    def relax(carry: tuple[Int[Array, "R C"], Bool[Array, ""]]) -> tuple[Int[Array, "R C"], Bool[Array, ""]]:
        now, _ = carry
        around = jnp.pad(now, 1, constant_values=NEVER)
        best = now
        for shift, can in ways:
            best = jnp.minimum(best, jnp.where(can & open_, beside(around, *shift) + 1, NEVER))
        return best, jnp.any(best != now)

    start = jnp.where(target & open_, 0, NEVER).astype(jnp.int32)
    return jax.lax.while_loop(lambda carry: carry[1], relax, (start, jnp.ones((), bool)))[0]


def paint(scene: Scene, camera: Camera) -> Int[Array, "H W"]:
    """What is seen, as packed colours. Heights are counted from the floor that the body stands on."""
    assert scene.ground is not None
    # What comes from outside is computed once, not again in every pixel.
    scene, camera = jax.lax.optimization_barrier((scene, camera))
    assert scene.ground is not None
    base = ground_at(scene.ground, camera.place[0], camera.place[1])
    column_top = scene.ground - base + jnp.where(scene.wall != FREE, WALL_HEIGHT, 0.0)
    above = jnp.where(scene.ground > NO_GROUND, column_top, NO_GROUND) - EYES
    entries = jnp.asarray(hangings.entries())[jnp.where(scene.wall != FREE, scene.wall, scene.floor)]
    enter, leave, cell, sideways = _crossings(*above.shape, camera=camera)
    rise = above.reshape(-1)[cell]  # of the top over the eyes
    front = jnp.where(enter > 0, rise / jnp.maximum(enter, 1e-4), -NOWHERE)
    reach = jnp.where(leave > enter, jnp.maximum(front, rise / jnp.maximum(leave, 1e-4)), -NOWHERE)
    number = jnp.arange(enter.shape[0], dtype=jnp.int32)[:, None]
    nearness = (jnp.minimum(enter, NOWHERE / _FINE) * _FINE).astype(jnp.int32) * _LINES + number
    front, reach, nearness, rise = jax.lax.optimization_barrier((front, reach, nearness, rise))
    slope = camera.slope[:, None]
    nothing = np.int32(np.iinfo(np.int32).max)
    met = jnp.min(jnp.where(reach[:, None, :] >= slope[None], nearness[:, None, :], nothing), 0)
    sky = met == nothing
    at = (met & (_LINES - 1)) * enter.shape[1] + jnp.arange(enter.shape[1], dtype=jnp.int32)[None, :]
    at = jax.lax.optimization_barrier(jnp.where(sky, 0, at))
    is_front = front.reshape(-1)[at] >= slope
    high = rise.reshape(-1)[at]
    depth = jnp.where(is_front, enter.reshape(-1)[at], high / jnp.where(slope < 0, slope, -1e-6))
    entry = entries.reshape(-1)[cell.reshape(-1)[at]]
    colour = _surface(
        camera,
        is_front=is_front,
        sideways=sideways.reshape(-1)[at],
        depth=depth,
        below_top=high - depth * slope,
        above=jnp.maximum(-high, 0.05),
        entry=entry,
    )
    picture = jnp.where(sky, _sky(scene.sky, camera)[:, None], colour)
    if not scene.objects.shape.shape[0]:
        return picture
    objects = dataclasses.replace(scene.objects, lift=scene.objects.lift - base)
    drawn = things.prepared(objects, camera, jnp.full(enter.shape[1], NOWHERE))
    return things.draw_among(picture, drawn, jnp.where(sky, NOWHERE, depth))


def _crossings(
    rows: int, columns: int, *, camera: Camera
) -> tuple[Float[Array, "K W"], Float[Array, "K W"], Int[Array, "K W"], Bool[Array, "K W"]]:
    """Every cell that each ray comes into: how deep that is, how deep it leaves it, which cell (by number), and whether it came
    in through a side that looks east or west. What a ray never comes into it leaves before it enters it. The first is the cell
    that the eye is in."""
    place = (camera.place[0], camera.place[1])
    along = tuple(jnp.where(jnp.abs(each) < 1e-6, 1e-6, each) for each in (camera.along_x, camera.along_y))
    forward = tuple((each > 0).astype(jnp.float32) for each in along)

    def next_line(axis: int, low: Float[Array, "K W"]) -> Float[Array, "K W"]:
        """How deep a ray leaves a row or column of cells that begins at `low`."""
        return (low + forward[axis][None] - place[axis]) / along[axis][None]

    enters, leaves, cells = [], [], []
    for axis, count in enumerate((columns, rows)):
        line = jnp.arange(1, count, dtype=jnp.float32)[:, None]
        depth = (line - place[axis]) / along[axis][None]
        low = line - 1 + forward[axis][None]
        across = jnp.floor(place[1 - axis] + depth * along[1 - axis][None])
        inside = (depth > 0) & (across >= 0) & (across < (rows, columns)[axis])
        leave = jnp.minimum(next_line(axis, low), next_line(1 - axis, across))
        row, column = (across, low) if axis == 0 else (low, across)
        enters.append(jnp.where(inside, depth, NOWHERE))
        leaves.append(jnp.where(inside, leave, 0.0))
        cells.append(jnp.clip(row * columns + column, 0, rows * columns - 1).astype(jnp.int32))
    here = tuple(jnp.floor(each) for each in place)
    wide = jnp.zeros((1, along[0].shape[0]))
    own = jnp.minimum(next_line(0, here[0] + wide), next_line(1, here[1] + wide))
    number = jnp.broadcast_to((here[1] * columns + here[0]).astype(jnp.int32), wide.shape)
    sideways = np.concatenate([np.zeros(1, bool), np.ones(columns - 1, bool), np.zeros(rows - 1, bool)])
    return (
        jnp.concatenate([wide, *enters]),
        jnp.concatenate([own, *leaves]),
        jnp.concatenate([number, *cells]),
        jnp.broadcast_to(sideways[:, None], (sideways.size, wide.shape[1])),
    )


def _surface(
    camera: Camera,
    *,
    is_front: Bool[Array, "H W"],
    sideways: Bool[Array, "H W"],
    depth: Float[Array, "H W"],
    below_top: Float[Array, "H W"],
    above: Float[Array, "H W"],
    entry: Int[Array, "H W"],
) -> Int[Array, "H W"]:
    """The colours of tops and fronts, with their patterns: along the map on tops, hanging from the upper edge on fronts."""
    x, y = camera.place[0] + depth * camera.along_x[None, :], camera.place[1] + depth * camera.along_y[None, :]
    u = jnp.where(is_front & sideways, y, x)
    v = jnp.where(is_front, below_top, y)
    column, row = (jnp.floor(each * TEXELS).astype(jnp.int32) & (TEXELS - 1) for each in (u, v))
    patterns = jnp.asarray(hangings.patterns().reshape(-1))
    pattern = patterns.at[(entry >> 24) * TEXELS**2 + row * TEXELS + column].get(mode="clip").astype(jnp.float32) / 255
    seen = clear(depth * camera.pixel * jnp.where(is_front, 1.5, depth / above))
    light = jnp.where(is_front, jnp.where(sideways, SIDES * FRONTS, FRONTS), 1.0) * dimmed(depth)
    shade = light * (seen * pattern + (1 - seen) * MEAN)
    return lit(entry, (shade * 255).astype(jnp.int32))


def _sky(colour: Int[Array, ""], camera: Camera) -> Int[Array, " H"]:
    """Palest at the horizon; there is sky below it too."""
    pale = (0.75 - 0.55 * jnp.clip(jnp.abs(camera.slope), 0.0, 1.0))[:, None]
    return pack(jnp.asarray(RGB)[colour][None, :] * (1 - pale) + 235 * pale)
