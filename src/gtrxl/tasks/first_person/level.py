"""What every first-person level is: a task whose world is built by a key and whose rules are asked once a step.

H height and W width of the picture, A numbers that an action is shown as, N words, T steps.

A level says three things: `build` (the world at the start of an episode), `judge` (what a step has led to) and which actions it
takes. Walking, looking, the clock, the picture and the spaces are here. `advance` is a step without its picture: players that
do not look are scored with it.
"""

import abc
import dataclasses
import functools
from typing import Any, ClassVar

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree, UInt8, UInt32

from gtrxl.tasks.contract import Step, Task
from gtrxl.tasks.controls import Controls
from gtrxl.tasks.defaults import TaskDefaults
from gtrxl.tasks.drawing.canvas import Canvas
from gtrxl.tasks.drawing.plan import draw_plan, read
from gtrxl.tasks.errors import in_range
from gtrxl.tasks.first_person.actions import LAB_ACTIONS, LAB_PACE, REPEAT, STEPS_A_SECOND, Command, Pace, command_of, native
from gtrxl.tasks.first_person.controls import table_controls
from gtrxl.tasks.first_person.motion import walk
from gtrxl.tasks.first_person.render import render
from gtrxl.tasks.first_person.scene import Body, Scene
from gtrxl.tasks.words import BUCKETS, NO_WORD

WORDS = 16
"""Words of an instruction that are kept."""
MOST_REWARD = 100.0
"""No step of a level pays more than this, or takes more."""
VIEW = (288, 384)
"""Height and width of a picture for people."""
IMAGE, INSTRUCTION, VECTOR = "image", "instruction", "vector"
"""The parts of an observation."""


def seconds(number: float | int) -> int:
    """So many seconds, in steps of an agent."""
    return round(number * STEPS_A_SECOND)


class World(eqx.Module):
    """A level at one moment, as its rules know it."""

    scene: Scene
    body: Body
    own: Any
    """What the level itself keeps: a record of arrays with fixed shapes."""
    instruction: Int[Array, "*s N"]
    """`buckets_of(text, words=WORDS)`; `silence()` where nothing is said."""


class LevelState(eqx.Module):
    """A level's state: the world, and what every level has."""

    world: World
    random: UInt32[Array, "*s 2"]
    """Where later random numbers come from."""
    elapsed: Int[Array, "*s"]
    action: Float[Array, "*s A"]
    """The last action as numbers; zeros before the first."""
    reward: Float[Array, "*s"]
    """What it brought."""


class Verdict(eqx.Module):
    """What a step led to."""

    world: World
    reward: Float[Array, "*s"]
    terminated: Bool[Array, "*s"]


