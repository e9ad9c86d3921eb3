"""language_select_located_object: take the object of one colour in the room with a floor of another.

N objects, K rooms.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from gtrxl.tasks.first_person.actions import Command
from gtrxl.tasks.first_person.level import Level, Verdict, World, seconds
from gtrxl.tasks.first_person.motion import touching
from gtrxl.tasks.first_person.parts.naming import HUE_COLOURS, HUES, THING_SHAPES, THINGS, hue, sentence
from gtrxl.tasks.first_person.parts.suites import FOUR, HALL, MOST_ROOMS, PAIR, ROOMS, SIX, SUITES, deal, layout
from gtrxl.tasks.first_person.rooms import any_heading, choose, facing, paint, standing
from gtrxl.tasks.first_person.scene import COLOURS, Scene, carpet, centre
from gtrxl.tasks.players.chooser import Chooser, all_forgotten

PLANS = np.array([HALL, PAIR, FOUR, SIX], np.int32)
"""Each as likely: two rooms, as a hall or with a corridor between them, come as often as four and six together."""
GOOD = 10.0
PENALTY = np.array([round(GOOD / (2 * rooms - 1)) for rooms in ROOMS], np.float32)
"""For a wrong object, by the plan: ten shared out among them."""
SIZE = 0.7


class Located(eqx.Module):
    """A task under way."""

    plan: Int[Array, "*s"]
    hue: Int[Array, "*s N"]
    """Of each object, as in HUES."""
    floor: Int[Array, "*s N"]
    """Of the room that it is in."""
    wanted: Int[Array, "*s 2"]
    """The hue of the object that is named, and of its floor."""
    trial: Int[Array, "*s"]
    """Tasks before this one."""


@dataclasses.dataclass(frozen=True)
class LocatedObject(Level):
    """Two, four or six rooms, each with a floor of its own colour and two objects. The instruction is "pick the red object in the
    blue room": the object is told by its colour, the room by its floor, the shape does not matter. That one pays 10. Any other
    costs what ten shared out among the others is: 3 in two rooms, 1 in four and in six. Either leads to the next task: other
    rooms, objects and words.

    In the room that is named there is one more object, of another colour; elsewhere there is one of the colour that is named, and
    one of that other colour; what is left is drawn at random. So neither colour alone tells what to take. Half of the tasks have
    two rooms (a hall with two halves, or a corridor between them), a quarter four, a quarter six. One starts in any of the rooms,
    looking anywhere.

    Unlike DMLab-30's: own maps of the same sizes; objects are drawings that face the eye and stand still; corridors are white.
    """

    episode_steps: int = seconds(120)

    def build(self, key: PRNGKeyArray) -> World:
        """The first task."""
        return self._task(key, jnp.int32(0))

    def judge(self, world: World, command: Command, key: PRNGKeyArray) -> Verdict:
        """What is touched pays or costs, and the next task comes."""
        own: Located = world.own
        touched = touching(world.body, world.scene.objects)
        took = jnp.any(touched)
        right = jnp.any(touched & _named(own))
        reward = jnp.where(took, jnp.where(right, GOOD, -jnp.asarray(PENALTY)[own.plan]), 0.0)
        world = choose(took, self._task(key, own.trial + 1), world)
        return Verdict(world=world, reward=reward, terminated=jnp.zeros((), bool))

    def player(self) -> Chooser:
        """Reads, looks into the rooms, and remembers the way."""
        return Chooser(self, changes=all_forgotten(_trial), worth=_worth)

    def _task(self, key: PRNGKeyArray, trial: Int[Array, ""]) -> World:
        plan_key, deal_key, hue_key, floor_key, shape_key, start_key, heading_key = jax.random.split(key, 7)
        plan = jax.random.choice(plan_key, jnp.asarray(PLANS))
        count = 2 * jnp.asarray(ROOMS)[plan]
        # Objects 0 and 1 share a room: the one that is named, and one of another colour.
        place, room = deal(deal_key, plan, together=2)
        number = jnp.arange(place.shape[0])
        hues = jax.random.randint(hue_key, number.shape, 0, len(HUES))
        other = (hues[0] + 1 + hues[1] % (len(HUES) - 1)) % len(HUES)
        hues = hues.at[jnp.array([1, 2, 3])].set(jnp.stack([other, hues[0], other]))
        floors = jax.random.permutation(floor_key, len(HUES))[:MOST_ROOMS]
        shape = jax.random.randint(shape_key, number.shape, 0, len(THINGS))
        objects = standing(place, jnp.asarray(THING_SHAPES)[shape], jnp.asarray(HUE_COLOURS)[hues], size=SIZE)
        objects = eqx.tree_at(lambda of: of.there, objects, number < count)
        painted = carpet(jnp.asarray(HUE_COLOURS)[floors])
        wall, floor = layout(plan, wall=paint("brown", "bricks"), corridor=paint("white", "planks"), floors=painted)
        start = jax.random.randint(start_key, (), 0, count // 2)
        wanted = jnp.stack([hues[0], floors[room[0]]])
        return World(
            scene=Scene(wall=wall, floor=floor, sky=jnp.int32(COLOURS.index("white")), objects=objects),
            body=facing(centre(jnp.asarray(SUITES.starts)[plan, start]), any_heading(heading_key)),
            own=Located(plan=plan, hue=hues, floor=floors[room], wanted=wanted, trial=trial),
            instruction=sentence("pick the", hue(wanted[0]), "object in the", hue(wanted[1]), "room"),
        )


def _named(own: Located) -> Bool[Array, " N"]:
    """The object that the instruction means."""
    return (own.hue == own.wanted[0]) & (own.floor == own.wanted[1])


def _worth(world: World, seen: Bool[Array, " N"]) -> Bool[Array, " N"]:
    """An object and the floor under it are seen together."""
    return seen & _named(world.own)


def _trial(world: World) -> Int[Array, ""]:
    return world.own.trial
