"""The picture that a body sees: walls by one ray for each column, the floor and the sky between them, objects in front.

R rows and C columns of cells, H height and W width of the picture; lines of the grid are counted by K, and cells along them by L.

What depends only on a column or only on a row is computed first; a pixel then takes some whole-number arithmetic, one look at
the floor plan and one at a pattern.
"""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, UInt8

from gtrxl.tasks.first_person import heights, things
from gtrxl.tasks.first_person.camera import NOWHERE, SIDES, Camera, clear, dimmed, lit, pack
from gtrxl.tasks.first_person.looks import hangings
from gtrxl.tasks.first_person.looks.materials import CARPET, MEAN, RGB, TEXELS
from gtrxl.tasks.first_person.scene import EYES, FREE, GLASS, WALL_HEIGHT, Body, Objects, Scene

ENTRIES = hangings.entries()
PATTERNS = hangings.patterns().reshape(-1)
SHIFT = TEXELS.bit_length() - 1
"""TEXELS is a power of two: cells and texels of a place are bits of one number."""
WORD = 32
"""Cells whose walls one word tells."""
FLOOR_LIGHT, FLOOR_CONTRAST = 0.62, 0.5
"""The floor is darker than the walls, and its pattern fainter."""


class Facade(eqx.Module):
    """The walls, for each column of the picture."""

    depth: Float[Array, " W"]
    entry: Int[Array, " W"]
    """Colour and pattern, as in `materials.entries`."""
    texel: Int[Array, " W"]
    """Column of the pattern."""
    clear: Float[Array, " W"]
    """How much of the pattern is to be seen."""
    light: Float[Array, " W"]


class Tables(eqx.Module):
    """All that the pixels of walls, floor and sky are made from."""

    depth: Float[Array, " W"]
    entry: Int[Array, " W"]
    texel: Int[Array, " W"]
    wall_even: Int[Array, " W"]
    """Light whatever the pattern, in 1/65536."""
    wall_pattern: Int[Array, " W"]
    """Light by the pattern, in 1/256."""
    floor_depth: Float[Array, " H"]
    floor_even: Int[Array, " H"]
    floor_pattern: Int[Array, " H"]
    sky: Int[Array, " H"]
    """Packed colours."""
    plan: Int[Array, "R C"]
    """The floor's entries."""


def render(scene: Scene, body: Body, *, height: int, width: int) -> UInt8[Array, "H W 3"]:
    """What the body sees. On a CPU, `vmap` paints the worlds one after another, so that each stays in the cache."""

    @jax.custom_batching.custom_vmap
    def paint(scene: Scene, body: Body) -> UInt8[Array, "H W 3"]:
        return _paint(scene, body, height=height, width=width)

    @paint.def_vmap
    def paint_many(count: int, batched: Sequence[Any], scene: Scene, body: Body):
        worlds = jax.tree.map(
            lambda leaf, own: leaf if own else jnp.broadcast_to(leaf, (count, *leaf.shape)), (scene, body), tuple(batched)
        )
        pictures = jax.lax.platform_dependent(
            worlds,
            cpu=lambda worlds: jax.lax.map(lambda world: paint(*world), worlds),
            default=lambda worlds: jax.vmap(lambda world: _paint(*world, height=height, width=width))(worlds),
        )
        return pictures, True

    return paint(scene, body)


def _paint(scene: Scene, body: Body, *, height: int, width: int) -> UInt8[Array, "H W 3"]:
    camera = Camera.of(body, height=height, width=width)
    if scene.ground is not None:
        return jax.lax.bitcast_convert_type(heights.paint(scene, camera), jnp.uint8)[..., :3]
    tables = _tables(scene, camera)
    picture = _with_objects(scene, camera, tables) if scene.objects.shape.shape[0] else _ground(tables, camera)
    return jax.lax.bitcast_convert_type(picture, jnp.uint8)[..., :3]


