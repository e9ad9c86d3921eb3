"""What levels of open rooms share: a room's cells, kinds of objects, places for them, and picking them up.

R rows and C columns of cells with the walls around them, N objects.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from gtrxl.tasks.first_person.scene import COLOURS, FREE, PATTERNS, SHAPES, Body, Objects, centre, wall_material

PLAIN_SHAPES = tuple(SHAPES.index(name) for name in ("ball", "cube", "cone", "pillar", "ring", "cross", "diamond"))
"""Those that `kind` is drawn from."""
PLAIN_COLOURS = tuple(COLOURS.index(name) for name in ("red", "green", "blue", "yellow", "magenta", "cyan", "white", "purple"))
"""Those that `kind` is drawn from; walls behind such objects are of another colour."""
KINDS = len(PLAIN_SHAPES) * len(PLAIN_COLOURS)
"""How many kinds there are; no two have both shape and colour in common."""


def kind(number: Int[Array, "*n"]) -> tuple[Int[Array, "*n"], Int[Array, "*n"]]:
    """Shape and colour of a kind. Two kinds whose numbers differ by less than 7 differ in both."""
    shapes, colours = jnp.asarray(PLAIN_SHAPES, jnp.int32), jnp.asarray(PLAIN_COLOURS, jnp.int32)
    return shapes[number % len(PLAIN_SHAPES)], colours[number % len(PLAIN_COLOURS)]


def paint(colour: str, pattern: str) -> Int[Array, ""]:
    """The material of a wall or a floor, by name."""
    return wall_material(COLOURS.index(colour), PATTERNS.index(pattern))


def room(rows: int, columns: int, *, wall: Int[Array, ""], floor: Int[Array, ""]) -> tuple[Int[Array, "R C"], Int[Array, "R C"]]:
    """Walls and floor of one room with so many free cells; the walls stand around them."""
    walls = jnp.full((rows + 2, columns + 2), wall).at[1:-1, 1:-1].set(FREE)
    return walls, jnp.full((rows + 2, columns + 2), floor)


def scatter(
    key: PRNGKeyArray, count: int, *, rows: int, columns: int, away: Float[Array, "2"] | None = None
) -> Float[Array, "N 2"]:
    """The middles of `count` different free cells of a room, none within a cell and a half of `away` while there are others."""
    cells = centre(jnp.asarray(np.argwhere(np.ones((rows, columns))) + 1, jnp.int32))
    order = jax.random.uniform(key, (rows * columns,))
    if away is not None:
        order = order + (jnp.linalg.norm(cells - away[None], axis=1) < 1.5)
    return cells[jnp.argsort(order)[:count]]


def standing(
    place: Float[Array, "N 2"], shape: Int[Array, " N"], colour: Int[Array, " N"], *, size: float = 0.5, lift: float = 0.0
) -> Objects:
    """Objects of one size, all of them there."""
    count = place.shape[0]
    return Objects(
        place=place,
        shape=shape.astype(jnp.int32),
        colour=colour.astype(jnp.int32),
        size=jnp.full(count, size),
        lift=jnp.full(count, lift),
        there=jnp.ones(count, bool),
    )


def facing(place: Float[Array, "2"], heading: float | Float[Array, ""] = 0.0) -> Body:
    """A body that looks level; east if nothing else is said."""
    return Body(place=place, heading=jnp.asarray(heading, jnp.float32), pitch=jnp.float32(0))


def any_heading(key: PRNGKeyArray) -> Float[Array, ""]:
    """Every direction as likely as every other."""
    return jax.random.uniform(key, (), minval=-jnp.pi, maxval=jnp.pi)


def choose(which: Bool[Array, ""], yes: PyTree, no: PyTree) -> PyTree:
    """One of two records of the same shapes."""
    return jax.tree.map(lambda a, b: jnp.where(which, a, b), yes, no)
