"""language_execute_random_task: one of fourteen kinds of instructions, and rooms with what it needs.

N objects, F families of instructions, K kinds of tasks.
"""

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from gtrxl.tasks.first_person.actions import Command
from gtrxl.tasks.first_person.level import Level, Verdict, World, seconds
from gtrxl.tasks.first_person.motion import touching
from gtrxl.tasks.first_person.parts.naming import HUE_COLOURS, HUES, THING_SHAPES, THINGS, hue, sentence, thing
from gtrxl.tasks.first_person.parts.suites import A_ROOM, FOUR, HALL, MOST_ROOMS, PAIR, ROOMS, SIX, SUITES, deal, layout
from gtrxl.tasks.first_person.rooms import any_heading, choose, facing, paint, standing
from gtrxl.tasks.first_person.scene import COLOURS, Scene, centre
from gtrxl.tasks.players.chooser import Chooser, all_forgotten

PICK, BOTH, EVERY_THING, EVERY_HUE, THING_NEAR_THING, THING_NEAR_HUE, HUE_NEAR_HUE = range(7)
"""The families. In what follows S and T are things, C and D hues."""
OBJECTS = A_ROOM * MOST_ROOMS
GOOD, EACH = 10.0, 1.0
SIZE = 0.7


class Kind(NamedTuple):
    """A kind of task: its family, how many rooms, how many objects besides the goals, and how often it comes."""

    family: int
    rooms: int
    others: int
    weight: int


KINDS = (
    Kind(PICK, 2, 2, 2), Kind(PICK, 4, 4, 1), Kind(PICK, 6, 8, 1),
    Kind(BOTH, 2, 2, 2), Kind(BOTH, 4, 6, 1), Kind(BOTH, 6, 10, 1),
    Kind(EVERY_THING, 2, 2, 2), Kind(EVERY_THING, 4, 2, 1), Kind(EVERY_HUE, 2, 2, 2), Kind(EVERY_HUE, 4, 2, 1),
    Kind(THING_NEAR_THING, 2, 3, 2), Kind(THING_NEAR_THING, 4, 7, 1), Kind(THING_NEAR_HUE, 4, 7, 1), Kind(HUE_NEAR_HUE, 4, 7, 1),
)  # fmt: skip
_KINDS = np.array([kind[:3] for kind in KINDS], np.int32)
_OFTEN = np.array([kind.weight for kind in KINDS]) / sum(kind.weight for kind in KINDS)
_PLANS = np.array([[HALL, PAIR], [FOUR, FOUR], [SIX, SIX]], np.int32)
"""By half the number of rooms, less one: two rooms are a hall or have a corridor, each as likely."""

_S, _T, _NOT_S, _NEITHER, _ANY = range(5)
"""What an object is: the first thing or hue of the instruction, the second, not the first, neither, or whatever it may be."""


def _roles(of_goal: int, others: list[int]) -> list[int]:
    """The goal's role, and those of the others, again and again."""
    return [of_goal, *(others * OBJECTS)[: OBJECTS - 1]]


# For near: goal and anchor; another like the goal; another like the anchor; two unrelated ones. Pairs share a room.
_NEAR = [_T, _S, _NEITHER, _T, _NEITHER, _NEITHER, _NEITHER]
_THING_ROLES = np.array(
    [
        _roles(_S, [_NOT_S]),
        _roles(_S, [_NOT_S, _S]),
        _roles(_S, [_NOT_S]),
        _roles(_ANY, [_ANY]),
        _roles(_S, _NEAR),
        _roles(_S, [_NOT_S, _S, _NOT_S, _NOT_S, _NOT_S, _NOT_S, _NOT_S]),
        _roles(_S, [_S]),
    ],
    np.int32,
)
_HUE_ROLES = np.array(
    [
        _roles(_S, [_NOT_S]),
        _roles(_S, [_S, _NOT_S]),
        _roles(_ANY, [_ANY]),
        _roles(_S, [_NOT_S]),
        _roles(_ANY, [_ANY]),
        _roles(_NOT_S, [_S, _NOT_S, _NOT_S, _S, _NOT_S, _NOT_S, _NOT_S]),
        _roles(_S, _NEAR),
    ],
    np.int32,
)


