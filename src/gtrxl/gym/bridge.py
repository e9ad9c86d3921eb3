"""Any task as a Gymnasium environment: one, or many that step together in one compiled call.

B environments.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from jaxtyping import Array, Bool, Key, PRNGKeyArray, PyTree

from gtrxl.tasks.contract import State, Step, Task
from gtrxl.tasks.drawing.pictures import frame
from gtrxl.tasks.errors import TaskError, in_range
from gtrxl.tasks.making import make_task

SEEDS = 2**32
"""Seeds are taken modulo this."""


class TaskEnv(gymnasium.Env[Any, Any]):
    """One stream of a task. `reset(seed=...)` decides all episodes from there on."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 (the base class declares it so)

    def __init__(self, task: Task | str, *, render_mode: str | None = None, **arguments: int):
        """`task` is a task or its text; `arguments` are the task's own."""
        self.task = _task(task, arguments)
        self.render_mode = _render_mode(render_mode)
        self.observation_space = self.task.observation_space
        self.action_space = self.task.action_space
        self._key: PRNGKeyArray | None = None
        self._state: State = None
        self._observation: PyTree = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode. Options: none."""
        super().reset(seed=seed)
        if seed is not None or self._key is None:
            self._key = jax.random.key(_fresh(self.np_random) if seed is None else seed % SEEDS)
        self._key, self._state, self._observation = _reset(self.task, self._key)
        return _told(self._observation), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Takes one action."""
        if self._state is None:
            raise TaskError("step comes after reset, got step first; call reset() once before the first step")
        _check_action(action, self.action_space, "action")
        numbers = _numbers(action, self.action_space, "action")
        _check_numbers(numbers, self.action_space, "action")
        self._state, step = _step(self.task, self._state, numbers)
        self._observation = step.observation
        return _told(step.observation), float(step.reward), bool(step.terminated), bool(step.truncated), {}

    def render(self) -> np.ndarray | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """A picture of the state, if the render mode is "rgb_array"."""
        if self.render_mode is None or self._state is None:
            return None
        return frame(self.task, self._state, observation=self._observation)