def _with_objects(scene: Scene, camera: Camera, tables: Tables) -> Int[Array, "H W"]:
    drawn = things.prepared(scene.objects, camera, tables.depth)

    def bare(objects: Objects, camera: Camera, tables: Tables) -> Int[Array, "H W"]:
        del objects
        return _ground(tables, camera)

    def with_pads(objects: Objects, camera: Camera, tables: Tables) -> Int[Array, "H W"]:
        return things.lay(_ground(tables, camera), objects, camera, _rise(tables, camera) < 0)

    # Besides leaving out pads where there are none, the condition keeps XLA from computing the tables again in every pixel.
    picture = jax.lax.cond(jnp.any(things.pads(scene.objects)), with_pads, bare, scene.objects, camera, tables)
    return things.draw(picture, drawn, _rise(tables, camera) > WALL_HEIGHT)


def wall_depths(wall: Int[Array, "R C"], camera: Camera) -> tuple[Float[Array, " W"], Bool[Array, " W"]]:
    """How deep the first wall is in each column, and whether it looks east or west."""
    solid = (wall != FREE) & (wall != GLASS)
    x, y = camera.place[0], camera.place[1]
    sideways = _first(solid.T, camera.along_x, camera.along_y, line=x, cell=y)
    lengthways = _first(solid, camera.along_y, camera.along_x, line=y, cell=x)
    return jnp.minimum(sideways, lengthways), sideways < lengthways


def facade(wall: Int[Array, "R C"], camera: Camera) -> Facade:
    """What each column sees of the walls."""
    rows, columns = wall.shape
    depth, sideways = wall_depths(wall, camera)
    x, y = camera.place[0] + depth * camera.along_x, camera.place[1] + depth * camera.along_y

    def cell(nudge: float) -> Int[Array, " W"]:
        column = jnp.where(sideways, jnp.round(x) - (camera.along_x < 0), jnp.floor(x + nudge))
        row = jnp.where(sideways, jnp.floor(y + nudge), jnp.round(y) - (camera.along_y < 0))
        return wall[jnp.clip(row.astype(jnp.int32), 0, rows - 1), jnp.clip(column.astype(jnp.int32), 0, columns - 1)]

    # At a corner, rounding may name the free cell beside the wall.
    material = jnp.where(cell(1e-4) != FREE, cell(1e-4), cell(-1e-4))
    u = jnp.where(sideways, y - jnp.floor(y), x - jnp.floor(x))
    # Seen from the front, patterns run from left to right.
    u = jnp.where(jnp.where(sideways, camera.along_x < 0, camera.along_y > 0), 1 - u, u)
    slant = jnp.maximum(jnp.abs(jnp.where(sideways, camera.along_x, camera.along_y)), 0.05)
    return Facade(
        depth=depth,
        entry=jnp.asarray(ENTRIES)[material],
        texel=jnp.clip((u * TEXELS).astype(jnp.int32), 0, TEXELS - 1),
        clear=clear(depth * camera.pixel / slant),
        light=jnp.where(sideways, SIDES, 1.0) * dimmed(depth),
    )


def _first(
    solid: Bool[Array, "K L"],
    per_line: Float[Array, " W"],
    per_cell: Float[Array, " W"],
    *,
    line: Float[Array, ""],
    cell: Float[Array, ""],
) -> Float[Array, " W"]:
    """Depth at which each ray first crosses a line of the grid into a solid cell.

    `line` and `cell` are where the rays begin, across the lines and along them. All lines are crossed at once: the walls behind
    a line are the bits of a word, so that no ray waits for its last step, and none looks anything up.
    """
    lines, cells = solid.shape
    per_line = jnp.where(jnp.abs(per_line) < 1e-6, 1e-6, per_line)
    number = np.arange(1, lines, dtype=np.float32)
    depth = (number[:, None] - line) / per_line[None, :]
    crossed = jnp.floor(cell + depth * per_cell[None, :]).astype(jnp.int32)
    met = jnp.zeros(crossed.shape, jnp.int32)
    for begin in range(0, cells, WORD):
        some = solid[:, begin : begin + WORD]
        word = jnp.sum(jnp.where(some, jnp.int32(1) << jnp.arange(some.shape[1], dtype=jnp.int32)[None, :], 0), 1)
        entered = jnp.where(per_line[None, :] > 0, word[1:, None], word[:-1, None])
        met = met | jax.lax.shift_right_logical(entered, crossed - begin)
    return jnp.min(jnp.where((met & 1 == 1) & (depth > 0), depth, NOWHERE), 0)