class Ordered(eqx.Module):
    """A task under way."""

    family: Int[Array, "*s"]
    goal: Bool[Array, "*s N"]
    others: Int[Array, "*s"]
    """How many objects are no goals."""
    trial: Int[Array, "*s"]
    """Tasks before this one."""


@dataclasses.dataclass(frozen=True)
class RandomTask(Level):
    """Two, four or six rooms with up to twelve objects, forty things in six colours, and one of these instructions:

    "red", "hat" or "red hat", where no other object is red or a hat; "red hat" among hats and red things; "every hat"; "every red
    object"; "hat near cow", "hat near red object", "red object near blue object", where near is in the same room, and there are
    hats elsewhere, and cows. The object that is meant pays 10, another costs ten shared out among the others; either brings the
    next task. For "every" each object pays 1, and the last one 10 more; a wrong one costs what all were worth, shared out.

    There are 14 kinds, by instruction and number of rooms; those with two rooms come twice as often as the others.

    Unlike DMLab-30's: own maps of the same sizes; objects are drawings that face the eye and stand still; of "every" in four
    rooms the numbers of goals (2 to 6) and of others are drawn evenly.
    """

    episode_steps: int = seconds(120)

    def build(self, key: PRNGKeyArray) -> World:
        """The first task."""
        return self._task(key, jnp.int32(0))

    def judge(self, world: World, command: Command, key: PRNGKeyArray) -> Verdict:
        """What is touched is taken; the task ends with its last goal or the first wrong object."""
        own: Ordered = world.own
        objects = world.scene.objects
        touched = touching(world.body, objects)
        took, right = jnp.any(touched), jnp.any(touched & own.goal)
        there = objects.there & ~touched
        last = ~jnp.any(there & own.goal)
        every = (own.family == EVERY_THING) | (own.family == EVERY_HUE)
        worth = GOOD + jnp.where(every, EACH * jnp.sum(own.goal), 0.0)
        pays = jnp.where(every, EACH, 0.0) + jnp.where(last, GOOD, 0.0)
        costs = jnp.floor(worth / own.others + 0.5)
        reward = jnp.where(took, jnp.where(right, pays, -costs), 0.0)
        going = eqx.tree_at(lambda of: of.scene.objects.there, world, there)
        world = choose(took & (last | ~right), self._task(key, own.trial + 1), going)
        return Verdict(world=world, reward=reward, terminated=jnp.zeros((), bool))

    def player(self) -> Chooser:
        """Reads, looks into the rooms, and remembers what is where."""
        return Chooser(self, changes=all_forgotten(_trial), worth=_worth)

    def _task(self, key: PRNGKeyArray, trial: Int[Array, ""]) -> World:
        kind_key, plan_key, count_key, thing_key, hue_key, word_key, deal_key, start_key, heading_key = jax.random.split(key, 9)
        family, rooms, others = jnp.asarray(_KINDS)[jax.random.choice(kind_key, len(KINDS), p=jnp.asarray(_OFTEN))]
        plan = jnp.asarray(_PLANS)[rooms // 2 - 1, jax.random.randint(plan_key, (), 0, 2)]
        goals, others = _counts(count_key, family, rooms, others)
        number = jnp.arange(OBJECTS)
        # What is said of the first object holds for every goal.
        role = jnp.where(number < goals, 0, jnp.maximum(number - goals + 1, 1))
        s, t, things = _drawn(thing_key, jnp.asarray(_THING_ROLES)[family][role], len(THINGS))
        c, d, hues = _drawn(hue_key, jnp.asarray(_HUE_ROLES)[family][role], len(HUES))
        together = jnp.where(family >= THING_NEAR_THING, OBJECTS, 0)
        place, _ = deal(deal_key, plan, together=together)
        there = number < goals + others
        objects = standing(place, jnp.asarray(THING_SHAPES)[things], jnp.asarray(HUE_COLOURS)[hues], size=SIZE)
        objects = eqx.tree_at(lambda of: (of.there, of.place), objects, (there, jnp.where(there[:, None], place, 0.0)))
        boards = paint("orange", "planks")
        wall, floor = layout(plan, wall=paint("grey", "bricks"), corridor=boards, floors=jnp.full(MOST_ROOMS, boards))
        start = jax.random.randint(start_key, (), 0, jnp.asarray(ROOMS)[plan])
        return World(
            scene=Scene(wall=wall, floor=floor, sky=jnp.int32(COLOURS.index("white")), objects=objects),
            body=facing(centre(jnp.asarray(SUITES.starts)[plan, start]), any_heading(heading_key)),
            own=Ordered(family=family, goal=number < goals, others=others, trial=trial),
            instruction=_said(word_key, family, s=thing(s), t=thing(t), c=hue(c), d=hue(d)),
        )


def _counts(
    key: PRNGKeyArray, family: Int[Array, ""], rooms: Int[Array, ""], others: Int[Array, ""]
) -> tuple[Int[Array, ""], Int[Array, ""]]:
    """How many goals and others there are: one and as many as the kind has, but for "every" in four rooms 2 to 6 goals, and from
    two to all that find a place."""
    goals_key, others_key = jax.random.split(key)
    every = (family == EVERY_THING) | (family == EVERY_HUE)
    many = every & (rooms == 4)
    goals = jnp.where(many, jax.random.randint(goals_key, (), 2, 7), jnp.where(every, 2, 1))
    more = jax.random.randint(others_key, (), 2, 9 - goals)
    return goals, jnp.where(many, more, others)


def _drawn(key: PRNGKeyArray, role: Int[Array, " N"], count: int) -> tuple[Int[Array, ""], Int[Array, ""], Int[Array, " N"]]:
    """Two different numbers below `count` that the instruction names, and one for each object by its role."""
    first_key, second_key, rest_key = jax.random.split(key, 3)
    s = jax.random.randint(first_key, (), 0, count)
    t = (s + jax.random.randint(second_key, (), 1, count)) % count
    chance = jax.random.uniform(rest_key, role.shape)

    def below(most: int) -> Int[Array, " N"]:
        return jnp.minimum((chance * most).astype(jnp.int32), most - 1)

    not_s = below(count - 1) + (below(count - 1) >= s)
    low, high = jnp.minimum(s, t), jnp.maximum(s, t)
    neither = below(count - 2) + (below(count - 2) >= low)
    neither = neither + (neither >= high)
    found = jnp.select([role == _S, role == _T, role == _NOT_S, role == _NEITHER], [s, t, not_s, neither], below(count))
    return s, t, found.astype(jnp.int32)


def _said(
    key: PRNGKeyArray,
    family: Int[Array, ""],
    *,
    s: Int[Array, ""],
    t: Int[Array, ""],
    c: Int[Array, ""],
    d: Int[Array, ""],
) -> Int[Array, " W"]:
    """The instruction. An object that has nothing in common with the others is named by its colour, its shape or both."""
    ways = jnp.stack([sentence(c, s), sentence(c), sentence(s)])
    of_family = jnp.stack(
        [
            ways[jax.random.randint(key, (), 0, 3)],
            sentence(c, s),
            sentence("every", s),
            sentence("every", c, "object"),
            sentence(s, "near", t),
            sentence(s, "near", c, "object"),
            sentence(c, "object near", d, "object"),
        ]
    )
    return of_family[family]


def _worth(world: World, seen: Bool[Array, " N"]) -> Bool[Array, " N"]:
    """Goals that can be known as such: where the instruction says near, what is beside it must have been seen."""
    own: Ordered = world.own
    beside = seen.reshape(-1, A_ROOM)[:, ::-1].reshape(-1)
    return seen & own.goal & (beside | (own.family < THING_NEAR_THING))


def _trial(world: World) -> Int[Array, ""]:
    return world.own.trial
