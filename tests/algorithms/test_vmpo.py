"""V-MPO's terms one by one: values, gradients, and what each must not depend on."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gtrxl.algorithms import vmpo
from tests.algorithms import batches, naive
from tests.algorithms.oracle import rlax

close = partial(np.testing.assert_allclose, rtol=2e-5, atol=1e-6)
top_half = jax.jit(vmpo.top_half)


def numbers(seed=0):
    """Advantages and which of them count: 12 of 16, without ties."""
    random = np.random.default_rng(seed)
    valid = random.permutation(np.arange(16) < 12).reshape(2, 8)
    return jnp.asarray(random.standard_normal((2, 8)), jnp.float32), jnp.asarray(valid)


SIZE = 12  # one shape, so that hypothesis compiles once


@given(
    values=st.lists(st.integers(-3, 3) | st.floats(-5, 5, width=32), min_size=SIZE, max_size=SIZE),
    valid=st.lists(st.booleans(), min_size=SIZE, max_size=SIZE),
    copies=st.integers(1, 3),
)
def test_the_better_half(values, valid, copies):
    """At least half of the valid steps, all that tie with the worst of them and no other; and copies change nothing."""
    advantage, valid = np.array(values, np.float32), np.array(valid)
    padded = np.full((3, SIZE), np.nan, np.float32), np.zeros((3, SIZE), bool)
    padded[0][:copies], padded[1][:copies] = advantage, valid
    chosen = np.asarray(top_half(*padded))
    assert not chosen[copies:].any()
    assert all((row == chosen[0]).all() for row in chosen[:copies])
    ranked = np.sort(advantage[valid])[::-1]
    if len(ranked):
        least = ranked[(len(ranked) + 1) // 2 - 1]
        np.testing.assert_array_equal(chosen[0], valid & (advantage >= least))
    else:
        assert not chosen.any()


def test_half_of_distinct_advantages_is_exactly_half():
    advantage, valid = numbers()
    assert top_half(advantage, valid).sum() == 6
    odd = np.array(valid)
    odd[tuple(np.argwhere(odd)[0])] = False
    assert top_half(advantage, odd).sum() == 6  # of 11, rounded up


def test_extremes_are_ranked():
    """Infinities, the smallest numbers and both zeros are in their order."""
    order = np.array([-np.inf, -1e38, -1.0, -1e-37, 0.0, 1e-37, 1.0, 1e38], np.float32)
    np.testing.assert_array_equal(top_half(order, np.ones(8, bool)), order >= 0)
    zeros = np.array([-1, -0.0, -2, 0.0, -3, -0.0, -4, -5], np.float32)
    np.testing.assert_array_equal(top_half(zeros, np.ones(8, bool)), zeros >= -1)
    np.testing.assert_array_equal(top_half(np.abs(zeros) * 0 - 0.0, np.ones(8, bool)), np.ones(8, bool))


@pytest.mark.parametrize("eta", [1e-8, 0.3, 1.0, 1e4])
def test_weights_add_up_to_one(eta):
    """Over the chosen, and nowhere else; for advantages whose exponential is far beyond float32."""
    advantage, valid = numbers()
    for shift in (0.0, 1e4, -1e4):
        chosen = top_half(advantage + shift, valid)
        weight = np.asarray(vmpo.sample_weights(advantage + shift, eta=jnp.float32(eta), chosen=chosen))
        np.testing.assert_allclose(weight.sum(), 1, rtol=1e-6)
        assert (weight[~np.asarray(chosen)] == 0).all()
        loss, slope = jax.value_and_grad(lambda x: vmpo.temperature_loss(advantage + shift, eta=x, chosen=chosen, epsilon=0.1))(
            jnp.float32(eta)
        )
        assert np.isfinite([loss, slope]).all()


def test_weights_are_the_softmax():
    advantage, valid = numbers()
    advantages = np.asarray(advantage, float)
    half = naive.better_half(advantages, valid)
    total = sum(np.exp(advantages[i] / 0.7) for i in half)
    weight = vmpo.sample_weights(advantage, eta=jnp.float32(0.7), chosen=top_half(advantage, valid))
    for i in np.ndindex(advantage.shape):
        np.testing.assert_allclose(weight[i], np.exp(advantages[i] / 0.7) / total if i in half else 0.0, rtol=1e-5)


def test_the_temperature_finds_its_optimum():
    """At the minimum over eta, the weights' KL from uniform over the half is epsilon: the bound that the dual stands for."""
    advantage, valid = numbers()
    chosen, epsilon = top_half(advantage, valid), 0.1
    slope = jax.jit(jax.grad(lambda eta: vmpo.temperature_loss(advantage, eta=eta, chosen=chosen, epsilon=epsilon)))
    low, high = 1e-3, 1e3
    for _ in range(60):
        middle = (low * high) ** 0.5
        low, high = (low, middle) if slope(middle) > 0 else (middle, high)
    weight = np.asarray(vmpo.sample_weights(advantage, eta=jnp.float32(low), chosen=chosen))[np.asarray(chosen)]
    np.testing.assert_allclose(np.sum(weight * np.log(weight * len(weight))), epsilon, rtol=1e-3)


