"""Numpad: a sphere rolls and jumps over N x N pads that must be pressed in a hidden order. The paper's continuous task.

N pads on a side, P = N * N pads, O numbers in an observation, H rows and W columns of a picture. Metres, kilograms, seconds.
"""

import dataclasses
import functools
from collections.abc import Set

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree, UInt8

from gtrxl.tasks.contract import Step, Task
from gtrxl.tasks.controls import KEYS, Button, Controls
from gtrxl.tasks.defaults import TaskDefaults, looking_back
from gtrxl.tasks.drawing import canvas as c
from gtrxl.tasks.drawing.canvas import SIDE, Canvas
from gtrxl.tasks.errors import in_range
from gtrxl.tasks.numpad.explorer import Explorer, SequenceNotes
from gtrxl.tasks.numpad.pads import Pads, Sequence, draw_number
from gtrxl.tasks.numpad.sphere import JUMP, PHYSICS_STEP, RADIUS, TOP_HEIGHT, TOP_SPEED, Sphere, advance, at_rest, jump, moving
from gtrxl.tasks.players.player import Player

PAD_SPACING = 0.5
"""Between the centres of neighbouring pads; the platform is N of these wide."""
PAD_RADIUS = 0.12
"""A pad is pressed when the sphere touches the floor this close to its centre."""
PHYSICS_STEPS = 5
"""Physics steps in one step of the task."""
CONTROL_STEP = PHYSICS_STEPS * PHYSICS_STEP
"""Seconds in one step of the task."""
JUMP_ABOVE = 0.5
"""The third action jumps when it is larger than this."""
TOP_CHANGE = 40.0
"""Unit of the observed acceleration: a landing, JUMP within one step."""


class NumpadState(eqx.Module):
    """The sphere, the pads, and whether a pad is held down."""

    pads: Pads
    sphere: Sphere
    held: Bool[Array, ""]
    """Whether the sphere touches a pad."""
    elapsed: Int[Array, ""]


