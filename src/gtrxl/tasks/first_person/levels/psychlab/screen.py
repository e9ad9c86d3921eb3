"""What the psychlab levels share: a screen that the gaze moves over, and what is painted on it.

H height and W width of the picture.

The screen hangs upright, `DISTANCE` before the eye, and is seen in perspective. Places on it are counted from its middle, east
and north positive, in units that a degree covers there. Nobody walks here: of a body, heading and pitch say where it looks.
"""

import abc
import dataclasses
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt8

from gtrxl.tasks.first_person.actions import Command
from gtrxl.tasks.first_person.level import REPEAT, Level, World, silence
from gtrxl.tasks.first_person.rooms import facing, paint, room
from gtrxl.tasks.first_person.scene import Body, Objects, Scene

DISTANCE = 180 / np.pi
"""From the eye to the middle of the screen."""
EDGE = 34.0
"""Where the screen ends."""
FRAME = 2.0
"""The width of the frame around it."""
TENTH = 0.1 * EDGE
"""Half the side of a button, and of the cross: a tenth of the screen is twice as much."""
FARTHEST = 30.0
"""Degrees to either side, and up and down, that one can look."""
ASIDE = 22.5
"""Degrees beside the middle that one looks at first, at most."""
BLACK, RED, GREEN, WHITE = (np.array(rgb) for rgb in ((20, 20, 20), (235, 70, 70), (70, 235, 70), (255, 255, 255)))
WALL = np.array([92, 96, 112])
"""What the screen hangs on."""


def gaze_of(body: Body) -> Float[Array, "2"]:
    """Where on the screen one looks."""
    return DISTANCE * jnp.stack([jnp.tan(body.heading), jnp.tan(body.pitch) / jnp.cos(body.heading)])


def angles_of(place: Float[Array, "2"]) -> Float[Array, "2"]:
    """Degrees to the right and up at which one looks at a place on the screen."""
    heading = jnp.arctan(place[0] / DISTANCE)
    return jnp.rad2deg(jnp.stack([heading, jnp.arctan(place[1] / DISTANCE * jnp.cos(heading))]))


class Pixels(eqx.Module):
    """Where on the screen each pixel of a picture is."""

    x: Float[Array, "H W"]
    y: Float[Array, "H W"]
    scale: float = eqx.field(static=True)
    """What a pixel covers in the middle of the screen, straight ahead."""

    @classmethod
    def seen(cls, body: Body, *, field: float, height: int, width: int) -> "Pixels":
        """By an eye whose picture is as wide as so much of the screen straight ahead."""
        scale = field / width
        right = (jnp.arange(width) + 0.5 - width / 2)[None, :] * (scale / DISTANCE)
        up = (height / 2 - jnp.arange(height) - 0.5)[:, None] * (scale / DISTANCE)
        # The ray of a pixel, turned up by the pitch and then aside by the heading.
        level, rise = jnp.cos(body.pitch) - up * jnp.sin(body.pitch), jnp.sin(body.pitch) + up * jnp.cos(body.pitch)
        aside = level * jnp.sin(body.heading) + right * jnp.cos(body.heading)
        ahead = jnp.maximum(level * jnp.cos(body.heading) - right * jnp.sin(body.heading), 0.05)
        return cls(x=DISTANCE * aside / ahead, y=DISTANCE * rise / ahead, scale=scale)

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

    field: ClassVar[float] = 76.0
    """How much of the screen the width of a picture shows."""
    mark: ClassVar[Int[np.ndarray, "3"]] = np.array([110, 110, 110])
    """The colour of the dot where one looks."""

    @abc.abstractmethod
    def paint(self, world: World, pixels: Pixels, empty: Int[Array, "H W 3"]) -> Int[Array, "H W 3"]:
        """The screen as it is now; `empty` is the screen with nothing on it, and what is around it."""

    def screen(self, own: Any, key: PRNGKeyArray) -> World:
        """A world of a screen alone; one looks somewhere beside its middle."""
        heading = jax.random.uniform(key, (), minval=-np.deg2rad(ASIDE), maxval=np.deg2rad(ASIDE))
        wall, floor = room(1, 1, wall=paint("white", "plain"), floor=paint("white", "plain"))
        scene = Scene(wall=wall, floor=floor, sky=jnp.int32(0), objects=Objects.none(1))
        body = eqx.tree_at(lambda of: of.heading, facing(jnp.full(2, 1.5)), heading)
        return World(scene=scene, body=body, own=own, instruction=silence())

    def move(self, world: World, command: Command) -> Body:
        """Moves the gaze and nothing else."""
        most = np.deg2rad(FARTHEST)
        heading = jnp.clip(world.body.heading + jnp.deg2rad(command.look_right) * REPEAT, -most, most)
        pitch = jnp.clip(world.body.pitch + jnp.deg2rad(command.look_up) * REPEAT, -most, most)
        return Body(place=world.body.place, heading=heading, pitch=pitch)

    def picture(self, world: World, *, height: int, width: int) -> UInt8[Array, "H W 3"]:
        """The part of the screen around the gaze; white, in a black frame."""
        pixels = Pixels.seen(world.body, field=self.field, height=height, width=width)
        behind = jnp.broadcast_to(jnp.asarray(WALL), (height, width, 3))
        framed = painted(pixels.square((0, 0), EDGE + max(FRAME, pixels.scale)), BLACK, behind)
        picture = self.paint(world, pixels, painted(pixels.square((0, 0), EDGE), WHITE, framed))
        # Where one looks, so that it can be aimed: in sides of even length the two pixels in the middle, or more.
        half = max(0.6, 0.9 / pixels.scale)
        row, column = (np.abs(np.arange(side) + 0.5 - side / 2) < half for side in (height, width))
        return painted(jnp.asarray(row[:, None] & column[None, :]), self.mark, picture).astype(jnp.uint8)
