"""From z to what was observed: MERLIN's decoders and what they lose. B streams, T steps, Z latents, O numbers, A of an action.

    vector      half the squared error of every number / spread^2, summed
    picture     Bernoulli cross-entropy, 50 times its mean over pixels and colours
    action      of the step before: cross-entropy of its choices, half the squared error of its numbers
    reward      of the step before: half the squared error
    return      0.4 / 2 * [(R - V)^2 + (R - sg(V) - A)^2], A being told the action

Known are the parts and the weights 50, 1, 1 and 0.4, the hidden sizes 200 of V and 50 of A (here V has the core's own). Chosen
here: vectors, which MERLIN has none of; V sees z alone (MERLIN's sees the policy too); R is at the size of the learner's values;
a picture is made of squares of 4 x 4 pixels, each a linear map of features that a linear map makes of z, in place of
deconvolutions. What came before the first step of a segment or of an episode is not known, and counts nothing.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, UInt8

from gtrxl.cores.contract import Happened, Observed
from gtrxl.cores.layers import Linear, with_variance
from gtrxl.cores.merlin.parts import MLP, SMALL

PICTURE, RETURN, ADVANTAGE_HIDDEN = 50.0, 0.4, 50
SQUARE, FEATURES = 4, 32
"""Pixels along a side of a square, and numbers that it is made of."""


class Painter(eqx.Module):
    """z -> the logits of a picture."""

    squares: Linear
    pixels: Linear
    shape: tuple[int, int, int] = eqx.field(static=True)

    def __init__(self, latent: int, shape: tuple[int, int, int], *, key: PRNGKeyArray):
        squares_key, pixels_key = jax.random.split(key)
        self.shape = shape
        high, wide = self._squares
        self.squares = with_variance(Linear(latent, high * wide * FEATURES, key=squares_key), 1.0)
        self.pixels = with_variance(Linear(FEATURES, SQUARE * SQUARE * shape[2], key=pixels_key), SMALL)

    def __call__(self, z: Float[Array, "*n Z"]) -> Float[Array, "*n H W C"]:
        """Of any number of steps."""
        (high, wide), (height, width, colours), lead = self._squares, self.shape, z.shape[:-1]
        features = jax.nn.relu(self.squares(z)).reshape(-1, high, wide, FEATURES)
        made = self.pixels(features).reshape(-1, high, wide, SQUARE, SQUARE, colours)
        whole = jnp.swapaxes(made, 2, 3).reshape(-1, high * SQUARE, wide * SQUARE, colours)
        return whole[:, :height, :width].reshape(*lead, height, width, colours)

    @property
    def _squares(self) -> tuple[int, int]:
        return math.ceil(self.shape[0] / SQUARE), math.ceil(self.shape[1] / SQUARE)


class Decoders(eqx.Module):
    """One for each thing that an agent sees and does, for the reward and for the return."""

    vector: MLP | None
    images: dict[str, Painter]
    action: MLP
    reward: MLP
    value: MLP
    advantage: MLP
    observed: Observed = eqx.field(static=True)
    spread: float = eqx.field(static=True)

    def __init__(self, latent: int, observed: Observed, *, hidden: int, spread: float, key: PRNGKeyArray):
        keys = jax.random.split(key, 5 + len(observed.images))
        acts = sum(observed.choices) + observed.numbers
        self.vector = MLP(latent, observed.vector, hidden=(hidden,), key=keys[0], last=SMALL) if observed.vector else None
        self.action = MLP(latent, acts, hidden=(hidden,), key=keys[1], last=SMALL)
        self.reward = MLP(latent, 1, hidden=(hidden,), key=keys[2], last=SMALL)
        self.value = MLP(latent, 1, hidden=(hidden,), key=keys[3], last=SMALL)
        self.advantage = MLP(latent + acts, 1, hidden=(min(hidden, ADVANTAGE_HIDDEN),), key=keys[4], last=SMALL)
        self.images = {
            name: Painter(latent, shape, key=each) for (name, shape), each in zip(observed.images, keys[5:], strict=True)
        }
        self.observed, self.spread = observed, spread

    def losses(self, z: Float[Array, "B T Z"], happened: Happened) -> dict[str, Float[Array, "B T"]]:
        """Of every step, by what was predicted; each has its weight already."""
        parts = {}
        if self.vector is not None:
            parts["vector"] = _half_squares(self.vector(z), happened.vector) / self.spread**2
        if self.images:
            parts["picture"] = sum(_bernoulli(self.images[name](z), happened.images[name]) for name, _ in self.observed.images)
        known = ~happened.reset & (jnp.arange(z.shape[1]) > 0)[None]
        parts["action"] = jnp.where(known, self._action_loss(z, happened), 0.0)
        reward = self.reward(z)[..., 0]
        parts["reward"] = jnp.where(known, 0.5 * jnp.square(reward - _earlier(happened.reward)), 0.0)
        value = self.value(z)[..., 0]
        advantage = self.advantage(jnp.concatenate([z, self._done(happened)], axis=-1))[..., 0]
        returns = jax.lax.stop_gradient(happened.returns)
        errors = jnp.square(returns - value), jnp.square(returns - jax.lax.stop_gradient(value) - advantage)
        return parts | {"return": 0.5 * RETURN * (errors[0] + errors[1])}

    def _action_loss(self, z: Float[Array, "B T Z"], happened: Happened) -> Float[Array, "B T"]:
        told = self.action(z)
        *choices, numbers = _split(told, self.observed)
        lost = _half_squares(numbers, _earlier(happened.numbers))
        taken = _earlier(happened.choices)
        for number, logits in enumerate(choices):
            log = jnp.take_along_axis(jax.nn.log_softmax(logits), taken[..., number : number + 1], axis=-1)[..., 0]
            lost = lost - log
        return lost

    def _done(self, happened: Happened) -> Float[Array, "B T A"]:
        """The action as numbers: its choices one-hot."""
        choices = [jax.nn.one_hot(happened.choices[..., number], size) for number, size in enumerate(self.observed.choices)]
        return jnp.concatenate([*choices, happened.numbers], axis=-1)


def _split(told: Float[Array, "B T A"], observed: Observed) -> list[Float[Array, "B T a"]]:
    """The logits of every choice, and the numbers."""
    ends, parts = 0, []
    for size in (*observed.choices, observed.numbers):
        parts.append(told[..., ends : ends + size])
        ends += size
    return parts


def _earlier(x: Array) -> Array:
    """What each step had before it; the first has its own."""
    return jnp.concatenate([x[:, :1], x[:, :-1]], axis=1)


def _half_squares(told: Float[Array, "B T D"], true: Float[Array, "B T D"]) -> Float[Array, "B T"]:
    return 0.5 * jnp.sum(jnp.square(told - true), axis=-1)


def _bernoulli(logits: Float[Array, "B T H W C"], picture: UInt8[Array, "B T H W C"]) -> Float[Array, "B T"]:
    """Cross-entropy with brightness as a probability."""
    light = picture.astype(jnp.float32) / 255
    lost = jax.nn.softplus(logits) - light * logits
    return PICTURE * jnp.mean(lost, axis=(-3, -2, -1))
