"""What an agent may do next, as a distribution over actions. A actions, or numbers in an action; K choices among C values.

A policy is a record of arrays with any leading axes (streams, steps): it travels through `scan` and is stored with an unroll.
Sampling takes noise that was drawn beforehand: drawing for a whole unroll at once costs far less than drawing at every step.
"""

import abc
import math

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from gtrxl.algorithms.divergences import kl_categorical, kl_covariance, kl_mean
from gtrxl.networks.errors import AgentError
from gtrxl.tasks.specs import ActionSpec


class Policy(eqx.Module):
    """A distribution over actions."""

    @abc.abstractmethod
    def sample(self, noise: PyTree) -> PyTree:
        """An action, from noise that `Head.noise` drew."""

    @abc.abstractmethod
    def mode(self) -> PyTree:
        """The likeliest action."""

    @abc.abstractmethod
    def log_prob(self, action: PyTree) -> Float[Array, "*n"]:
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


class Hybrid(Policy):
    """K choices and a vector of numbers at once, independent of each other; either may be missing.

    Actions are dicts, "discrete" int32 [K] and "continuous" float32 [A], and so is the noise they are drawn from.
    """

    choices: Categorical | None
    """Logits [*n, K, C]; choices among fewer than C values have logits of `NEVER` after them."""
    numbers: Gaussian | None

    def sample(self, noise: dict[str, Array]) -> dict[str, Array]:
        """Every part from its own noise."""
        return {name: part.sample(noise[name]) for name, part in self._parts.items()}

    def mode(self) -> dict[str, Array]:
        """The likeliest of every part."""
        return {name: part.mode() for name, part in self._parts.items()}

    def log_prob(self, action: dict[str, Array]) -> Float[Array, "*n"]:
        """The parts' logarithms add up."""
        return self._total({name: part.log_prob(action[name]) for name, part in self._parts.items()})

    def entropy(self) -> Float[Array, "*n"]:
        """The parts' entropies add up."""
        return self._total({name: part.entropy() for name, part in self._parts.items()})

    def kl_from(self, old: Policy) -> dict[str, Float[Array, "*n"]]:
        """One part for all choices together, two for the numbers."""
        assert isinstance(old, Hybrid)
        kl = {}
        if self.choices is not None and old.choices is not None:
            kl |= {name: jnp.sum(part, axis=-1) for name, part in self.choices.kl_from(old.choices).items()}
        if self.numbers is not None and old.numbers is not None:
            kl |= self.numbers.kl_from(old.numbers)
        return kl

    @property
    def _parts(self) -> dict[str, Categorical | Gaussian]:
        parts = {"discrete": self.choices, "continuous": self.numbers}
        return {name: part for name, part in parts.items() if part is not None}

    def _total(self, terms: dict[str, Array]) -> Float[Array, "*n"]:
        if "discrete" in terms:
            terms["discrete"] = jnp.sum(terms["discrete"], axis=-1)
        first, *others = terms.values()
        return sum(others, first)


NEVER = -1e9
"""The logit of a value that a choice does not have. Finite: minus infinity times a probability of zero is not a number."""
LEAST_SCALE = 1e-3
"""A standard deviation never falls below this; a density would have no bound."""
FIRST_SCALE = 0.5
"""The standard deviation that learning begins with."""


def shift_of_scale(first: float, widest: float) -> float:
    """What is added to a layer's numbers, so that zeros are a standard deviation of `first`: before a softplus, or with a bound
    before a sigmoid."""
    first, widest = first - LEAST_SCALE, widest - LEAST_SCALE
    return math.log(first / (widest - first)) if widest > 0 else math.log(math.expm1(first))


