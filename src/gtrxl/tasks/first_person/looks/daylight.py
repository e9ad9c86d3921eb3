"""The light of the day: how bright the world is at day, at dawn and at night, and the sky over it.

H height and W width of the picture.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, UInt8

from gtrxl.tasks.first_person.looks.overlay import tinted
from gtrxl.tasks.first_person.scene import COLOURS

TIMES = ("dawn", "day", "night")
"""By number."""
_TINT = np.array([(0.98, 0.74, 0.66), (1.0, 1.0, 1.0), (0.34, 0.38, 0.58)], np.float32)
_SKY = np.array([COLOURS.index(name) for name in ("magenta", "blue", "blue")], np.int32)


def sky_at(time: Int[Array, ""]) -> Int[Array, ""]:
    """The colour of the sky, before it is lit."""
    return jnp.asarray(_SKY)[time]


def lit_at(picture: UInt8[Array, "H W 3"], time: Int[Array, ""]) -> UInt8[Array, "H W 3"]:
    """A picture in the light of that time."""
    return tinted(picture, jnp.asarray(_TINT)[time])
