"""DMLab-30's explore levels in a maze: find the goal again and again, with doors that change or without; gather apples.

These are re-creations in this world by the rules of DeepMind Lab's levels, with its names; not the levels themselves. In all of
them the maze, its looks and what is to be found stay for an episode; each restart puts the body at another place in a room.

R rows and C columns of cells, N apples, S places to start from.
"""

import abc
import dataclasses
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from gtrxl.tasks.errors import TaskError, in_range
from gtrxl.tasks.first_person.actions import Command
from gtrxl.tasks.first_person.level import Level, Verdict, World, seconds, silence
from gtrxl.tasks.first_person.mazes import (
    NO_ROOM,
    Maze,
    carve,
    close_doors,
    far_from,
    paint,
    pick,
    rooms_a_side,
    shut,
    stand,
    unlike,
)
from gtrxl.tasks.first_person.motion import touching
from gtrxl.tasks.first_person.rooms import choose, standing
from gtrxl.tasks.first_person.scene import FREE, SHAPES, Objects, Scene, cell_of, centre
from gtrxl.tasks.players.navigator import Navigator

STARTS = 5
"""Places that one can be put at, for each room of a maze."""
APPLE_PLACES = 4
"""In each room; half of all hold an apple."""
GOAL_REWARD = 10.0
APPLE_REWARD = 1.0
LOOPS, LOOPS_WITH_DOORS = 0.0, 0.4
"""The share of possible further openings of rooms that a maze has; mazes with doors have some, so that they can be shut."""


class Exploring(eqx.Module):
    """What the rules of an explore level keep."""

    starts: Int[Array, "*s S 2"]
    """Cells that one can be put at."""
    start: Int[Array, "*s"]
    """The one of them that it was last."""
    restarts: Int[Array, "*s"]
    """How often the level has begun anew in this episode."""
    door: Bool[Array, "*s R C"]
    """Where doors may stand; nowhere in a level without."""


@dataclasses.dataclass(frozen=True)
class Explore(Level):
    """What the explore levels share: a maze, and restarts inside an episode."""

    size: int = 11
    """Cells a side of the maze with its outer walls: 11 is DMLab-30's small one, with 4 rooms; 17 its large one, with 9."""
    episode_steps: int = seconds(90)

    loops: ClassVar[float] = LOOPS
    doors: ClassVar[bool] = False

    def __post_init__(self):
        super().__post_init__()
        hint = "DMLab-30's mazes have 11 (small) and 17 (large)"
        in_range("size", self.size, least=7, most=21, hint=hint)
        if self.size % 2 == 0:
            raise TaskError(f"size must be odd, got {self.size}; {hint}")

    @abc.abstractmethod
    def furnish(self, key: PRNGKeyArray, maze: Maze, floor: Int[Array, "R C"]) -> Objects:
        """What there is to be found, in another colour than the walls and the floor around it."""

    def build(self, key: PRNGKeyArray) -> World:
        """Carves, paints and furnishes a maze, and puts the body into it."""
        maze_key, paint_key, things_key, starts_key, first_key, doors_key = jax.random.split(key, 6)
        maze = carve(maze_key, size=self.size, loops=self.loops)
        wall, floor, sky = paint(paint_key, maze)
        objects = self.furnish(things_key, maze, floor)
        starts = self.starts(starts_key, maze, objects)
        door = maze.door if self.doors else jnp.zeros_like(maze.door)
        if self.doors:
            wall = shut(wall, door, close_doors(doors_key, maze.free, door))
        return World(
            scene=Scene(wall=wall, floor=floor, sky=sky, objects=objects),
            body=stand(first_key, starts[0]),
            own=Exploring(starts=starts, start=jnp.int32(0), restarts=jnp.int32(0), door=door),
            instruction=silence(),
        )

    def starts(self, key: PRNGKeyArray, maze: Maze, objects: Objects) -> Int[Array, "S 2"]:
        """Where one can be put: in rooms, five times as many places as there are, but not on the goal nor next to it. A maze
        with one room has too few such places, and takes corridors too."""
        rooms = rooms_a_side(self.size) ** 2
        inside = maze.room != NO_ROOM if rooms > 1 else maze.free & ~maze.door
        return pick(key, inside & far_from(cell_of(objects.place[0]), size=self.size, least=2), STARTS * rooms)

    def player(self) -> Navigator:
        """Draws a map, and forgets the doors of it at every restart."""
        return Navigator(self, changes=_doors)

    def restart(self, world: World, key: PRNGKeyArray, *, wanted: Bool[Array, ""]) -> World:
        """The world with the body at another of its places, and the doors anew, if `wanted`; else as it was."""
        place_key, heading_key, doors_key = jax.random.split(key, 3)
        own = world.own
        count = own.starts.shape[0]
        start = (own.start + jax.random.randint(place_key, (), 1, count)) % count
        body = choose(wanted, stand(heading_key, own.starts[start]), world.body)
        own = Exploring(
            starts=own.starts,
            start=jnp.where(wanted, start, own.start),
            restarts=own.restarts + wanted.astype(jnp.int32),
            door=own.door,
        )
        world = World(scene=world.scene, body=body, own=own, instruction=world.instruction)
        if not self.doors:
            return world
        wall = world.scene.wall
        closed = close_doors(doors_key, (wall == FREE) | own.door, own.door, wanted=wanted)
        wall = jnp.where(wanted, shut(wall, own.door, closed), wall)
        return eqx.tree_at(lambda of: of.scene.wall, world, wall)


