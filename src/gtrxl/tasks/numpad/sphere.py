"""A solid sphere that is pushed, rolls, slides, jumps and lands on a flat platform with a rim. One physics step at a time.

The floor can only push up, and its friction is Coulomb's: it stops the slip between sphere and floor within the step if that
needs no more than FRICTION times what the floor pushes with, and else brakes it with that much. While nothing slips a rolling
resistance brakes the roll. All contacts are inelastic. The rim is a smooth wall that no jump clears.
Metres, kilograms, seconds.
"""

import dataclasses
import math

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

MASS = 1.0
RADIUS = 0.1
GRAVITY = 9.81
FRICTION = 0.7
"""Coulomb's coefficient between sphere and floor."""
ROLLING = 0.002
"""Rolling resistance as a lever arm: its torque is this times the floor's force."""
DRAG = 4.0
"""Force against motion in the plane, for each metre per second."""
PUSH = 12.0
"""The force of a full push along one axis. It acts at the sphere's centre, on the ground and in the air."""
JUMP = 2.0
"""Upward speed at the start of a jump."""
PHYSICS_STEP = 0.01

TOP_SPEED = PUSH / DRAG
"""No push makes the sphere faster than this along an axis."""
TOP_HEIGHT = JUMP**2 / (2 * GRAVITY)
"""No jump rises higher than this."""

INERTIA = 2 / 5
"""Of a solid sphere, in units of mass times radius squared."""
_STICK = INERTIA / (1 + INERTIA)
"""Share of the slip that friction takes from the velocity to end it; the rest goes to the roll."""
_LEFT = math.exp(-PHYSICS_STEP * DRAG / MASS)
"""Share of a velocity that drag leaves after one step in the air."""


class Sphere(eqx.Module):
    """Where the sphere is and how it moves: x and y from the platform's middle, and the gap between sphere and floor.

    `roll_x` and `roll_y` are its angular velocity w, as the velocity at which it would roll without slipping:
    RADIUS * (w_y, -w_x). Nothing here turns it about the vertical.
    Single numbers, not vectors: a loop over many spheres is faster with them.
    """

    x: Float[Array, ""]
    y: Float[Array, ""]
    height: Float[Array, ""]
    speed_x: Float[Array, ""]
    speed_y: Float[Array, ""]
    speed_up: Float[Array, ""]
    roll_x: Float[Array, ""]
    roll_y: Float[Array, ""]

    @property
    def grounded(self) -> Bool[Array, ""]:
        """Whether it stands or rolls on the floor."""
        return (self.height <= 0) & (self.speed_up <= 0)

    @property
    def position(self) -> Float[Array, "3"]:
        """x, y, height."""
        return jnp.stack([self.x, self.y, self.height])

    @property
    def velocity(self) -> Float[Array, "3"]:
        """Along x, along y, upwards."""
        return jnp.stack([self.speed_x, self.speed_y, self.speed_up])

    @property
    def roll(self) -> Float[Array, "2"]:
        """Equal to the velocity in the plane while nothing slips."""
        return jnp.stack([self.roll_x, self.roll_y])


def moving(*, position: Float[Array, "3"], velocity: Float[Array, "3"], roll: Float[Array, "2"]) -> Sphere:
    """The sphere with this state."""
    x, y, height = position
    speed_x, speed_y, speed_up = velocity
    roll_x, roll_y = roll
    return Sphere(x=x, y=y, height=height, speed_x=speed_x, speed_y=speed_y, speed_up=speed_up, roll_x=roll_x, roll_y=roll_y)


def at_rest(place: Float[Array, "2"]) -> Sphere:
    """A sphere that lies still at x and y."""
    return moving(position=jnp.append(place, 0.0), velocity=jnp.zeros(3), roll=jnp.zeros(2))


def jump(sphere: Sphere, wanted: Bool[Array, ""]) -> Sphere:
    """Takes off, if that is wanted and the sphere is on the ground."""
    up = jnp.where(wanted & sphere.grounded, JUMP, sphere.speed_up)
    return dataclasses.replace(sphere, speed_up=up)


def advance(sphere: Sphere, push: Float[Array, "2"], reach: float) -> Sphere:
    """One physics step under a push in [-1, 1]^2; `reach` is how far the rim lets the centre go along each axis."""
    vx, vy, vz, rx, ry = sphere.speed_x, sphere.speed_y, sphere.speed_up, sphere.roll_x, sphere.roll_y

    # Push and drag act exactly as on a sphere in the air; then the floor has its say, and the new velocity moves the sphere.
    vx = TOP_SPEED * push[0] + (vx - TOP_SPEED * push[0]) * _LEFT
    vy = TOP_SPEED * push[1] + (vy - TOP_SPEED * push[1]) * _LEFT
    vz = vz - PHYSICS_STEP * GRAVITY

    # All impulses are per mass. The floor's ends the fall.
    touches = sphere.height + PHYSICS_STEP * vz <= 0
    support = jnp.where(touches, -vz, 0.0)
    sx, sy = vx - rx, vy - ry
    slip = jnp.sqrt(sx * sx + sy * sy)
    grip = jnp.minimum(_STICK, FRICTION * support / jnp.maximum(slip, 1e-6))
    vx, vy = vx - grip * sx, vy - grip * sy
    rx, ry = rx + grip / INERTIA * sx, ry + grip / INERTIA * sy

    speed = jnp.sqrt(rx * rx + ry * ry)
    braked = ROLLING / RADIUS / (1 + INERTIA) * support
    kept = jnp.where(grip == _STICK, jnp.maximum(0.0, 1 - braked / jnp.maximum(speed, 1e-6)), 1.0)
    vx, vy, rx, ry = vx * kept, vy * kept, rx * kept, ry * kept

    vz = jnp.where(touches, 0.0, vz)
    height = jnp.where(touches, 0.0, sphere.height + PHYSICS_STEP * vz)
    x, vx = _within_rim(sphere.x + PHYSICS_STEP * vx, vx, reach)
    y, vy = _within_rim(sphere.y + PHYSICS_STEP * vy, vy, reach)
    return Sphere(x=x, y=y, height=height, speed_x=vx, speed_y=vy, speed_up=vz, roll_x=rx, roll_y=ry)


def _within_rim(place: Float[Array, ""], speed: Float[Array, ""], reach: float) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Stops the motion along one axis at the rim."""
    inside = jnp.clip(place, -reach, reach)
    return inside, jnp.where(inside == place, speed, 0.0)
