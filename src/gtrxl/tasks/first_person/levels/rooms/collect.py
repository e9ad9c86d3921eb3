"""rooms_collect_good_objects: take the good kinds, leave the bad ones, whatever the room looks like.

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
from gtrxl.tasks.first_person.motion import touching
from gtrxl.tasks.first_person.rooms import any_heading, choose, facing, paint, room, scatter, standing
from gtrxl.tasks.first_person.scene import COLOURS, SHAPES, Objects, Scene
from gtrxl.tasks.players.steering import LOOK_ROUND, Discs, Shadow, in_view, nearest, steer

OBJECTS = 10
"""In the room at once; half of them are good."""
HAT_AND_CAN, CAKE_AND_BALLOON = 0, 1
"""The two groups: a bad kind and a good one each. A can is a pillar here, a balloon a ball."""
_SHAPE = np.array([[SHAPES.index(name) for name in pair] for pair in (("hat", "pillar"), ("cake", "ball"))], np.int32)
_COLOUR = np.array([[COLOURS.index(name) for name in pair] for pair in (("blue", "yellow"), ("cyan", "magenta"))], np.int32)
PLAIN, REPAINTED = 0, 1
"""The two looks of the room: green walls over an orange floor, or red ones over a blue floor."""
TRAINING = ((PLAIN, HAT_AND_CAN), (PLAIN, CAKE_AND_BALLOON), (REPAINTED, CAKE_AND_BALLOON))
HELD_OUT = ((REPAINTED, HAT_AND_CAN),)


class Collection(eqx.Module):
    """What is in the room."""

    good: Bool[Array, "*s N"]
    group: Int[Array, "*s"]
    look: Int[Array, "*s"]


@dataclasses.dataclass(frozen=True)
class CollectGood(Level):
    """One room with ten objects: five of a good kind (+1 each) and five of a bad one (-1). There are four kinds in two groups:
    hats (bad) with cans (good), cakes (bad) with balloons (good); what is good never changes. When all good ones are taken ten
    new objects of the same group appear. The room has two looks. An episode has one look and one group; training never shows
    hats and cans in the repainted room, and `test=1` shows nothing else.

    Unlike DMLab-30's: ten objects at a time instead of twenty and no end after ten of them (an episode lasts its 60 seconds);
    cans and balloons are a pillar and a ball; the room is smaller.
    """

    room: int = 8
    """Cells along a side."""
    test: int = 0
    """1: the pairing of room and objects that training does not show."""
    episode_steps: int = seconds(60)

    def __post_init__(self):
        super().__post_init__()
        in_range("room", self.room, least=5, most=30, hint="ten objects and the body need their places; the usual room has 8")
        in_range("test", self.test, least=0, most=1, hint="1 shows the held-out pairing of room and objects")

    def build(self, key: PRNGKeyArray) -> World:
        """One of the pairings, and ten objects."""
        pairing_key, place_key, heading_key, object_key = jax.random.split(key, 4)
        pairings = jnp.array(HELD_OUT if self.test else TRAINING, jnp.int32)
        look, group = pairings[jax.random.randint(pairing_key, (), 0, len(pairings))]
        walls = jnp.stack([paint("green", "bricks"), paint("red", "stripes")])
        floors = jnp.stack([paint("orange", "checks"), paint("blue", "planks")])
        wall, floor = room(self.room, self.room, wall=walls[look], floor=floors[look])
        place = scatter(place_key, 1, rows=self.room, columns=self.room)[0]
        own = Collection(good=jnp.arange(OBJECTS) >= OBJECTS // 2, group=group, look=look)
        scene = Scene(
            wall=wall, floor=floor, sky=jnp.int32(COLOURS.index("white")), objects=self._objects(object_key, group, place)
        )
        return World(scene=scene, body=facing(place, any_heading(heading_key)), own=own, instruction=silence())

    def judge(self, world: World, command: Command, key: PRNGKeyArray) -> Verdict:
        """Takes what is touched."""
        own: Collection = world.own
        objects: Objects = world.scene.objects
        touched = touching(world.body, objects)
        reward = jnp.sum(jnp.where(touched, jnp.where(own.good, 1.0, -1.0), 0.0))
        left = eqx.tree_at(lambda of: of.there, objects, objects.there & ~touched)
        done = ~jnp.any(left.there & own.good)
        objects = choose(done, self._objects(key, own.group, world.body.place), left)
        world = eqx.tree_at(lambda of: of.scene.objects, world, objects)
        return Verdict(world=world, reward=reward, terminated=jnp.zeros((), bool))

    def player(self) -> "CollectGoodPlayer":
        """Takes what is good."""
        return CollectGoodPlayer(self)

    def _objects(self, key: PRNGKeyArray, group: Int[Array, ""], away: Float[Array, "2"]) -> Objects:
        """The bad ones first."""
        which = (np.arange(OBJECTS) >= OBJECTS // 2).astype(np.int32)
        place = scatter(key, OBJECTS, rows=self.room, columns=self.room, away=away)
        return standing(place, jnp.asarray(_SHAPE)[group, which], jnp.asarray(_COLOUR)[group, which])


class Seen(eqx.Module):
    """Which of the objects have been in view."""

    objects: Bool[Array, "*s N"]


@dataclasses.dataclass(frozen=True)
class CollectGoodPlayer(Shadow):
    """Walks to the nearest good object that it has seen, around the bad ones."""

    task: CollectGood

    def first(self, state: LevelState) -> Seen:
        """What is in view."""
        return Seen(objects=in_view(state.world.body, state.world.scene.objects.place))

    def choose(self, memory: Seen, state: LevelState) -> Int[Array, ""]:
        """To the nearest good one; looks round if there is none."""
        world, objects = state.world, state.world.scene.objects
        known = memory.objects & objects.there
        target, any_left = nearest(world.body, objects.place, known & world.own.good)
        there = steer(world.body, objects.place[target], around=Discs.of(world.scene, known & ~world.own.good))
        return jnp.where(any_left, there, LOOK_ROUND)

    def learn(self, memory: Seen, before: LevelState, action: Int[Array, ""], after: LevelState) -> Seen:
        """What has come into view; new objects must be seen anew."""
        place = after.world.scene.objects.place
        same = jnp.all(place == before.world.scene.objects.place, axis=1)
        return Seen(objects=memory.objects & same | in_view(after.world.body, place))
