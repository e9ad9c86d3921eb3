"""What is painted over a picture: a crosshair, bars that say how much of something is left, what one carries, a tint.

H height and W width of the picture. Positions and lengths are parts of its height or width, so it looks alike at every size.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, UInt8

from gtrxl.tasks.first_person.looks.materials import RGB

Colour = tuple[int, int, int]
SIDE, FROM_CORNER = 48 / 640, 12 / 640
"""Of the square, and how far it is from the edges, in widths of the picture."""


def crosshair(picture: UInt8[Array, "H W 3"], *, colour: Colour = (250, 250, 250)) -> UInt8[Array, "H W 3"]:
    """A small cross around the middle, with nothing in the middle itself."""
    height, width = picture.shape[:2]
    y, x = np.mgrid[0:height, 0:width] + 0.5
    off_x, off_y = np.abs(x - width / 2) / height, np.abs(y - height / 2) / height
    thin, near, far = max(0.008, 0.6 / height), 0.02, 0.055
    cross = ((off_x < thin) & (off_y > near) & (off_y < far)) | ((off_y < thin) & (off_x > near) & (off_x < far))
    return painted(picture, jnp.asarray(cross), colour)


def bar(
    picture: UInt8[Array, "H W 3"],
    full: Float[Array, ""],
    *,
    left: float,
    right: float,
    top: float,
    bottom: float,
    colour: Colour,
) -> UInt8[Array, "H W 3"]:
    """A bar that is filled from its left end, `full` being 1; what is left of it is dark."""
    height, width = picture.shape[:2]
    y, x = (np.mgrid[0:height, 0:width] + 0.5) / np.array([height, width])[:, None, None]
    inside = (x >= left) & (x < right) & (y >= top) & (y < bottom)
    along = (x - left) / (right - left)
    picture = painted(picture, jnp.asarray(inside), (24, 24, 28))
    return painted(picture, jnp.asarray(inside) & (jnp.asarray(along, jnp.float32) < full), colour)


def tinted(picture: UInt8[Array, "H W 3"], tint: Float[Array, "3"]) -> UInt8[Array, "H W 3"]:
    """Every colour times a tint: (1, 1, 1) changes nothing."""
    return jnp.clip(picture * tint[None, None], 0, 255).astype(jnp.uint8)


def painted(picture: UInt8[Array, "H W 3"], where: Bool[Array, "H W"], colour: Colour) -> UInt8[Array, "H W 3"]:
    """One colour where it is wanted."""
    return jnp.where(where[..., None], jnp.asarray(colour, jnp.uint8)[None, None], picture)


def corner_square(picture: UInt8[Array, "H W 3"], colour: Int[Array, ""], shown: Bool[Array, ""]) -> UInt8[Array, "H W 3"]:
    """The picture with a filled square in its upper left corner, in one of COLOURS, if it is shown: what one carries. A thin
    white rim keeps a dark one apart from what is behind it."""
    height, width, _ = picture.shape
    first, last = FROM_CORNER * width, (FROM_CORNER + SIDE) * width
    rim = max(1.0, SIDE * width / 12)
    y, x = np.mgrid[0:height, 0:width] + 0.5

    def within(more: float) -> np.ndarray:
        return (x > first - more) & (x < last + more) & (y > first - more) & (y < last + more)

    paint = jnp.where(jnp.asarray(within(0.0))[..., None], jnp.asarray(RGB)[colour][None, None], 255.0).astype(jnp.uint8)
    return jnp.where(jnp.asarray(within(rim))[..., None] & shown, paint, picture)
