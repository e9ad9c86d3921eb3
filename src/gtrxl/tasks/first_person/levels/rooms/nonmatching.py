"""rooms_select_nonmatching_object: see an object, go to another room, take the one that is different.

R rows and C columns of cells.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from gtrxl.tasks.errors import in_range
from gtrxl.tasks.first_person.actions import LAB_PACE, OWN_PACE, Command, Pace
from gtrxl.tasks.first_person.level import Level, LevelState, Verdict, World, seconds, silence
from gtrxl.tasks.first_person.motion import touching
from gtrxl.tasks.first_person.rooms import KINDS, choose, facing, kind, paint, room, standing
from gtrxl.tasks.first_person.scene import COLOURS, GLASS, SHAPES, Body, Objects, Scene, centre
from gtrxl.tasks.players.steering import LOOK_ROUND, Shadow, in_view, steer

SHOWN, PAD, LEFT, RIGHT = range(4)
"""The objects by number: the one in the niche, the pad, and the two to choose from."""
PAD_REWARD, GOOD = 1.0, 10.0


class Pair(eqx.Module):
    """A trial under way."""

    second: Bool[Array, "*s"]
    """Whether one is in the second room."""
    shown: Int[Array, "*s"]
    """The kind of the object in the niche."""
    other: Int[Array, "*s"]
    """The kind of the one that differs."""
    matching: Int[Array, "*s"]
    """Where the one that matches stands: LEFT or RIGHT."""
    clock: Int[Array, "*s"]
    """Steps since the trial began."""


@dataclasses.dataclass(frozen=True)
class SelectNonmatching(Level):
    """Two rooms. The first shows an object in a niche behind glass, on the left or on the right, and has a pad on its floor:
    stepping on it pays 1 and leads to the second room, which has two objects: the one that was shown (-10) and another (+10).
    Either, or `trial_steps` steps since the trial began, lead back to the first room, where the same object is shown again for
    the whole episode, while its side, the other object and their sides are drawn anew. Both rooms are entered facing all that
    matters in them. An episode has 12 seconds, time for about four trials.

    Unlike DMLab-30's: the rooms and objects are this world's, and both niches are in the wall ahead. `fresh`, `mixed`,
    `objects`, `room`, `penalty` and `trial_steps` have no counterpart there.
    """

    room: int = 5
    """Cells along a side of each room. One of less than 5 is for first trials, and not like DMLab-30's: what is shown and the pad
    are straight ahead, everything is within 3 cells, and one walks and turns as in Memory Maze."""
    objects: int = 20
    """How many kinds are drawn from; no two of the first 7 have shape or colour in common."""
    fresh: int = 0
    """1: every trial shows an object that is drawn anew, so that it must be remembered anew."""
    mixed: int = 1
    """0: of any two kinds the same one always stands left, so that what was shown says which way to go: a T-maze to look at."""
    penalty: int = 10
    """What the matching object costs. Where it costs nothing, going for either is worth learning before it is known which."""
    trial_steps: int = seconds(12)
    """Steps until a trial is broken off."""
    episode_steps: int = seconds(12)

    def __post_init__(self):
        super().__post_init__()
        in_range("room", self.room, least=3, most=15, hint="the usual room has 5 cells along a side")
        in_range("objects", self.objects, least=2, most=KINDS, hint="2 is the least that can differ")
        in_range("fresh", self.fresh, least=0, most=1, hint="1 shows a new object in every trial")
        in_range("mixed", self.mixed, least=0, most=1, hint="0 gives every kind its side")
        in_range("penalty", self.penalty, least=0, most=10, hint="DMLab-30's is 10")
        in_range("trial_steps", self.trial_steps, least=1, hint="there are 15 steps in a second")

    @property
    def pace(self) -> Pace:  # pyright: ignore[reportIncompatibleVariableOverride]
        """DeepMind Lab's, or in small rooms Memory Maze's."""
        return OWN_PACE if self._small else LAB_PACE

    def build(self, key: PRNGKeyArray) -> World:
        """Two rooms beside each other, the niche between them, and the first trial."""
        shown_key, trial_key = jax.random.split(key)
        shown = jax.random.randint(shown_key, (), 0, self.objects)
        return self._trial(trial_key, shown)

    def judge(self, world: World, command: Command, key: PRNGKeyArray) -> Verdict:
        """The pad in the first room, the objects in the second, and the trial's clock."""
        shown_key, trial_key = jax.random.split(key)
        pair: Pair = world.own
        touched = touching(world.body, world.scene.objects)
        crosses = ~pair.second & touched[PAD]
        took_left, took_right = pair.second & touched[LEFT], pair.second & touched[RIGHT] & ~touched[LEFT]
        took, taken = took_left | took_right, jnp.where(took_left, LEFT, RIGHT)
        paid = jnp.where(took, jnp.where(taken == pair.matching, -float(self.penalty), GOOD), jnp.where(crosses, PAD_REWARD, 0.0))
        clock = pair.clock + 1
        on = dataclasses.replace(pair, second=pair.second | crosses, clock=clock)
        going = dataclasses.replace(world, own=on, body=choose(crosses, self._entrance(second=True), world.body))
        anew = jax.random.randint(shown_key, (), 0, self.objects) if self.fresh else pair.shown
        again = self._trial(trial_key, anew)
        over = took | ((clock >= self.trial_steps) & ~crosses)
        return Verdict(world=choose(over, again, going), reward=paid, terminated=jnp.zeros((), bool))

    def player(self) -> "SelectNonmatchingPlayer":
        """Remembers what it was shown."""
        return SelectNonmatchingPlayer(self)

    @property
    def _small(self) -> bool:
        return self.room < 5

    @property
    def _middle(self) -> int:
        return 1 + self.room // 2

    def _entrance(self, *, second: bool) -> Body:
        column = self.room + 3 if second else 1
        return facing(centre(jnp.array([self._middle, column])))

    def _trial(self, key: PRNGKeyArray, shown: Int[Array, ""]) -> World:
        """Back in the first room."""
        other_key, side_key, pad_key, niche_key = jax.random.split(key, 4)
        other = (shown + jax.random.randint(other_key, (), 1, self.objects)) % self.objects
        drawn = jax.random.randint(side_key, (), LEFT, RIGHT + 1)
        matching = drawn if self.mixed else jnp.where(shown < other, LEFT, RIGHT)
        if self._small:
            pad_row, niche_row = jnp.int32(self._middle), jnp.int32(self._middle)
        else:
            pad_row = self._middle + jax.random.randint(pad_key, (), -1, 2)
            niche_row = jnp.where(jax.random.bernoulli(niche_key), 1, self.room)
        pair = Pair(
            second=jnp.zeros((), bool),
            shown=shown.astype(jnp.int32),
            other=other.astype(jnp.int32),
            matching=matching.astype(jnp.int32),
            clock=jnp.int32(0),
        )
        return World(
            scene=self._scene(pair, pad_row=pad_row, niche_row=niche_row),
            body=self._entrance(second=False),
            own=pair,
            instruction=silence(),
        )

    def _scene(self, pair: Pair, *, pad_row: Int[Array, ""], niche_row: Int[Array, ""]) -> Scene:
        first = room(self.room, self.room, wall=paint("orange", "planks"), floor=paint("brown", "checks"))
        second = room(self.room, self.room, wall=paint("brown", "bricks"), floor=paint("white", "planks"))
        wall, floor = (jnp.concatenate(both, axis=1) for both in zip(first, second, strict=True))
        wall = wall.at[niche_row, self.room + 1].set(GLASS)
        far = 2 * self.room + 2
        cells = [[niche_row, self.room + 1], [pad_row, self.room], [1, far], [self.room, far]]
        left = jnp.where(pair.matching == LEFT, pair.shown, pair.other)
        right = jnp.where(pair.matching == LEFT, pair.other, pair.shown)
        shape, colour = kind(jnp.stack([pair.shown, jnp.int32(0), left, right]))
        objects = standing(
            centre(jnp.array(cells)),
            shape.at[PAD].set(SHAPES.index("pad")),
            colour.at[PAD].set(COLOURS.index("white")),
            size=0.6,
        )
        objects = eqx.tree_at(lambda of: of.size, objects, jnp.array([0.8, 0.8, 0.6, 0.6]))
        return Scene(wall=wall, floor=floor, sky=jnp.int32(COLOURS.index("cyan")), objects=objects)


