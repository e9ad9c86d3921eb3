"""Mistakes found in public V-MPO code, made on purpose, and the comparison that finds each.

Every comparison here is one that our own function passes: it is the same that the other tests stand on.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.algorithms import kl_covariance, kl_mean, vmpo
from tests.algorithms import naive
from tests.algorithms.test_divergences import kl_by_matrices

ETA, EPSILON = 0.7, 0.1


def numbers():
    """Advantages, log-probabilities, and which steps count: 12 of 16."""
    random = np.random.default_rng(0)
    advantage, log_prob = random.standard_normal((2, 2, 8))
    valid = random.permutation(np.arange(16) < 12).reshape(2, 8)
    return np.where(valid, advantage, advantage + 2), -np.abs(log_prob), valid  # masked steps look good


def weights(advantage, valid):
    chosen = vmpo.top_half(advantage, valid)
    return vmpo.sample_weights(advantage, eta=jnp.float32(ETA), chosen=chosen)


def temperature(advantage, valid, eta):
    return vmpo.temperature_loss(advantage, eta=eta, chosen=vmpo.top_half(advantage, valid), epsilon=EPSILON)


class Right:
    """V-MPO's terms as they are in the library."""

    def policy(self, advantage, log_prob, valid):
        return vmpo.policy_loss(log_prob=log_prob, weight=weights(advantage, valid))

    def temperature(self, advantage, valid, eta):
        return temperature(advantage, valid, eta)

    def mean(self, old_mean, old_scale, mean, scale):
        return kl_mean(old_mean=old_mean, old_scale=old_scale, mean=mean)

    def covariance(self, old_scale, scale):
        return kl_covariance(old_scale=old_scale, scale=scale)


class MeanInsteadOfSum(Right):
    def policy(self, advantage, log_prob, valid):
        return -jnp.mean(weights(advantage, valid) * log_prob)


class MaskedStepsInTheNormaliser(Right):
    def policy(self, advantage, log_prob, valid):
        top = vmpo.top_half(advantage, valid) | ~valid
        weight = vmpo.sample_weights(advantage, eta=jnp.float32(ETA), chosen=top)
        return -jnp.sum(jnp.where(valid, weight * log_prob, 0.0))


class MaskedStepsInTheTemperature(Right):
    def temperature(self, advantage, valid, eta):
        top = vmpo.top_half(advantage, valid) | ~valid
        return vmpo.temperature_loss(jnp.where(valid, advantage, 0.0), eta=eta, chosen=top, epsilon=EPSILON)


class HalfOfMaskedStepsToo(Right):
    def policy(self, advantage, log_prob, valid):
        top = valid & vmpo.top_half(advantage, jnp.ones_like(valid))
        return vmpo.policy_loss(log_prob=log_prob, weight=vmpo.sample_weights(advantage, eta=jnp.float32(ETA), chosen=top))


class HalfOfEachStream(Right):
    def policy(self, advantage, log_prob, valid):
        top = jax.vmap(vmpo.top_half)(advantage, valid)
        return vmpo.policy_loss(log_prob=log_prob, weight=vmpo.sample_weights(advantage, eta=jnp.float32(ETA), chosen=top))


class TemperatureOfAllSteps(Right):
    def temperature(self, advantage, valid, eta):
        return vmpo.temperature_loss(advantage, eta=eta, chosen=valid, epsilon=EPSILON)


class SumInTheTemperature(Right):
    def temperature(self, advantage, valid, eta):
        return temperature(advantage, valid, eta) + eta * jnp.log(6.0)


class MaxWithoutEta(Right):
    def temperature(self, advantage, valid, eta):
        best = jnp.max(jnp.where(valid, advantage, -jnp.inf))
        return temperature(advantage, valid, eta) - best + eta * best


class NewCovarianceMeasuresTheMean(Right):
    def mean(self, old_mean, old_scale, mean, scale):
        return kl_mean(old_mean=old_mean, old_scale=scale, mean=mean)


class VarianceForPrecision(Right):
    def mean(self, old_mean, old_scale, mean, scale):
        return kl_mean(old_mean=old_mean, old_scale=1 / old_scale, mean=mean)


class PrecisionSwapped(Right):
    def covariance(self, old_scale, scale):
        return kl_covariance(old_scale=1 / old_scale, scale=1 / scale)


class DeviationForCovariance(Right):
    def mean(self, old_mean, old_scale, mean, scale):
        return kl_mean(old_mean=old_mean, old_scale=jnp.sqrt(old_scale), mean=mean)


class DeviationForCovarianceInItsOwnPart(Right):
    def covariance(self, old_scale, scale):
        return kl_covariance(old_scale=jnp.sqrt(old_scale), scale=jnp.sqrt(scale))


def compare(terms):
    """Values and eta's gradient against float64 loops; the Gaussian parts against matrices."""
    advantage, log_prob, valid = numbers()
    half = naive.better_half(advantage, valid)
    total = sum(np.exp(advantage[i] / ETA) for i in half)
    policy = -sum(np.exp(advantage[i] / ETA) / total * log_prob[i] for i in half)
    ends = [naive.temperature_loss(advantage, half, ETA + d, EPSILON) for d in (-1e-5, 0, 1e-5)]
    arrays = [jnp.asarray(x, jnp.float32) for x in (advantage, log_prob)]
    close = partial(np.testing.assert_allclose, rtol=1e-3)
    close(terms.policy(*arrays, jnp.asarray(valid)), policy)
    found = jax.value_and_grad(lambda eta: terms.temperature(arrays[0], jnp.asarray(valid), eta))(jnp.float32(ETA))
    close(found, (ends[1], (ends[2] - ends[0]) / 2e-5))

    random = np.random.default_rng(1)
    old_mean, mean = random.standard_normal((2, 3))
    old_scale, scale = np.exp(0.5 * random.standard_normal((2, 3)))
    old_covariance, covariance = np.diag(old_scale**2), np.diag(scale**2)
    parts = [jnp.asarray(x, jnp.float32) for x in (old_mean, old_scale, mean, scale)]
    close(terms.mean(*parts), kl_by_matrices(old_mean, old_covariance, mean, old_covariance))
    moved = kl_by_matrices(old_mean, old_covariance, old_mean, covariance)
    close(terms.covariance(parts[1], parts[3]), moved)


def test_without_a_mistake_the_terms_are_right():
    compare(Right())


@pytest.mark.parametrize("mistake", Right.__subclasses__())
def test_found(mistake):
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        compare(mistake())
