"""explore_object_rewards_few and _many: find out which categories of objects are good, and collect those.

N objects, K categories.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from gtrxl.tasks.errors import TaskError, in_range
from gtrxl.tasks.first_person.actions import Command
from gtrxl.tasks.first_person.level import Level, LevelState, Verdict, World, seconds, silence
from gtrxl.tasks.first_person.motion import touching
from gtrxl.tasks.first_person.rooms import PLAIN_SHAPES, any_heading, choose, facing, paint, room, scatter, standing
from gtrxl.tasks.first_person.scene import BRIGHT, COLOURS, Objects, Scene
from gtrxl.tasks.players.steering import LOOK_ROUND, Discs, Shadow, in_view, nearest, steer

GOOD, BAD = 2.0, -1.0
WALL = "white"
"""Of the room; no category has its colour."""
PAINTS = tuple(number for number, name in enumerate(COLOURS[:BRIGHT]) if name != WALL)
"""The colours of categories, no two of which are alike."""


class Categories(eqx.Module):
    """What is fixed for the episode, and what each object is."""

    good: Bool[Array, "*s K"]
    shape: Int[Array, "*s K"]
    colour: Int[Array, "*s K"]
    of: Int[Array, "*s N"]
    """The category of each object."""


@dataclasses.dataclass(frozen=True)
class ObjectRewards(Level):
    """One room with `objects` objects of `categories` categories; half of the categories are good (+2 each object), the others
    bad (-1). What a category looks like and whether it is good is drawn for the episode. When all good objects are taken the
    level restarts: new places, and one is put somewhere else. Every category has at least one object; the rest are of any.

    `_few` has 8 objects of 4 categories and 90 seconds, `_many` 16 of 8 and 120 seconds. Unlike DMLab-30's: categories are
    told apart by shape and colour instead of being everyday things, and what is touched in the same step as the restart happens
    counts before it.
    """

    room: int = 11
    """Cells along a side."""
    objects: int = 8
    categories: int = 4
    episode_steps: int = seconds(90)

    def __post_init__(self):
        super().__post_init__()
        in_range("room", self.room, least=3, most=30, hint="DMLab-30's room has 11 cells along a side")
        in_range("categories", self.categories, least=2, most=8, hint="DMLab-30 has 4 and 8")
        if self.categories % 2:
            raise TaskError(f"categories must be even, got {self.categories}; half of them are good")
        in_range("objects", self.objects, least=self.categories, most=self.room**2 - 1, hint="each category has at least one")

    def build(self, key: PRNGKeyArray) -> World:
        """The categories, and a first room."""
        good_key, shape_key, colour_key, start_key = jax.random.split(key, 4)
        number = jnp.arange(self.categories)
        shapes = jax.random.permutation(shape_key, jnp.array(PLAIN_SHAPES, jnp.int32))
        own = Categories(
            good=jax.random.permutation(good_key, number) < self.categories // 2,
            shape=shapes[number % len(PLAIN_SHAPES)],
            colour=jax.random.permutation(colour_key, jnp.array(PAINTS, jnp.int32))[: self.categories],
            of=jnp.zeros(self.objects, jnp.int32),
        )
        return self._restart(start_key, own)

    def judge(self, world: World, command: Command, key: PRNGKeyArray) -> Verdict:
        """Takes what is touched; begins anew when nothing good is left."""
        own: Categories = world.own
        objects: Objects = world.scene.objects
        touched = touching(world.body, objects)
        good = own.good[own.of]
        reward = jnp.sum(jnp.where(touched, jnp.where(good, GOOD, BAD), 0.0))
        there = objects.there & ~touched
        going = eqx.tree_at(lambda of: of.scene.objects.there, world, there)
        world = choose(~jnp.any(there & good), self._restart(key, own), going)
        return Verdict(world=world, reward=reward, terminated=jnp.zeros((), bool))

    def player(self) -> "ObjectRewardsPlayer":
        """Remembers what paid."""
        return ObjectRewardsPlayer(self)

    def _restart(self, key: PRNGKeyArray, own: Categories) -> World:
        """New objects of the same categories in new places."""
        kind_key, place_key, heading_key = jax.random.split(key, 3)
        rest = jax.random.randint(kind_key, (self.objects - self.categories,), 0, self.categories)
        of = jnp.concatenate([jnp.arange(self.categories), rest]).astype(jnp.int32)
        place = scatter(place_key, self.objects + 1, rows=self.room, columns=self.room)
        wall, floor = room(self.room, self.room, wall=paint(WALL, "bricks"), floor=paint("brown", "planks"))
        objects = standing(place[1:], own.shape[of], own.colour[of])
        return World(
            scene=Scene(wall=wall, floor=floor, sky=jnp.int32(COLOURS.index("blue")), objects=objects),
            body=facing(place[0], any_heading(heading_key)),
            own=dataclasses.replace(own, of=of),
            instruction=silence(),
        )


class Tried(eqx.Module):
    """What has been in view since the restart, and what each category has paid."""

    seen: Bool[Array, "*s N"]
    paid: Float[Array, "*s K"]
    """0 if it was not tried."""


@dataclasses.dataclass(frozen=True)
class ObjectRewardsPlayer(Shadow):
    """Takes the nearest object that is good or may be, walks around the bad ones, and forgets no category."""

    task: ObjectRewards

    def first(self, state: LevelState) -> Tried:
        """What is in view."""
        return Tried(seen=in_view(state.world.body, state.world.scene.objects.place), paid=jnp.zeros(self.task.categories))

    def choose(self, memory: Tried, state: LevelState) -> Int[Array, ""]:
        """To the nearest one worth taking; looks round if there is none."""
        world, objects = state.world, state.world.scene.objects
        half = self.task.categories // 2
        good, bad = memory.paid > 0, memory.paid < 0
        # Half of the categories are good: once these are known, all others are bad.
        bad = bad | (~good & (jnp.sum(good) >= half))
        known = memory.seen & objects.there
        bad_object = bad[world.own.of]
        target, any_left = nearest(world.body, objects.place, known & ~bad_object)
        there = steer(world.body, objects.place[target], around=Discs.of(world.scene, known & bad_object))
        return jnp.where(any_left, there, LOOK_ROUND)

    def learn(self, memory: Tried, before: LevelState, action: Int[Array, ""], after: LevelState) -> Tried:
        """What the touched one paid, and what has come into view."""
        moved = self.task.move(before.world, self.task.command(action))
        touched = touching(moved, before.world.scene.objects)
        category = before.world.own.of[jnp.argmax(touched)]
        # Objects stand a cell apart, so that no two are touched at once.
        paid = jnp.where(jnp.any(touched), memory.paid.at[category].set(after.reward), memory.paid)
        place = after.world.scene.objects.place
        same = jnp.all(place == before.world.scene.objects.place)
        return Tried(seen=memory.seen & same | in_view(after.world.body, place), paid=paid)