@dataclasses.dataclass(frozen=True)
class Numpad(Task):
    """N x N pads and a hidden sequence. Touching its next pad lights it and pays 1; another clears all lights.

    A pad is pressed when the sphere rolls into the disc around its centre or lands in it, and not again before the sphere
    has left the disc or the ground. A number pays once in a pass; the whole sequence lit, the lights go out and it can be done
    again.
    Sees: how it moves, which pads are lit, its last action and reward.
    """

    size: int = 2
    """Pads on a side."""

    sequence: int | None = None
    """Numbers in the hidden sequence; all N * N when left out."""

    episode_steps: int = 500
    """Steps in an episode."""

    def __post_init__(self):
        in_range("episode_steps", self.episode_steps, least=1, hint="an episode has at least one step; the paper has 500")
        _ = self.hidden

    @property
    def hidden(self) -> Sequence:
        """The sequences that can be hidden."""
        return Sequence(size=self.size, length=self.size**2 if self.sequence is None else self.sequence)

    @property
    def half_width(self) -> float:
        """From the platform's middle to its rim."""
        return self.size * PAD_SPACING / 2

    @property
    def reach(self) -> float:
        """From the platform's middle to as far as the sphere's centre can go along an axis."""
        return self.half_width - RADIUS

    @property
    def pad_centres(self) -> Float[np.ndarray, "P 2"]:
        """x and y of each pad's centre from the platform's middle; x grows with the column and y with the row."""
        row, column = np.divmod(np.arange(self.size**2), self.size)
        return ((np.stack([column, row], axis=1) + 0.5) * PAD_SPACING - self.half_width).astype(np.float32)

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        """Position [3], velocity [3], acceleration [3], roll [2], lights [P], last action [3], last reward.

        In units of the platform's half width and the height of a jump; the top speed and that of a take-off; TOP_CHANGE.
        """
        move = TOP_SPEED / (TOP_CHANGE * CONTROL_STEP) * 2
        high = np.array([1, 1, 1, 1, 1, 1, move, move, 2 * JUMP / (TOP_CHANGE * CONTROL_STEP), 1, 1], np.float32) * 1.001
        low = -high
        low[2] = 0
        ones = np.ones(self.size**2 + 4, np.float32)
        lowest = np.concatenate([0 * ones[:-4], -ones[:3], 0 * ones[:1]])
        return gymnasium.spaces.Box(np.concatenate([low, lowest]), np.concatenate([high, ones]), dtype=np.float32)

    @property
    def action_space(self) -> gymnasium.spaces.Box:
        """Push along x, push along y, jump (on the ground, when above JUMP_ABOVE). What lies outside [-1, 1] is clipped."""
        return gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32)

    def reset(self, key: PRNGKeyArray) -> tuple[NumpadState, Float[Array, " O"]]:
        """A hidden sequence, and a sphere at rest anywhere; a pad it happens to lie on does not count as pressed."""
        sequence_key, start_key = jax.random.split(key)
        place = jax.random.uniform(start_key, (2,), minval=-self.reach, maxval=self.reach)
        sphere = at_rest(place)
        touches, _ = self._touched(sphere)
        state = NumpadState(pads=self.hidden.draw(sequence_key), sphere=sphere, held=touches, elapsed=jnp.int32(0))
        return state, self._observe(state, jnp.zeros(3), jnp.zeros(3), jnp.float32(0))

    def step(self, state: NumpadState, action: Float[Array, "3"]) -> tuple[NumpadState, Step]:
        """Pushes and jumps for CONTROL_STEP seconds; at most one pad is pressed in that time."""
        action = jnp.clip(jnp.nan_to_num(action), -1.0, 1.0)
        before = state.sphere.velocity
        sphere = jump(state.sphere, action[2] > JUMP_ABOVE)

        def physics_step(_, moving: tuple[Sphere, Array, Array, Array]):
            sphere, held, pressed, which = moving
            sphere = advance(sphere, action[:2], self.reach)
            touches, pad = self._touched(sphere)
            enters = touches & ~held
            return sphere, touches, pressed | enters, jnp.where(enters, pad, which)

        # A loop, not PHYSICS_STEPS copies: XLA would merge those into one program that computes most of them several times.
        moving = (sphere, state.held, jnp.zeros((), bool), jnp.int32(0))
        sphere, held, pressed, which = jax.lax.fori_loop(0, PHYSICS_STEPS, physics_step, moving)
        pads, reward = self.hidden.press(state.pads, which, pressed)
        state = NumpadState(pads=pads, sphere=sphere, held=held, elapsed=state.elapsed + 1)
        observation = self._observe(state, (sphere.velocity - before) / CONTROL_STEP, action, reward)
        return state, Step(
            observation=observation,
            reward=reward,
            terminated=jnp.zeros((), bool),
            truncated=state.elapsed >= self.episode_steps,
        )

    def player(self) -> "NumpadPlayer":
        """Finds the sequence by deduction."""
        return NumpadPlayer(self)

    def told_player(self) -> "NumpadPlayer":
        """Knows the sequence."""
        return NumpadPlayer(self, told=True)

    def defaults(self) -> TaskDefaults:
        """A bound on the covariance that keeps the noise: most sequences have to be stumbled upon (docs/log.md)."""
        found = {"lam": 0.95, "eps_eta": 0.2, "eps_covariance": 1e-4}
        return TaskDefaults(looking_back(self.episode_steps), steps=30_000_000, streams=32, unroll=64, discount=0.99, vmpo=found)

    def controls(self) -> "PushControls":
        """Pushes and a jump, in real time."""
        signs = {"left": "←", "up": "↑", "right": "→", "down": "↓", "jump": "jump"}
        return PushControls(tuple(Button(name, sign, KEYS[name]) for name, sign in signs.items()), 1 / CONTROL_STEP, 3)

    def interest(self, state: NumpadState) -> float:
        """Many lights and a jump."""
        return float(state.pads.lit) + 5 * float(state.sphere.height)

    def draw(self, state: NumpadState, *, observation: PyTree = None, secret: bool = False) -> UInt8[np.ndarray, "H W 3"]:
        """The platform, seen a little from the side."""
        canvas = Canvas(SIDE, SIDE)
        scale = (SIDE - 40) / (2 * self.half_width)

        def at(x: float, y: float) -> c.Point:
            return SIDE / 2 + scale * x, SIDE / 2 + scale * y

        canvas.box((SIDE / 2, SIDE / 2), (SIDE - 16, SIDE - 16), fill=c.WALL, edge="#6f6959", line=2, round=14)
        canvas.box((SIDE / 2, SIDE / 2), (SIDE - 38, SIDE - 38), fill="#ece7da", round=6)
        lights = np.asarray(state.pads.order >= 0) & np.asarray(state.pads.order < state.pads.lit)
        radius = scale * PAD_RADIUS
        for i, (x, y) in enumerate(self.pad_centres):
            centre = at(float(x), float(y))
            if lights[i]:
                canvas.glow(centre, 1.4 * radius, fill=c.LIGHT, strength=0.85)
            canvas.disc(centre, 1.5 * radius, fill=c.LIGHT if lights[i] else c.PAD, edge=c.LIGHT_EDGE if lights[i] else c.EDGE)
            canvas.disc(centre, radius, fill=None, edge=c.LIGHT_EDGE if lights[i] else c.EDGE, line=1)
            draw_number(canvas, state.pads, i, centre, size=max(12, 0.9 * radius), secret=secret)
        x, y, height = (float(v) for v in state.sphere.position)
        ground = at(x, y)
        ball = scale * RADIUS * (1 + 0.6 * height)
        # Seen a little from the side: what is higher is drawn further up, and its shadow stays on the floor, larger and fainter.
        canvas.glow(
            (ground[0] + scale * 0.5 * height, ground[1] + 0.25 * ball), ball * (1 + height), fill="#000000", strength=0.42
        )
        canvas.ball((ground[0], ground[1] - scale * 0.9 * height), ball)
        return canvas.pixels()

    def _touched(self, sphere: Sphere) -> tuple[Bool[Array, ""], Int[Array, ""]]:
        """Whether the sphere touches a pad, and the pad whose square it is over."""
        column, dx = self._cell(sphere.x)
        row, dy = self._cell(sphere.y)
        return sphere.grounded & (dx * dx + dy * dy <= PAD_RADIUS**2), row * self.size + column

    def _cell(self, place: Float[Array, ""]) -> tuple[Int[Array, ""], Float[Array, ""]]:
        """The row or column at a coordinate, and how far its middle is."""
        index = jnp.clip(jnp.floor((place + self.half_width) / PAD_SPACING), 0, self.size - 1)
        return index.astype(jnp.int32), place - ((index + 0.5) * PAD_SPACING - self.half_width)

    def _observe(
        self, state: NumpadState, acceleration: Float[Array, "3"], action: Float[Array, "3"], reward: Float[Array, ""]
    ) -> Float[Array, " O"]:
        sphere = state.sphere
        return jnp.concatenate(
            [
                sphere.position / np.array([self.half_width, self.half_width, TOP_HEIGHT], np.float32),
                sphere.velocity / np.array([TOP_SPEED, TOP_SPEED, JUMP], np.float32),
                acceleration / TOP_CHANGE,
                sphere.roll / TOP_SPEED,
                state.pads.lights(),
                action,
                reward[None],
            ]
        )


