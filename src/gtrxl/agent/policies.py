"""What an agent may do next, as a distribution over actions. A actions, or numbers in an action.

A policy is a record of arrays with any leading axes (streams, steps): it travels through `scan` and is stored with an unroll.
Sampling takes noise that was drawn beforehand: drawing for a whole unroll at once costs far less than drawing at every step.
"""

import abc
import math

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from gtrxl.agent.errors import AgentError
from gtrxl.learner.divergences import kl_categorical, kl_covariance, kl_mean


class Policy(eqx.Module):
    """A distribution over actions."""

    @abc.abstractmethod
    def sample(self, noise: Float[Array, "*n A"]) -> Array:
        """An action, from noise that `Head.noise` drew."""

    @abc.abstractmethod
    def mode(self) -> Array:
        """The likeliest action."""

    @abc.abstractmethod
    def log_prob(self, action: Array) -> Float[Array, "*n"]:
        """The logarithm of an action's probability (density)."""

    @abc.abstractmethod
    def entropy(self) -> Float[Array, "*n"]:
        """In nats."""

    @abc.abstractmethod
    def kl_from(self, old: "Policy") -> dict[str, Float[Array, "*n"]]:
        """KL(old || self), in the parts that V-MPO bounds separately."""


class Categorical(Policy):
    """One of A actions."""

    logits: Float[Array, "*n A"]

    def sample(self, noise: Float[Array, "*n A"]) -> Int[Array, "*n"]:
        """The action whose logit and Gumbel noise add up to most."""
        return jnp.argmax(self.logits + noise, axis=-1)

    def mode(self) -> Int[Array, "*n"]:
        """The action with the largest logit."""
        return jnp.argmax(self.logits, axis=-1)

    def log_prob(self, action: Int[Array, "*n"]) -> Float[Array, "*n"]:
        """The logarithm of its probability."""
        log_p = jax.nn.log_softmax(self.logits)
        return jnp.take_along_axis(log_p, action[..., None], axis=-1)[..., 0]

    def entropy(self) -> Float[Array, "*n"]:
        """- sum p log p."""
        log_p = jax.nn.log_softmax(self.logits)
        return -jnp.sum(jnp.exp(log_p) * log_p, axis=-1)

    def kl_from(self, old: Policy) -> dict[str, Float[Array, "*n"]]:
        """One part."""
        assert isinstance(old, Categorical)
        return {"categorical": kl_categorical(old_logits=old.logits, logits=self.logits)}


class Gaussian(Policy):
    """A vector of A numbers, each with its own mean and standard deviation."""

    mean: Float[Array, "*n A"]
    scale: Float[Array, "*n A"]

    def sample(self, noise: Float[Array, "*n A"]) -> Float[Array, "*n A"]:
        """Not clipped: a task clips what it cannot do, and the probability is that of the number drawn."""
        return self.mean + self.scale * noise

    def mode(self) -> Float[Array, "*n A"]:
        """The mean."""
        return self.mean

    def log_prob(self, action: Float[Array, "*n A"]) -> Float[Array, "*n"]:
        """The logarithm of its density."""
        z = (action - self.mean) / self.scale
        return jnp.sum(-0.5 * jnp.square(z) - jnp.log(self.scale) - 0.5 * math.log(2 * math.pi), axis=-1)

    def entropy(self) -> Float[Array, "*n"]:
        """Of the density; it may be negative."""
        return jnp.sum(jnp.log(self.scale) + 0.5 * math.log(2 * math.pi * math.e), axis=-1)

    def kl_from(self, old: Policy) -> dict[str, Float[Array, "*n"]]:
        """The part of the mean and the part of the covariance."""
        assert isinstance(old, Gaussian)
        return {
            "mean": kl_mean(old_mean=old.mean, old_scale=old.scale, mean=self.mean),
            "covariance": kl_covariance(old_scale=old.scale, scale=self.scale),
        }


LEAST_SCALE = 1e-3
"""A standard deviation never falls below this; a density would have no bound."""


class Head(eqx.Module):
    """Which policy an action space asks for, and how wide the layer before it must be."""

    kind: str = eqx.field(static=True)
    actions: int = eqx.field(static=True)
    first_scale: float = eqx.field(static=True)

    def __init__(self, space: gymnasium.spaces.Space, *, first_scale: float = 0.5):
        if isinstance(space, gymnasium.spaces.Discrete):
            self.kind, self.actions = "categorical", int(space.n)
        elif isinstance(space, gymnasium.spaces.Box) and len(space.shape) == 1:
            self.kind, self.actions = "gaussian", space.shape[0]
        else:
            raise AgentError(f"actions must be Discrete or a Box with one axis, got {space}; wrap the task so that they are")
        self.first_scale = first_scale

    @property
    def width(self) -> int:
        """How many numbers make a policy."""
        return self.actions if self.kind == "categorical" else 2 * self.actions

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of its KL."""
        return ("categorical",) if self.kind == "categorical" else ("mean", "covariance")

    def __call__(self, numbers: Float[Array, "*n W"]) -> Policy:
        """A layer's output as a policy; zeros are the uniform one, or a Gaussian at 0 with `first_scale`."""
        if self.kind == "categorical":
            return Categorical(numbers)
        mean, raw = jnp.split(numbers, 2, axis=-1)
        shift = math.log(math.expm1(self.first_scale - LEAST_SCALE))
        return Gaussian(mean=mean, scale=jax.nn.softplus(raw + shift) + LEAST_SCALE)

    def noise(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> Float[Array, "*n A"]:
        """What `sample` needs, for `shape` actions."""
        draw = jax.random.gumbel if self.kind == "categorical" else jax.random.normal
        return draw(key, (*shape, self.actions))
