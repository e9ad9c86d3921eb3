"""Doors that a key of their colour opens: coloured fences that one sees through, each in a cell of its own.

R rows and C columns of cells, D doors.
"""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from gtrxl.tasks.first_person.rooms import standing
from gtrxl.tasks.first_person.scene import FREE, GLASS, RADIUS, SHAPES, Body, Objects, centre

NOTHING = -1
"""Carried, if one has no key."""
HAND = 0.05
"""How near to a door one must come to touch it, beyond the body's own width: walls push bodies off by a hair."""


class Locks(eqx.Module):
    """The doors of a level, shut or open; once open they stay open."""

    cell: Int[Array, "*s D 2"]
    """Row and column."""
    colour: Int[Array, "*s D"]
    """One of COLOURS by number; its key has the same."""
    shut: Bool[Array, "*s D"]
    """What is not shut is open, or was never a door."""

    def opened_by(self, body: Body, carried: Int[Array, ""]) -> Bool[Array, " D"]:
        """The door that a body touches and has the key of; one at most, as a key opens one door."""
        away = jnp.maximum(jnp.abs(centre(self.cell) - body.place[None, :]) - 0.5, 0.0)
        touched = jnp.sum(away**2, -1) < (RADIUS + HAND) ** 2
        fits = self.shut & touched & (self.colour == carried)
        return fits & (jnp.arange(fits.shape[0]) == jnp.argmax(fits))

    def without(self, opened: Bool[Array, " D"]) -> "Locks":
        """With these doors open."""
        return dataclasses.replace(self, shut=self.shut & ~opened)

    def open_in(self, wall: Int[Array, "R C"], opened: Bool[Array, " D"]) -> Int[Array, "R C"]:
        """Walls in which these doors are open now."""
        row, column = self.cell[:, 0], self.cell[:, 1]
        return wall.at[row, column].set(jnp.where(opened, FREE, wall[row, column]))

    def shut_in(self, wall: Int[Array, "R C"]) -> Int[Array, "R C"]:
        """Walls in which all doors that are shut keep bodies out; one sees through them."""
        row, column = self.cell[:, 0], self.cell[:, 1]
        return wall.at[row, column].set(jnp.where(self.shut, GLASS, wall[row, column]))

    def fences(self) -> Objects:
        """What is seen of the doors; those that are no doors are nowhere, at 0."""
        count = self.colour.shape[0]
        fences = standing(centre(self.cell), jnp.full(count, SHAPES.index("fence")), self.colour, size=1.0)
        return dataclasses.replace(fences, there=self.shut, place=jnp.where(self.shut[:, None], fences.place, 0.0))