class TaskVectorEnv(gymnasium.vector.VectorEnv[Any, Any, np.ndarray]):
    """B streams of a task, stepped together. Environment i plays exactly what a `TaskEnv` with seed + i plays.

    The step after an episode's end begins the next one and ignores its action (`AutoresetMode.NEXT_STEP`).
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 (the base class declares it so)
        "render_modes": ["rgb_array"],
        "render_fps": 10,
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def __init__(self, task: Task | str, num_envs: int = 1, *, render_mode: str | None = None, **arguments: int):
        """`task` is a task or its text; `arguments` are the task's own."""
        in_range("num_envs", num_envs, least=1, hint="1,024 step nearly as fast as one")
        self.task = _task(task, arguments)
        self.num_envs = num_envs
        self.render_mode = _render_mode(render_mode)
        self.single_observation_space = self.task.observation_space
        self.single_action_space = self.task.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._keys: Key[Array, " B"] | None = None
        self._states: State = None
        self._observations: PyTree = None
        self._ended: Bool[Array, " B"] = jnp.zeros(num_envs, bool)

    def reset(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begins an episode in every environment. A whole number seeds environment i with seed + i. Options: none."""
        if seed is None or isinstance(seed, int | np.integer):
            super().reset(seed=None if seed is None else int(seed))
            seeds = [None] * self.num_envs if seed is None else [int(seed) + i for i in range(self.num_envs)]
        else:
            seeds = list(seed)
            if len(seeds) != self.num_envs:
                raise TaskError(
                    f"seed must have one entry for each of {self.num_envs} environments, got {len(seeds)}; or give one number"
                )
        if self._keys is None or any(each is not None for each in seeds):
            given = np.array([_fresh(self.np_random) if each is None else each % SEEDS for each in seeds], np.uint32)
            fresh = jax.vmap(jax.random.key)(given)
            unseeded = jnp.array([each is None for each in seeds])
            self._keys = fresh if self._keys is None else jnp.where(unseeded, self._keys, fresh)
        self._keys, self._states, self._observations = _reset_all(self.task, self._keys)
        self._ended = jnp.zeros(self.num_envs, bool)
        return _told(self._observations), {}

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """One action in each environment, or the begin of its next episode."""
        if self._states is None:
            raise TaskError("step comes after reset, got step first; call reset() once before the first step")
        numbers = _numbers(actions, self.single_action_space, "actions")
        _check_numbers(numbers, self.single_action_space, "actions", (self.num_envs,))
        self._keys, self._states, step = _step_all(self.task, self._keys, self._states, self._ended, numbers)
        self._observations, self._ended = step.observation, step.terminated | step.truncated
        reward = np.array(step.reward, np.float64)
        return _told(step.observation), reward, np.array(step.terminated), np.array(step.truncated), {}

    def render(self) -> tuple[np.ndarray, ...] | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """A picture of each environment, if the render mode is "rgb_array"."""
        if self.render_mode is None or self._states is None:
            return None

        def one(i: int) -> np.ndarray:
            state, observation = jax.tree.map(lambda leaf: leaf[i], (self._states, self._observations))
            return frame(self.task, state, observation=observation)

        return tuple(one(i) for i in range(self.num_envs))


def _task(task: Task | str, arguments: dict[str, int]) -> Task:
    if isinstance(task, str):
        return make_task(task, **arguments)
    if arguments:
        raise TaskError(f"a task that is made already takes no arguments, got {', '.join(arguments)}; give its name instead")
    return task


def _render_mode(mode: str | None) -> str | None:
    if mode not in (None, "rgb_array"):
        raise TaskError(f"render_mode must be None or 'rgb_array', got {mode!r}; there is no window to draw in")
    return mode


def _told(observation: PyTree) -> Any:
    """In NumPy, to keep."""
    return jax.tree.map(np.array, observation)


def _fresh(generator: np.random.Generator) -> int:
    return int(generator.integers(SEEDS))


def _numbers(actions: Any, space: gymnasium.Space, name: str) -> Any:
    """An action, or many, as arrays of the types that a task takes."""
    if isinstance(space, gymnasium.spaces.Dict):
        if not isinstance(actions, Mapping) or set(actions) != set(space.spaces):
            said = sorted(actions) if isinstance(actions, Mapping) else actions
            raise TaskError(f"{name} must be a dict of {', '.join(space.spaces)}, got {said}; see env.action_space")
        return {part: _numbers(actions[part], inner, part) for part, inner in space.spaces.items()}
    whole = isinstance(space, gymnasium.spaces.Discrete | gymnasium.spaces.MultiDiscrete)
    return np.asarray(actions, np.int32 if whole else np.float32)


def _check_action(action: Any, space: gymnasium.Space, name: str) -> None:
    if isinstance(space, gymnasium.spaces.Discrete) and not space.contains(action):
        raise TaskError(f"{name} must be a whole number from 0 to {space.n - 1}, got {action!r}; see env.action_space")


def _check_numbers(numbers: Any, space: gymnasium.Space, name: str, leading: tuple[int, ...] = ()) -> None:
    """Raise unless all parts have the right shape, with these axes in front, and whole numbers are in range."""
    if isinstance(space, gymnasium.spaces.Dict):
        for part, inner in space.spaces.items():
            _check_numbers(numbers[part], inner, part, leading)
        return
    shape = (*leading, *(space.shape or ()))
    if numbers.shape != shape:
        hint = "one action for each environment" if leading else "see env.action_space"
        raise TaskError(f"{name} must have shape {shape}, got {numbers.shape}; {hint}")
    if isinstance(space, gymnasium.spaces.Discrete | gymnasium.spaces.MultiDiscrete):
        most = np.broadcast_to(space.n if isinstance(space, gymnasium.spaces.Discrete) else space.nvec, shape) - 1
        outside = (numbers < 0) | (numbers > most)
        if outside.any():
            bound, wrong = most[outside].ravel()[0], numbers[outside].ravel()[0]
            see = "envs.single_action_space" if leading else "env.action_space"
            raise TaskError(f"{name} must be whole numbers from 0 to {bound}, got {wrong}; see {see}")


def _begin(task: Task, key: PRNGKeyArray) -> tuple[PRNGKeyArray, State, PyTree]:
    later, now = jax.random.split(key)
    return later, *task.reset(now)


@functools.partial(jax.jit, static_argnums=0)
def _reset(task: Task, key: PRNGKeyArray) -> tuple[PRNGKeyArray, State, PyTree]:
    return _begin(task, key)


@functools.partial(jax.jit, static_argnums=0)
def _step(task: Task, state: State, action: PyTree) -> tuple[State, Step]:
    return task.step(state, action)


@functools.partial(jax.jit, static_argnums=0)
def _reset_all(task: Task, keys: Key[Array, " B"]) -> tuple[Key[Array, " B"], State, PyTree]:
    return jax.vmap(functools.partial(_begin, task))(keys)


@functools.partial(jax.jit, static_argnums=0)
def _step_all(
    task: Task, keys: Key[Array, " B"], states: State, ended: Bool[Array, " B"], actions: PyTree
) -> tuple[Key[Array, " B"], State, Step]:
    def resume(keys: Key[Array, " B"], stepped: State, step: Step) -> tuple[Key[Array, " B"], State, Step]:
        def one(key: PRNGKeyArray, state: State, step: Step, ended: Bool[Array, ""]) -> tuple[PRNGKeyArray, State, Step]:
            later, first, observation = _begin(task, key)
            no = jnp.zeros((), bool)
            begun = (later, first, Step(observation=observation, reward=jnp.float32(0), terminated=no, truncated=no))
            return jax.tree.map(lambda new, old: jnp.where(ended, new, old), begun, (key, state, step))

        return jax.vmap(one)(keys, stepped, step, ended)

    stepped, step = jax.vmap(task.step)(states, actions)
    # Most steps end no episode; drawing new ones is left out then.
    return jax.lax.cond(ended.any(), resume, lambda *same: same, keys, stepped, step)
