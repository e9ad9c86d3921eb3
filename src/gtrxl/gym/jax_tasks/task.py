"""Tasks of other people that compile together with the agent: `jax:gymnax/MemoryChain-bsuite`, `jax:navix/Navix-DoorKey-5x5-v0`.

    task = JaxTask.parse("jax:gymnax/MemoryChain-bsuite:memory_length=10")
    task = JaxTask.parse("jax:navix/Navix-DoorKey-5x5-v0:observation_fn=symbolic_first_person,previous=action+reward")
    task = from_gymnax(MyEnv(), MyEnv().default_params, name="my-env")

After the colon come the fields of the environment's parameters, or arguments of what makes it, and `previous`: what is added
to every observation, "action" unless told, as for Gymnasium tasks. Observations and actions have the layout that a Gymnasium
task with the same spaces has.

Keys: `reset(key)` splits its key in two, the first for the environment's own reset; every step splits the other in two again, the
second for the environment's own step.
"""

import abc
import dataclasses
import functools
import typing
from typing import Any

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray, PyTree

from gtrxl import names
from gtrxl.gym.jax_tasks import traced
from gtrxl.gym.jax_tasks.env import GymnaxEnv, JaxEnv, checked
from gtrxl.gym.jax_tasks.packages import EXAMPLE, PREFIX, SOURCES, made
from gtrxl.gym.spaces.hand import Hand
from gtrxl.gym.spaces.lens import Lens, Previous
from gtrxl.gym.spelling import Arguments, spelled, taken_apart
from gtrxl.tasks.contract import Step, Task
from gtrxl.tasks.errors import TaskError

PREVIOUS = "previous"
"""The one argument that is ours."""


def is_jax(text: str) -> bool:
    """Whether this names a task of another package that compiles."""
    return text.strip().startswith(PREFIX)


class JaxState(eqx.Module):
    """Where an episode stands."""

    env: PyTree
    """The environment's own state."""
    key: PRNGKeyArray
    steps: Int[Array, ""]


