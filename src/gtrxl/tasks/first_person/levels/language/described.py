"""language_select_described_object: take the one of two objects that the instruction names.

N words.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray

from gtrxl.tasks.errors import in_range
from gtrxl.tasks.first_person.actions import Command
from gtrxl.tasks.first_person.level import WORDS, Level, LevelState, Verdict, World, seconds
from gtrxl.tasks.first_person.motion import touching
from gtrxl.tasks.first_person.rooms import choose, facing, paint, room, standing
from gtrxl.tasks.first_person.scene import BRIGHT, COLOURS, SHAPES, Scene, centre
from gtrxl.tasks.players.steering import Discs, Shadow, steer
from gtrxl.tasks.words import buckets_of

THINGS = ("cake", "car", "cassette", "hat", "tv")
"""What is named."""
_THINGS = np.array([SHAPES.index(name) for name in THINGS], np.int32)
PLACES = np.array([[1, 3], [1, 5], [3, 3], [3, 5]])
"""The four cells (row, column) where an object can be; one starts in [2, 1]."""
ROWS, COLUMNS = 3, 5
GOOD, BAD = 10.0, -10.0
TURN = np.deg2rad(10.0)
"""How far from straight ahead one may look at first."""

_NAMES = np.stack([buckets_of(thing, words=WORDS) for thing in THINGS])
_COLOURED = np.stack([[buckets_of(f"{colour} {thing}", words=WORDS) for thing in THINGS] for colour in COLOURS])


class Named(eqx.Module):
    """Which of the two objects is named."""

    target: Int[Array, "*s"]


@dataclasses.dataclass(frozen=True)
class DescribedObject(Level):
    """A room of 3 x 5 cells with two objects in two of four places, of two shapes out of cake, car, cassette, hat and tv, in any
    colours. The instruction names one of them. Taking that one pays 10, taking the other -10; either leads to the next trial:
    a new pair, a new instruction, back at the start, where both are in view.

    With `colours=1` the instruction says the colour too ("red cake"), and the two may have the same shape, but then not the same
    colour. Unlike DMLab-30's: the things are drawings of one size; the original never names the colour here.
    """

    colours: int = 0
    """1: the instruction names the colour too, and the two may differ in it alone."""
    episode_steps: int = seconds(60)

    def __post_init__(self):
        super().__post_init__()
        in_range("colours", self.colours, least=0, most=1, hint="1 names the colour too")

    def build(self, key: PRNGKeyArray) -> World:
        """The room, and the first pair."""
        place_key, thing_key, colour_key, target_key, turn_key = jax.random.split(key, 5)
        places = jnp.asarray(PLACES)[_two(place_key, len(PLACES))]
        if self.colours:
            # Two of the combinations: they differ in one at least.
            both = _two(thing_key, len(THINGS) * BRIGHT)
            thing, colour = both % len(THINGS), both // len(THINGS)
        else:
            thing = _two(thing_key, len(THINGS))
            colour = jax.random.randint(colour_key, (2,), 0, BRIGHT)
        target = jax.random.randint(target_key, (), 0, 2)
        named, painted = thing[target], colour[target]
        wall, floor = room(ROWS, COLUMNS, wall=paint("brown", "planks"), floor=paint("white", "checks"))
        return World(
            scene=Scene(
                wall=wall,
                floor=floor,
                sky=jnp.int32(COLOURS.index("cyan")),
                objects=standing(centre(places), jnp.asarray(_THINGS)[thing], colour, size=0.7),
            ),
            body=facing(centre(jnp.array([1 + ROWS // 2, 1])), jax.random.uniform(turn_key, (), minval=-TURN, maxval=TURN)),
            own=Named(target=target.astype(jnp.int32)),
            instruction=jnp.asarray(_COLOURED)[painted, named] if self.colours else jnp.asarray(_NAMES)[named],
        )

    def judge(self, world: World, command: Command, key: PRNGKeyArray) -> Verdict:
        """What is touched pays, and the next pair comes."""
        touched = touching(world.body, world.scene.objects)
        first = jnp.argmax(touched)
        took = jnp.any(touched)
        reward = jnp.where(took, jnp.where(first == world.own.target, GOOD, BAD), 0.0)
        return Verdict(world=choose(took, self.build(key), world), reward=reward, terminated=jnp.zeros((), bool))

    def player(self) -> "DescribedObjectPlayer":
        """Reads."""
        return DescribedObjectPlayer(self)


def _two(key: PRNGKeyArray, count: int) -> Int[Array, "2"]:
    """Two different numbers below `count`."""
    first, on = jax.random.randint(key, (2,), jnp.array([0, 1]), jnp.array([count, count]))
    return jnp.stack([first, (first + on) % count])


@dataclasses.dataclass(frozen=True)
class DescribedObjectPlayer(Shadow):
    """Reads the instruction, which names one of the two objects that are in view from the start."""

    task: DescribedObject

    def first(self, state: LevelState) -> None:
        """Nothing needs to be remembered."""

    def choose(self, memory: None, state: LevelState) -> Int[Array, ""]:
        """To the named one, around the other."""
        objects = state.world.scene.objects
        if self.task.colours:
            said = jnp.asarray(_COLOURED)[objects.colour]
        else:
            said = jnp.broadcast_to(jnp.asarray(_NAMES)[None], (2, len(THINGS), WORDS))
        fits = jnp.all(said == state.world.instruction[None, None], axis=-1)
        right = jnp.any(fits & (objects.shape[:, None] == jnp.asarray(_THINGS)[None]), axis=1)
        target = jnp.argmax(right)
        return steer(state.world.body, objects.place[target], around=Discs.of(state.world.scene, jnp.arange(2) != target))

    def learn(self, memory: None, before: LevelState, action: Int[Array, ""], after: LevelState) -> None:
        """Nothing."""