def drive_to(task: Numpad, state: NumpadState, target: Float[Array, "2"]) -> Float[Array, "3"]:
    """The action that brings the sphere to a point of the floor, and presses the pad there but no other.

    It rolls around pads that lie on the straight way and jumps over one that it can no longer avoid. On the target's pad already,
    it jumps on the spot, which presses that pad again.
    """
    centres = jnp.asarray(task.pad_centres)
    place, velocity = state.sphere.position[:2], state.sphere.velocity[:2]
    away = centres - place[None]
    wanted = _distance(centres - target[None]) <= PAD_RADIUS
    under = state.held & (_distance(away) <= PAD_RADIUS)
    avoided = ~wanted & ~under

    distance = jnp.maximum(_distance(target - place), 1e-6)
    ahead = (target - place) / distance
    left = jnp.stack([-ahead[1], ahead[0]])
    along, across = away @ ahead, away @ left
    in_the_way = avoided & (along > 0) & (along < distance) & (jnp.abs(across) < PAD_RADIUS + 0.05)
    first = jnp.argmin(jnp.where(in_the_way, along, jnp.inf))
    blocked = in_the_way.any()

    # Between two pads runs a lane half a spacing from both: pass the first pad in the way there, on the nearer side of the
    # straight line unless that is outside the rim.
    aside = jnp.where(across[first] > 0, -left, left) * (PAD_SPACING / 2)
    outside = (jnp.abs(centres[first] + aside) > task.reach - 0.03).any()
    aim = jnp.where(blocked, centres[first] + jnp.where(outside, -aside, aside), target)

    # As fast as it can still brake to the speed at which it may arrive.
    distance = jnp.maximum(_distance(aim - place), 1e-6)
    speed = jnp.sqrt(jnp.where(blocked, 1.5, 0.8) ** 2 + 2 * 4.0 * distance)
    push = jnp.clip(3 * ((aim - place) / distance * speed - velocity), -1.0, 1.0)

    soon = _distance(away - CONTROL_STEP * velocity[None]) <= PAD_RADIUS + 0.01
    fast = _distance(velocity) > 0.6
    hop = (avoided & soon).any() & fast | (wanted & under).any()
    return jnp.append(push, jnp.where(hop, 1.0, -1.0))


