"""The objects of a scene, drawn over the picture of its walls and floor.

N objects, H height and W width of the picture.

An upright object is a drawing that always faces the eye. A column of a drawing is two words, whose bits are its rows: so what a
pixel shows is a shift by its row of the word of its column, and no pixel looks anything up. Only objects in sight are drawn,
the farthest first.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from gtrxl.tasks.first_person.camera import Camera, dimmed, pack
from gtrxl.tasks.first_person.looks import shapes
from gtrxl.tasks.first_person.looks.materials import RGB, TEXELS
from gtrxl.tasks.first_person.scene import EYES, SHAPES, WALL_HEIGHT, Objects

NEAREST = 0.1
"""Objects nearer than this are not drawn: one is inside them."""
BORDER = 0.8
"""How much of a pad's side is inside its border."""
WORDS = shapes.words()
INKS = shapes.inks()
PAD = SHAPES.index("pad")


class Drawn(eqx.Module):
    """Upright objects as the picture needs them: by column, by row, and which are drawn in what order."""

    low: Int[Array, "N W"]
    """The words of the low bits of the inks; 0 beside the object."""
    high: Int[Array, "N W"]
    bit: Int[Array, "N H"]
    """The row of the drawing; TEXELS, which no word reaches, above and below it."""
    front: Bool[Array, "N W"]
    """Before the wall."""
    deep: Float[Array, " N"]
    """How deep each is."""
    inks: Int[Array, "N 4"]
    """Packed colours."""
    order: Int[Array, " N"]
    """From the farthest to the nearest; only the first `count` are in sight."""
    count: Int[Array, ""]


def pads(objects: Objects) -> Bool[Array, " N"]:
    """The objects that lie on the floor."""
    return objects.there & (objects.shape == PAD)


def colours(objects: Objects, deep: Float[Array, " N"]) -> Int[Array, "N 4"]:
    """Each object's packed colour in each ink, as light falls at its depth."""
    ink = jnp.asarray(INKS)[objects.shape]
    rgb = jnp.asarray(RGB)[objects.colour][:, None, :] * ink[:, :, :1] + ink[:, :, 1:]
    return pack(rgb * dimmed(jnp.maximum(deep, 0.0))[:, None, None])


def prepared(objects: Objects, camera: Camera, depth: Float[Array, " W"]) -> Drawn:
    """All that can be said of the objects by column and by row; `depth` is that of the walls."""
    count = objects.shape.shape[0]
    away = objects.place - camera.place[None, :]
    deep = away[:, 0] * camera.ahead[0] + away[:, 1] * camera.ahead[1]
    aside = away[:, 1] * camera.ahead[0] - away[:, 0] * camera.ahead[1]
    u = (camera.across[None, :] * deep[:, None] - aside[:, None]) / objects.size[:, None] + 0.5
    v = (EYES + deep[:, None] * camera.slope[None, :] - objects.lift[:, None]) / objects.size[:, None]
    beside = (u < 0) | (u >= 1)
    column = jnp.clip((u * TEXELS).astype(jnp.int32), 0, TEXELS - 1)
    low, high = (jnp.where(beside, 0, jnp.asarray(word)[objects.shape[:, None], column]) for word in WORDS)
    front = deep[:, None] < depth[None, :]
    # What stands behind a wall is in sight where the line over the wall's top passes below the object's.
    top = objects.lift + objects.size - EYES + 1e-3
    over = top[:, None] * depth[None, :] > (WALL_HEIGHT - EYES) * deep[:, None]
    upright = objects.there & (objects.shape != PAD) & (deep > NEAREST)
    seen = upright & jnp.any(~beside & (front | over), 1)
    number = np.arange(count)
    farther = (deep[None, :] > deep[:, None]) | ((deep[None, :] == deep[:, None]) & (number[None, :] < number[:, None]))
    rank = jnp.where(seen, jnp.sum(seen[None, :] & farther, 1), -1)
    return Drawn(
        low=low,
        high=high,
        bit=jnp.where((v >= 0) & (v < 1), (v * TEXELS).astype(jnp.int32), TEXELS),
        front=front,
        deep=deep,
        inks=colours(objects, deep),
        order=jnp.argmax(rank[None, :] == number[:, None], 1).astype(jnp.int32),
        count=jnp.sum(seen),
    )


def draw(picture: Int[Array, "H W"], drawn: Drawn, sky: Bool[Array, "H W"]) -> Int[Array, "H W"]:
    """The picture with the upright objects in it: before the walls, and in the sky above them."""
    return _one_by_one(picture, drawn, lambda number: drawn.front[number][None, :] | sky)


def draw_among(picture: Int[Array, "H W"], drawn: Drawn, depth: Float[Array, "H W"]) -> Int[Array, "H W"]:
    """The picture with the upright objects in it, where nothing that a pixel shows is nearer."""
    return _one_by_one(picture, drawn, lambda number: drawn.deep[number] < depth)


def _one_by_one(
    picture: Int[Array, "H W"], drawn: Drawn, before: Callable[[Int[Array, ""]], Bool[Array, "H W"]]
) -> Int[Array, "H W"]:
    def one(step: Int[Array, ""], picture: Int[Array, "H W"]) -> Int[Array, "H W"]:
        number = drawn.order[step]
        row = jnp.broadcast_to(drawn.bit[number][:, None], picture.shape)
        low, high = (
            jax.lax.shift_right_logical(jnp.broadcast_to(word[number][None, :], picture.shape), row) & 1
            for word in (drawn.low, drawn.high)
        )
        shown = (low | high == 1) & before(number)
        dark, middle, light = (drawn.inks[number, ink] for ink in (shapes.DARK, shapes.MIDDLE, shapes.LIGHT))
        return jnp.where(shown, jnp.where(high == 0, dark, jnp.where(low == 0, middle, light)), picture)

    return jax.lax.fori_loop(0, drawn.count, one, picture)


def lay(picture: Int[Array, "H W"], objects: Objects, camera: Camera, floor: Bool[Array, "H W"]) -> Int[Array, "H W"]:
    """The picture with the pads on its floor: squares with a darker border, along the axes of the map."""
    x, y = camera.floor_at()
    flat = pads(objects)
    inks = colours(objects, jnp.hypot(*(objects.place - camera.place[None, :]).T))

    def one(number: Int[Array, ""], picture: Int[Array, "H W"]) -> Int[Array, "H W"]:
        off = jnp.maximum(jnp.abs(x - objects.place[number, 0]), jnp.abs(y - objects.place[number, 1]))
        half = objects.size[number] / 2
        paint = jnp.where(off < BORDER * half, inks[number, shapes.MIDDLE], inks[number, shapes.DARK])
        return jnp.where(floor & (off < half) & flat[number], paint, picture)

    return jax.lax.fori_loop(0, objects.shape.shape[0], one, picture)
