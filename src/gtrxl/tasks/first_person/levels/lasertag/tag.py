"""lasertag_one_opponent and _three_opponents, _small and _large: tag the others in a maze before they tag you.

B opponents, N things to take, S places to start from, K places that opponents go to, R rows and C columns of cells.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt8

from gtrxl.tasks.errors import TaskError, in_range
from gtrxl.tasks.first_person.actions import LAB_ACTIONS, Command
from gtrxl.tasks.first_person.level import Level, LevelState, Verdict, World, seconds, silence
from gtrxl.tasks.first_person.looks import overlay
from gtrxl.tasks.first_person.mazes import Rooms, carve, paint, pick
from gtrxl.tasks.first_person.motion import sees
from gtrxl.tasks.first_person.opponents import bots
from gtrxl.tasks.first_person.opponents.fighters import (
    FULL,
    HEALTH,
    LIGHTNING,
    MELEE,
    RAIL,
    SHOTS,
    Fighters,
    exchange,
    start_anew,
)
from gtrxl.tasks.first_person.returning import Returning
from gtrxl.tasks.first_person.rooms import choose, standing
from gtrxl.tasks.first_person.scene import COLOURS, RADIUS, SHAPES, Body, Scene, centre
from gtrxl.tasks.players.steering import HALF_VIEW, Shadow, bearing, steer

ROOM_STARTS = 3
"""Places in each room that one can start from; there are four rooms."""
LOOPS = 0.05
"""The share of possible further openings of rooms that a maze has."""
MEDICINE, ARMOUR = RAIL + 1, RAIL + 2
"""Things that are no guns; the numbers of guns are those of fighters.py."""
RESTORED = 50.0
"""Health or armour that such a thing gives."""
GUN_BACK, MEDICINE_BACK, ARMOUR_BACK = seconds(5), seconds(35), seconds(25)
"""Steps after which what was taken is back."""
SIZE, ITEM_SIZE = 0.95, 0.4
"""Of opponents, and of things."""
SUITS = (("red", "green", "blue"), ("yellow", "cyan", "magenta"), ("orange", "white", "purple"))
"""What the opponents wear: one of these triples, drawn for the episode."""
_LOOKS = (
    ("gun", "white"),
    ("gun", "white"),
    ("gun", "cyan"),
    ("gun", "red"),
    ("gun", "green"),
    ("cross", "red"),
    ("shield", "yellow"),
)
"""Of things, by their number: guns from melee to railgun (the first two never lie about), medicine, armour."""
_ITEM_SHAPE = np.array([SHAPES.index(shape) for shape, _ in _LOOKS])
_ITEM_COLOUR = np.array([COLOURS.index(colour) for _, colour in _LOOKS])
_GUN_PAINT = np.array([(120, 120, 126), (150, 150, 158), (60, 206, 220), (222, 48, 44), (64, 176, 68)], np.float32)
"""Of the gun in hand."""


class Arena(eqx.Module):
    """What a game of tag keeps."""

    fighters: Fighters
    minds: bots.Minds
    starts: Float[Array, "*s S 2"]
    ways: Int[Array, "*s K R C"]
    """How far each cell is from the places that opponents go to."""
    item: Int[Array, "*s N"]
    """What each thing is: a gun, `MEDICINE` or `ARMOUR`."""
    returning: Returning


@dataclasses.dataclass(frozen=True)
class LaserTag(Level):
    """A maze with four rooms, and one or three opponents that walk, see and shoot. Who loses all health is tagged: tagging an
    opponent pays 1, tagging oneself (with one's own rocket) costs 1, being tagged costs nothing but time. One is back after 1.7
    seconds by firing, at a place far from there. Opponents shoot at each other, too.

    All begin with a health of 125, which falls to 100, and a rapid gun of 100 shots (7 each, ten a second); without shots a
    blow at arm's length is left (50). Guns lie about (lightning, rocket launcher, railgun), and things that give 50 health or
    50 armour; they are taken by walking over them and come back. The best gun that has shots is in hand. Maze, things and
    colours are drawn for the episode. Small: 11 x 11 cells, one gun and two things; large: 21 x 21, two and four. 240 s. The
    picture has a crosshair, bars of health, armour and shots, and the gun; it is red when one is hurt, and dark while one is
    down.

    Unlike DMLab-30's: the maze always has four rooms and some blind corridors; bodies do not bump into each other; nobody
    jumps; shots, rockets too, arrive at once and are seen only as a flash; opponents are simpler: they go from place to place,
    do not look for the things they need, and go after whom they lost only to about where that was.
    """

    size: int = 11
    """Cells a side of the maze with its outer walls."""
    opponents: int = 1
    episode_steps: int = seconds(240)

    def __post_init__(self):
        super().__post_init__()
        hint = "DMLab-30's mazes have 11 (small) and 21 (large)"
        in_range("size", self.size, least=9, most=31, hint=hint)
        if self.size % 2 == 0:
            raise TaskError(f"size must be odd, got {self.size}; {hint}")
        in_range("opponents", self.opponents, least=1, most=6, hint="DMLab-30 has 1 and 3")

    @property
    def large(self) -> bool:
        """Whether there is room for larger rooms and more things."""
        return self.size > 15

    def build(self, key: PRNGKeyArray) -> World:
        """A maze with its things, and everybody somewhere in it."""
        maze_key, paint_key, spots_key, kinds_key, suit_key, put_key, heading_key, minds_key = jax.random.split(key, 8)
        rooms = Rooms(side=2, least=3, most=4) if self.large else Rooms(side=2, least=2, most=3)
        maze = carve(maze_key, size=self.size, loops=LOOPS, rooms=rooms)
        wall, floor, sky = paint(paint_key, maze)
        guns = 2 if self.large else 1
        count = 3 * guns
        spots = jax.random.split(spots_key, 5)
        starts = jnp.concatenate([pick(spots[room], maze.room == room, ROOM_STARTS) for room in range(4)])
        taken = jnp.zeros_like(maze.free).at[starts[:, 0], starts[:, 1]].set(True)
        things = pick(spots[4], maze.free & ~taken, count)
        kinds = jax.random.randint(kinds_key, (count,), 0, jnp.where(np.arange(count) < guns, RAIL - LIGHTNING + 1, 2))
        item = jnp.where(np.arange(count) < guns, LIGHTNING + kinds, MEDICINE + kinds).astype(jnp.int32)
        period = jnp.where(item <= RAIL, GUN_BACK, jnp.where(item == MEDICINE, MEDICINE_BACK, ARMOUR_BACK))
        order = jax.random.permutation(put_key, starts.shape[0])[: self.opponents + 1]
        heading = jax.random.uniform(heading_key, (self.opponents + 1,), maxval=2 * np.pi)
        fighters = Fighters.fresh(centre(starts[order]), heading)
        ways = bots.guide(maze.free, jnp.concatenate([starts, things]))
        triple, turn = jax.random.randint(suit_key, (2,), 0, 3)
        suits = jnp.asarray([[COLOURS.index(name) for name in suit] for suit in SUITS], jnp.int32)
        suit = suits[triple, (turn + np.arange(self.opponents)) % 3]
        objects = standing(
            jnp.concatenate([fighters.place[1:], centre(things).astype(jnp.float32)]),
            jnp.concatenate([jnp.full(self.opponents, SHAPES.index("bot")), jnp.asarray(_ITEM_SHAPE)[item]]),
            jnp.concatenate([suit, jnp.asarray(_ITEM_COLOUR)[item]]),
        )
        size = jnp.concatenate([jnp.full(self.opponents, SIZE), jnp.full(count, ITEM_SIZE)])
        own = Arena(
            fighters=fighters,
            minds=bots.Minds.calm(minds_key, self.opponents, ways.shape[0]),
            starts=centre(starts).astype(jnp.float32),
            ways=ways,
            item=item,
            returning=Returning.all_there(period),
        )
        scene = Scene(wall=wall, floor=floor, sky=sky, objects=dataclasses.replace(objects, size=size))
        return World(scene=scene, body=_body(fighters), own=own, instruction=silence())

    def move(self, world: World, command: Command) -> Body:
        """Who is down neither walks nor looks."""
        return choose(world.own.fighters.up[0], super().move(world, command), world.body)

    def judge(self, world: World, command: Command, key: PRNGKeyArray) -> Verdict:
        """Opponents move, all shoot, things are taken, and those who were tagged start anew."""
        bots_key, shots_key, starts_key = jax.random.split(key, 3)
        own: Arena = world.own
        wall, body = world.scene.wall, world.body
        fighters = eqx.tree_at(
            lambda of: (of.place, of.heading, of.pitch),
            own.fighters,
            (
                own.fighters.place.at[0].set(body.place),
                own.fighters.heading.at[0].set(body.heading),
                own.fighters.pitch.at[0].set(body.pitch),
            ),
        )
        fighters, minds, shoots, aside = bots.play(bots_key, wall, own.ways, fighters, own.minds)
        aimed = fighters.heading.at[1:].add(aside)
        shot = exchange(
            shots_key, wall, dataclasses.replace(fighters, heading=aimed), jnp.concatenate([command.fire[None], shoots])
        )
        fighters = dataclasses.replace(shot.fighters, heading=fighters.heading)
        by_agent = shot.tagged & (shot.by == 0)
        reward = jnp.sum(by_agent[1:]) - 1.0 * by_agent[0]
        fighters, returning = self._taken(fighters, own, world.scene.objects.place[self.opponents :])
        asks = jnp.concatenate([command.fire[None], jnp.ones(self.opponents, bool)])
        fighters = start_anew(starts_key, fighters, own.starts, asks)
        own = dataclasses.replace(own, fighters=fighters, minds=minds, returning=returning)
        world = dataclasses.replace(world, own=own, body=_body(fighters))
        return Verdict(world=self._shown(world), reward=reward, terminated=jnp.zeros((), bool))

    def overlay(self, world: World, picture: UInt8[Array, "H W 3"]) -> UInt8[Array, "H W 3"]:
        """Gun, crosshair, bars; red where it hurts."""
        fighters: Fighters = world.own.fighters
        height, width = picture.shape[:2]
        y, x = (np.mgrid[0:height, 0:width] + 0.5) / np.array([height, width])[:, None, None]
        barrel = (np.abs(x - 0.5 - 0.22 * (y - 0.72)) < 0.012 + 0.05 * (y - 0.72)) & (y > 0.78)
        gun = jnp.asarray(_GUN_PAINT)[fighters.gun[0]] * jnp.where(fighters.fired[0], 1.3, 0.8)
        picture = jnp.where(jnp.asarray(barrel)[..., None], jnp.clip(gun, 0, 255).astype(jnp.uint8)[None, None], picture)
        rim = np.maximum(np.abs(x - 0.5), np.abs(y - 0.5)) > 0.44
        picture = overlay.painted(picture, jnp.asarray(rim) & (fighters.hurt[0] > 0) & fighters.up[0], (200, 30, 30))
        picture = overlay.crosshair(picture)
        picture = overlay.tinted(picture, jnp.where(fighters.up[0], jnp.ones(3), jnp.array([0.55, 0.2, 0.2])))
        carried = fighters.shots[0, fighters.gun[0]] / jnp.maximum(jnp.asarray(SHOTS)[fighters.gun[0]], 1)
        picture = overlay.bar(
            picture, fighters.health[0] / HEALTH, colour=(64, 200, 72), left=0.03, right=0.4, top=0.93, bottom=0.98
        )
        picture = overlay.bar(
            picture, fighters.armour[0] / FULL, colour=(244, 214, 52), left=0.03, right=0.4, top=0.89, bottom=0.92
        )
        return overlay.bar(picture, carried, colour=(246, 142, 36), left=0.6, right=0.97, top=0.93, bottom=0.98)

    def player(self) -> "TagPlayer":
        """Goes from room to room, aims and fires."""
        return TagPlayer(self)

    def _taken(self, fighters: Fighters, own: Arena, place: Float[Array, "N 2"]) -> tuple[Fighters, Returning]:
        """What is walked over is taken, by one of those who do."""
        near = jnp.linalg.norm(fighters.place[:, None] - place[None], axis=-1) < RADIUS + ITEM_SIZE / 2
        # Nobody takes what would not help.
        lacks = jnp.stack([fighters.health < FULL, fighters.armour < FULL], 1)
        helps = jnp.where(own.item[None] <= RAIL, True, lacks[:, jnp.clip(own.item - MEDICINE, 0, 1)])
        takes = near & helps & fighters.up[:, None] & own.returning.there[None]
        takes &= jnp.cumsum(takes, 0) == 1
        kind = takes[..., None] & (own.item[:, None] == jnp.arange(ARMOUR + 1)[None])[None]
        got = jnp.any(kind, 1)
        shots = jnp.where(got[:, : RAIL + 1], jnp.asarray(SHOTS)[None], fighters.shots)
        health = jnp.where(got[:, MEDICINE], jnp.minimum(fighters.health + RESTORED, FULL), fighters.health)
        armour = jnp.where(got[:, ARMOUR], jnp.minimum(fighters.armour + RESTORED, FULL), fighters.armour)
        fighters = dataclasses.replace(fighters, shots=shots.astype(jnp.int32), health=health, armour=armour)
        return fighters, own.returning.step(jnp.any(takes, 0))

    def _shown(self, world: World) -> World:
        """The scene as the fighters are now."""
        fighters, objects = world.own.fighters, world.scene.objects
        count = self.opponents
        shape = jnp.where(fighters.fired[1:], SHAPES.index("shooter"), SHAPES.index("bot")).astype(jnp.int32)
        objects = dataclasses.replace(
            objects,
            place=objects.place.at[:count].set(fighters.place[1:]),
            shape=objects.shape.at[:count].set(shape),
            there=jnp.concatenate([fighters.up[1:], world.own.returning.there]),
        )
        return eqx.tree_at(lambda of: of.scene.objects, world, objects)


def _body(fighters: Fighters) -> Body:
    """The agent's."""
    return Body(place=fighters.place[0], heading=fighters.heading[0], pitch=fighters.pitch[0])


class Patrol(eqx.Module):
    """Where it goes while it sees nobody."""

    goal: Int[Array, "*s"]
    visited: Int[Array, "*s K"]
    """How often it was at each place."""
    lost: Int[Array, "*s"]
    """Steps since someone was in view."""


ACTION = {name: number for number, name in enumerate(LAB_ACTIONS)}


@dataclasses.dataclass(frozen=True)
class TagPlayer(Shadow):
    """Goes to the places of the maze that it was at least often, turns to who comes into view, aims by turning and by stepping
    aside, and fires. It knows the maze from the start; of opponents it knows those in view. If it is hurt and sees nobody it
    turns around."""

    task: LaserTag

    def first(self, state: LevelState) -> Patrol:
        """Nobody was seen."""
        places = state.world.own.ways.shape[0]
        return Patrol(goal=jnp.int32(0), visited=jnp.zeros(places, jnp.int32), lost=jnp.int32(1000))

    def choose(self, memory: Patrol, state: LevelState) -> Int[Array, ""]:
        """Fights, or goes on."""
        world, own = state.world, state.world.own
        body = world.body
        seen = self._seen(world)
        away = jnp.linalg.norm(own.fighters.place[1:] - body.place[None], axis=1)
        target = jnp.argmin(jnp.where(seen, away, jnp.inf))
        place, far = own.fighters.place[1:][target], away[target]
        turn = bearing(body, place)
        aside = far * jnp.sin(turn)
        hits = (jnp.abs(aside) < 0.2) & (jnp.abs(turn) < np.pi / 2)
        too_far = (own.fighters.gun[0] == MELEE) & (far > 0.8)
        large, small = (
            jnp.where(turn < 0, ACTION[f"{size} look left"], ACTION[f"{size} look right"]) for size in ("large", "small")
        )
        step = jnp.where(turn < 0, ACTION["strafe left"], ACTION["strafe right"])
        aim = jnp.where(jnp.abs(turn) > np.deg2rad(15.0), large, jnp.where(jnp.abs(turn) > np.deg2rad(2.5), small, step))
        fight = jnp.where(too_far, steer(body, place), jnp.where(hits, ACTION["fire"], aim))
        walk = steer(body, bots.next_place(own.ways[memory.goal], body.place))
        hurt = (own.fighters.hurt[0] > 0) & ~jnp.any(seen)
        go_on = jnp.where(hurt | ((memory.lost > 0) & (memory.lost < 8)), ACTION["large look right"], walk)
        return jnp.where(own.fighters.up[0], jnp.where(jnp.any(seen), fight, go_on), ACTION["fire"]).astype(jnp.int32)

    def learn(self, memory: Patrol, before: LevelState, action: Int[Array, ""], after: LevelState) -> Patrol:
        """Where it has been, and whether it sees someone."""
        own, body = after.world.own, after.world.body
        here = jnp.floor(body.place[::-1]).astype(jnp.int32)
        arrived = own.ways[memory.goal, here[0], here[1]] <= 0
        visited = memory.visited + (own.ways[:, here[0], here[1]] <= 0)
        # Of those that it was at least often, the nearest.
        cost = jnp.minimum(visited, 1000) * 1000 + own.ways[:, here[0], here[1]]
        lost = jnp.where(jnp.any(self._seen(after.world)), 0, memory.lost + 1)
        return Patrol(goal=jnp.where(arrived, jnp.argmin(cost), memory.goal).astype(jnp.int32), visited=visited, lost=lost)

    def _seen(self, world: World) -> Bool[Array, " B"]:
        place = world.own.fighters.place[1:]
        line = jax.vmap(lambda other: sees(world.scene.wall, world.body.place, other))(place)
        return line & world.own.fighters.up[1:] & (jnp.abs(bearing(world.body, place)) <= HALF_VIEW)