class Head(eqx.Module):
    """Which policy an action space asks for, and how wide the layer before it must be."""

    spec: ActionSpec = eqx.field(static=True)
    first_scale: float = eqx.field(static=True)
    widest: float = eqx.field(static=True)
    """The bound of a standard deviation; 0 for none."""

    def __init__(self, space: gymnasium.spaces.Space | ActionSpec, *, first_scale: float = FIRST_SCALE, widest: float = 0.0):
        if isinstance(space, ActionSpec):
            self.spec = space
        elif isinstance(space, gymnasium.spaces.Discrete):
            self.spec = ActionSpec("categorical", discrete=(int(space.n),))
        elif isinstance(space, gymnasium.spaces.Box) and len(space.shape) == 1:
            self.spec = ActionSpec("gaussian", continuous=space.shape[0])
        elif isinstance(space, gymnasium.spaces.Dict):
            self.spec = _hybrid(dict(space.spaces))
        else:
            raise AgentError(
                f"actions must be Discrete, a Box with one axis, or a Dict of both, got {space}; wrap the task so that they are"
            )
        if widest and not widest > first_scale:
            raise AgentError(
                f"the widest spread must be above {first_scale}, with which it begins, got {widest}; 0 sets no bound"
            )
        self.first_scale, self.widest = first_scale, widest

    @property
    def width(self) -> int:
        """How many numbers make a policy."""
        return sum(self.spec.discrete) + 2 * self.spec.continuous

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of its KL."""
        return ("categorical",) * bool(self.spec.discrete) + ("mean", "covariance") * bool(self.spec.continuous)

    def __call__(self, numbers: Float[Array, "*n W"]) -> Policy:
        """A layer's output as a policy; zeros are the uniform one, or a Gaussian at 0 with `first_scale`."""
        if self.spec.kind == "categorical":
            return Categorical(numbers)
        if self.spec.kind == "gaussian":
            return self._gaussian(numbers)
        logits = sum(self.spec.discrete)
        return Hybrid(
            choices=Categorical(self._padded(numbers[..., :logits])) if self.spec.discrete else None,
            numbers=self._gaussian(numbers[..., logits:]) if self.spec.continuous else None,
        )

    def noise(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> PyTree[Float[Array, "..."]]:
        """What `sample` needs, for `shape` actions."""
        if self.spec.kind == "categorical":
            return jax.random.gumbel(key, (*shape, *self.spec.discrete))
        if self.spec.kind == "gaussian":
            return jax.random.normal(key, (*shape, self.spec.continuous))
        choice_key, number_key = jax.random.split(key)
        noise = {}
        if self.spec.discrete:
            noise["discrete"] = jax.random.gumbel(choice_key, (*shape, len(self.spec.discrete), max(self.spec.discrete)))
        if self.spec.continuous:
            noise["continuous"] = jax.random.normal(number_key, (*shape, self.spec.continuous))
        return noise

    def lasting(self, noise: PyTree[Float[Array, "T ..."]], steps: int) -> PyTree[Float[Array, "T_left ..."]]:
        """Noise of T steps in a row -> of T - `steps` + 1: that of numbers is a sum of `steps` draws at unit size, so that
        each step's is as likely as before and lasts for some steps. Choices keep theirs."""

        def over(leaf: Array) -> Array:
            left = len(leaf) - steps + 1
            return jnp.sum(leaf[np.arange(left)[:, None] + np.arange(steps)], axis=1) / math.sqrt(steps)

        def first(leaf: Array) -> Array:
            return leaf[: len(leaf) - steps + 1]

        if self.spec.kind != "hybrid":
            return (over if self.spec.kind == "gaussian" else first)(noise)
        return {name: (over if name == "continuous" else first)(leaf) for name, leaf in noise.items()}

    def _gaussian(self, numbers: Float[Array, "*n W"]) -> Gaussian:
        mean, raw = jnp.split(numbers, 2, axis=-1)
        shift = shift_of_scale(self.first_scale, self.widest)
        if self.widest:
            return Gaussian(mean=mean, scale=(self.widest - LEAST_SCALE) * jax.nn.sigmoid(raw + shift) + LEAST_SCALE)
        return Gaussian(mean=mean, scale=jax.nn.softplus(raw + shift) + LEAST_SCALE)

    def _padded(self, logits: Float[Array, "*n L"]) -> Float[Array, "*n K C"]:
        """Logits side by side -> one row for each choice, all as long as the longest."""
        counts = np.array(self.spec.discrete)
        place = np.arange(counts.max())[None]
        there = np.broadcast_to(place < counts[:, None], (len(counts), counts.max()))
        rows = logits[..., np.where(there, (np.cumsum(counts) - counts)[:, None] + place, 0)]
        return jnp.where(jnp.broadcast_to(there, rows.shape), rows, NEVER)


def _hybrid(parts: dict[str, gymnasium.Space]) -> ActionSpec:
    """The sizes of a Dict of "discrete" (MultiDiscrete, K choices) and "continuous" (a Box with one axis), or of one of them."""
    counts, numbers, right = (), 0, True
    for name, part in parts.items():
        if name == "discrete" and isinstance(part, gymnasium.spaces.MultiDiscrete) and len(part.shape) == 1:
            counts = tuple(int(n) for n in part.nvec)
        elif name == "continuous" and isinstance(part, gymnasium.spaces.Box) and len(part.shape) == 1:
            numbers = part.shape[0]
        else:
            right = False
    if not right:
        raise AgentError(
            'actions of several parts must be a Dict of "discrete" (MultiDiscrete with one axis) and "continuous" (a Box with '
            f"one axis), got {parts}; name and shape them so"
        )
    return ActionSpec("hybrid", discrete=counts, continuous=numbers)
