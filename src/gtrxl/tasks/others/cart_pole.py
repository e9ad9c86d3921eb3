"""NoisyPositionOnlyCartPole of POPGym: balance a pole whose places are shown through noise, and whose speeds are not shown.

O = 4 numbers in an observation.
"""

import dataclasses
import functools

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from gtrxl.tasks.contract import Step, Task
from gtrxl.tasks.defaults import TaskDefaults
from gtrxl.tasks.errors import in_range
from gtrxl.tasks.players.player import Player

LEFT, RIGHT = 0, 1
"""The actions."""
TICK = 0.02
"""Seconds of a step."""
GRAVITY, PUSH = 9.8, 10.0
CART, POLE, HALF = 1.0, 0.1, 0.5
"""Kilograms of cart and pole, metres of half a pole."""
TOTAL = CART + POLE
EDGE, TILT = 2.4, 12 * 2 * np.pi / 360
"""Metres and radians at which an episode ends."""
BEGINS = 0.05
"""Places and speeds begin between minus this and this."""


class CartPoleState(eqx.Module):
    """Where everything is, and how fast."""

    motion: Float[Array, " 4"]
    """Place and speed of the cart, angle of the pole and its speed."""

    elapsed: Int[Array, ""]

    action: Int[Array, ""]
    """The last one; -1 before the first."""

    key: PRNGKeyArray
    """Of the episode's noise."""


@dataclasses.dataclass(frozen=True)
class NoisyCartPole(Task):
    """A cart is pushed left or right so that the pole on it stays up; shown are the cart's place and the pole's angle.

    To both of them normal noise is added, of `noise` hundredths of a metre and of a radian; the pole has fallen at 0.21 radians.
    Every step pays 1 / `episode_steps`, also the one in which it falls or the cart has left its track. POPGym's Easy has a noise
    of 10, Medium 20 and Hard 30, each with 200 steps; without noise it is PositionOnlyCartPole.
    """

    noise: int = 10
    episode_steps: int = 200

    def __post_init__(self):
        in_range("noise", self.noise, least=0, most=1000, hint="in hundredths; POPGym has 10, 20 and 30")
        in_range("episode_steps", self.episode_steps, least=1, hint="POPGym has 200, 400 and 600")

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        """The cart's place and the pole's angle, cut at twice the limits; the last action, one-hot: all 0 before the first."""
        high = np.array([2 * EDGE, 2 * TILT, 1, 1], np.float32)
        return gymnasium.spaces.Box(-high * np.array([1, 1, 0, 0], np.float32), high, (4,), np.float32)

    @property
    def action_space(self) -> gymnasium.spaces.Discrete:
        """Left, right."""
        return gymnasium.spaces.Discrete(2)

    def reset(self, key: PRNGKeyArray) -> tuple[CartPoleState, Float[Array, " O"]]:
        """Nearly upright, nearly at rest."""
        begins, noise = jax.random.split(key)
        motion = jax.random.uniform(begins, (4,), minval=-BEGINS, maxval=BEGINS)
        state = CartPoleState(motion=motion, elapsed=jnp.int32(0), action=jnp.int32(-1), key=noise)
        return state, self._observe(state)

    def step(self, state: CartPoleState, action: Int[Array, ""]) -> tuple[CartPoleState, Step]:
        """A push, and a tick of the clock."""
        state = CartPoleState(
            motion=moved(state.motion, action), elapsed=state.elapsed + 1, action=action.astype(jnp.int32), key=state.key
        )
        fallen = (jnp.abs(state.motion[0]) > EDGE) | (jnp.abs(state.motion[2]) > TILT)
        over = (state.elapsed >= self.episode_steps) & ~fallen
        paid = jnp.float32(1 / self.episode_steps)
        return state, Step(observation=self._observe(state), reward=paid, terminated=fallen, truncated=over)

    def player(self) -> "CartPolePlayer":
        """Reckons the speeds from all that was seen and done."""
        return CartPolePlayer(self)

    def defaults(self) -> TaskDefaults:
        """A second of steps tells the speeds."""
        return TaskDefaults(memory=64, steps=3_000_000, discount=0.99)

    def _observe(self, state: CartPoleState) -> Float[Array, " O"]:
        drawn = jax.random.normal(jax.random.fold_in(state.key, state.elapsed), (2,))
        limits = jnp.array([2 * EDGE, 2 * TILT], jnp.float32)
        places = jnp.clip(state.motion[::2] + self.noise / 100 * drawn, -limits, limits)
        return jnp.concatenate([places, jax.nn.one_hot(state.action, 2)])