class Remembered(eqx.Module):
    """What was in the niche: shape and colour, -1 before it was seen."""

    shape: Int[Array, "*s"]
    colour: Int[Array, "*s"]


@dataclasses.dataclass(frozen=True)
class SelectNonmatchingPlayer(Shadow):
    """Looks into the niche, remembers, steps on the pad, and takes what is different."""

    task: SelectNonmatching

    def first(self, state: LevelState) -> Remembered:
        """What the niche shows."""
        return self._look(Remembered(shape=jnp.int32(-1), colour=jnp.int32(-1)), state.world)

    def choose(self, memory: Remembered, state: LevelState) -> Int[Array, ""]:
        """To the pad once the object was seen; in the second room to the one that is not like it."""
        world, objects = state.world, state.world.scene.objects
        to_pad = jnp.where(memory.shape < 0, LOOK_ROUND, self._steer(world.body, PAD, objects))
        differs = (objects.shape[LEFT] != memory.shape) | (objects.colour[LEFT] != memory.colour)
        target = jnp.where(differs, LEFT, RIGHT)
        return jnp.where(world.own.second, self._steer(world.body, target, objects), to_pad)

    def _steer(self, body: Body, number: int | Int[Array, ""], objects: Objects) -> Int[Array, ""]:
        return steer(body, objects.place[number], pace=self.task.pace)

    def learn(self, memory: Remembered, before: LevelState, action: Int[Array, ""], after: LevelState) -> Remembered:
        """What is shown now, if it is in view."""
        return self._look(memory, after.world)

    def _look(self, memory: Remembered, world: World) -> Remembered:
        objects: Objects = world.scene.objects
        seen = ~world.own.second & in_view(world.body, objects.place[SHOWN])
        return choose(seen, Remembered(shape=objects.shape[SHOWN], colour=objects.colour[SHOWN]), memory)