def _tables(scene: Scene, camera: Camera) -> Tables:
    walls = facade(scene.wall, camera)
    floor_depth = camera.floor_depth()
    floor_clear = FLOOR_CONTRAST * clear(floor_depth**2 * camera.pixel / EYES)
    floor_light = FLOOR_LIGHT * dimmed(floor_depth)
    # Paler towards the horizon.
    pale = (0.75 - 0.55 * jnp.clip(camera.slope, 0.0, 1.0))[:, None]
    sky = jnp.asarray(RGB)[scene.sky]

    def fixed(light: Float[Array, "*n"], scale: int) -> Int[Array, "*n"]:
        return (light * scale).astype(jnp.int32)

    return Tables(
        depth=walls.depth,
        entry=walls.entry,
        texel=walls.texel,
        wall_even=fixed((1 - walls.clear) * walls.light * MEAN, 65536),
        wall_pattern=fixed(walls.clear * walls.light, 256),
        floor_depth=floor_depth,
        floor_even=fixed((1 - floor_clear) * floor_light * MEAN, 65536),
        floor_pattern=fixed(floor_clear * floor_light, 256),
        sky=pack(sky[None, :] * (1 - pale) + 235 * pale),
        plan=jnp.asarray(ENTRIES)[scene.floor],
    )


def _rise(tables: Tables, camera: Camera) -> Float[Array, "H W"]:
    """How high each ray is when it comes to the wall: below 0 the floor was before it, above WALL_HEIGHT it went into the sky."""
    return EYES + tables.depth[None, :] * camera.slope[:, None]


def _whole(number: Float[Array, "*n"]) -> Int[Array, "*n"]:
    """The nearest whole number to one from 0 to 2^22, by its place in the float: a third of what a careful conversion takes."""
    return jax.lax.bitcast_convert_type(number + np.float32(2**23), jnp.int32) & 0x7FFFFF


def _ground(tables: Tables, camera: Camera) -> Int[Array, "H W"]:
    """Walls, floor and sky, as packed colours."""
    rise = _rise(tables, camera)
    floor = rise < 0
    # In texels, less a half: the nearest whole number is then the one below.
    begin, depth = camera.place * TEXELS - 0.5, tables.floor_depth[:, None] * TEXELS
    rows, columns = tables.plan.shape
    # Rays that never meet the floor point anywhere, and those through glass beyond the map: to its last cells, as numbers below 0
    # become very large ones.
    x = jnp.minimum(_whole(begin[0] + depth * camera.along_x[None, :]), columns * TEXELS - 1)
    y = jnp.minimum(_whole(begin[1] + depth * camera.along_y[None, :]), rows * TEXELS - 1)
    below = tables.plan.reshape(-1).at[(y >> SHIFT) * columns + (x >> SHIFT)].get(mode="promise_in_bounds")
    on_wall = (_whole((WALL_HEIGHT - rise) * TEXELS - 0.5) & (TEXELS - 1)) << SHIFT | tables.texel[None, :]
    on_floor = (y & (TEXELS - 1)) << SHIFT | x & (TEXELS - 1)
    entry = jnp.where(floor, below, tables.entry[None, :])
    texel = jnp.where(floor, on_floor, on_wall)
    pattern = jnp.asarray(PATTERNS).at[((entry >> 24) << 2 * SHIFT) + texel].get(mode="promise_in_bounds").astype(jnp.int32)
    even = jnp.where(floor, tables.floor_even[:, None], tables.wall_even[None, :])
    by_pattern = jnp.where(floor, tables.floor_pattern[:, None], tables.wall_pattern[None, :])
    light = (even + by_pattern * pattern) >> 8
    light = jnp.where(entry >> 24 == CARPET, jnp.minimum(light * 7 >> 2, 255), light)
    # Nothing that is painted has the entry 0.
    return jnp.where((rise > WALL_HEIGHT) | (entry == 0), tables.sky[:, None], lit(entry, light))
