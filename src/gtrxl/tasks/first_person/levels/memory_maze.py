"""Memory Maze, the paper's: an apple among blocks, landmarks around the room, and the way back to it from elsewhere.

R rows and C columns of cells, N objects (the apple first, then the landmarks), A numbers that an action is shown as.
"""

import dataclasses
import functools
from typing import ClassVar

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from gtrxl.tasks.controls import Controls
from gtrxl.tasks.defaults import TaskDefaults
from gtrxl.tasks.errors import TaskError, in_range
from gtrxl.tasks.first_person.actions import HYBRID_NUMBERS, LOOK_PIXELS, OWN_PACE, REPEAT, Command, Pace, hybrid_command
from gtrxl.tasks.first_person.controls import HybridControls
from gtrxl.tasks.first_person.level import Level, Verdict, World, seconds, silence
from gtrxl.tasks.first_person.mazes import far_from, pick, stand
from gtrxl.tasks.first_person.motion import touching
from gtrxl.tasks.first_person.rooms import choose
from gtrxl.tasks.first_person.scene import (
    BRIGHT,
    COLOURS,
    FREE,
    PATTERNS,
    SHAPES,
    WALL_HEIGHT,
    Body,
    Objects,
    Scene,
    cell_of,
    centre,
    wall_material,
)
from gtrxl.tasks.players.navigator import Navigator, first_object

CONTINUOUS, DISCRETE = "continuous", "discrete"
"""The parts of a hybrid action."""
LANDMARKS = tuple(SHAPES.index(name) for name in ("ball", "cube", "cone", "pillar", "ring", "cross", "diamond", "hat"))
"""What stands around the room: one of each, in another order and in other colours every episode."""
APPLE_SIZE, LANDMARK_SIZE = 0.5, 2.0
APPLE_COLOURS = tuple(COLOURS.index(name) for name in ("red", "green", "yellow", "magenta"))
"""The apple has the first one that none of outer walls, blocks and floor has: so it is seen."""
CHAMBER_FROM = 9
"""A room of at least so many cells has a central chamber."""


@dataclasses.dataclass(frozen=True)
class MemoryMaze(Level):
    """The paper's Memory Maze (not the project of that name from 2022, which is another task).

    A square room with blocks at regular distances, and in its middle a chamber with an opening on each side. All blocks look the
    same; eight tall landmarks on the outer walls, seen over the blocks, tell where one is. An apple lies somewhere between two
    blocks and stays there for the episode. Touching it pays 1 and puts the body at a random free cell, looking anywhere,
    so the return says how fast one finds back. Apple, landmarks and colours are drawn for each episode; the apple is red, or
    green, yellow or magenta where walls, blocks or floor are.

    The paper's own level is not public. From its text and its picture come chamber, blocks, landmarks, teleport, 72 x 96 pixels
    and the hybrid action set. Chosen here are 13 x 13 cells and 60 s, in which the player with a perfect memory finds the apple
    about 18 times. Nothing can be grasped in this world: what moves the hand is taken, shown in the next observation, and does
    nothing.
    """

    size: int = 13
    """Free cells a side; odd. 5 is a small room for quick trials."""
    episode_steps: int = seconds(60)
    simple_actions: int = 0
    """1: the 15 actions of the Lab levels in place of the hybrid ones."""

    pace: ClassVar[Pace] = OWN_PACE

    def __post_init__(self):
        super().__post_init__()
        in_range("size", self.size, least=3, most=31, hint="13 is the usual room, 5 a small one")
        in_range(
            "simple_actions", self.simple_actions, least=0, most=1, hint="1 is for the 15 Lab actions, 0 for the hybrid ones"
        )
        if self.size % 2 == 0:
            raise TaskError(f"size must be odd, got {self.size}; 13 is the usual room, 5 a small one")

    @property
    def action_space(self) -> gymnasium.spaces.Space:
        """8 numbers in [-1, 1] and a grip of 0 or 1; or one of the 15 Lab actions."""
        if self.simple_actions:
            return super().action_space
        return gymnasium.spaces.Dict(
            {
                CONTINUOUS: gymnasium.spaces.Box(-1.0, 1.0, (len(HYBRID_NUMBERS),), np.float32),
                DISCRETE: gymnasium.spaces.MultiDiscrete([2]),
            }
        )

    @property
    def shown(self) -> int:
        """The 8 numbers and the grip."""
        return super().shown if self.simple_actions else len(HYBRID_NUMBERS) + 1

    def command(self, action: PyTree) -> Command:
        """What an action does."""
        if self.simple_actions:
            return super().command(action)
        return hybrid_command(action[CONTINUOUS], action[DISCRETE][..., 0], self.pace)

    def show(self, action: PyTree) -> Float[Array, " A"]:
        """The numbers, cut off at -1 and 1, and the grip."""
        if self.simple_actions:
            return super().show(action)
        numbers = jnp.clip(jnp.asarray(action[CONTINUOUS], jnp.float32), -1.0, 1.0)
        return jnp.concatenate([numbers, jnp.asarray(action[DISCRETE]).astype(jnp.float32)])

    def build(self, key: PRNGKeyArray) -> World:
        """Puts the apple between two blocks, the landmarks around the room and the body anywhere."""
        apple_key, marks_key, theme_key, cell_key, heading_key = jax.random.split(key, 5)
        blocked, between = layout(self.size)
        apple = pick(apple_key, jnp.asarray(between), 1)[0]
        colours_key, patterns_key, sky_key = jax.random.split(theme_key, 3)
        colours = jax.random.permutation(colours_key, BRIGHT)
        patterns = jax.random.randint(patterns_key, (3,), 0, len(PATTERNS))
        outer, block, ground = wall_material(colours[:3], patterns)
        around = jnp.ones(blocked.shape, bool).at[1:-1, 1:-1].set(False)
        wall = jnp.where(around, outer, jnp.where(jnp.asarray(blocked), block, FREE))
        apples = jnp.asarray(APPLE_COLOURS)
        taken = jnp.any(apples[:, None] == colours[None, :3], axis=1)
        scene = Scene(
            wall=wall,
            floor=jnp.full(blocked.shape, ground),
            sky=jax.random.randint(sky_key, (), 0, BRIGHT),
            objects=_objects(marks_key, apple, apples[jnp.argmin(taken)], self.size),
        )
        cell = pick(cell_key, _starts(self.size, apple), 1)[0]
        return World(scene=scene, body=stand(heading_key, cell), own=None, instruction=silence())

    def judge(self, world: World, command: Command, key: PRNGKeyArray) -> Verdict:
        """The apple pays and puts one elsewhere."""
        objects = world.scene.objects
        found = touching(world.body, objects)[0]
        cell_key, heading_key = jax.random.split(key)
        cell = pick(cell_key, _starts(self.size, cell_of(objects.place[0])), 1)[0]
        body = choose(found, stand(heading_key, cell), world.body)
        return Verdict(
            world=World(scene=world.scene, body=body, own=world.own, instruction=world.instruction),
            reward=found.astype(jnp.float32),
            terminated=jnp.zeros((), bool),
        )

    def player(self) -> Navigator:
        """Draws a map, and wants the apple alone."""
        return (Navigator if self.simple_actions else HybridNavigator)(self, wanted=first_object)

    def controls(self) -> Controls:
        """Walking and looking, by numbers or by the Lab actions."""
        return super().controls() if self.simple_actions else HybridControls.usual()

    def defaults(self) -> TaskDefaults:
        """As a level; the paper has settings of its own for it."""
        return dataclasses.replace(super().defaults(), paper="memory_maze")


