"""The eye: which way it looks through each column and row of the picture, and how light and colours are kept.

H height and W width of the picture.

The field of view is 90 degrees from left to right. `depth` is measured along the line of sight, not along a ray, so straight
walls stay straight. Looking up or down shifts the picture instead of tilting it: upright things stay upright.
Colours are packed in one number, red in the lowest byte.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from gtrxl.tasks.first_person.scene import EYES, Body

FARTHEST = 64.0
"""Depth of the floor just below the horizon, where it would have none."""
NOWHERE = 1e6
"""Depth of what no ray meets."""
SIDES = 0.82
"""Light on walls that look east or west, so that corners are seen; the others have all of it."""


class Camera(eqx.Module):
    """A ray through column w has gone `depth * (along_x[w], along_y[w])` at some depth, and has risen by `depth * slope[h]`."""

    place: Float[Array, "2"]
    ahead: Float[Array, "2"]
    across: Float[Array, " W"]
    """How far to the right, for each unit of depth."""
    along_x: Float[Array, " W"]
    along_y: Float[Array, " W"]
    slope: Float[Array, " H"]

    @classmethod
    def of(cls, body: Body, *, height: int, width: int) -> "Camera":
        """The eye of a body."""
        focal = width / 2
        across = jnp.asarray((np.arange(width, dtype=np.float32) + 0.5 - width / 2) / focal, jnp.float32)
        rows = jnp.asarray((height / 2 - np.arange(height, dtype=np.float32) - 0.5) / focal, jnp.float32)
        x, y = jnp.cos(body.heading), jnp.sin(body.heading)
        return cls(
            place=body.place,
            ahead=jnp.stack([x, y]),
            across=across,
            along_x=x - across * y,
            along_y=y + across * x,
            slope=rows + jnp.tan(body.pitch),
        )

    @property
    def pixel(self) -> float:
        """How much a pixel covers at a depth of 1."""
        return 2 / self.across.shape[0]

    def floor_depth(self) -> Float[Array, " H"]:
        """Where the rays of a row meet the floor; those that never do, at FARTHEST."""
        return jnp.minimum(EYES / jnp.maximum(-self.slope, 1e-6), FARTHEST)

    def floor_at(self) -> tuple[Float[Array, "H W"], Float[Array, "H W"]]:
        """The places on the floor that are seen, if nothing is before them."""
        depth = self.floor_depth()[:, None]
        return self.place[0] + depth * self.along_x[None, :], self.place[1] + depth * self.along_y[None, :]


def dimmed(depth: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """How much light comes from a depth."""
    return 1 / (1 + 0.06 * depth)


def clear(covered: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """How much of a pattern is seen where a pixel covers so much of a cell: none when its details would only flicker."""
    return jnp.clip(1.6 - 8 * covered, 0.0, 1.0)


def pack(rgb: Float[Array, "*n 3"]) -> Int[Array, "*n"]:
    """Colours, 0 to 255, each as one number."""
    whole = jnp.clip(rgb, 0, 255).astype(jnp.int32)
    return whole[..., 0] | whole[..., 1] << 8 | whole[..., 2] << 16


def lit(colour: Int[Array, "*n"], light: Int[Array, "*n"]) -> Int[Array, "*n"]:
    """A packed colour under light, 255 being all of it: red and blue in one product, green in another."""
    c, by = colour.astype(jnp.uint32), light.astype(jnp.uint32)
    red_blue = ((c & 0xFF00FF) * by >> 8) & 0xFF00FF
    green = ((c & 0x00FF00) * by >> 8) & 0x00FF00
    return (red_blue | green).astype(jnp.int32)