def moved(motion: Float[Array, " 4"], action: Int[Array, ""]) -> Float[Array, " 4"]:
    """A tick later, by the equations of Barto, Sutton and Anderson (1983) without friction, as Gymnasium integrates them."""
    _, speed, angle, turning = motion
    sine, cosine = jnp.sin(angle), jnp.cos(angle)
    pushed = (jnp.where(action == RIGHT, PUSH, -PUSH) + POLE * HALF * turning**2 * sine) / TOTAL
    bent = (GRAVITY * sine - cosine * pushed) / (HALF * (4 / 3 - POLE * cosine**2 / TOTAL))
    gained = pushed - POLE * HALF * bent * cosine / TOTAL
    return motion + TICK * jnp.stack([speed, gained, turning, bent])


class Reckoned(eqx.Module):
    """What a player of the cart knows before it looks."""

    motion: Float[Array, " 4"]
    """As it should be."""

    doubt: Float[Array, "4 4"]
    """The covariance of that."""


@dataclasses.dataclass(frozen=True)
class CartPolePlayer(Player):
    """A Kalman filter, and the side to which a linear quadratic regulator would push."""

    task: NoisyCartPole

    def begin(self, state: CartPoleState) -> Reckoned:
        """Upright and at rest, more or less."""
        return Reckoned(motion=jnp.zeros(4), doubt=jnp.eye(4) * BEGINS**2 / 3)

    def act(self, notes: Reckoned, observation: Float[Array, " O"], key: PRNGKeyArray) -> tuple[Reckoned, Int[Array, ""]]:
        """Corrects what it reckoned by what is seen, pushes, and reckons on."""
        noise = (self.task.noise / 100) ** 2 + 1e-8
        seen = notes.doubt[::2]
        gain = jnp.linalg.solve(seen[:, ::2] + noise * jnp.eye(2), seen).T
        motion = notes.motion + gain @ (observation[:2] - notes.motion[::2])
        doubt = notes.doubt - gain @ seen
        action = jnp.where(jnp.asarray(_regulator()) @ motion < 0, RIGHT, LEFT).astype(jnp.int32)
        onwards = jnp.asarray(_linear()[0])
        doubt = onwards @ doubt @ onwards.T + 1e-8 * jnp.eye(4)
        return Reckoned(motion=moved(motion, action), doubt=(doubt + doubt.T) / 2), action


def _linear() -> tuple[Float[np.ndarray, "4 4"], Float[np.ndarray, "4 1"]]:
    """Near upright: a tick later, and what a newton adds to that."""
    lever = HALF * (4 / 3 - POLE / TOTAL)
    rates = np.zeros((4, 4))
    rates[0, 1] = rates[2, 3] = 1
    rates[3, 2] = GRAVITY / lever
    rates[1, 2] = -POLE * HALF / TOTAL * rates[3, 2]
    turns = -1 / TOTAL / lever
    pushes = np.array([[0], [1 / TOTAL - POLE * HALF / TOTAL * turns], [0], [turns]])
    return np.eye(4) + TICK * rates, TICK * pushes


@functools.cache
def _regulator() -> Float[np.ndarray, " 4"]:
    """What it would push to the left for each unit of motion: the Riccati equation, gone through until it stands still. Of 21
    costs that were tried these keep the pole up about longest, with noise of 10, 20 and 30."""
    onwards, pushes = _linear()
    cost = left = np.diag([0.1, 0.1, 10.0, 1.0])
    gain = np.zeros((1, 4))
    for _ in range(3000):
        gain = np.linalg.solve(1.0 + pushes.T @ left @ pushes, pushes.T @ left @ onwards)
        left = cost + onwards.T @ left @ (onwards - pushes @ gain)
    return gain[0]