@dataclasses.dataclass(frozen=True)
class Level(Task):
    """The base of every first-person level; a subclass is a frozen dataclass of whole numbers."""

    height: int = 72
    """Of the picture, in pixels."""
    width: int = 96

    actions: ClassVar[dict[str, tuple[int, ...]]] = LAB_ACTIONS
    """The actions by name, in DeepMind Lab's native units."""
    pace: ClassVar[Pace] = LAB_PACE
    """How fast one walks and turns, and how far one looks up and down."""
    costly_observation: ClassVar[bool] = True
    quickly_scored: ClassVar[bool] = False
    steps_a_second: ClassVar[float | None] = STEPS_A_SECOND
    frames_apart: ClassVar[int] = 2
    """Every second step: 8 frames a second are as fast as life."""

    def __post_init__(self):
        in_range("height", self.height, least=8, most=4096, hint="the paper's pictures are 72 x 96")
        in_range("width", self.width, least=8, most=4096, hint="the paper's pictures are 72 x 96")
        in_range("episode_steps", self.episode_steps, least=1, hint="there are 15 steps in a second")

    @abc.abstractmethod
    def build(self, key: PRNGKeyArray) -> World:
        """The world at the start of an episode."""

    @abc.abstractmethod
    def judge(self, world: World, command: Command, key: PRNGKeyArray) -> Verdict:
        """The rules, after the body has moved: what is touched, what it pays, where one is put."""

    @property
    def observation_space(self) -> gymnasium.Space:
        """The picture; the instruction as word buckets; the previous action (one-hot) and the reward that it brought."""
        numbers = np.append(np.ones(self.shown), MOST_REWARD).astype(np.float32)
        return gymnasium.spaces.Dict(
            {
                IMAGE: gymnasium.spaces.Box(0, 255, (self.height, self.width, 3), np.uint8),
                INSTRUCTION: gymnasium.spaces.Box(NO_WORD, BUCKETS - 1, (WORDS,), np.int32),
                VECTOR: gymnasium.spaces.Box(-numbers, numbers, dtype=np.float32),
            }
        )

    @property
    def action_space(self) -> gymnasium.spaces.Space:
        """One of `actions`."""
        return gymnasium.spaces.Discrete(len(self.actions))

    @property
    def shown(self) -> int:
        """How many numbers an action is shown as."""
        return len(self.actions)

    def command(self, action: PyTree) -> Command:
        """What an action does."""
        return command_of(jnp.asarray(native(self.actions))[action], self.pace)

    def show(self, action: PyTree) -> Float[Array, " A"]:
        """An action as numbers, for the next observation."""
        return jax.nn.one_hot(action, len(self.actions))

    def reset(self, key: PRNGKeyArray) -> tuple[LevelState, PyTree]:
        """Builds the world."""
        build_key, later = jax.random.split(key)
        state = LevelState(
            world=self.build(build_key),
            random=jax.random.key_data(later),
            elapsed=jnp.int32(0),
            action=jnp.zeros(self.shown),
            reward=jnp.float32(0),
        )
        return state, self.observe(state)

    def step(self, state: LevelState, action: PyTree) -> tuple[LevelState, Step]:
        """Moves, judges, looks."""
        state, reward, terminated, truncated = self.advance(state, action)
        return state, Step(observation=self.observe(state), reward=reward, terminated=terminated, truncated=truncated)

    def advance(self, state: LevelState, action: PyTree) -> tuple[LevelState, Float[Array, ""], Bool[Array, ""], Bool[Array, ""]]:
        """A step without its picture: the next state, reward, terminated, truncated."""
        command = self.command(action)
        body = self.move(state.world, command)
        world = eqx.tree_at(lambda of: of.body, state.world, body)
        key = jax.random.fold_in(jax.random.wrap_key_data(state.random), state.elapsed)
        verdict = self.judge(world, command, key)
        elapsed = state.elapsed + 1
        reward = jnp.asarray(verdict.reward, jnp.float32)
        following = LevelState(world=verdict.world, random=state.random, elapsed=elapsed, action=self.show(action), reward=reward)
        return following, reward, verdict.terminated, ~verdict.terminated & (elapsed >= self.episode_steps)

    def move(self, world: World, command: Command) -> Body:
        """Walks and looks for `REPEAT` frames."""
        return walk(world.scene.wall, world.body, command, frames=REPEAT, ground=world.scene.ground, pace=self.pace)

    def observe(self, state: LevelState) -> dict[str, Array]:
        """What the agent is shown."""
        vector = jnp.concatenate([state.action, state.reward[None]])
        return {
            IMAGE: self.picture(state.world, height=self.height, width=self.width),
            INSTRUCTION: state.world.instruction,
            VECTOR: vector,
        }

    def picture(self, world: World, *, height: int, width: int) -> UInt8[Array, "H W 3"]:
        """What the eyes see, at any size."""
        return self.overlay(world, render(world.scene, world.body, height=height, width=width))

    def overlay(self, world: World, picture: UInt8[Array, "H W 3"]) -> UInt8[Array, "H W 3"]:
        """The picture with what the level paints over it (overlay.py); usually nothing."""
        return picture

    def view(self, state: LevelState, *, height: int, width: int) -> UInt8[np.ndarray, "H W 3"]:
        """The same of a state, in NumPy."""
        return np.asarray(_seen(self, state, height=height, width=width))

    @property
    def has_plan(self) -> bool:
        """Whether one walks in this world: a level that paints its own picture is a screen, and has nothing to see from above."""
        return type(self).picture is Level.picture

    def is_telling(self, state: LevelState) -> bool:
        """Whether a picture of this moment says what the level is about: a screen may be empty."""
        return True

    def plan(self, state: LevelState, *, side: int, path: Float[np.ndarray, "T 2"] | None = None) -> UInt8[np.ndarray, "H W 3"]:
        """The world from above, with the way that was walked."""
        canvas = Canvas(side, side)
        draw_plan(canvas, state.world.scene, state.world.body, corner=(0, 0), side=side, path=path)
        return canvas.pixels()

    def draw(self, state: LevelState, *, observation: PyTree = None, secret: bool = False) -> UInt8[np.ndarray, "H W 3"]:
        """What the agent sees, larger; the secret is the world from above."""
        height, width = VIEW
        shown = self.view(state, height=height, width=width)
        return np.concatenate([shown, self.plan(state, side=height)], axis=1) if secret and self.has_plan else shown

    def instruction(self, state: LevelState) -> str:
        """The instruction, read back from its numbers."""
        return read(np.asarray(state.world.instruction))

    def controls(self) -> Controls:
        """To walk and to look, as far as the level's actions go."""
        return table_controls(native(self.actions))

    def defaults(self) -> TaskDefaults:
        """Settings for pictures on a CPU, and the paper's for DMLab-30."""
        found = {"lam": 0.95, "eps_eta": 0.2, "eps_alpha": 0.02, "eps_covariance": 1e-3, "alpha_init": 0.3, "learning_rate": 5e-4}
        return TaskDefaults(128, steps=3_000_000, streams=32, unroll=32, discount=0.99, vmpo=found, paper="dmlab30")

    def scored_as(self) -> "Level":
        """The level at its usual size: neither player looks at the picture."""
        return dataclasses.replace(self, height=type(self).height, width=type(self).width)


@functools.partial(jax.jit, static_argnums=0, static_argnames=("height", "width"))
def _seen(task: Level, state: LevelState, *, height: int, width: int) -> UInt8[Array, "H W 3"]:
    return task.picture(state.world, height=height, width=width)


def silence() -> Int[Array, " N"]:
    """No instruction."""
    return jnp.full(WORDS, NO_WORD, jnp.int32)