def terms(free, advantage, valid):
    """All of V-MPO's terms but the value's, for these free numbers."""
    chosen = vmpo.top_half(advantage, valid)
    weight = vmpo.sample_weights(advantage, eta=free["eta"], chosen=chosen)
    return {
        "policy": vmpo.policy_loss(log_prob=free["log_prob"], weight=weight),
        "temperature": vmpo.temperature_loss(advantage, eta=free["eta"], chosen=chosen, epsilon=0.1),
        "kl": vmpo.kl_loss(free["kl"], alpha=free["alpha"], epsilon=0.02, valid=valid),
    }


def test_terms_and_gradients_agree_with_rlax():
    """Term by term, values and gradients; with every step valid, because rlax leaves masks of the KL to its caller."""
    advantage, _ = numbers()
    random = np.random.default_rng(1)
    free = {
        "log_prob": jnp.asarray(-random.random((2, 8)), jnp.float32),
        "kl": jnp.asarray(random.random((2, 8)), jnp.float32),
        "eta": jnp.float32(0.7),
        "alpha": jnp.float32(1.7),
    }

    def theirs(free):
        penalty = rlax.LagrangePenalty
        _, out = rlax.vmpo_loss(
            free["log_prob"],
            jnp.asarray(advantage),
            penalty(free["eta"], jnp.float32(0.1), False),
            [(free["kl"], penalty(free["alpha"], jnp.float32(0.02), False))],
        )
        mean = jax.tree.map(jnp.mean, out._asdict())
        return {
            "policy": mean["policy_loss"],
            "temperature": mean["temperature_loss"],
            "kl": mean["kl_loss"] + mean["alpha_loss"],
        }

    def mine(free):
        return terms(free, advantage, jnp.ones_like(advantage, bool))

    found, expected = ((f(free), jax.jacrev(f)(free)) for f in (jax.jit(mine), jax.jit(theirs)))
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        close(x, y)


def test_terms_agree_with_rlax_under_a_mask():
    """Its `restarting_weights` mask weights and temperature. Its half is of all steps, masked or not, so it is told the share."""
    advantage, valid = numbers()
    weight, size = float(6 / 16), 6
    penalty = rlax.LagrangePenalty(jnp.float32(0.7), jnp.float32(0.1), False)
    loss, weights, number = rlax.vmpo_compute_weights_and_temperature_loss(
        jnp.asarray(advantage), jnp.asarray(valid, jnp.float32), jnp.ones((2, 8)), penalty, lambda x: x, weight
    )
    chosen = top_half(advantage, valid)
    np.testing.assert_allclose(number, size, rtol=1e-5)
    close(vmpo.sample_weights(advantage, eta=jnp.float32(0.7), chosen=chosen), weights)
    mine = vmpo.temperature_loss(advantage, eta=jnp.float32(0.7), chosen=chosen, epsilon=0.1)
    close(mine, loss)


def test_no_gradient_into_the_advantages():
    """Neither the policy term nor the temperature term teaches the value."""
    advantage, valid = numbers()
    free = {"log_prob": -jnp.ones((2, 8)), "kl": jnp.ones((2, 8)), "eta": jnp.float32(0.7), "alpha": jnp.float32(1.7)}
    for slope in jax.tree.leaves(jax.jacrev(lambda a: terms(free, a, valid))(jnp.asarray(advantage))):
        np.testing.assert_array_equal(slope, 0)


def test_a_bound_that_is_broken_raises_alpha():
    """Descending the KL loss raises alpha where the KL is over its bound, lowers it where under, and always pulls the policy
    back by alpha."""
    valid = jnp.ones((2, 8), bool)
    slopes = jax.grad(lambda alpha, kl: vmpo.kl_loss(kl, alpha=alpha, epsilon=0.02, valid=valid), argnums=(0, 1))
    over, under = (slopes(jnp.float32(5.0), jnp.full((2, 8), kl)) for kl in (0.03, 0.01))
    np.testing.assert_allclose([over[0], under[0]], [-0.01, 0.01], rtol=1e-4)
    np.testing.assert_allclose(over[1], 5 / 16, rtol=1e-6)


def test_multipliers_are_projected():
    kept = vmpo.projected({"eta": jnp.float32(-1.0), "alpha_mean": jnp.float32(0.3)})
    np.testing.assert_allclose([kept["eta"], kept["alpha_mean"]], [1e-8, 0.3], rtol=1e-6)


def test_a_batch_without_a_valid_step_teaches_nothing():
    advantage, nothing = numbers()[0], jnp.zeros((2, 8), bool)
    free = {"log_prob": -jnp.ones((2, 8)), "kl": jnp.ones((2, 8)), "eta": jnp.float32(0.7), "alpha": jnp.float32(1.7)}
    losses, slopes = terms(free, advantage, nothing), jax.jacrev(lambda free: terms(free, advantage, nothing))(free)
    assert all(np.isfinite(x).all() for x in jax.tree.leaves((losses, slopes)))
    assert not slopes["policy"]["log_prob"].any()
    assert not slopes["kl"]["kl"].any()


def test_batches_are_as_their_name_says():
    """The generator these tests stand on: some steps are masked, episodes end and are cut."""
    batch = batches.make()
    assert 0 < (~batch["valid"]).sum() < batch["valid"].size / 2
    assert (batch["discount"] == 0).sum() == 2
