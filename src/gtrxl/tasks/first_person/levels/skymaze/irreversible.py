"""skymaze_irreversible_path_hard and _varied: from platform to platform down to the goal, where no step leads back up.

R rows and C columns of cells.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from gtrxl.tasks.errors import TaskError, in_range
from gtrxl.tasks.first_person.actions import LAB_ACTIONS, Command
from gtrxl.tasks.first_person.land.heights import NEVER, NO_GROUND, ways_down
from gtrxl.tasks.first_person.level import Level, LevelState, Verdict, World, seconds, silence
from gtrxl.tasks.first_person.levels.skymaze.platforms import HIGHEST, cell_of_platform, cells, lay
from gtrxl.tasks.first_person.motion import touching
from gtrxl.tasks.first_person.rooms import facing, standing
from gtrxl.tasks.first_person.scene import COLOURS, FREE, PATTERNS, SHAPES, Scene, cell_of, centre, wall_material
from gtrxl.tasks.players.steering import Shadow, bearing, steer

GOAL_REWARD = 100.0
STEP = 0.4
"""How high one letter is, in cells: more than one can climb."""
LEFT, RIGHT, A_LITTLE_LEFT, A_LITTLE_RIGHT = (
    list(LAB_ACTIONS).index(f"{size} look {side}") for size in ("large", "small") for side in ("left", "right")
)
LARGE, STRAIGHT = np.deg2rad(16.0), np.deg2rad(8.0)
"""A large look is nearer than a small one for what is so far aside; and what is straight enough ahead to walk there."""
_FLOORS = ("purple", "magenta", "orange", "yellow", "white")
"""Of platforms, three letters each, from the lowest to the highest."""


class Descent(eqx.Module):
    """What is drawn for an episode."""

    difficulty: Float[Array, "*s"]
    ways: Int[Array, "*s"]
    """That lead away from platforms: the right one, and those that end too low."""


@dataclasses.dataclass(frozen=True)
class IrreversiblePath(Level):
    """Platforms of different heights in the sky. One starts on the highest, looking towards the goal: a green flag on another.
    Touching it pays 100 and ends the episode. Off a platform one can fall to a lower one next to it, and never climb back: a
    step up is always too high. One way leads to the goal. The others leave it somewhere and end just below a platform that
    cannot be climbed, so that one has to choose before every fall. All platforms can be seen from the first one. Nobody falls
    off: there is glass at the edges.

    A difficulty d makes a grid of L = 4 + round(6 d) platforms a side with 1 + round(7 d) ways. `_hard` has d = 0.9, `_varied`
    any from 0 to 1, drawn for the episode. 60 s.

    Unlike DMLab-30's: platforms are solid towers, coloured by their height, and the glass beside them cannot be seen; one falls
    at once; the episode ends at the goal and not a fifth of a second later; where the ways do not fit there are fewer; two
    platforms a letter apart differ by 0.4 of a cell; one begins looking towards the goal.
    """

    least: int = 90
    """The lowest difficulty, in hundredths."""
    most: int = 90
    """The highest."""
    episode_steps: int = seconds(60)

    def __post_init__(self):
        super().__post_init__()
        hint = "a difficulty is from 0 to 100; DMLab-30's hard mazes have 90"
        in_range("least", self.least, least=0, most=100, hint=hint)
        in_range("most", self.most, least=0, most=100, hint=hint)
        if self.most < self.least:
            raise TaskError(f"most must be at least `least` ({self.least}), got {self.most}; {hint}")

    def build(self, key: PRNGKeyArray) -> World:
        """Draws a difficulty and a maze of it."""
        difficulty_key, maze_key = jax.random.split(key)
        difficulty = jax.random.uniform(difficulty_key, (), minval=self.least / 100, maxval=self.most / 100)
        platforms = lay(maze_key, difficulty)
        ground = cells(platforms, step=STEP, nothing=NO_GROUND)
        goal, start = (cell_of_platform(each) for each in (platforms.goal, platforms.start))
        glass = wall_material(COLOURS.index("cyan"), PATTERNS.index("plain"))
        letter = jnp.round(ground / STEP).astype(jnp.int32)
        band = jnp.clip((letter - HIGHEST + 11) // 3, 0, len(_FLOORS) - 1)
        colours = jnp.array([COLOURS.index(name) for name in _FLOORS])
        objects = standing(
            centre(goal[None]).astype(jnp.float32),
            jnp.array([SHAPES.index("flag")]),
            jnp.array([COLOURS.index("green")]),
            size=0.8,
        )
        objects = dataclasses.replace(objects, lift=ground[goal[0], goal[1]][None])
        scene = Scene(
            wall=jnp.where(ground > NO_GROUND, FREE, glass),
            floor=wall_material(colours[band], PATTERNS.index("checks")),
            sky=jnp.int32(COLOURS.index("blue")),
            objects=objects,
            ground=ground,
        )
        return World(
            scene=scene,
            body=facing(centre(start).astype(jnp.float32), jnp.arctan2(*(goal - start).astype(jnp.float32))),
            own=Descent(difficulty=difficulty, ways=platforms.ways),
            instruction=silence(),
        )

    def judge(self, world: World, command: Command, key: PRNGKeyArray) -> Verdict:
        """The goal pays and ends."""
        found = touching(world.body, world.scene.objects)[0]
        return Verdict(world=world, reward=jnp.where(found, GOAL_REWARD, 0.0), terminated=found)

    def player(self) -> "DescentPlayer":
        """Looks before it leaps."""
        return DescentPlayer(self)


@dataclasses.dataclass(frozen=True)
class DescentPlayer(Shadow):
    """Has seen all platforms from the first one, the highest, and goes down the way that leads to the goal."""

    task: IrreversiblePath

    def first(self, state: LevelState) -> Int[Array, "R C"]:
        """How far the goal is from every platform."""
        scene = state.world.scene
        goal = cell_of(scene.objects.place[0])
        target = jnp.zeros(scene.wall.shape, bool).at[goal[0], goal[1]].set(True)
        assert scene.ground is not None
        return ways_down(scene.ground, scene.wall, target)

    def choose(self, memory: Int[Array, "R C"], state: LevelState) -> Int[Array, ""]:
        """To the next cell of the way."""
        here = cell_of(state.world.body.place)
        near = here[None] + jnp.array([(0, 1), (0, -1), (1, 0), (-1, 0)])
        left = memory[near[:, 0], near[:, 1]]
        ground = state.world.scene.ground
        assert ground is not None
        too_high = ground[near[:, 0], near[:, 1]] > ground[here[0], here[1]] + STEP / 2
        place = centre(near[jnp.argmin(jnp.where(too_high, NEVER, left))])
        # A curve might lead off the edge: it walks when it looks the right way.
        turn = bearing(state.world.body, place)
        look = jnp.where(
            jnp.abs(turn) > LARGE, jnp.where(turn < 0, LEFT, RIGHT), jnp.where(turn < 0, A_LITTLE_LEFT, A_LITTLE_RIGHT)
        )
        return jnp.where(jnp.abs(turn) > STRAIGHT, look, steer(state.world.body, place))

    def learn(
        self, memory: Int[Array, "R C"], before: LevelState, action: Int[Array, ""], after: LevelState
    ) -> Int[Array, "R C"]:
        """Nothing new."""
        return memory