@dataclasses.dataclass(frozen=True)
class GoalLocations(Explore):
    """`explore_goal_locations_small` and `_large`: find the goal, and then find back to it from elsewhere.

    A flag stands in a room of a maze. Touching it pays 10 and restarts the level: one is put at another place in a room, looking
    anywhere; flag, maze and looks stay for the episode. All rooms look alike, and all corridors; pictures on a tenth of the walls
    tell where one is. Only one way leads from place to place. The flag is yellow, in yellow rooms blue. Small: 11 x 11 cells, 4
    rooms, 90 s. Large: 17 x 17, 9 rooms, 120 s.

    Unlike the original: the flag may stand in any cell of any room, not at one of 4 or 5 marked ones; the five places to start
    from for each room are drawn from all rooms together; a picture covers a whole wall, on all sides of its cell; a restart takes
    no time.
    """

    def furnish(self, key: PRNGKeyArray, maze: Maze, floor: Int[Array, "R C"]) -> Objects:
        """The flag."""
        room_key, cell_key = jax.random.split(key)
        room = jax.random.randint(room_key, (), 0, jnp.max(maze.room) + 1)
        cell = pick(cell_key, maze.room == room, 1)
        colour = unlike(floor, cell, usual="yellow", otherwise="blue")
        return standing(centre(cell), _all(1, SHAPES.index("flag")), colour, size=0.7)

    def judge(self, world: World, command: Command, key: PRNGKeyArray) -> Verdict:
        """The flag pays and restarts."""
        found = touching(world.body, world.scene.objects)[0]
        return Verdict(
            world=self.restart(world, key, wanted=found),
            reward=jnp.where(found, GOAL_REWARD, 0.0),
            terminated=jnp.zeros((), bool),
        )


@dataclasses.dataclass(frozen=True)
class ObstructedGoals(GoalLocations):
    """`explore_obstructed_goals_small` and `_large`: the same, where the way must be found anew each time.

    Rooms have more openings, each with a door. At the start and at every restart half of the doors that can be spared are shut,
    drawn anew; a way from everywhere to everywhere always exists. Doors do not open by themselves.

    Unlike the original: an open door looks like an opening; otherwise as goal_locations.
    """

    loops: ClassVar[float] = LOOPS_WITH_DOORS
    doors: ClassVar[bool] = True


@dataclasses.dataclass(frozen=True)
class ObjectLocations(Explore):
    """`explore_object_locations_small` and `_large`: gather all apples, again and again.

    Apples lie on half of the places of a maze, four in each room, red ones, in red rooms green. Each pays 1 and is gone. When all
    are taken the level restarts: all are back where they were, and one is put elsewhere. Maze and looks stay for the episode.
    Small: 11 x 11 cells, 4 rooms, 8 apples, 90 s. Large: 17 x 17 cells, 9 rooms of 3 x 3, 18 apples, 120 s.

    Unlike the original: there are always four and nine rooms; otherwise as goal_locations.
    """

    def furnish(self, key: PRNGKeyArray, maze: Maze, floor: Int[Array, "R C"]) -> Objects:
        """Apples on half of the places."""
        places_key, half_key = jax.random.split(key)
        rooms = rooms_a_side(self.size) ** 2
        of_room = jax.vmap(lambda key, room: pick(key, maze.room == room, APPLE_PLACES))
        places = of_room(jax.random.split(places_key, rooms), jnp.arange(rooms)).reshape(-1, 2)
        cells = jax.random.permutation(half_key, places)[: len(places) // 2]
        colour = unlike(floor, cells, usual="red", otherwise="green")
        return standing(centre(cells), _all(len(cells), SHAPES.index("apple")), colour, size=0.5)

    def starts(self, key: PRNGKeyArray, maze: Maze, objects: Objects) -> Int[Array, "S 2"]:
        """In rooms, where no apple is."""
        row, column = cell_of(objects.place).T
        return pick(key, (maze.room != NO_ROOM).at[row, column].set(False), STARTS * rooms_a_side(self.size) ** 2)

    def judge(self, world: World, command: Command, key: PRNGKeyArray) -> Verdict:
        """What is touched is taken; the last one restarts."""
        objects = world.scene.objects
        taken = touching(world.body, objects)
        left = objects.there & ~taken
        done = ~jnp.any(left)
        world = eqx.tree_at(lambda of: of.scene.objects.there, world, left | done)
        return Verdict(
            world=self.restart(world, key, wanted=done),
            reward=APPLE_REWARD * jnp.sum(taken).astype(jnp.float32),
            terminated=jnp.zeros((), bool),
        )


def _doors(world: World) -> tuple[Int[Array, ""], Bool[Array, "R C"]]:
    """How often the level began anew, and what may be another way since."""
    return world.own.restarts, world.own.door


def _all(count: int, value: int) -> Int[Array, " N"]:
    return jnp.full(count, value, jnp.int32)
