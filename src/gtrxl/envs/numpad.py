"""Numpad: a sphere rolls and jumps over N x N pads that must be pressed in a hidden order. The paper's continuous task.

N pads on a side, P = N * N pads, O numbers in an observation. Metres, kilograms, seconds.
"""

import dataclasses
from typing import ClassVar

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from gtrxl.envs.contract import Step, Task
from gtrxl.envs.errors import in_range
from gtrxl.envs.pads import Pads, Sequence
from gtrxl.envs.sphere import JUMP, PHYSICS_STEP, RADIUS, TOP_HEIGHT, TOP_SPEED, Sphere, advance, at_rest, jump

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

    name: ClassVar[str] = "numpad"

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
