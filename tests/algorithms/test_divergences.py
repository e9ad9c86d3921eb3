"""KLs: against closed forms by matrices in float64, and against samples."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from gtrxl.algorithms import kl_categorical, kl_covariance, kl_mean

close = partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-6)


def gaussians():
    """Two diagonal Gaussians for each of five steps, three action dimensions."""
    random = np.random.default_rng(0)
    means, scales = random.standard_normal((2, 5, 3)), np.exp(0.5 * random.standard_normal((2, 5, 3)))
    return (jnp.asarray(x, jnp.float32) for x in (*means, *scales))


def kl_by_matrices(old_mean, old_cov, mean, cov):
    """KL of two Gaussians with any covariance, as in the textbook."""
    inverse = np.linalg.inv(cov)
    log_ratio = np.log(np.linalg.det(cov) / np.linalg.det(old_cov))
    return 0.5 * (np.trace(inverse @ old_cov) - len(mean) + (mean - old_mean) @ inverse @ (mean - old_mean) + log_ratio)


def test_gaussian_parts_are_the_closed_forms():
    """The mean's part is the KL with the covariance kept old; the covariance's part the KL with the mean kept old."""
    old_mean, mean, old_scale, scale = gaussians()
    moved_mean = kl_mean(old_mean=old_mean, old_scale=old_scale, mean=mean)
    moved_covariance = kl_covariance(old_scale=old_scale, scale=scale)
    for t in range(5):
        old_cov, cov = (np.diag(np.asarray(s[t], float) ** 2) for s in (old_scale, scale))
        close(moved_mean[t], kl_by_matrices(old_mean[t], old_cov, mean[t], old_cov))
        close(moved_covariance[t], kl_by_matrices(old_mean[t], old_cov, old_mean[t], cov))


def test_gaussian_parts_are_what_samples_say():
    """E_old[log old - log new], from 200,000 samples, with only the mean or only the covariance moved."""
    old_mean, mean, old_scale, scale = (x[0] for x in gaussians())
    samples = np.asarray(old_mean) + np.asarray(old_scale) * np.random.default_rng(1).standard_normal((200_000, 3))

    def log_density(m, s):
        m, s = np.asarray(m), np.asarray(s)
        return (-0.5 * ((samples - m) / s) ** 2 - np.log(s)).sum(-1)

    for found, new in (
        (kl_mean(old_mean=old_mean, old_scale=old_scale, mean=mean), log_density(mean, old_scale)),
        (kl_covariance(old_scale=old_scale, scale=scale), log_density(old_mean, scale)),
    ):
        difference = log_density(old_mean, old_scale) - new
        assert abs(found - difference.mean()) < 5 * difference.std() / np.sqrt(len(samples))


def test_small_moves_of_the_covariance_are_measured():
    """The paper bounds this part by 5e-6: well above what float32 loses."""
    old_scale = jnp.full((1, 4), 0.3)
    scale = old_scale * 1.001
    true = 0.5 * 4 * (1.001**-2 - 1 + 2 * np.log(1.001))
    np.testing.assert_allclose(kl_covariance(old_scale=old_scale, scale=scale)[0], true, rtol=1e-2)


def test_categorical_is_the_sum_that_defines_it():
    random = np.random.default_rng(0)
    old, new = random.standard_normal((2, 5, 4))
    p, q = (np.exp(x) / np.exp(x).sum(-1, keepdims=True) for x in (old, new))
    found = kl_categorical(old_logits=jnp.asarray(old, jnp.float32), logits=jnp.asarray(new, jnp.float32))
    close(found, (p * np.log(p / q)).sum(-1))


def test_forbidden_actions_count_nothing():
    """Logits of -inf in both: the KL and its gradient are those of the actions that are left."""
    old, new = jnp.array([[0.3, -jnp.inf, 1.0]]), jnp.array([[1.3, -jnp.inf, 0.1]])

    def of(new, old):
        return kl_categorical(old_logits=old, logits=new).sum()

    found, slope = jax.value_and_grad(of)(new, old)
    expected, expected_slope = jax.value_and_grad(of)(new[:, ::2], old[:, ::2])
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    np.testing.assert_allclose(slope[:, ::2], expected_slope, rtol=1e-5)
    assert slope[0, 1] == 0


def test_nothing_moved_is_zero():
    old_mean, _, old_scale, _ = gaussians()
    still = (
        kl_mean(old_mean=old_mean, old_scale=old_scale, mean=old_mean),
        kl_covariance(old_scale=old_scale, scale=old_scale),
        kl_categorical(old_logits=old_mean, logits=old_mean),
    )
    for kl in still:
        np.testing.assert_array_equal(kl, 0)
