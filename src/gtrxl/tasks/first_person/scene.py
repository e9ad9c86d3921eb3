"""What a first-person world is made of: cells, objects, and the body that looks at them.

R rows and C columns of cells, N objects. Lengths are in cells. The cell in row r and column c covers c <= x < c + 1 and
r <= y < r + 1: x grows to the east, y to the south. A heading of 0 looks east, and it grows to the right: (cos, sin) is where
one looks. A pitch above 0 looks up. Both are in radians. Walls, eyes and objects are measured from the floor at 0; a wall is
`WALL_HEIGHT` high.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from gtrxl.tasks.first_person.looks.figures import FIGURES

WALL_HEIGHT = 1.0
EYES = 0.5
"""How high the eyes are."""
RADIUS = 0.2
"""Of the body: it comes no nearer to a wall than this."""

FREE = 0
"""In `Scene.wall`: nothing stands here."""

COLOURS = ("red", "green", "blue", "yellow", "magenta", "cyan", "orange", "white", "purple", "brown", "black", "grey")
"""What objects and walls are painted with, by number."""
BRIGHT = 10
"""So many of the first colours are light enough for walls and skies that are drawn at random; the others are taken by name."""
PATTERNS = ("plain", "bricks", "stripes", "checks", "dots", "planks")
"""What walls are covered with, by number."""
SHAPES = ("ball", "cube", "cone", "pillar", "ring", "cross", "diamond",
          "apple", "cake", "car", "cassette", "hat", "tv", "pad", "flag",
          "balloon", "banana", "bottle", "can", "chair", "cherries", "cow", "flower", "fork", "fridge", "guitar", "hair_brush",
          "hammer", "ice_lolly", "jug", "key", "knife", "ladder", "mug", "pencil", "pig", "pincer", "plant", "saxophone", "shoe",
          "spoon", "suitcase", "tennis_racket", "tomato", "toothbrush", "tree", "wine_glass", "zebra", "fence",
          *FIGURES)  # fmt: skip
"""What objects look like, by number; all can be told apart at a distance of some cells. A pad lies flat on the floor."""


def wall_material(colour: int | Int[Array, "*n"], pattern: int | Int[Array, "*n"]) -> Int[Array, "*n"]:
    """The number in `Scene.wall` of a wall with this colour and this pattern."""
    return 1 + jnp.asarray(colour, jnp.int32) * len(PATTERNS) + pattern


DOOR = 1 + len(COLOURS) * len(PATTERNS)
"""The number of a closed door; an open one is `FREE`."""
GLASS = DOOR + 1
"""The number of a wall that stops a body and nothing else: one looks through it."""


def carpet(colour: int | Int[Array, "*n"]) -> Int[Array, "*n"]:
    """The number in `Scene.floor` of a floor whose colour is to be recognised: plain, and in more light than other floors."""
    return GLASS + 1 + jnp.asarray(colour, jnp.int32)


PICTURES = ("apple", "banana", "bottle", "car", "chair", "cow", "flower", "guitar", "hat", "key", "mug", "pig", "shoe", "tree",
            "tv", "zebra")  # fmt: skip
"""What pictures on walls show, by number."""


def picture(colour: int | Int[Array, "*n"], number: int | Int[Array, "*n"]) -> Int[Array, "*n"]:
    """The number in `Scene.wall` of a wall that is covered by a picture, painted in one colour."""
    return GLASS + 1 + len(COLOURS) + jnp.asarray(colour, jnp.int32) * len(PICTURES) + number


class Objects(eqx.Module):
    """N things in the world. They stand upright, are as wide as they are high, and nobody bumps into them."""

    place: Float[Array, "*s N 2"]
    """x and y."""
    shape: Int[Array, "*s N"]
    colour: Int[Array, "*s N"]
    size: Float[Array, "*s N"]
    lift: Float[Array, "*s N"]
    """How high its lower end is: a landmark above `WALL_HEIGHT` is seen over the walls."""
    there: Bool[Array, "*s N"]
    """What is not there is neither seen nor touched."""

    @classmethod
    def none(cls, count: int) -> "Objects":
        """Room for so many, none of them there."""
        zeros = jnp.zeros(count)
        return cls(
            place=jnp.zeros((count, 2)),
            shape=jnp.zeros(count, jnp.int32),
            colour=jnp.zeros(count, jnp.int32),
            size=zeros + 0.5,
            lift=zeros,
            there=jnp.zeros(count, bool),
        )


class Scene(eqx.Module):
    """All that can be seen. The outermost cells must be walls: nobody walks out. Beyond walls of glass there is the sky."""

    wall: Int[Array, "*s R C"]
    """FREE, `wall_material(...)`, `picture(...)`, DOOR or GLASS."""
    floor: Int[Array, "*s R C"]
    """`wall_material(...)` or `carpet(...)` of the floor in each cell; FREE where there is none: one looks into the sky below.
    If the outermost cells are glass they must have none."""
    sky: Int[Array, "*s"]
    """The colour of the sky, one of COLOURS by number."""
    objects: Objects
    ground: Float[Array, "*s R C"] | None = None
    """How high the floor of each cell is (heights.py); None where all of it is at 0."""


class Body(eqx.Module):
    """Where one stands and looks."""

    place: Float[Array, "*s 2"]
    heading: Float[Array, "*s"]
    pitch: Float[Array, "*s"]


def centre(cell: Int[Array, "*n 2"]) -> Float[Array, "*n 2"]:
    """The middle of a cell (row, column) as a place (x, y)."""
    return cell[..., ::-1] + 0.5


def cell_of(place: Float[Array, "*n 2"]) -> Int[Array, "*n 2"]:
    """The cell (row, column) of a place."""
    return jnp.floor(place[..., ::-1]).astype(jnp.int32)