@dataclasses.dataclass(frozen=True)
class HybridNavigator(Navigator):
    """Walks by numbers: sideways and backwards too, while it turns, for that brings it nearer."""

    def steer(self, body: Body, place: Float[Array, "2"], *, look_first: Bool[Array, ""]) -> dict[str, Array]:
        """Eight numbers and a grip."""
        turn, only_turn = self.towards(body, place, look_first=look_first)
        most = float(np.deg2rad(LOOK_PIXELS * self.task.pace.degrees * REPEAT))
        rest = turn - jnp.clip(turn, -most, most)
        speed = jnp.where(only_turn, 0.0, 1.0)
        numbers = jnp.stack([jnp.clip(turn / most, -1, 1), jnp.float32(0), speed * jnp.sin(rest), speed * jnp.cos(rest)])
        return {CONTINUOUS: jnp.pad(numbers, (0, len(HYBRID_NUMBERS) - 4)), DISCRETE: jnp.zeros(1, jnp.int32)}


@functools.cache
def layout(size: int) -> tuple[Bool[np.ndarray, "R C"], Bool[np.ndarray, "R C"]]:
    """Where walls and blocks are, and the places for an apple: free cells with blocks (or a wall) on two opposite sides."""
    inside = np.zeros((size, size), bool)
    inside[1::2, 1::2] = True
    if size >= CHAMBER_FROM:
        middle = size // 2
        # A ring of 5 x 5 cells, from one row of blocks to another; whether blocks or lanes cross the middle depends on the size.
        ring = slice(middle - 2, middle + 3)
        inside[ring, ring] = True
        inside[middle - 1 : middle + 2, middle - 1 : middle + 2] = False
        inside[middle, ring] = inside[ring, middle] = False
    blocked = np.pad(inside, 1, constant_values=True)
    aside = blocked[1:-1, :-2] & blocked[1:-1, 2:]
    ahead = blocked[:-2, 1:-1] & blocked[2:, 1:-1]
    between = np.pad((aside ^ ahead) & ~blocked[1:-1, 1:-1], 1)
    if size >= CHAMBER_FROM:
        # An apple in an opening of the chamber would be seen from all of it.
        middle = size // 2 + 1
        between[middle - 2 : middle + 3, middle - 2 : middle + 3] = False
    return blocked, between


def _starts(size: int, apple: Int[Array, "2"]) -> Bool[Array, "R C"]:
    """The free cells that are neither the apple's nor next to it."""
    blocked, _ = layout(size)
    return jnp.asarray(~blocked) & far_from(apple, size=size + 2, least=2)


def _objects(key: PRNGKeyArray, apple: Int[Array, "2"], colour: Int[Array, ""], size: int) -> Objects:
    """The apple, and the landmarks on corners and middles of the outer walls."""
    shapes_key, colours_key = jax.random.split(key)
    ends = np.array([0, (size + 1) // 2, size + 1])
    cells = np.array([(row, column) for row in ends for column in ends if row % (size + 1) == 0 or column % (size + 1) == 0])
    count = len(LANDMARKS)
    shapes = jax.random.permutation(shapes_key, jnp.asarray(LANDMARKS, jnp.int32))
    colours = jax.random.permutation(colours_key, BRIGHT)[:count]
    return Objects(
        place=jnp.concatenate([centre(apple)[None], centre(jnp.asarray(cells, jnp.int32))]),
        shape=jnp.concatenate([jnp.array([SHAPES.index("apple")], jnp.int32), shapes]),
        colour=jnp.concatenate([colour[None], colours]),
        size=jnp.concatenate([jnp.full(1, APPLE_SIZE), jnp.full(count, LANDMARK_SIZE)]),
        lift=jnp.concatenate([jnp.zeros(1), jnp.full(count, WALL_HEIGHT)]),
        there=jnp.ones(count + 1, bool),
    )
