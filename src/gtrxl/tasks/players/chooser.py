"""A navigator that takes some things and walks around the others, by what it has seen of them.

R rows and C columns of cells, N things.
"""

import dataclasses
from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from gtrxl.tasks.first_person.level import World
from gtrxl.tasks.first_person.scene import cell_of
from gtrxl.tasks.players.navigator import Navigator, Sketch

Worth = Callable[[World, Bool[Array, " N"]], Bool[Array, " N"]]
"""Which things are known to be worth taking, from those that have been in view. What was not in view must not matter."""


def everything(world: World, seen: Bool[Array, " N"]) -> Bool[Array, " N"]:
    """All that was seen."""
    return seen


@dataclasses.dataclass(frozen=True)
class Chooser(Navigator):
    """Goes to what is worth it, keeps out of the cells of the rest, and looks on while it knows of nothing."""

    worth: Worth = everything

    def sorted_out(self, notes: Sketch) -> tuple[Bool[Array, " N"], Bool[Array, "R C"]]:
        """What is worth it; the cells of what was seen and is not."""
        world = notes.state.world
        _, there = self.wanted(world)
        seen = notes.found & there
        good = self.worth(world, seen)
        row, column = cell_of(notes.place).T
        return seen & good, jnp.zeros_like(notes.seen).at[row, column].max(seen & ~good)


def all_forgotten(trial: Callable[[World], Int[Array, ""]]) -> Callable[[World], tuple[Int[Array, ""], Bool[Array, "R C"]]]:
    """For levels that draw a new map with each trial: nothing but the outer walls is known then."""

    def changes(world: World) -> tuple[Int[Array, ""], Bool[Array, "R C"]]:
        inside = jnp.zeros(world.scene.wall.shape, bool).at[1:-1, 1:-1].set(True)
        return trial(world), inside

    return changes
