"""Compiled tasks for tests: one with a picture, the same as a level, one with hybrid actions. H height, W width, N words."""

import dataclasses
from typing import Any, ClassVar

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree, UInt8

from gtrxl.tasks.contract import Step, Task
from gtrxl.tasks.first_person.level import Level


class Count(eqx.Module):
    """How far an episode is, and a number that it was given at its start."""

    elapsed: Int[Array, "*s"]
    secret: Int[Array, "*s"]


@dataclasses.dataclass(frozen=True)
class Shades(Task):
    """A picture whose left half is as bright as the step and whose right half is as bright as the episode's number, 0 to 3.

    Action 1 at an even number ends the episode for good; the clock ends it after `episode_steps`. Every step pays `pay`.
    """

    height: int = 32
    width: int = 32
    episode_steps: int = 4
    pay: int = 1
    name: ClassVar[str] = "shades"

    @property
    def observation_space(self) -> gymnasium.Space:
        picture = gymnasium.spaces.Box(0, 255, (self.height, self.width, 3), np.uint8)
        return gymnasium.spaces.Dict({"image": picture, "vector": gymnasium.spaces.Box(-1, 1, (2,), np.float32)})

    @property
    def action_space(self) -> gymnasium.Space:
        return gymnasium.spaces.Discrete(3)

    def reset(self, key: PRNGKeyArray) -> tuple[Count, PyTree]:
        state = Count(elapsed=jnp.int32(0), secret=jax.random.randint(key, (), 0, 4))
        return state, self.see(state)

    def step(self, state: Count, action: Int[Array, ""]) -> tuple[Count, Step]:
        state = Count(elapsed=state.elapsed + 1, secret=state.secret)
        ends = (action == 1) & (state.secret % 2 == 0)
        cut: Bool[Array, ""] = ~ends & (state.elapsed >= self.episode_steps)
        return state, Step(observation=self.see(state), reward=jnp.float32(self.pay), terminated=ends, truncated=cut)

    def see(self, state: Count) -> dict[str, Array]:
        half = (self.height, self.width // 2, 3)
        sides = [jnp.full(half, shade, jnp.uint8) for shade in (20 * state.elapsed, 60 * state.secret)]
        image: UInt8[Array, "H W 3"] = jnp.concatenate(sides, axis=1)
        return {"image": image, "vector": jnp.array([0.5, state.secret / 4], jnp.float32)}


@dataclasses.dataclass(frozen=True)
class Aim(Task):
    """Pays for two numbers near a target that is shown, and 1 for the choice that is shown."""

    episode_steps: int = 5
    name: ClassVar[str] = "aim"

    @property
    def observation_space(self) -> gymnasium.Space:
        return gymnasium.spaces.Box(-1, 1, (2,), np.float32)

    @property
    def action_space(self) -> gymnasium.Space:
        numbers = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
        return gymnasium.spaces.Dict({"continuous": numbers, "discrete": gymnasium.spaces.MultiDiscrete([2])})

    def reset(self, key: PRNGKeyArray) -> tuple[Count, Float[Array, "2"]]:
        state = Count(elapsed=jnp.int32(0), secret=jax.random.randint(key, (), 0, 2))
        return state, self.see(state)

    def step(self, state: Count, action: PyTree) -> tuple[Count, Step]:
        near = -jnp.sum(jnp.square(action["continuous"] - 0.8 * (2.0 * state.secret - 1)))
        right = (action["discrete"][0] == state.secret).astype(jnp.float32)
        state = Count(elapsed=state.elapsed + 1, secret=state.secret)
        over = state.elapsed >= self.episode_steps
        return state, Step(observation=self.see(state), reward=near + right, terminated=jnp.zeros((), bool), truncated=over)

    def see(self, state: Count) -> Float[Array, "2"]:
        return jnp.array([2.0 * state.secret - 1, 0.5], jnp.float32)


@dataclasses.dataclass(frozen=True)
class ShadesLevel(Level):
    """`Shades` as a first-person level: it can go on without a picture, and be looked at afterwards."""

    height: int = 32
    width: int = 32
    episode_steps: int = 4
    name: ClassVar[str] = "shades-level"

    @property
    def shades(self) -> Shades:
        return Shades(height=self.height, width=self.width, episode_steps=self.episode_steps)

    @property
    def observation_space(self) -> gymnasium.Space:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.shades.observation_space

    @property
    def action_space(self) -> gymnasium.Space:
        return self.shades.action_space

    def build(self, key: PRNGKeyArray) -> Any:
        raise NotImplementedError

    def judge(self, world: Any, command: Any, key: PRNGKeyArray) -> Any:
        raise NotImplementedError

    def reset(self, key: PRNGKeyArray) -> Any:
        return self.shades.reset(key)

    def advance(self, state: Any, action: Any) -> Any:
        state, step = self.shades.step(state, action)
        return state, step.reward, step.terminated, step.truncated

    def observe(self, state: Any) -> Any:
        return self.shades.see(state)
