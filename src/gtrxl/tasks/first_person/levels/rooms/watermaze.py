"""rooms_watermaze: find a platform that cannot be seen, and find it again.

R rows and C columns of cells, L places of a search.
"""

import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from gtrxl.tasks.errors import in_range
from gtrxl.tasks.first_person.actions import REPEAT, Command
from gtrxl.tasks.first_person.level import Level, LevelState, Verdict, World, seconds, silence
from gtrxl.tasks.first_person.rooms import any_heading, choose, facing, paint, standing
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
    wall_material,
)
from gtrxl.tasks.players.steering import Shadow, nearest, steer

PLATFORM = 0
"""The object that is the platform; the landmarks come after it."""
PLATFORM_RADIUS = 0.8
"""One stands on the platform when one is nearer to its middle than this."""
LIMIT = 5
"""How often one visit pays."""
BETWEEN = 62
"""Frames from one of these times to the next, and from the first touch to the first."""
PLACES = 8
"""At the rim, where one can be put."""
LANDMARKS = 4
SECTORS = 8
"""Differently painted parts of the wall."""


class Pool(eqx.Module):
    """A visit of the platform."""

    held: Int[Array, "*s"]
    """Steps since the platform has risen; 0 while one swims."""


@dataclasses.dataclass(frozen=True)
class Watermaze(Level):
    """A round pool with a platform under the water. Once touched it is seen, and holds one for about five seconds: one can look
    round, but not leave. In that time it pays 1 every 62 frames, five times; then one is put at one of eight places at the rim,
    facing the middle, as at the start. The platform stays where it is for the whole episode and is seen only while it holds one.
    Eight differently painted parts of the wall and four tall landmarks beyond it, drawn anew for every episode, tell where one
    is.

    Unlike DMLab-30's: the pool is made of square cells, and its size is ours; the platform appears, but does not lift one up; the
    landmarks are this world's; one is never put onto the platform or right beside it while there is another place.
    """

    arena: int = 13
    """Cells across the pool."""
    episode_steps: int = seconds(120)

    def __post_init__(self):
        super().__post_init__()
        in_range("arena", self.arena, least=4, most=40, hint="the usual pool is 13 cells across")

    def build(self, key: PRNGKeyArray) -> World:
        """The pool, its landmarks, the platform and the first place."""
        colour_key, pattern_key, shape_key, platform_key, body_key = jax.random.split(key, 5)
        free, sector = _pool(self.arena)
        colours = jax.random.permutation(colour_key, BRIGHT)
        patterns = jax.random.randint(pattern_key, (SECTORS,), 0, len(PATTERNS))
        paints = wall_material(colours[:SECTORS], patterns)
        wall = jnp.where(free, FREE, paints[jnp.asarray(sector)])
        shapes = jax.random.permutation(shape_key, jnp.array([SHAPES.index(name) for name in ("ball", "cube", "cone", "cross")]))
        middle = self.arena / 2 + 1
        angle = 2 * np.pi * (np.arange(LANDMARKS) + 0.5) / LANDMARKS
        beyond = middle + (self.arena / 2 + 0.5) * np.stack([np.cos(angle), np.sin(angle)], 1)
        place = jnp.concatenate([self._anywhere(platform_key, PLATFORM_RADIUS / 2)[None], jnp.asarray(beyond, jnp.float32)])
        pad = jnp.array([SHAPES.index("pad")])
        # A landmark has the colour of the wall on the other side, so that it stands out from the wall below it.
        across = jnp.roll(colours[:SECTORS], SECTORS // 2)[:: SECTORS // LANDMARKS]
        objects = standing(
            place,
            jnp.concatenate([pad, shapes]),
            jnp.concatenate([jnp.array([COLOURS.index("yellow")]), across]),
        )
        size = jnp.array([2 * PLATFORM_RADIUS] + [1.6] * LANDMARKS)
        lift = jnp.array([0.0] + [WALL_HEIGHT] * LANDMARKS)
        objects = eqx.tree_at(lambda of: (of.size, of.lift), objects, (size, lift))
        floor = jnp.full(wall.shape, paint("cyan", "dots"))
        scene = Scene(wall=wall, floor=floor, sky=jnp.int32(COLOURS.index("cyan")), objects=objects)
        body = self._spawn(body_key, objects.place[PLATFORM])
        return self._shown(World(scene=scene, body=body, own=Pool(held=jnp.int32(0)), instruction=silence()))

    def judge(self, world: World, command: Command, key: PRNGKeyArray) -> Verdict:
        """The platform holds one, and pays; after the fifth time, elsewhere."""
        before: Pool = world.own
        held = jnp.where((before.held > 0) | self.on_platform(world), before.held + 1, 0)
        # It has risen in the step in which it was touched: frames are counted from the end of that one.
        times = self._times(held)
        pays = times > self._times(before.held)
        back = times >= LIMIT
        body = choose(back, self._spawn(key, world.scene.objects.place[PLATFORM]), world.body)
        world = dataclasses.replace(world, body=body, own=Pool(held=jnp.where(back, 0, held)))
        return Verdict(world=self._shown(world), reward=pays.astype(jnp.float32), terminated=jnp.zeros((), bool))

    def move(self, world: World, command: Command) -> Body:
        """On the platform one only looks."""
        free = world.own.held == 0
        return super().move(world, dataclasses.replace(command, move=command.move * free, strafe=command.strafe * free))

    def player(self) -> "WatermazePlayer":
        """Searches, and remembers the place."""
        return WatermazePlayer(self)

    def on_platform(self, world: World) -> Bool[Array, ""]:
        """Whether one stands on it."""
        away = world.scene.objects.place[PLATFORM] - world.body.place
        return jnp.sum(away**2) < PLATFORM_RADIUS**2

    def _shown(self, world: World) -> World:
        there = world.scene.objects.there.at[PLATFORM].set(world.own.held > 0)
        return eqx.tree_at(lambda of: of.scene.objects.there, world, there)

    def _anywhere(self, key: PRNGKeyArray, margin: float) -> Float[Array, "2"]:
        """Any place in the pool with the same chance, no nearer to its edge than a cell and `margin`."""
        far_key, angle_key = jax.random.split(key)
        far = (self.arena / 2 - 1 - margin) * jnp.sqrt(jax.random.uniform(far_key))
        angle = any_heading(angle_key)
        return self.arena / 2 + 1 + far * jnp.stack([jnp.cos(angle), jnp.sin(angle)])

    def _spawn(self, key: PRNGKeyArray, platform: Float[Array, "2"]) -> Body:
        """At one of the places at the rim, away from the platform if there is such a one."""
        angle = jnp.arange(PLACES) * (2 * np.pi / PLACES)
        out = jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=1)
        places = self.arena / 2 + 1 + (self.arena / 2 - 1) * out
        away = jnp.linalg.norm(places - platform[None], axis=1) > 2 * PLATFORM_RADIUS
        chosen = jnp.argmax(jax.random.uniform(key, (PLACES,)) + away)
        return facing(places[chosen], jnp.remainder(angle[chosen] + np.pi, 2 * np.pi))

    @staticmethod
    def _times(held: Int[Array, ""]) -> Int[Array, ""]:
        """How often it has paid after so many steps."""
        return jnp.maximum(held - 1, 0) * REPEAT // BETWEEN


