"""Environments of other people that are written in JAX, behind one small interface: gymnax's, and navix's.

gymnax's interface is also that of craftax and of many others. Its `step` resets by itself when an episode ends; so its parts
are used, `reset_env` and `step_env`, and nothing is reset behind the caller's back.
"""

import abc
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jaxtyping import PRNGKeyArray, PyTree

from gtrxl.gym.errors import in_one_line
from gtrxl.tasks.errors import TaskError

LIMITS = ("max_steps_in_episode", "max_timesteps")
"""What the field of `params` is called that limits an episode."""
CLOCKS = ("time", "timestep")
"""What the field of a state is called that counts its steps."""
LEAST_SIDE = 32
"""Floats from 0 to 1 in three channels are a picture if it is at least as high and wide; smaller ones are a table of numbers."""


class Outcome(NamedTuple):
    """What an action led to, as the environment says it: its numbers may be of any type."""

    state: PyTree
    observation: PyTree
    reward: Any
    terminated: Any
    truncated: Any


class JaxEnv(abc.ABC):
    """Pure functions for one stream. `reset` and `step` may be traced."""

    observation_space: gymnasium.Space
    action_space: gymnasium.Space
    episode_steps: int
    """No episode is longer."""

    @abc.abstractmethod
    def reset(self, key: PRNGKeyArray) -> tuple[PyTree, PyTree]:
        """State and observation."""

    @abc.abstractmethod
    def step(self, key: PRNGKeyArray, state: PyTree, action: PyTree) -> Outcome:
        """Takes one action, a member of `action_space`. After the end of an episode the observation is its last."""


class GymnaxEnv(JaxEnv):
    """Any object with gymnax's interface, and its parameters."""

    def __init__(self, env: Any, params: Any, *, name: str, episode_steps: int | None = None):
        missing = [call for call in ("reset_env", "step_env", "observation_space", "action_space") if not hasattr(env, call)]
        if missing:
            raise TaskError(f"{name} must have gymnax's interface, got no {', '.join(missing)} in {type(env).__name__}")
        self._env, self._params = env, params
        limit = next((getattr(params, field) for field in LIMITS if hasattr(params, field)), None)
        steps = episode_steps if episode_steps is not None else limit
        if steps is None:
            raise TaskError(
                f"an episode must have an end, got params without {' or '.join(LIMITS)} in {name}; give episode_steps"
            )
        self.episode_steps = int(steps)
        self._limit = self.episode_steps if limit is None else int(limit)
        # Parameters may be arrays, which have no hash.
        leaves, structure = jax.tree.flatten(params)
        self._same = (
            id(env),
            structure,
            tuple((np.asarray(leaf).dtype.str, np.asarray(leaf).tobytes()) for leaf in leaves),
            steps,
        )
        self.observation_space = _space(env.observation_space(params), f"{name}: observation", seen=True)
        self.action_space = _space(env.action_space(params), f"{name}: action", seen=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GymnaxEnv) and self._same == other._same

    def __hash__(self) -> int:
        return hash(self._same)

    def reset(self, key: PRNGKeyArray) -> tuple[PyTree, PyTree]:
        """State and observation."""
        observation, state = self._env.reset_env(key, self._params)
        return state, observation

    def step(self, key: PRNGKeyArray, state: PyTree, action: PyTree) -> Outcome:
        """Takes one action."""
        observation, after, reward, done, *_ = self._env.step_env(key, state, action, self._params)
        done = jnp.asarray(done, bool)
        if hasattr(self._env, "is_truncated"):  # gymnax from 1.0 on: step_env says `terminated`
            return Outcome(after, observation, reward, done, self._env.is_truncated(after, self._params))
        # Before that, and in craftax, `done` is both: an end in the very step in which the time is up counts as time being up.
        clock = next((getattr(after, field) for field in CLOCKS if hasattr(after, field)), None)
        late = jnp.zeros((), bool) if clock is None else jnp.asarray(clock >= self._limit, bool)
        return Outcome(after, observation, reward, done & ~late, done & late)


