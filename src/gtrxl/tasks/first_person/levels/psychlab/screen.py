"""What the psychlab levels share: a screen that the gaze moves over, and what is painted on it.

H height and W width of the picture.

Places on the screen are in degrees from its middle; east and north are positive. Nobody walks here: of a body, heading and pitch
say where on the screen it looks.
"""

import abc
import dataclasses
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, UInt8

from gtrxl.tasks.first_person.actions import Command
from gtrxl.tasks.first_person.level import REPEAT, Level, World, silence
from gtrxl.tasks.first_person.rooms import facing, paint, room
from gtrxl.tasks.first_person.scene import Body, Objects, Scene

EDGE = 34.0
"""Where the screen ends."""
FARTHEST = 30.0
"""How far from the middle one can look."""
BLACK, RED, GREEN, WHITE = (np.array(rgb) for rgb in ((20, 20, 20), (235, 70, 70), (70, 235, 70), (255, 255, 255)))


def gaze_of(body: Body) -> Float[Array, "2"]:
    """Where on the screen one looks."""
    return jnp.rad2deg(jnp.stack([body.heading, body.pitch]))


class Pixels(eqx.Module):
    """Where on the screen each pixel of a picture is."""

    x: Float[Array, "H W"]
    y: Float[Array, "H W"]
    scale: float = eqx.field(static=True)
    """Degrees that a pixel covers."""

    @classmethod
    def around(cls, gaze: Float[Array, "2"], *, field: float, height: int, width: int) -> "Pixels":
        """With the gaze in the middle; the width shows so much of the screen."""
        scale = field / width
        x = gaze[0] + (jnp.arange(width) + 0.5 - width / 2)[None, :] * scale
        y = gaze[1] - (jnp.arange(height) + 0.5 - height / 2)[:, None] * scale
        x, y = jnp.broadcast_arrays(x, y)
        return cls(x=x, y=y, scale=scale)

    def square(self, middle: Any, half: float) -> Bool[Array, "H W"]:
        """Which are in a square, half of whose side is given."""
        return (jnp.abs(self.x - middle[0]) < half) & (jnp.abs(self.y - middle[1]) < half)

    def cross(self, half: float) -> Bool[Array, "H W"]:
        """Which are in an upright cross in the middle of the screen."""
        thick = max(1.2, 0.7 * self.scale)
        upright = (jnp.abs(self.x) < thick) & (jnp.abs(self.y) < half)
        level = (jnp.abs(self.y) < thick) & (jnp.abs(self.x) < half)
        return upright | level

    def cells(self, middle: Any, half: float, count: int) -> tuple[Int[Array, "H W"], Int[Array, "H W"]]:
        """Row and column of each in a square that is cut into `count` x `count` cells; those outside have the nearest."""
        cell = count / (2 * half)
        row = jnp.floor((middle[1] + half - self.y) * cell)
        column = jnp.floor((half - middle[0] + self.x) * cell)
        return jnp.clip(row, 0, count - 1).astype(jnp.int32), jnp.clip(column, 0, count - 1).astype(jnp.int32)


def painted(where: Bool[Array, "H W"], colour: Any, picture: Int[Array, "H W 3"]) -> Int[Array, "H W 3"]:
    """The picture with this colour, or other picture, in some places."""
    return jnp.where(where[..., None], colour, picture)


@dataclasses.dataclass(frozen=True)
class ScreenLevel(Level):
    """The base of the psychlab levels: what is on the screen is `paint`ed, and actions move the gaze."""

    field: ClassVar[float] = 64.0
    """How much of the screen the width of a picture shows."""
    ground: ClassVar[Int[np.ndarray, "3"]] = np.array([150, 150, 150])
    """The colour of the empty screen."""
    mark: ClassVar[Int[np.ndarray, "3"]] = WHITE
    """The colour of the dot where one looks."""
    mark_pixels: ClassVar[float] = 0.5
    """Half its side at least, in pixels. At 0.5 pictures with sides of even length and few pixels have none."""

    @abc.abstractmethod
    def paint(self, world: World, pixels: Pixels, empty: Int[Array, "H W 3"]) -> Int[Array, "H W 3"]:
        """The screen as it is now; `empty` is the screen with nothing on it, and what is around it."""

    def screen(self, own: Any, *, heading: Float[Array, ""] | float = 0.0) -> World:
        """A world of a screen alone; one looks so far (in radians) beside its middle."""
        wall, floor = room(1, 1, wall=paint("white", "plain"), floor=paint("white", "plain"))
        scene = Scene(wall=wall, floor=floor, sky=jnp.int32(0), objects=Objects.none(1))
        body = eqx.tree_at(lambda of: of.heading, facing(jnp.full(2, 1.5)), jnp.float32(heading))
        return World(scene=scene, body=body, own=own, instruction=silence())

    def move(self, world: World, command: Command) -> Body:
        """Moves the gaze and nothing else: `heading` and `pitch` say where on the screen it is."""
        most = np.deg2rad(FARTHEST)
        heading = jnp.clip(world.body.heading + jnp.deg2rad(command.look_right) * REPEAT, -most, most)
        pitch = jnp.clip(world.body.pitch + jnp.deg2rad(command.look_up) * REPEAT, -most, most)
        return Body(place=world.body.place, heading=heading, pitch=pitch)

    def picture(self, world: World, *, height: int, width: int) -> UInt8[Array, "H W 3"]:
        """The part of the screen around the gaze."""
        gaze = gaze_of(world.body)
        pixels = Pixels.around(gaze, field=self.field, height=height, width=width)
        empty = painted(pixels.square((0, 0), EDGE), self.ground, jnp.broadcast_to(jnp.asarray(BLACK), (height, width, 3)))
        picture = self.paint(world, pixels, empty)
        # Where one looks, so that it can be aimed.
        return painted(pixels.square(gaze, max(0.6, self.mark_pixels * pixels.scale)), self.mark, picture).astype(jnp.uint8)
