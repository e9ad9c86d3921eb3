"""natlab_fixed_large_map, natlab_varying_map_regrowth and natlab_varying_map_randomized: gather mushrooms in open country.

N objects: mushrooms first, then obstacles; R rows and C columns of cells.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt8

from gtrxl.tasks.errors import TaskError, in_range
from gtrxl.tasks.first_person.actions import LAB_ACTIONS, Command
from gtrxl.tasks.first_person.land.heights import ground_at
from gtrxl.tasks.first_person.land.terrain import RIM, bands, country, hills
from gtrxl.tasks.first_person.level import Level, LevelState, Verdict, World, seconds, silence
from gtrxl.tasks.first_person.looks.daylight import TIMES, lit_at, sky_at
from gtrxl.tasks.first_person.mazes import pick
from gtrxl.tasks.first_person.motion import clear_of, touching
from gtrxl.tasks.first_person.returning import NEVER, Returning
from gtrxl.tasks.first_person.rooms import any_heading, facing, standing
from gtrxl.tasks.first_person.scene import COLOURS, FREE, PATTERNS, RADIUS, SHAPES, Body, Scene, centre, wall_material
from gtrxl.tasks.players.steering import LOOK_ROUND, MARGIN, STRIDE, Discs, Shadow, in_view, steer

MAPS = 100
"""Different countries of the varying levels; the fixed one is none of them."""
STARTS = 10
REGROWTH = (seconds(48), seconds(72))
"""Each mushroom has its own time between these."""
MUSHROOM = 0.45
"""Their size."""
APART, OBSTACLES_APART = 0.2, 0.05
"""How far from the middle of its cell a mushroom may stand, and an obstacle: one can walk through between any two."""
KINDS = ("rock", "cactus", "shrub")
_KIND_SHAPE = np.array([SHAPES.index(name) for name in KINDS])
_KIND_COLOUR = np.array([COLOURS.index(name) for name in ("brown", "green", "green")])
_KIND_SIZE = np.array([1.1, 1.3, 0.8], np.float32)
_KIND_RADIUS = np.array([0.42, 0.2, 0.28], np.float32)
_SOILS = ("brown", "orange", "orange", "yellow")
"""Of the ground, from low to high."""


class Country(eqx.Module):
    """What an episode keeps."""

    number: Int[Array, "*s"]
    """Of the map."""
    time: Int[Array, "*s"]
    """Of the day, one of `TIMES`."""
    radius: Float[Array, "*s N"]
    """Of obstacles; 0 of mushrooms."""
    planted: Bool[Array, "*s N"]
    """The mushrooms of this map."""
    returning: Returning


@dataclasses.dataclass(frozen=True)
class Forage(Level):
    """Gentle hills in a ring of cliffs, with rocks, cacti and shrubs that one has to walk round, and mushrooms: each pays 1
    when one walks over it. A map has its hills, obstacles, mushrooms, ten places to start from and (but for the fixed one) its
    time of the day: day, dawn or night; an episode begins at one of the places, looking anywhere. 120 s.

    `natlab_varying_map_regrowth`: one of 100 maps of 20 x 20 cells with 5 to 27 mushrooms, each of which is back after its own
    time of 48 to 72 s. `natlab_varying_map_randomized`: one of 100 maps with 11 to 72 mushrooms that do not come back.
    `natlab_fixed_large_map`: always the same map of 36 x 36 cells, with 100 mushrooms that do not come back; the time of the
    day is drawn for the episode.

    Unlike DMLab-30's: maps, numbers of obstacles, and the number of mushrooms of the fixed map are this world's; all numbers of
    mushrooms between the least and the most are as likely; the ground rises in steps from cell to cell, too low to be felt;
    obstacles are flat drawings that face the eye; cliffs end the country.
    """

    side: int = 20
    """Cells along a side of the country, without its cliffs."""
    least: int = 5
    """Mushrooms of a map."""
    most: int = 27
    obstacles: int = 40
    regrow: int = 1
    """0: what is taken does not come back."""
    fixed: int = 0
    """1: always the same map, at different times of the day."""
    episode_steps: int = seconds(120)

    def __post_init__(self):
        super().__post_init__()
        in_range("side", self.side, least=8, most=60, hint="DMLab-30's have about 20 and 36")
        in_range("least", self.least, least=1, hint="DMLab-30's have 5 (regrowth) and 11 (randomized)")
        in_range("most", self.most, least=1, hint="DMLab-30's have 27 (regrowth) and 72 (randomized)")
        in_range("obstacles", self.obstacles, least=1, hint="the usual maps have 40")
        in_range("regrow", self.regrow, least=0, most=1, hint="1: mushrooms come back")
        in_range("fixed", self.fixed, least=0, most=1, hint="1: always the same map")
        if self.most < self.least:
            raise TaskError(
                f"most must be at least `least` ({self.least}), got {self.most}; a map has as many mushrooms as are drawn"
            )
        room = (self.side - 2) ** 2 // 2
        if self.most + self.obstacles + STARTS > room:
            raise TaskError(
                f"mushrooms and obstacles must be at most {room - STARTS} together, "
                f"got {self.most + self.obstacles}; make side larger"
            )

    def build(self, key: PRNGKeyArray) -> World:
        """Draws a map, and a place to start from."""
        number_key, start_key, heading_key, time_key = jax.random.split(key, 4)
        number = jnp.int32(MAPS) if self.fixed else jax.random.randint(number_key, (), 0, MAPS)
        world, starts = self._map(number)
        place = starts[jax.random.randint(start_key, (), 0, STARTS)]
        world = dataclasses.replace(world, body=facing(place, any_heading(heading_key)))
        if not self.fixed:
            return world
        time = jax.random.randint(time_key, (), 0, len(TIMES))
        return eqx.tree_at(lambda of: (of.own.time, of.scene.sky), world, (time, sky_at(time)))

    def move(self, world: World, command: Command) -> Body:
        """Round obstacles, too."""
        return clear_of(super().move(world, command), world.scene.objects.place, world.own.radius)

    def judge(self, world: World, command: Command, key: PRNGKeyArray) -> Verdict:
        """What is walked over is taken."""
        own: Country = world.own
        taken = touching(world.body, world.scene.objects) & own.planted
        returning = own.returning.step(taken)
        there = jnp.where(own.planted, returning.there, own.radius > 0)
        world = eqx.tree_at(lambda of: (of.scene.objects.there, of.own.returning), world, (there, returning))
        return Verdict(world=world, reward=jnp.sum(taken).astype(jnp.float32), terminated=jnp.zeros((), bool))

    def overlay(self, world: World, picture: UInt8[Array, "H W 3"]) -> UInt8[Array, "H W 3"]:
        """The light of the day."""
        return lit_at(picture, world.own.time)

    def player(self) -> "ForagePlayer":
        """Takes what it sees, and goes where it was longest ago."""
        return ForagePlayer(self)

    def _map(self, number: Int[Array, ""]) -> tuple[World, Float[Array, "S 2"]]:
        """A map by its number, with nobody in it yet, and the places to start from."""
        map_key = jax.random.fold_in(jax.random.key(self.side), number)
        hills_key, cells_key, off_key, count_key, kind_key, again_key, time_key = jax.random.split(map_key, 7)
        ground = hills(hills_key, self.side)
        # Every second cell, and not at the cliffs: whatever stands there, one can walk round it.
        spaced = np.zeros(ground.shape, bool)
        spaced[RIM + 1 : -RIM - 1, RIM + 1 : -RIM - 1] = True
        spaced &= np.indices(ground.shape).sum(0) % 2 == 0
        cells = pick(cells_key, jnp.asarray(spaced), self.most + self.obstacles + STARTS)
        place, starts = centre(cells[:-STARTS]), centre(cells[-STARTS:]).astype(jnp.float32)
        mushroom = np.arange(self.most + self.obstacles) < self.most
        off = jax.random.uniform(off_key, place.shape, minval=-1.0, maxval=1.0)
        place = place + off * np.where(mushroom, APART, OBSTACLES_APART)[:, None]
        planted = jnp.asarray(mushroom) & (
            jnp.arange(mushroom.size) < jax.random.randint(count_key, (), self.least, self.most + 1)
        )
        kind = jax.random.randint(kind_key, mushroom.shape, 0, len(KINDS))
        objects = standing(
            jnp.where((planted | ~mushroom)[:, None], place, 0.0),
            jnp.where(mushroom, SHAPES.index("mushroom"), jnp.asarray(_KIND_SHAPE)[kind]),
            jnp.where(mushroom, COLOURS.index("red"), jnp.asarray(_KIND_COLOUR)[kind]),
        )
        radius = jnp.where(mushroom, 0.0, jnp.asarray(_KIND_RADIUS)[kind])
        objects = dataclasses.replace(
            objects,
            size=jnp.where(mushroom, MUSHROOM, jnp.asarray(_KIND_SIZE)[kind]),
            lift=ground_at(ground, place[:, 0], place[:, 1]),
            there=planted | (radius > 0),
        )
        again = jax.random.randint(again_key, mushroom.shape, REGROWTH[0], REGROWTH[1] + 1) if self.regrow else NEVER
        time = jax.random.randint(time_key, (), 0, len(TIMES))
        soil = jnp.array([COLOURS.index(name) for name in _SOILS])[bands(ground, count=len(_SOILS))]
        inside = jnp.asarray(country(self.side))
        floor = jnp.where(
            inside,
            wall_material(soil, PATTERNS.index("plain")),
            wall_material(COLOURS.index("brown"), PATTERNS.index("planks")),
        )
        edge = np.ones(ground.shape, bool)
        edge[1:-1, 1:-1] = False
        scene = Scene(
            wall=jnp.where(edge, wall_material(COLOURS.index("brown"), PATTERNS.index("planks")), FREE),
            floor=floor,
            sky=sky_at(time),
            objects=objects,
            ground=ground,
        )
        own = Country(
            number=number,
            time=time,
            radius=radius,
            planted=planted,
            returning=Returning.all_there(jnp.broadcast_to(jnp.asarray(again, jnp.int32), mushroom.shape)),
        )
        return World(scene=scene, body=facing(starts[0]), own=own, instruction=silence()), starts


SIGHT = 12.0
"""Cells as far as which the player makes out what stands there."""
OLD = seconds(40)
"""After so long without a look something new may have grown."""
AROUND = 14
"""Steps of large looks for a turn around."""
BACKWARD, ASIDE = (list(LAB_ACTIONS).index(name) for name in ("backward", "strafe right"))


class Gathering(eqx.Module):
    """What the player knows."""

    grows: Bool[Array, "*s N"]
    """Mushrooms that were there when they were last in view."""
    seen: Bool[Array, "*s N"]
    """What was in view at all: obstacles that are to be walked round."""
    looked: Int[Array, "*s R C"]
    """When each cell was last in view."""
    gone: Int[Array, "*s N"]
    """When it took each; -1 of those that it has not taken."""
    still: Int[Array, "*s"]
    """For how many steps it has not come on."""


@dataclasses.dataclass(frozen=True)
class ForagePlayer(Shadow):
    """Walks to the nearest mushroom that it knows of, round the obstacles that it has seen; if it knows of none, to the nearest
    cells that it has not looked at yet, and to where one will grow again. It sees over hills and through bushes."""

    task: Forage

    def first(self, state: LevelState) -> Gathering:
        """What is in view."""
        objects = state.world.scene.objects
        blank = jnp.zeros(objects.there.shape, bool)
        looked = jnp.full(state.world.scene.wall.shape, -OLD, jnp.int32)
        return self._look(
            Gathering(grows=blank, seen=blank, looked=looked, gone=jnp.full(blank.shape, -1), still=jnp.int32(0)), state
        )

    def choose(self, memory: Gathering, state: LevelState) -> Int[Array, ""]:
        """Gathers, or looks for more."""
        world, body = state.world, state.world.body
        place = world.scene.objects.place
        away = jnp.linalg.norm(place - body.place[None], axis=1)
        best = jnp.argmin(jnp.where(memory.grows, away, jnp.inf))
        middles = centre(jnp.asarray(np.moveaxis(np.indices(memory.looked.shape), 0, -1), jnp.int32)).astype(jnp.float32)
        far = jnp.linalg.norm(middles - body.place[None, None], axis=-1)
        age = jnp.clip((state.elapsed - memory.looked) / OLD, 0.0, 1.0)
        cost = jnp.where(jnp.asarray(country(self.task.side)), far + 60.0 * (1 - age), jnp.inf)
        unknown = middles.reshape(-1, 2)[jnp.argmin(cost)]
        # Where it took one there will be one again. The next that it could have, by the way there and the time that is left:
        ready = jnp.maximum(away / STRIDE, memory.gone + sum(REGROWTH) // 2 - state.elapsed)
        taken = (memory.gone >= 0) & ~memory.grows & bool(self.task.regrow)
        again = place[jnp.argmin(jnp.where(taken, ready, jnp.inf))]
        never_seen = jnp.any(jnp.asarray(country(self.task.side)) & (memory.looked < 0))
        target = jnp.where(jnp.any(memory.grows), place[best], jnp.where(never_seen | ~jnp.any(taken), unknown, again))
        clear = jnp.where(memory.seen & (world.own.radius > 0), world.own.radius + RADIUS + MARGIN / 2, 0.0)
        action = steer(body, target, around=Discs(wall=world.scene.wall, place=place, clear=clear))
        # Wedged between two obstacles it steps back and aside before it tries again.
        action = jnp.where(memory.still > 3, jnp.where(memory.still % 2 == 0, BACKWARD, ASIDE), action)
        return jnp.where(state.elapsed < AROUND, LOOK_ROUND, action)

    def learn(self, memory: Gathering, before: LevelState, action: Int[Array, ""], after: LevelState) -> Gathering:
        """What has come into view."""
        moved = jnp.linalg.norm(after.world.body.place - before.world.body.place)
        still = jnp.where((moved > 0.02) & (memory.still <= 3) | (memory.still > 8), 0, memory.still + 1)
        taken = before.world.scene.objects.there & ~after.world.scene.objects.there
        gone = jnp.where(taken, after.elapsed, memory.gone)
        return self._look(dataclasses.replace(memory, still=jnp.where(after.elapsed > AROUND, still, 0), gone=gone), after)

    def _look(self, memory: Gathering, state: LevelState) -> Gathering:
        world, body = state.world, state.world.body
        objects = world.scene.objects
        near = jnp.linalg.norm(objects.place - body.place[None], axis=1)
        view = (in_view(body, objects.place) & (near < SIGHT)) | (near < 1.0)
        cells = jnp.asarray(np.moveaxis(np.indices(memory.looked.shape), 0, -1), jnp.int32)
        middles = centre(cells).astype(jnp.float32)
        far = jnp.linalg.norm(middles - body.place[None, None], axis=-1)
        looked = (in_view(body, middles) & (far < SIGHT)) | (far < 1.0)
        grows = jnp.where(view, objects.there & world.own.planted, memory.grows)
        return Gathering(
            grows=grows,
            seen=memory.seen | (view & objects.there),
            looked=jnp.where(looked, state.elapsed, memory.looked),
            gone=memory.gone,
            still=memory.still,
        )