class NavixEnv(JaxEnv):
    """An environment of navix: its state is a whole timestep."""

    OBJECTS, COLOURS, STATES = 11, 6, 4
    """What a cell of a symbolic observation holds; navix's own space has too few of the first. Some locked doors are in state 254
    (navix 0.7.4), which counts as the last."""

    def __init__(self, env: Any, *, name: str):
        self._env = env
        self.episode_steps = int(env.max_steps)
        self.observation_space = self._seen(name)
        self.action_space = spaces.Discrete(len(env.action_set))
        self._draws = self._needs_pictures()

    def reset(self, key: PRNGKeyArray) -> tuple[PyTree, PyTree]:
        """State and observation."""
        timestep = self._env.reset(key)
        return self._lean(timestep), timestep.observation

    def step(self, key: PRNGKeyArray, state: PyTree, action: PyTree) -> Outcome:
        """Takes one action; all that is random comes from the state."""
        # Its public `step` is this, or a reset if the episode has ended. Under `vmap` it would do both at every step.
        timestep = self._env._step(state, action)
        return Outcome(
            state=self._lean(timestep),
            observation=timestep.observation,
            reward=timestep.reward,
            terminated=timestep.is_termination(),
            truncated=timestep.is_truncation(),
        )

    def _lean(self, timestep: Any) -> Any:
        """Without the pictures of all cells, 3 kB each, which only observations in colours need."""
        return timestep if self._draws else timestep.replace(state=timestep.state.replace(cache=None))

    def _needs_pictures(self) -> bool:
        self._draws = False
        try:
            jax.eval_shape(lambda key: self.step(key, self.reset(key)[0], jnp.int32(0)), jax.random.key(0))
        except AttributeError:  # None has no pictures
            return True
        return False

    def _seen(self, name: str) -> gymnasium.Space:
        space, kind = self._env.observation_space, getattr(self._env.observation_fn, "__name__", "")
        shape = tuple(map(int, space.shape))
        if kind.startswith("rgb"):
            return spaces.Box(0, 255, shape, np.uint8)
        if kind.startswith("symbolic"):
            counts = np.broadcast_to([self.OBJECTS, self.COLOURS, self.STATES], shape)
            return spaces.MultiDiscrete(counts)
        if kind.startswith("categorical"):  # walls are -1
            return spaces.MultiDiscrete(np.full(shape, self.OBJECTS + 1), start=np.full(shape, -1))
        if jnp.issubdtype(space.dtype, jnp.floating) and kind != "none":
            return spaces.Box(-np.inf, np.inf, shape, np.float32)
        raise TaskError(
            f"{name} must show something that is known here, got observation_fn {kind!r}; use one of navix.observations"
        )


def checked(env: JaxEnv, *, name: str) -> JaxEnv:
    """The same, if its functions run and show what its space says; nothing is computed."""
    try:
        with jax.numpy_rank_promotion("allow"):
            _, observation = jax.eval_shape(env.reset, jax.random.key(0))
    except TaskError:
        raise
    except Exception as error:
        raise TaskError(f"{name} cannot be reset: {type(error).__name__}: {in_one_line(error)}; check its arguments") from error
    wanted = [tuple(part.shape or ()) for part in _leaves(env.observation_space)]
    shown = [leaf.shape for leaf in jax.tree.leaves(observation)]
    if wanted != shown:
        raise TaskError(f"{name} must show what its observation_space says, {wanted}, got {shown}; mend the environment")
    return env


def _space(space: Any, place: str, *, seen: bool) -> gymnasium.Space:
    """gymnax's spaces and copies of them, which are told by what they have."""
    if hasattr(space, "n") and not getattr(space, "shape", ()):
        return spaces.Discrete(int(space.n))
    if hasattr(space, "low"):
        return _picture(space) if seen and _is_picture(space) else _box(space)
    parts = getattr(space, "spaces", None)
    if isinstance(parts, dict):
        return spaces.Dict({key: _space(part, f"{place}[{key!r}]", seen=seen) for key, part in parts.items()})
    if isinstance(parts, list | tuple):
        return spaces.Tuple([_space(part, f"{place}[{i}]", seen=seen) for i, part in enumerate(parts)])
    raise TaskError(f"{place} must be Discrete, Box, Dict or Tuple, got {in_one_line(Exception(space))}; wrap the environment")


def _box(space: Any) -> gymnasium.Space:
    dtype, shape = np.dtype(space.dtype), tuple(map(int, space.shape))
    if dtype == np.bool_:
        return spaces.MultiBinary(shape)
    kind = dtype if dtype.kind in "iu" else np.dtype(np.float32)
    low, high = (np.broadcast_to(np.asarray(bound), shape) for bound in (space.low, space.high))
    return spaces.Box(low.astype(kind), high.astype(kind), shape, kind.type)  # pyright: ignore[reportArgumentType]


def _picture(space: Any) -> gymnasium.Space:
    return spaces.Box(0, 255, tuple(map(int, space.shape)), np.uint8)


def _is_picture(space: Any) -> bool:
    """Floats from 0 to 1 with a colour for each place."""
    shape = tuple(space.shape)
    if len(shape) != 3 or shape[-1] != 3 or min(shape[:2]) < LEAST_SIDE or np.dtype(space.dtype).kind != "f":
        return False
    return bool(np.all(np.asarray(space.low) == 0) and np.all(np.asarray(space.high) == 1))


def _leaves(space: gymnasium.Space) -> list[gymnasium.Space]:
    """In the order of `jax.tree.leaves`: dicts by key."""
    if isinstance(space, spaces.Dict):
        return [leaf for key in sorted(space.spaces) for leaf in _leaves(space.spaces[key])]
    return [leaf for part in space.spaces for leaf in _leaves(part)] if isinstance(space, spaces.Tuple) else [space]
