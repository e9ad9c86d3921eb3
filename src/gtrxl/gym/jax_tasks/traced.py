"""What `Lens` and `Hand` do, inside a compiled program: the same layout, in JAX, and nothing is checked.

K choices, A numbers in an action, F numbers that tell of it.
"""

from collections.abc import Mapping
from typing import Any

import gymnasium
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from gtrxl.gym.spaces.hand import Choice, Hand, Stretch, built
from gtrxl.gym.spaces.lens import Choices, Lens, Numbers, Part, Picture
from gtrxl.tasks.errors import TaskError
from gtrxl.tasks.specs import VECTOR


def observation_space(lens: Lens) -> gymnasium.Space:
    """The space of what `seen` gives: what a compiled task promises."""
    if lens.spec.texts:
        raise TaskError(f"a compiled task shows numbers and pictures, got a text in {lens.takes}; leave it out")
    vector = gymnasium.spaces.Box(-np.inf, np.inf, (lens.spec.vector,), np.float32)
    if lens.spec.only_vector:
        return vector
    parts: dict[str, gymnasium.Space] = {VECTOR: vector} if lens.spec.vector else {}
    return gymnasium.spaces.Dict(
        parts | {name: gymnasium.spaces.Box(0, 255, shape, np.uint8) for name, shape in lens.spec.images}
    )


def action_space(hand: Hand) -> gymnasium.Space:
    """The space of what `to_task` takes."""
    spec = hand.spec
    numbers = gymnasium.spaces.Box(-1.0, 1.0, (spec.continuous,), np.float32)
    if spec.kind == "categorical":
        return gymnasium.spaces.Discrete(spec.discrete[0])
    if spec.kind == "gaussian":
        return numbers
    parts: dict[str, gymnasium.Space] = {}
    if spec.discrete:
        parts["discrete"] = gymnasium.spaces.MultiDiscrete(list(spec.discrete))
    if spec.continuous:
        parts["continuous"] = numbers
    return gymnasium.spaces.Dict(parts)


def seen(lens: Lens, observation: PyTree, *, action: PyTree | None, reward: Float[Array, ""]) -> PyTree:
    """One observation as `lens.spec` describes it; `action` is the one taken before, None at the start of an episode."""
    numbers: list[Array] = []
    pictures: dict[str, Array] = {}
    for part in lens.parts:
        value = jnp.asarray(_find(part, observation))
        if isinstance(part, Numbers):
            numbers.append(value.reshape(-1).astype(jnp.float32))
        elif isinstance(part, Choices):
            numbers.append(_one_hot(part, value))
        elif isinstance(part, Picture):
            pictures[part.name] = _picture(part, value)
    if lens.previous != "none":
        none_yet = jnp.zeros(lens.hand.spec.noise, jnp.float32)
        numbers.append(none_yet if action is None else features(lens.hand, action))
    if lens.previous == "action+reward":
        numbers.append(jnp.asarray(reward, jnp.float32).reshape(1))
    vector = jnp.concatenate(numbers) if numbers else jnp.zeros(0, jnp.float32)
    if lens.spec.only_vector:
        return vector
    return {VECTOR: vector, **pictures} if lens.spec.vector else pictures


def to_task(hand: Hand, action: PyTree) -> PyTree:
    """A member of the action space."""
    discrete, continuous = _apart(hand, action)
    made: list[Array] = []
    k = a = 0
    for leaf in hand.leaves:
        if isinstance(leaf, Choice):
            chosen = discrete[k : k + len(leaf.counts)] + jnp.array(leaf.starts, jnp.int32)
            made.append(chosen.reshape(leaf.shape))
            k += len(leaf.counts)
        else:
            made.append(_stretched(leaf, continuous[a : a + len(leaf.low)]))
            a += len(leaf.low)
    return built(hand.tree, iter(made))


def features(hand: Hand, action: PyTree) -> Float[Array, " F"]:
    """Choices one-hot, then numbers, clipped where the task has bounds."""
    discrete, continuous = _apart(hand, action)
    told = [(jnp.arange(count) == discrete[k]).astype(jnp.float32) for k, count in enumerate(hand.spec.discrete)]
    clips = [leaf.clips for leaf in hand.leaves if isinstance(leaf, Stretch)]
    if clips:
        least, most = (jnp.array(np.concatenate([clip[side] for clip in clips]), jnp.float32) for side in (0, 1))
        told.append(jnp.clip(continuous, least, most))
    return jnp.concatenate(told)


def _apart(hand: Hand, action: PyTree) -> tuple[Int[Array, " K"], Float[Array, " A"]]:
    kind = hand.spec.kind
    none = jnp.zeros(0)
    discrete = action if kind == "categorical" else action.get("discrete", none) if kind == "hybrid" else none
    continuous = action if kind == "gaussian" else action.get("continuous", none) if kind == "hybrid" else none
    return jnp.asarray(discrete).astype(jnp.int32).reshape(-1), jnp.asarray(continuous).astype(jnp.float32).reshape(-1)


def _find(part: Part, observation: Any) -> Any:
    for key in part.path:
        if isinstance(key, str) and not isinstance(observation, Mapping):
            observation = getattr(observation, key)  # a record
        else:
            observation = observation[key]
    return observation


def _one_hot(part: Choices, value: Array) -> Float[Array, " O"]:
    """Every place of the result knows which number it looks at, and for which value. A number that its space does not promise
    counts as the nearest one that it does: an error cannot be raised here."""
    counts, starts = np.array(part.counts, np.int32), np.array(part.starts, np.int32)
    owner = np.repeat(np.arange(len(counts)), counts)
    wanted = np.concatenate([start + np.arange(count, dtype=np.int32) for start, count in zip(starts, counts, strict=True)])
    flat = jnp.clip(value.reshape(-1).astype(jnp.int32), jnp.asarray(starts), jnp.asarray(starts + counts - 1))
    if len(set(part.counts)) == 1:  # no gather needed
        return (flat[:, None] == jnp.asarray(wanted.reshape(len(counts), -1))).astype(jnp.float32).reshape(-1)
    return (flat[owner] == jnp.asarray(wanted)).astype(jnp.float32)


def _picture(part: Picture, value: Array) -> Array:
    if jnp.issubdtype(value.dtype, jnp.floating):  # from 0 to 1, as `env.LEAST_SIDE` says
        value = jnp.round(255 * jnp.clip(value, 0, 1)).astype(jnp.uint8)
    if value.ndim == 3 and part.hwc != value.shape:
        value = jnp.moveaxis(value, 0, -1)
    return value.reshape(part.hwc)


def _stretched(leaf: Stretch, numbers: Float[Array, " A"]) -> Array:
    low, high, middle, slope = (jnp.array(bound, jnp.float32) for bound in leaf.line)
    least, most = (jnp.array(clip, jnp.float32) for clip in leaf.clips)
    member = jnp.clip(middle + slope * jnp.clip(numbers, least, most), low, high)
    whole = np.dtype(leaf.dtype).kind in "iub"
    return (jnp.rint(member).astype(jnp.int32) if whole else member).reshape(leaf.shape)