@functools.cache
def _pool(arena: int) -> tuple[Bool[np.ndarray, "R C"], Int[np.ndarray, "R C"]]:
    """Which cells are water, and to which part of the wall each cell belongs."""
    y, x = np.mgrid[0 : arena + 2, 0 : arena + 2] + 0.5 - (arena / 2 + 1)
    sector = np.floor((np.arctan2(y, x) / (2 * np.pi) % 1) * SECTORS).astype(np.int32) % SECTORS
    return np.hypot(x, y) < arena / 2, sector


class Search(eqx.Module):
    """Where the platform can still be, and where it was."""

    possible: Bool[Array, "*s L"]
    found: Bool[Array, "*s"]
    place: Float[Array, "*s 2"]


@dataclasses.dataclass(frozen=True)
class WatermazePlayer(Shadow):
    """Walks to the nearest place that it has not ruled out until it stands on the platform, and later straight to it."""

    task: Watermaze

    def first(self, state: LevelState) -> Search:
        """It can be anywhere."""
        blank = Search(possible=jnp.ones(len(self._lattice), bool), found=jnp.zeros((), bool), place=jnp.zeros(2))
        return self._feel(blank, state.world)

    def choose(self, memory: Search, state: LevelState) -> Int[Array, ""]:
        """Searches, or goes back."""
        body, lattice = state.world.body, jnp.asarray(self._lattice)
        next_one, _ = nearest(body, lattice, memory.possible)
        return steer(body, jnp.where(memory.found, memory.place, lattice[next_one]))

    def learn(self, memory: Search, before: LevelState, action: Int[Array, ""], after: LevelState) -> Search:
        """Here it is, or not; once it was touched it is known."""
        moved = self.task.move(before.world, self.task.command(action))
        return self._feel(memory, dataclasses.replace(before.world, body=moved))

    def _feel(self, memory: Search, world: World) -> Search:
        on = self.task.on_platform(world)
        away = jnp.linalg.norm(jnp.asarray(self._lattice) - world.body.place[None], axis=1)
        objects: Objects = world.scene.objects
        return Search(
            possible=memory.possible & (away >= PLATFORM_RADIUS - 0.1),
            found=memory.found | on,
            place=jnp.where(on, objects.place[PLATFORM], memory.place),
        )

    @property
    def _lattice(self) -> Float[np.ndarray, "L 2"]:
        return _places(self.task.arena)


@functools.cache
def _places(arena: int) -> Float[np.ndarray, "L 2"]:
    """A lattice over where a platform can be."""
    steps = np.arange(1.0, arena + 1.01, 0.4)
    x, y = (each.ravel() for each in np.meshgrid(steps, steps))
    inside = np.hypot(x - arena / 2 - 1, y - arena / 2 - 1) <= arena / 2 - 1 - PLATFORM_RADIUS / 2
    return np.stack([x, y], 1)[inside].astype(np.float32)