class _Adapted(Task):
    """A task around a `JaxEnv`."""

    previous: Previous

    @property
    @abc.abstractmethod
    def env(self) -> JaxEnv:
        """The environment; the same object for equal tasks."""

    @property
    def episode_steps(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """As many as the environment's own limit says."""
        return self.env.episode_steps

    @property
    def observation_space(self) -> gymnasium.Space:
        """Numbers in one vector, pictures beside it."""
        return traced.observation_space(_lens(self.env, self.previous))

    @property
    def action_space(self) -> gymnasium.Space:
        """A choice, or numbers in [-1, 1] that are stretched to the environment's bounds."""
        return traced.action_space(_lens(self.env, self.previous).hand)

    def reset(self, key: PRNGKeyArray) -> tuple[JaxState, PyTree]:
        """Begins an episode."""
        first, later = jax.random.split(key)
        with jax.numpy_rank_promotion("allow"):  # a user's strictness is not for the code of others
            state, observation = self.env.reset(first)
        shown = traced.seen(_lens(self.env, self.previous), observation, action=None, reward=jnp.float32(0))
        return JaxState(env=_strong(state), key=later, steps=jnp.int32(0)), shown

    def step(self, state: JaxState, action: PyTree) -> tuple[JaxState, Step]:
        """Takes one action."""
        lens = _lens(self.env, self.previous)
        later, now = jax.random.split(state.key)
        taken = traced.to_task(lens.hand, action)
        with jax.numpy_rank_promotion("allow"):
            came = self.env.step(now, state.env, taken)
        steps = state.steps + 1
        reward = jnp.asarray(came.reward).astype(jnp.float32).reshape(())
        terminated, late = (jnp.asarray(end).astype(bool).reshape(()) for end in (came.terminated, came.truncated))
        return JaxState(env=_strong(came.state), key=later, steps=steps), Step(
            observation=traced.seen(lens, came.observation, action=action, reward=reward),
            reward=reward,
            terminated=terminated,
            truncated=(late | (steps >= self.episode_steps)) & ~terminated,
        )


@dataclasses.dataclass(frozen=True, eq=False)
class JaxTask(_Adapted):
    """A task of a package that `SOURCES` knows. Tasks with the same name are equal."""

    package: str
    id: str
    arguments: Arguments = ()
    previous: Previous = "action"

    def __post_init__(self):
        if self.package not in SOURCES:
            raise TaskError(
                f"a compiled task of others comes from {', '.join(SOURCES)}, got {self.package!r}"
                f"{names.meant(self.package, SOURCES) or f'; for example {EXAMPLE!r}'}"
            )
        if not self.id:
            raise TaskError(f"a task of {self.package} needs an id, got none; for example {EXAMPLE!r}")

    @classmethod
    def parse(cls, text: str) -> "JaxTask":
        """`jax:PACKAGE/ID`, `jax:PACKAGE/ID:key=value,key=value` (JSON, or plain text)."""
        if not is_jax(text):
            raise TaskError(f"a compiled task of others is written jax:PACKAGE/ID, got {text!r}; for example {EXAMPLE!r}")
        place, arguments = taken_apart(text, PREFIX, example=f"{EXAMPLE}:memory_length=10")
        package, _, id = place.partition("/")
        previous = dict(arguments).get(PREVIOUS, "action")
        if previous not in typing.get_args(Previous):
            raise TaskError(f"previous must be none, action or action+reward, got {previous!r}; the default is action")
        return cls(package, id, tuple((key, value) for key, value in arguments if key != PREVIOUS), previous)

    @functools.cached_property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The text that `parse` takes back."""
        told = () if self.previous == "action" else ((PREVIOUS, self.previous),)
        return f"{PREFIX}{self.package}/{self.id}{spelled((*self.arguments, *told))}"

    def own_name(self) -> str:
        """The text that `parse` takes back."""
        return self.name

    @property
    def env(self) -> JaxEnv:
        """The environment; makes it when it is first asked for."""
        return made(self.package, self.id, spelled(self.arguments))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JaxTask) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


@dataclasses.dataclass(frozen=True, eq=False)
class GivenTask(_Adapted):
    """A task around an environment that was given as an object; another process must be given it again."""

    name: str  # pyright: ignore[reportIncompatibleVariableOverride, reportGeneralTypeIssues]
    given: JaxEnv
    previous: Previous = "action"

    def own_name(self) -> str:
        """The name that it was given with."""
        return self.name

    @property
    def env(self) -> JaxEnv:
        """What was given."""
        return self.given

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GivenTask) and self._told == other._told

    def __hash__(self) -> int:
        return hash(self._told)

    @property
    def _told(self) -> tuple[Any, ...]:
        return self.name, self.previous, self.given


def from_gymnax(
    env: Any, params: Any = None, *, name: str, previous: Previous = "action", episode_steps: int | None = None
) -> Task:
    """A task of any object with gymnax's interface: `reset_env(key, params)`, `step_env(key, state, action, params)`,
    `observation_space(params)`, `action_space(params)`. `episode_steps` ends episodes where the parameters have no limit."""
    params = env.default_params if params is None else params
    return GivenTask(name, checked(GymnaxEnv(env, params, name=name, episode_steps=episode_steps), name=name), previous)


@functools.lru_cache(maxsize=256)
def _lens(env: JaxEnv, previous: Previous) -> Lens:
    hand = Hand.of(env.action_space)
    return Lens.of(env.observation_space, hand=hand, previous=previous, raw=env.observation_space)


def _strong(state: PyTree) -> PyTree:
    """Arrays of a definite type: a Python number in a state would change its type from one step to the next."""
    arrays = jax.tree.map(jnp.asarray, state)
    return jax.tree.map(lambda array: jnp.asarray(array, array.dtype) if array.weak_type else array, arrays)