def _distance(vectors: Float[Array, "*many 2"]) -> Float[Array, "*many"]:
    return jnp.sqrt(jnp.sum(vectors**2, axis=-1))


class PushControls(Controls):
    """Pushes and a jump."""

    def meant(self, held: Set[str], step: int) -> Float[np.ndarray, "3"]:
        """Opposite pushes cancel."""

        def towards(plus: str, minus: str) -> int:
            return (plus in held) - (minus in held)

        return np.array([towards("right", "left"), towards("down", "up"), 1 if "jump" in held else -1], np.float32)


class RollNotes(eqx.Module):
    """What a player of Numpad remembers: what it learnt, and what it last saw."""

    learnt: SequenceNotes
    held: Bool[Array, ""]
    """Whether it touched a pad."""
    lit: Int[Array, ""]
    target: Int[Array, ""]
    """The pad it is on its way to; -1 before the first step."""


@dataclasses.dataclass(frozen=True)
class NumpadPlayer(Player):
    """Chooses its pads like the player of Grid Numpad, and rolls there."""

    task: Numpad
    told: bool = False
    """Whether it is told the sequence at the start."""

    @property
    def explorer(self) -> Explorer:
        """What chooses the pads."""
        return Explorer(self.task.hidden)

    def begin(self, state: NumpadState) -> RollNotes:
        """Nothing, or the sequence."""
        learnt = self.explorer.told(state.pads) if self.told else self.explorer.begin()
        held = jnp.ones((), bool)  # what it lies on at first is not pressed
        return RollNotes(learnt=learnt, held=held, lit=jnp.int32(0), target=jnp.int32(-1))

    def act(self, notes: RollNotes, observation: Float[Array, " O"], key: PRNGKeyArray) -> tuple[RollNotes, Float[Array, "3"]]:
        """Drives towards the pad it wants."""
        pads, centres = self.task.size**2, jnp.asarray(self.task.pad_centres)
        half_width = self.task.half_width
        position = observation[0:3] * np.array([half_width, half_width, TOP_HEIGHT], np.float32)
        velocity = observation[3:6] * np.array([TOP_SPEED, TOP_SPEED, JUMP], np.float32)
        sphere = moving(position=position, velocity=velocity, roll=observation[9:11] * TOP_SPEED)
        away = jnp.linalg.norm(centres - position[None, :2], axis=1)
        here, held = jnp.argmin(away).astype(jnp.int32), sphere.grounded & (jnp.min(away) <= PAD_RADIUS)
        lit, reward = jnp.sum(observation[11 : 11 + pads]).astype(jnp.int32), observation[-1]
        pressed = (held & ~notes.held) | (reward > 0) | ((lit == 0) & (notes.lit > 0))
        learnt = self.explorer.learn(notes.learnt, lit=notes.lit, pad=here, pressed=pressed, reward=reward)
        # On its way it sticks to its choice: another pad may come nearer than the one it wants.
        choice = self.explorer.next_pad(learnt, lit=lit, costs=jnp.asarray(_rolls(self.task)), here=here)
        target = jnp.where(pressed | (notes.target < 0), choice, notes.target)
        # All that driving needs is seen; what is hidden stays out.
        blank = Pads(order=jnp.full(pads, -1, jnp.int8), lit=lit, paid=lit)
        state = NumpadState(pads=blank, sphere=sphere, held=held, elapsed=jnp.int32(0))
        action = drive_to(self.task, state, centres[target])
        return RollNotes(learnt=learnt, held=held, lit=lit, target=target), action


@functools.cache
def _rolls(task: Numpad) -> Float[np.ndarray, "P P"]:
    """About how long it takes from each pad to each pad, in spacings; to itself it takes a jump."""
    centres = task.pad_centres
    apart = np.linalg.norm(centres[:, None] - centres, axis=-1) / PAD_SPACING
    return np.where(apart == 0, 1.5, apart).astype(np.float32)
