"""Numbers of unknown size -> numbers of about 1, by their running mean and spread. O numbers in an observation.

The statistics belong to the agent and travel with its weights, so that actors and learner see alike; no gradient flows into them.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree

from gtrxl.networks.encoder import Encoder, Torso
from gtrxl.tasks.specs import VECTOR, ObservationSpec

LEAST_SPREAD = 1e-3
"""Numbers that vary less than this are not stretched further: what is left is rounding."""
MOST = 10.0
"""Nothing is further from its mean than this many spreads."""
WINDOW = 1e6
"""Observations that count as much as the newest, at most: the statistics never stop following."""


class Normaliser(eqx.Module):
    """A torso whose measured numbers are brought to a common size first."""

    torso: Torso | Encoder
    mean: Float[Array, " O"]
    variance: Float[Array, " O"]
    count: Float[Array, ""]
    spec: ObservationSpec = eqx.field(static=True)

    def __init__(self, torso: Torso | Encoder, spec: ObservationSpec):
        self.torso = torso
        self.mean = jnp.zeros(spec.vector)
        self.variance = jnp.ones(spec.vector)
        self.count = jnp.zeros(())
        self.spec = spec

    @property
    def output_size(self) -> int:
        """D."""
        return self.torso.output_size

    def __call__(self, observation: PyTree) -> Float[Array, "*n D"]:
        return self.torso(self.scaled(observation))

    def scaled(self, observation: PyTree) -> PyTree:
        """The observation with its measured numbers at a common size."""
        x = self._vector(observation)
        mean, variance = jax.lax.stop_gradient((self.mean, self.variance))
        spread = jnp.maximum(jnp.sqrt(variance), LEAST_SPREAD)
        apart = (x - jnp.broadcast_to(mean, x.shape)) / jnp.broadcast_to(spread, x.shape)
        scaled = jnp.where(jnp.broadcast_to(self._measured, x.shape), jnp.clip(apart, -MOST, MOST), x)
        return scaled if self.spec.only_vector else {**observation, VECTOR: scaled}

    def follow(self, observation: PyTree, *, axis: str | None = None) -> "Normaliser":
        """The same with the statistics of more observations, those of all devices along `axis`."""
        x = self._vector(observation).reshape(-1, self.spec.vector)
        total, mean = jnp.float32(len(x)), jnp.mean(x, axis=0)
        if axis is not None:
            mean, total = jax.lax.pmean(mean, axis), jax.lax.psum(total, axis)
        spread = jnp.mean(jnp.square(x - jnp.broadcast_to(mean, x.shape)), axis=0)
        spread = spread if axis is None else jax.lax.pmean(spread, axis)
        share = total / (self.count + total)
        apart = mean - self.mean
        variance = (1 - share) * self.variance + share * spread + share * (1 - share) * jnp.square(apart)
        return eqx.tree_at(
            lambda of: (of.mean, of.variance, of.count),
            self,
            (self.mean + share * apart, variance, jnp.minimum(self.count + total, WINDOW)),
        )

    @property
    def _measured(self) -> Bool[np.ndarray, " O"]:
        measured = np.zeros(self.spec.vector, bool)
        for first, end in self.spec.measured:
            measured[first:end] = True
        return measured

    def _vector(self, observation: PyTree) -> Float[Array, "*n O"]:
        return observation if self.spec.only_vector else observation[VECTOR]
