"""A task as a stranger writes it: a frozen dataclass with spaces, episode_steps, reset and step, and nothing else of ours."""

import dataclasses
from typing import Any, ClassVar

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from gtrxl.tasks.contract import Step, Task


class EchoState(eqx.Module):
    """What was shown, newest first; and a random key, which no picture can show."""

    past: Int[Array, " delay"]
    key: PRNGKeyArray
    elapsed: Int[Array, ""]


@dataclasses.dataclass(frozen=True)
class Echo(Task):
    """Say what was shown `delay` steps ago.

    One of three signs a step.
    """

    delay: int = 2
    episode_steps: int = 12

    @property
    def observation_space(self) -> gymnasium.Space:
        return gymnasium.spaces.Box(0, 1, (3,), np.float32)

    @property
    def action_space(self) -> gymnasium.Space:
        return gymnasium.spaces.Discrete(3)

    def reset(self, key: PRNGKeyArray) -> tuple[EchoState, Float[Array, "3"]]:
        key, sign = jax.random.split(key)
        past = jnp.zeros(self.delay + 1, jnp.int32).at[0].set(jax.random.randint(sign, (), 0, 3))
        state = EchoState(past, key, jnp.int32(0))
        return state, self.show(state)

    def step(self, state: EchoState, action: Array) -> tuple[EchoState, Step]:
        right = (state.elapsed >= self.delay) & (action == state.past[-1])
        key, sign = jax.random.split(state.key)
        past = jnp.roll(state.past, 1).at[0].set(jax.random.randint(sign, (), 0, 3))
        state = EchoState(past, key, state.elapsed + 1)
        return state, Step(
            observation=self.show(state),
            reward=right.astype(jnp.float32),
            terminated=jnp.zeros((), bool),
            truncated=state.elapsed >= self.episode_steps,
        )

    def show(self, state: EchoState) -> Float[Array, "3"]:
        return jax.nn.one_hot(state.past[0], 3)


@dataclasses.dataclass(frozen=True)
class Needy(Echo):
    """Has an argument without a default."""

    delay: int = dataclasses.field(kw_only=True)


@dataclasses.dataclass(frozen=True)
class Coloured(Echo):
    """Has a field that is no whole number."""

    colour: str = "red"


class Unfrozen(Task):
    """Is no record."""

    episode_steps = 3
    observation_space: Any = gymnasium.spaces.Box(0, 1, (3,), np.float32)
    action_space: Any = gymnasium.spaces.Discrete(3)
    reset: Any = None
    step: Any = None


@dataclasses.dataclass(frozen=True)
class Half(Task):
    """Has no step."""

    episode_steps: int = 3
    observation_space: ClassVar[Any] = gymnasium.spaces.Box(0, 1, (3,), np.float32)
    action_space: ClassVar[Any] = gymnasium.spaces.Discrete(3)
    reset: ClassVar[Any] = None


def not_a_task() -> None:
    """Is a function."""
