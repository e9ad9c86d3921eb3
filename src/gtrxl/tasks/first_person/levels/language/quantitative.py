"""language_answer_quantitative_question: look at four objects, answer yes or no by walking to one of two balls.

N objects.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from gtrxl.tasks.first_person.actions import Command
from gtrxl.tasks.first_person.level import Level, LevelState, Verdict, World, seconds
from gtrxl.tasks.first_person.motion import touching
from gtrxl.tasks.first_person.parts.naming import HUE_COLOURS, HUES, THING_SHAPES, THINGS, asked, sentence, thing
from gtrxl.tasks.first_person.rooms import choose, facing, paint, room, standing
from gtrxl.tasks.first_person.scene import COLOURS, SHAPES, Scene, carpet
from gtrxl.tasks.players.steering import Shadow, in_view, steer

ALL, ANY, ANYTHING, MOST = range(4)
"""The questions: are all S objects C? is any S C? is anything C? are most S objects C?"""
ROWS, COLUMNS = 4, 6
OBJECTS = 4
PLACES = np.array([[4.3, 2.3], [4.3, 3.7], [5.7, 2.75], [5.7, 3.25]], np.float32)
"""Two and two, so that none hides another from where one starts."""
STARTS = np.array([[1.5, 2.5], [1.5, 3.5]], np.float32)
YES, NO = OBJECTS, OBJECTS + 1
"""The balls, by number: after the objects."""
BALLS = np.array([[6.5, 1.5], [6.5, 4.5]], np.float32)
TURN = np.deg2rad(10.0)
"""How far from straight ahead one may look at first."""
GOOD, BAD = 10.0, -10.0


def _bounds() -> Int[np.ndarray, "4 2 5 2"]:
    """By the question, the answer and the number of objects that are asked about: the least and the most of them that may be of
    the colour."""
    found = np.zeros((4, 2, OBJECTS + 1, 2), np.int32)
    for of in range(1, OBJECTS + 1):
        found[ALL, :, of] = [(0, of - 1), (of, of)]
        found[ANY, :, of] = found[ANYTHING, :, of] = [(0, 0), (1, of)]
        found[MOST, :, of] = [(0, of // 2), (of // 2 + 1, of)]
    return found


_BOUNDS = _bounds()


class Asked(eqx.Module):
    """A question under way."""

    question: Int[Array, "*s"]
    thing: Int[Array, "*s"]
    """As in THINGS; means nothing if the question is ANYTHING."""
    hue: Int[Array, "*s"]
    answer: Bool[Array, "*s"]


@dataclasses.dataclass(frozen=True)
class QuantitativeQuestion(Level):
    """A room of 4 x 6 cells. Four objects stand on a black part of its floor; they can be walked through and not taken. The
    instruction asks about them: "are all hat objects red?", "is any hat red?", "is anything red?", "are most hat objects red?",
    each as likely. A white ball on green means yes, a black ball on red means no; they stand in the same corners always. The
    right one pays 10, the wrong one costs 10; either brings the next question, other objects, and one is back at the start, from
    where all of it is in view.

    Yes and no are as likely as each other. There is at least one of the things that are asked about. Most means more than half.

    Unlike DMLab-30's: objects are drawings that face the eye and stand still, in two rows so that none hides another; half of the
    objects that are not asked about have the colour of the question; how counts are drawn is ours.
    """

    episode_steps: int = seconds(60)

    def build(self, key: PRNGKeyArray) -> World:
        """A question and what it is about."""
        ask_key, object_key, start_key, turn_key = jax.random.split(key, 4)
        own, things, hues = self._ask(ask_key)
        order = jax.random.permutation(object_key, OBJECTS)
        shape = jnp.concatenate([jnp.asarray(THING_SHAPES)[things][order], jnp.full(2, SHAPES.index("ball"))])
        colour = jnp.concatenate(
            [jnp.asarray(HUE_COLOURS)[hues][order], jnp.array([COLOURS.index("white"), COLOURS.index("black")])]
        )
        wall, floor = room(ROWS, COLUMNS, wall=paint("grey", "bricks"), floor=carpet(COLOURS.index("orange")))
        floor = floor.at[2:4, 4:6].set(carpet(COLOURS.index("black")))
        floor = floor.at[1, 5:7].set(carpet(COLOURS.index("green"))).at[4, 5:7].set(carpet(COLOURS.index("red")))
        objects = standing(jnp.concatenate([jnp.asarray(PLACES), jnp.asarray(BALLS)]), shape, colour, size=0.6)
        start = jnp.asarray(STARTS)[jax.random.randint(start_key, (), 0, len(STARTS))]
        return World(
            scene=Scene(wall=wall, floor=floor, sky=jnp.int32(COLOURS.index("cyan")), objects=objects),
            body=facing(start, jax.random.uniform(turn_key, (), minval=-TURN, maxval=TURN)),
            own=own,
            instruction=_said(own),
        )

    def judge(self, world: World, command: Command, key: PRNGKeyArray) -> Verdict:
        """A ball is an answer; objects are only looked at."""
        touched = touching(world.body, world.scene.objects)
        answered = touched[YES] | touched[NO]
        reward = jnp.where(answered, jnp.where(touched[YES] == world.own.answer, GOOD, BAD), 0.0)
        return Verdict(world=choose(answered, self.build(key), world), reward=reward, terminated=jnp.zeros((), bool))

    def player(self) -> "QuantitativeQuestionPlayer":
        """Counts."""
        return QuantitativeQuestionPlayer(self)

    def _ask(self, key: PRNGKeyArray) -> tuple[Asked, Int[Array, " N"], Int[Array, " N"]]:
        """A question, its answer, and things and hues that make it so."""
        question_key, answer_key, word_key, count_key, thing_key, hue_key = jax.random.split(key, 6)
        question = jax.random.randint(question_key, (), 0, 4)
        answer = jax.random.bernoulli(answer_key)
        s, c = jax.random.randint(word_key, (2,), 0, jnp.array([len(THINGS), len(HUES)]))
        chance = jax.random.uniform(count_key, (2,))
        of = jnp.where(question == ANYTHING, OBJECTS, 1 + (chance[0] * OBJECTS).astype(jnp.int32))
        least, most = jnp.asarray(_BOUNDS)[question, answer.astype(jnp.int32), of]
        right = least + (chance[1] * (most - least + 1)).astype(jnp.int32)
        number = jnp.arange(OBJECTS)
        # The first ones are asked about, and the first of these have the hue.
        asked_about = number < of
        anything = jax.random.randint(thing_key, number.shape, 0, len(THINGS))
        other_thing = (s + 1 + anything % (len(THINGS) - 1)) % len(THINGS)
        # Half of what is not asked about has the hue of the question, so that the hue alone does not give the answer away.
        any_hue = jax.random.randint(hue_key, number.shape, 0, 2 * (len(HUES) - 1))
        other_hue = (c + 1 + any_hue % (len(HUES) - 1)) % len(HUES)
        any_hue = jnp.where(any_hue < len(HUES) - 1, c, other_hue)
        things = jnp.where(question == ANYTHING, anything, jnp.where(asked_about, s, other_thing))
        hues = jnp.where(number < right, c, jnp.where(asked_about, other_hue, any_hue))
        return Asked(question=question, thing=s, hue=c, answer=answer), things, hues


def _said(own: Asked) -> Int[Array, " W"]:
    s, c = thing(own.thing), asked(own.hue)
    ways = [sentence("are all", s, "objects", c), sentence("is any", s, c), sentence("is anything", c)]
    return jnp.stack([*ways, sentence("are most", s, "objects", c)])[own.question]


class Counted(eqx.Module):
    """Which objects have been in view."""

    objects: Bool[Array, "*s N"]


@dataclasses.dataclass(frozen=True)
class QuantitativeQuestionPlayer(Shadow):
    """Looks at every object, counts, and walks to the ball."""

    task: QuantitativeQuestion

    def first(self, state: LevelState) -> Counted:
        """What is in view."""
        return Counted(objects=in_view(state.world.body, jnp.asarray(PLACES)))

    def choose(self, memory: Counted, state: LevelState) -> Int[Array, ""]:
        """To an object that it has not seen; else to the answer."""
        own: Asked = state.world.own
        objects = state.world.scene.objects
        about = (objects.shape[:OBJECTS] == jnp.asarray(THING_SHAPES)[own.thing]) | (own.question == ANYTHING)
        fits = objects.colour[:OBJECTS] == jnp.asarray(HUE_COLOURS)[own.hue]
        right, wrong = jnp.sum(about & fits), jnp.sum(about & ~fits)
        says_yes = jnp.select([own.question == ALL, own.question == MOST], [wrong == 0, right > wrong], right > 0)
        ball = jnp.asarray(BALLS)[jnp.where(says_yes, 0, 1)]
        unseen = jnp.asarray(PLACES)[jnp.argmin(memory.objects)]
        return steer(state.world.body, jnp.where(jnp.all(memory.objects), ball, unseen))

    def learn(self, memory: Counted, before: LevelState, action: Int[Array, ""], after: LevelState) -> Counted:
        """What has come into view; a new question is about new objects."""
        same = after.reward == 0
        return Counted(objects=memory.objects & same | in_view(after.world.body, jnp.asarray(PLACES)))
