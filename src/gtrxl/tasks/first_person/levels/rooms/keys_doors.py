"""rooms_keys_doors_puzzle: open doors with keys, one key at a time, in an order that leads to the goal.

R rows and C columns of cells, N things, D doors.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray, UInt8

from gtrxl.tasks.first_person.actions import Command
from gtrxl.tasks.first_person.level import Level, LevelState, Verdict, World, seconds, silence
from gtrxl.tasks.first_person.levels.rooms.puzzle import EMPTY, GOAL, KEY, LOCKED, ONE, OTHER, ROOMS, SIDE, SOLID, Puzzle, puzzle
from gtrxl.tasks.first_person.mazes import UNREACHED, distances
from gtrxl.tasks.first_person.motion import touching
from gtrxl.tasks.first_person.overlay import corner_square
from gtrxl.tasks.first_person.parts.locks import NOTHING, Locks
from gtrxl.tasks.first_person.rooms import any_heading, facing, standing
from gtrxl.tasks.first_person.scene import COLOURS, FREE, GLASS, SHAPES, Objects, Scene, carpet, cell_of, centre
from gtrxl.tasks.players.steering import LOOK_ROUND, Discs, Shadow, steer

KEY_COLOURS = np.array([COLOURS.index(name) for name in ("red", "green", "blue", "white", "black")], np.int32)
"""Of keys and doors, as the puzzle numbers them."""
WIDE, DEEP = 3, 2
"""Cells of a room; one cell of wall stands between rooms."""
ROWS, COLUMNS = SIDE * (DEEP + 1) + 1, SIDE * (WIDE + 1) + 1
KEY_REWARD, DOOR_REWARD, GOAL_REWARD = 1.0, 1.0, 50.0
PLACES = ROOMS * 2
"""Things that can be taken come first among the objects, two for each room; then the fences."""
CLEAR, CLOSE, PATIENCE = 1.04, 0.9, 200
"""How far a player stays from the middle of a door that its key is not meant for. With what `steer` allows this is a little less
than 1, the middle of the cell before it, and more than 0.957, where a corner of the door is touched. One that has not found a
way round after so many steps comes closer."""
ALL_ROUND = 15
"""Steps in which a player that looks round has seen everything."""

_CORNER = np.array([[1 + (DEEP + 1) * (room // SIDE), 1 + (WIDE + 1) * (room % SIDE)] for room in range(ROOMS)])
"""The upper left cell of each room."""
_THING_CELLS = np.stack([_CORNER, _CORNER + np.array([0, WIDE - 1])], axis=1).reshape(-1, 2)
_BESIDE = OTHER - ONE == 1
_DOOR_CELLS = np.where(_BESIDE[:, None], _CORNER[ONE] + np.array([DEEP - 1, WIDE]), _CORNER[ONE] + np.array([DEEP, WIDE // 2]))
"""Rooms side by side are joined in the front row, rooms above each other in the middle column."""


def _cells_of_rooms() -> Int[np.ndarray, "R C"]:
    found = np.full((ROWS, COLUMNS), -1, np.int32)
    for room, (row, column) in enumerate(_CORNER):
        found[row : row + DEEP, column : column + WIDE] = room
    return found


_ROOM = _cells_of_rooms()


class Carrying(eqx.Module):
    """What is known of the puzzle, and the key that one has."""

    puzzle: Puzzle
    locks: Locks
    carried: Int[Array, "*s"]
    """Its colour, one of COLOURS by number; NOTHING if there is none."""


@dataclasses.dataclass(frozen=True)
class KeysDoorsPuzzle(Level):
    """Up to nine small rooms float in the sky, with walls that cannot be seen: the floor ends where they are. Between some rooms
    stand coloured fences. Keys lie in the rooms: taking one pays 1, and its colour is shown in a corner of the picture. One can
    carry a single key; another takes its place, and the old one is lost. Walking up to a fence of the key's colour opens it for
    good, uses up the key, and pays 1. The goal, an orange ice lolly, pays 50 and ends the episode. So do 60 seconds.

    Each episode has a puzzle of its own: a chain of one to three doors leads to the goal, each with its own colour and its key in
    a room that can be reached before. Besides there is, where it fits, a room behind a door like one of the chain's that holds
    the key of the next one (who opens it has wasted a key), a room behind such a door with nothing in it, a room that cannot be
    opened, doors without keys, keys without doors. New rooms grow as near to the start as they can.

    Unlike DMLab-30's: what is not said of its generator is ours (the numbers are the original's: the lengths of the chain, how
    often a room is empty, how many doors and keys are of no use); fences are drawings that face the eye; there is nothing below
    the invisible walls; the episode ends with the goal, not 0.2 s after it.
    """

    episode_steps: int = seconds(60)

    def build(self, key: PRNGKeyArray) -> World:
        """A puzzle, and the body in the middle of its first room."""
        puzzle_key, heading_key = jax.random.split(key)
        drawn = puzzle(puzzle_key)
        kind = jnp.maximum(drawn.things - KEY, 0)
        goal = drawn.things == GOAL
        things = standing(
            centre(jnp.asarray(_THING_CELLS)),
            jnp.where(goal, SHAPES.index("ice_lolly"), SHAPES.index("key")),
            jnp.where(goal, COLOURS.index("orange"), jnp.asarray(KEY_COLOURS)[kind]),
            size=0.6,
        )
        there = drawn.things != EMPTY
        things = dataclasses.replace(things, there=there, place=jnp.where(there[:, None], things.place, 0.0))
        locks = Locks(
            cell=jnp.asarray(_DOOR_CELLS, jnp.int32),
            colour=jnp.asarray(KEY_COLOURS)[jnp.maximum(drawn.wall - LOCKED, 0)],
            shut=drawn.wall >= LOCKED,
        )
        wall, floor = _cells(drawn)
        objects = jax.tree.map(lambda one, other: jnp.concatenate([one, other]), things, locks.fences())
        body = facing(centre(jnp.asarray(_CORNER)[drawn.start] + jnp.array([DEEP - 1, WIDE // 2])), any_heading(heading_key))
        return World(
            scene=Scene(wall=locks.shut_in(wall), floor=floor, sky=jnp.int32(COLOURS.index("blue")), objects=objects),
            body=body,
            own=Carrying(puzzle=drawn, locks=locks, carried=jnp.int32(NOTHING)),
            instruction=silence(),
        )

    def judge(self, world: World, command: Command, key: PRNGKeyArray) -> Verdict:
        """Takes keys, opens doors, finds the goal."""
        own: Carrying = world.own
        objects: Objects = world.scene.objects
        opened = own.locks.opened_by(world.body, own.carried)
        carried = jnp.where(jnp.any(opened), NOTHING, own.carried)
        touched = touching(world.body, objects)[:PLACES]
        goal = jnp.any(touched & (own.puzzle.things == GOAL))
        took = touched & (own.puzzle.things >= KEY)
        carried = jnp.where(jnp.any(took), objects.colour[jnp.argmax(took)], carried)
        locks = own.locks.without(opened)
        there = jnp.concatenate([objects.there[:PLACES] & ~touched, locks.shut])
        reward = (
            KEY_REWARD * jnp.sum(took)
            + DOOR_REWARD * jnp.any(opened).astype(jnp.float32)
            + GOAL_REWARD * goal.astype(jnp.float32)
        )
        world = eqx.tree_at(
            lambda of: (of.scene.wall, of.scene.objects.there, of.own.locks, of.own.carried),
            world,
            (own.locks.open_in(world.scene.wall, opened), there, locks, carried.astype(jnp.int32)),
        )
        return Verdict(world=world, reward=reward, terminated=goal)

    def overlay(self, world: World, picture: UInt8[Array, "H W 3"]) -> UInt8[Array, "H W 3"]:
        """The colour of the key that one has."""
        carried = world.own.carried
        return corner_square(picture, jnp.maximum(carried, 0), carried != NOTHING)

    def player(self) -> "KeysDoorsPlayer":
        """Thinks before it acts."""
        return KeysDoorsPlayer(self)


def _cells(drawn: Puzzle) -> tuple[Int[Array, "R C"], Int[Array, "R C"]]:
    """Walls of glass around the rooms, with the ways between them open; a floor where one can walk."""
    inside = jnp.asarray(_ROOM >= 0) & drawn.used[jnp.asarray(np.maximum(_ROOM, 0))]
    row, column = _DOOR_CELLS.T
    walkable = inside.at[row, column].set(drawn.wall != SOLID)
    return jnp.where(walkable, FREE, GLASS), jnp.where(walkable, carpet(COLOURS.index("orange")), FREE)


class Looked(eqx.Module):
    """How long one has looked."""

    steps: Int[Array, "*s"]


@dataclasses.dataclass(frozen=True)
class KeysDoorsPlayer(Shadow):
    """Looks all round: nothing hides anything here, so it has seen the whole puzzle then. It takes the keys of the chain one by
    one, as one who has thought about it would, keeps away from the others, and takes what keys it can reach before the goal."""

    task: KeysDoorsPuzzle

    def first(self, state: LevelState) -> Looked:
        """Nothing yet."""
        return Looked(steps=jnp.int32(0))

    def choose(self, memory: Looked, state: LevelState) -> Int[Array, ""]:
        """Towards the next key or door of the chain; then to what is left, and to the goal."""
        world, own = state.world, state.world.own
        things = world.scene.objects.there[:PLACES]
        links = jnp.arange(own.puzzle.doors.shape[0])
        shut = (links < own.puzzle.links) & own.locks.shut[own.puzzle.doors]
        link = jnp.argmax(shut)
        door, place = own.puzzle.doors[link], own.puzzle.keys[link]
        to_door = jnp.any(shut) & (own.carried == own.locks.colour[door])
        to_key = jnp.any(shut) & ~to_door
        free = world.scene.wall == FREE
        row, column = _THING_CELLS.T
        goal = own.puzzle.things == GOAL
        # Once the way to the goal is open, keys that can be reached are worth having.
        here = cell_of(world.body.place)
        keys = jnp.zeros_like(free).at[row, column].max(things & ~goal)
        rest = free & ~jnp.zeros_like(free).at[row, column].max(things & goal)
        reached = distances(rest, jnp.zeros_like(free).at[here[0], here[1]].set(True)) < UNREACHED
        in_time = state.elapsed < self.task.episode_steps - seconds(20)
        more = jnp.any(keys & reached) & in_time
        targets = jnp.select(
            [to_door, to_key, more],
            [
                jnp.zeros_like(free).at[tuple(own.locks.cell[door])].set(True),
                jnp.zeros_like(free).at[jnp.asarray(row)[place], jnp.asarray(column)[place]].set(True),
                keys & reached,
            ],
            jnp.zeros_like(free).at[row, column].max(goal),
        )
        others = jnp.zeros_like(free).at[row, column].max(things) & ~targets
        # Other doors that the key would open are passed at a distance: one who brushes against them has wasted it.
        fits = own.locks.shut & (own.locks.colour == own.carried) & (jnp.arange(len(_DOOR_CELLS)) != door)
        clear = jnp.where(memory.steps < PATIENCE, CLEAR, CLOSE)
        others_fit = Discs(wall=world.scene.wall, place=centre(own.locks.cell), clear=jnp.where(fits, clear, 0.0))
        away = distances((free & ~others) | targets, targets, straight=5, diagonal=7)
        go = steer(world.body, centre(_next(away, here)), around=others_fit)
        return jnp.where(memory.steps < ALL_ROUND, LOOK_ROUND, go)

    def learn(self, memory: Looked, before: LevelState, action: Int[Array, ""], after: LevelState) -> Looked:
        """Time has passed."""
        return Looked(steps=memory.steps + 1)


_SHIFTS = np.array([(0, 1), (1, 0), (0, -1), (-1, 0), (1, 1), (1, -1), (-1, 1), (-1, -1)])
_COSTS = np.array([5] * 4 + [7] * 4)


def _next(away: Int[Array, "R C"], cell: Int[Array, "2"]) -> Int[Array, "2"]:
    """The next cell on the shortest way by these distances; across a corner only where both sides are free."""
    near = cell[None] + jnp.asarray(_SHIFTS)
    beside = (away[near[:, 0], cell[1]] < UNREACHED) & (away[cell[0], near[:, 1]] < UNREACHED)
    cost = away[near[:, 0], near[:, 1]] + jnp.asarray(_COSTS)
    best = jnp.argmin(jnp.where(beside, cost, 2 * UNREACHED))
    return jnp.where(away[cell[0], cell[1]] == 0, cell, near[best])
