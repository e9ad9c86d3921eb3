"""rooms_exploit_deferred_effects: a loss now that opens the way to more later, which training never shows together.

N objects.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from gtrxl.tasks.errors import in_range
from gtrxl.tasks.first_person.actions import Command
from gtrxl.tasks.first_person.level import Level, LevelState, Verdict, World, seconds, silence
from gtrxl.tasks.first_person.motion import sees, touching
from gtrxl.tasks.first_person.rooms import any_heading, facing, paint, room, standing
from gtrxl.tasks.first_person.scene import COLOURS, DOOR, FREE, SHAPES, Scene, centre
from gtrxl.tasks.players.steering import LOOK_ROUND, Discs, Shadow, in_view, nearest, steer

APPLES, CAKES = slice(0, 10), slice(11, 21)
BOX, THINGS = 10, 21
"""The objects by number: ten apples, the box, ten cakes."""
APPLE_REWARD, BOX_REWARD, CAKE_REWARD = 1.0, -3.0, 10.0
MOST = 10
"""So many things can be taken, the box included; then the episode ends."""
SIDE, GRID = 7, 5
"""Cells along a side of a room, and of the places in its middle where things can be."""
MIDDLE = 1 + SIDE // 2
DOOR_CELL = (MIDDLE, SIDE + 1)
ALL_ROUND = 15
"""Steps in which a player that looks round has seen everything in a room."""
PATIENCE = 300
"""Steps after which it walks through what it would rather leave."""
_PLACES = np.argwhere(np.ones((GRID, GRID))) + 1 + (SIDE - GRID) // 2
_PAID = np.array([APPLE_REWARD] * 10 + [BOX_REWARD] + [CAKE_REWARD] * 10, np.float32)
_SHAPE = np.array([SHAPES.index(name) for name in ["apple"] * 10 + ["cube"] + ["cake"] * 10], np.int32)
_COLOUR = np.array([COLOURS.index(name) for name in ["green"] * 10 + ["brown"] + ["red"] * 10], np.int32)

ONE_ROOM_AND_BOX, DOOR_SHUT, DOOR_OPEN, DOOR_SHUT_AND_BOX = range(4)
"""What an episode can be. Training shows the first three."""
_TRAINING, _HELD_OUT = (ONE_ROOM_AND_BOX, DOOR_SHUT, DOOR_OPEN), (DOOR_SHUT_AND_BOX,)
_HAS_BOX, _HAS_DOOR = np.array([True, False, False, True]), np.array([False, True, True, True])


class Effects(eqx.Module):
    """What an episode is, and what was done in it."""

    kind: Int[Array, "*s"]
    """ONE_ROOM_AND_BOX and so on."""
    taken: Int[Array, "*s"]
    """Things so far."""


@dataclasses.dataclass(frozen=True)
class DeferredEffects(Level):
    """A room with ten apples (+1 each), perhaps a box (-3), perhaps a door to a second room with ten cakes (+10 each). A strip
    on the floor is black; taking the box turns it white, and opens the door if there is one. After ten things, the box included,
    or 60 seconds, the episode ends. So one should not waste picks on apples where cakes can be reached.

    An episode is one of three in training, each as likely: one room with a box, which is only a loss; two rooms with the door
    shut for good and no box; two rooms with the door open, the strip white from the start, no box. `test=1` has two rooms, the
    door shut, and a box: the loss that training taught to avoid is what leads to the cakes.

    Unlike DMLab-30's: places are one cell apart, not 1.2, and rooms have 7 x 7 cells; the strip runs along the room's middle, to
    where the door is or would be; the episode ends with the tenth pick, not 0.2 s after it; the cakes are red all over.
    """

    test: int = 0
    """1: the door is shut and the box opens it, which training does not show."""
    episode_steps: int = seconds(60)

    def __post_init__(self):
        super().__post_init__()
        in_range("test", self.test, least=0, most=1, hint="1 shows the door and the box together")

    def build(self, key: PRNGKeyArray) -> World:
        """One of the configurations; all things and the body on different places."""
        kind_key, first_key, second_key, heading_key = jax.random.split(key, 4)
        kinds = jnp.array(_HELD_OUT if self.test else _TRAINING, jnp.int32)
        kind = kinds[jax.random.randint(kind_key, (), 0, len(kinds))]
        first = centre(jax.random.permutation(first_key, jnp.asarray(_PLACES)))
        second = centre(jax.random.permutation(second_key, jnp.asarray(_PLACES))) + jnp.array([[SIDE + 1.0, 0.0]])
        two, box = jnp.asarray(_HAS_DOOR)[kind], jnp.asarray(_HAS_BOX)[kind]
        objects = standing(jnp.concatenate([first[:11], second[:10]]), jnp.asarray(_SHAPE), jnp.asarray(_COLOUR))
        there = jnp.ones(THINGS, bool).at[BOX].set(box).at[CAKES].set(two)
        size = objects.size.at[BOX].set(0.6)
        place = jnp.where(there[:, None], objects.place, 0.0)
        objects = eqx.tree_at(lambda of: (of.there, of.size, of.place), objects, (there, size, place))
        left = room(SIDE, SIDE, wall=paint("blue", "bricks"), floor=paint("orange", "planks"))
        right = room(SIDE, SIDE, wall=paint("purple", "stripes"), floor=paint("brown", "checks"))
        # One wall between the rooms: the first one's.
        wall, floor = (jnp.concatenate([one, other[:, 1:]], axis=1) for one, other in zip(left, right, strict=True))
        wall = jnp.where(two | (jnp.arange(wall.shape[1]) <= SIDE + 1)[None, :], wall, paint("blue", "bricks"))
        door = jnp.where(two, jnp.where(kind == DOOR_OPEN, FREE, DOOR), wall[DOOR_CELL])
        scene = Scene(
            wall=wall.at[DOOR_CELL].set(door),
            floor=_with_strip(floor, kind == DOOR_OPEN),
            sky=jnp.int32(COLOURS.index("cyan")),
            objects=objects,
        )
        own = Effects(kind=kind, taken=jnp.int32(0))
        return World(scene=scene, body=facing(first[11], any_heading(heading_key)), own=own, instruction=silence())

    def judge(self, world: World, command: Command, key: PRNGKeyArray) -> Verdict:
        """Takes what is touched; the box has its effects."""
        own: Effects = world.own
        scene = world.scene
        touched = touching(world.body, scene.objects)
        taken = own.taken + jnp.sum(touched).astype(jnp.int32)
        box = touched[BOX]
        shut = scene.wall[DOOR_CELL] == DOOR
        scene = Scene(
            wall=scene.wall.at[DOOR_CELL].set(jnp.where(box & shut, FREE, scene.wall[DOOR_CELL])),
            floor=jnp.where(box, _with_strip(scene.floor, jnp.ones((), bool)), scene.floor),
            sky=scene.sky,
            objects=eqx.tree_at(lambda of: of.there, scene.objects, scene.objects.there & ~touched),
        )
        world = World(scene=scene, body=world.body, own=Effects(kind=own.kind, taken=taken), instruction=world.instruction)
        reward = jnp.sum(jnp.where(touched, jnp.asarray(_PAID), 0.0))
        return Verdict(world=world, reward=reward, terminated=taken >= MOST)

    def player(self) -> "DeferredEffectsPlayer":
        """Knows what the box is for."""
        return DeferredEffectsPlayer(self)


def _with_strip(floor: Int[Array, "R C"], bright: Bool[Array, ""]) -> Int[Array, "R C"]:
    strip = jnp.where(bright, paint("white", "plain"), paint("black", "plain"))
    return floor.at[MIDDLE, 1 : SIDE + 2].set(strip)


class Noticed(eqx.Module):
    """What has been in view, and for how long one has looked."""

    objects: Bool[Array, "*s N"]
    steps: Int[Array, "*s"]


@dataclasses.dataclass(frozen=True)
class DeferredEffectsPlayer(Shadow):
    """Looks all round first. If the door is open, takes cakes and no apple; if a box can open it, takes the box first; otherwise
    takes the apples and leaves the box."""

    task: DeferredEffects

    def first(self, state: LevelState) -> Noticed:
        """What is in view."""
        return self._look(Noticed(objects=jnp.zeros(THINGS, bool), steps=jnp.int32(0)), state.world)

    def choose(self, memory: Noticed, state: LevelState) -> Int[Array, ""]:
        """To the nearest thing worth taking, around the others."""
        world, objects = state.world, state.world.scene.objects
        door = world.scene.wall[DOOR_CELL]
        known = memory.objects & objects.there
        number = jnp.arange(THINGS)
        for_box = (door == DOOR) & known[BOX]
        wanted = jnp.where(door == FREE, number > BOX, jnp.where(for_box, number == BOX, number < BOX))
        target, any_left = nearest(world.body, objects.place, known & wanted)
        # The doorway must be gone through straight: walls are in the way otherwise.
        here = (door == FREE) & (world.body.place[0] < SIDE + 2.3)
        place = jnp.where(here, self._through(world), objects.place[target])
        # Between things that stand close a way round may not be found: after a long while it goes straight.
        go = steer(world.body, place, around=Discs.of(world.scene, known & ~wanted & (memory.steps < PATIENCE)))
        return jnp.where((memory.steps < ALL_ROUND) | ~(here | any_left), LOOK_ROUND, go)

    def learn(self, memory: Noticed, before: LevelState, action: Int[Array, ""], after: LevelState) -> Noticed:
        """What has come into view."""
        return self._look(memory, after.world)

    def _look(self, memory: Noticed, world: World) -> Noticed:
        place = world.scene.objects.place
        clear = jax.vmap(lambda end: sees(world.scene.wall, world.body.place, end))(place)
        return Noticed(objects=memory.objects | in_view(world.body, place) & clear, steps=memory.steps + 1)

    def _through(self, world: World) -> Float[Array, "2"]:
        """The next place on the way through the door."""
        door = centre(jnp.array(DOOR_CELL))
        x, y = world.body.place
        aligned = (x > door[0] - 0.8) | (jnp.abs(y - door[1]) < 0.25) & (x > door[0] - 1.2)
        return door + jnp.where(aligned, 2.0, -1.0) * jnp.array([1.0, 0.0])
