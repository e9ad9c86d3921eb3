"""The contract of a task as a check: `check_task(task)` tries every promise of `gtrxl.tasks.contract` on anyone's task.

    from gtrxl.testing import check_task

    def test_my_task():
        check_task(MyTask(delay=3))

What fails is told in a line each, all of it at once, in one `TaskViolation`. Use a small task: whole episodes are played.

B streams, T steps.
"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray, PyTree

from gtrxl.networks.policies import Head
from gtrxl.tasks.contract import Step, Task
from gtrxl.tasks.errors import TaskError
from gtrxl.tasks.making import make_task, spell
from gtrxl.tasks.players.scripted import random_action
from gtrxl.tasks.specs import ObservationSpec

STREAMS = 4
"""Episodes that are played side by side."""
LOOKS = 16
"""Steps whose observations are looked at."""
TOLERANCE = 1e-4
"""How far floats may be apart that are computed together and one by one."""


class TaskViolation(AssertionError):  # noqa: N818 (what it is, not that it is an error)
    """A task that does not keep its promises; `broken` has a line for each."""

    def __init__(self, task: Any, broken: list[str]):
        self.broken = tuple(broken)
        kept = f"{type(task).__name__} breaks {len(broken)} of the promises a task makes (gtrxl.tasks.contract):"
        super().__init__("\n".join([kept, *(f"{number}. {line}" for number, line in enumerate(broken, 1))]))


def check_task(task: Any, *, seed: int = 0) -> None:
    """Raises a `TaskViolation` unless the task is a frozen record with spaces that an agent can take, whose reset and step are
    pure, have fixed shapes, show what the space says, and end every episode in time."""
    for check in (_record, _spaces, _shapes, _episodes):  # each stands on those before it
        broken = list(check(task, seed))
        if broken:
            raise TaskViolation(task, broken)


def _record(task: Any, seed: int) -> Iterator[str]:
    if not isinstance(task, Task):
        yield f"a task derives from gtrxl.Task, got {type(task).__name__}; derive yours from it"
        return
    try:
        if make_task(spell(task)) != task:
            yield f"{spell(task)} makes another task than the one it is the name of; compare fields, not identity"
    except TaskError as error:
        yield str(error)
        return
    try:
        hash(task)
        if task != dataclasses.replace(task) or hash(task) != hash(dataclasses.replace(task)):  # pyright: ignore[reportArgumentType]
            yield "two tasks with the same fields must be equal and have the same hash; leave both to the dataclass"
    except TypeError as error:
        yield f"a task must be hashable, so that a program can take it as a constant, got {_said(error)}; use whole numbers"
    steps = getattr(task, "episode_steps", None)
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        yield f"episode_steps must be a whole number from 1, got {steps!r}; it is the longest that an episode lasts"


def _spaces(task: Task, seed: int) -> Iterator[str]:
    for name, read in (("observation_space", ObservationSpec.of), ("action_space", Head)):
        try:
            space = getattr(task, name)
            if not isinstance(space, gymnasium.Space):
                yield f"{name} must be a property with a gymnasium.Space, got {space!r}; see gtrxl.tasks.contract"
                continue
            read(space)
        except Exception as error:  # a stranger's property may raise anything
            yield f"{name} must be a space that an agent can take, got {type(error).__name__}: {_said(error)}"


def _shapes(task: Task, seed: int) -> Iterator[str]:
    key = jax.random.key(seed)
    try:
        first = jax.eval_shape(task.reset, key)
    except Exception as error:
        yield _not_compiled("reset", error)
        return
    if not isinstance(first, tuple) or len(first) != 2:
        yield f"reset must return a state and an observation, got {type(first).__name__}; return both"
        return
    state, observation = first
    yield from _unlike_space("reset", observation, task.observation_space)
    try:
        moved = jax.eval_shape(task.step, state, jax.eval_shape(lambda key: random_action(task, key), key))
    except Exception as error:
        yield _not_compiled("step", error)
        return
    if not isinstance(moved, tuple) or len(moved) != 2 or not isinstance(moved[1], Step):
        yield "step must return the next state and a gtrxl.Step; put observation, reward and both flags into one"
        return
    after, step = moved
    yield from _unlike_space("step", step.observation, task.observation_space)
    if difference := _difference(state, after):
        yield f"a state must keep its structure, shapes and dtypes, got {difference} after a step; cast it back"
    for name, kind in (("reward", np.floating), ("terminated", np.bool_), ("truncated", np.bool_)):
        leaf = getattr(step, name)
        if getattr(leaf, "shape", None) != () or not np.issubdtype(leaf.dtype, kind):
            yield f"{name} must be one {'float' if name == 'reward' else 'bool'}, got {_short(leaf)}; cast it"


def _episodes(task: Task, seed: int) -> Iterator[str]:
    keys = jax.random.split(jax.random.key(seed), STREAMS)
    looks = min(LOOKS, task.episode_steps)
    # Compiled twice: what comes from outside the key and the actions differs from one tracing to the next.
    together, again = (_host(jax.jit(jax.vmap(_looked(task, looks)))(keys)) for _ in range(2))
    if _apart(together, again, exact=True):
        yield "the same key and actions must give the same episode, got another one; draw all that is random from the key"
        return
    alone = _host(jax.jit(_looked(task, looks))(keys[1]))
    if _apart(jax.tree.map(lambda leaf: leaf[1], together), alone, exact=False):
        yield "a stream must be the same alone and beside others under vmap, got another; do not reduce over streams"
    yield from _outside_space(task.observation_space, together[0])
    if task.costly_observation:
        halves = _host(jax.jit(jax.vmap(_looked(task, looks, halves=True)))(keys))
        if _apart(together, halves, exact=False):
            yield "advance and then observe must be what step is, got something else; let step call both"
    still = np.arange(STREAMS) == 0  # one waits: action 0 is often to do nothing
    terminated, truncated = _host(jax.jit(jax.vmap(_flags(task)))(keys, still))
    first = np.argmax(terminated | truncated, axis=1)
    if not (terminated | truncated).any(axis=1).all():
        yield (
            f"an episode must end within episode_steps = {task.episode_steps}, got one that does not; "
            "truncate it when the clock runs out"
        )
    elif (terminated & truncated)[np.arange(STREAMS), first].any():
        yield "an end must be terminated or truncated, got both; truncated is for the clock alone"


def _looked(task: Task, steps: int, *, halves: bool = False) -> Callable[[PRNGKeyArray], PyTree]:
    """The first steps of an episode of random actions: observations, the first too, rewards and flags, and the last state."""

    def play(key: PRNGKeyArray) -> PyTree:
        reset_key, act_key = jax.random.split(key)
        state, first = task.reset(reset_key)

        def move(state: Any, key: PRNGKeyArray) -> tuple[Any, PyTree]:
            action = random_action(task, key)
            if halves:
                state, *rest = task.advance(state, action)
                return state, (task.observe(state), *rest)
            state, step = task.step(state, action)
            return state, (step.observation, step.reward, step.terminated, step.truncated)

        state, (seen, *rest) = jax.lax.scan(move, state, jax.random.split(act_key, steps))
        seen = jax.tree.map(lambda one, more: jnp.concatenate([one[None], more]), first, seen)
        return seen, rest, state

    return play


def _flags(task: Task) -> Callable[[PRNGKeyArray, Array], tuple[Array, Array]]:
    """Both flags of every step of an episode of random actions, or, `still`, of zeros."""

    def play(key: PRNGKeyArray, still: Array) -> tuple[Array, Array]:
        reset_key, act_key = jax.random.split(key)

        def move(state: Any, key: PRNGKeyArray) -> tuple[Any, tuple[Array, Array]]:
            action = jax.tree.map(lambda leaf: jnp.where(still, jnp.zeros_like(leaf), leaf), random_action(task, key))
            state, _, terminated, truncated = task.advance(state, action)
            return state, (terminated, truncated)

        return jax.lax.scan(move, task.reset(reset_key)[0], jax.random.split(act_key, task.episode_steps))[1]

    return play


def _unlike_space(where: str, shown: Any, space: gymnasium.Space) -> Iterator[str]:
    """A line for each part of an observation that has another shape or type than its space."""
    wanted = dict(space.spaces) if isinstance(space, gymnasium.spaces.Dict) else {"": space}
    parts = shown if isinstance(space, gymnasium.spaces.Dict) else {"": shown}
    if not isinstance(parts, dict) or set(parts) != set(wanted):
        said = sorted(parts) if isinstance(parts, dict) else type(parts).__name__
        yield f"{where} must show a dict of {', '.join(wanted)}, got {said}; see observation_space"
        return
    for name, part in wanted.items():
        leaf = parts[name]
        if getattr(leaf, "shape", None) != part.shape or getattr(leaf, "dtype", None) != part.dtype:
            what = f"{where} must show {name}".rstrip() + f" as {part.dtype}{list(part.shape or ())}"
            yield f"{what}, got {_short(leaf)}; make it so, or change observation_space"


def _outside_space(space: gymnasium.Space, seen: Any) -> Iterator[str]:
    """A line for each part whose numbers leave its space. The arrays have axes [B, T] in front."""
    wanted = dict(space.spaces) if isinstance(space, gymnasium.spaces.Dict) else {"": space}
    for name, part in wanted.items():
        shown = seen[name] if isinstance(space, gymnasium.spaces.Dict) else seen
        assert isinstance(part, gymnasium.spaces.Box)
        outside = ~((shown >= part.low) & (shown <= part.high))
        if outside.any():
            what = f"the observation{f' {name!r}' if name else ''}"
            yield f"{what} must stay in its space, got {shown[outside].ravel()[0]}; widen the bounds of observation_space"


def _difference(one: Any, other: Any) -> str:
    """What differs between two trees of shapes, in words; nothing if they are alike."""
    if jax.tree.structure(one) != jax.tree.structure(other):
        return "another structure"
    for (path, left), right in zip(jax.tree_util.tree_leaves_with_path(one), jax.tree.leaves(other), strict=True):
        if (left.shape, left.dtype) != (right.shape, right.dtype):
            return f"{jax.tree_util.keystr(path)} {_short(right)} in place of {_short(left)}"
    return ""


def _apart(one: PyTree, other: PyTree, *, exact: bool) -> bool:
    def differ(left: Any, right: Any) -> bool:
        if exact or not np.issubdtype(left.dtype, np.floating):
            # Pictures may differ by a shade where floats are rounded otherwise.
            return not (np.array_equal(left, right) or (not exact and left.dtype == np.uint8))
        return not np.allclose(left, right, atol=TOLERANCE, rtol=TOLERANCE, equal_nan=True)

    return any(differ(left, right) for left, right in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True))


def _host(tree: PyTree) -> PyTree:
    """In NumPy; random keys as their numbers."""

    def plain(leaf: Array) -> np.ndarray:
        return np.asarray(jax.random.key_data(leaf) if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf)

    return jax.tree.map(plain, tree)


def _not_compiled(what: str, error: Exception) -> str:
    return f"{what} must run under jit, got {type(error).__name__}: {_said(error)}; use jax.numpy, and jnp.where for choices"


def _short(leaf: Any) -> str:
    return f"{leaf.dtype}{list(leaf.shape)}" if hasattr(leaf, "dtype") else type(leaf).__name__


def _said(error: BaseException) -> str:
    """Its first line."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)[:200].rstrip(".")
