"""What one carries, shown over the picture in a corner.

H height and W width of the picture.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, UInt8

from gtrxl.tasks.first_person.looks.materials import RGB

SIDE, FROM_CORNER = 48 / 640, 12 / 640
"""Of the square, and how far it is from the edges, in widths of the picture."""


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
