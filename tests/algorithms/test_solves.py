"""Every learner solves problems whose optimum is known, and V-MPO's policy stays as near its target as it is told."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from gtrxl.algorithms import PPO, VMPO, VTrace
from tests.algorithms import gaussian, tabular

# A table learns with larger steps than a network. PPO makes sixteen of them for each batch.
LEARNERS = {
    "vmpo": VMPO(learning_rate=0.03, eps_alpha=0.1),
    "ppo": PPO(learning_rate=0.01),
    "vtrace": VTrace(learning_rate=0.03),
}
PROBLEMS = {
    "bandit": (tabular.bandit(), [0], 0.25),  # one choice; unit noise moves the value
    "chain": (tabular.chain(), [0, 1, 2, 3], 0.1),
}
"""The problem, the states on the best path, and how far the learned value may be from the policy's own."""


def test_the_optimum_is_what_it_should_be():
    """By hand: the best arm; and in the chain to the right end, though stopping pays at once."""
    best, actions = tabular.value_iteration(PROBLEMS["bandit"][0])
    assert (best[0], actions[0]) == (1.0, 1)
    best, actions = tabular.value_iteration(PROBLEMS["chain"][0])
    np.testing.assert_allclose(best, [0.9**3, 0.9**2, 0.9, 1, 0])
    np.testing.assert_array_equal(actions[:4], 1)


@pytest.mark.parametrize("name", LEARNERS)
def test_solves(name):
    """The policy's exact value is within 5 % of the optimum, its likeliest actions are the best ones, and the learned
    value is the policy's."""
    for problem, path, tolerance in PROBLEMS.values():
        online, _, _ = tabular.learn(LEARNERS[name], problem, 300, jax.random.key(0))
        best, actions = tabular.value_iteration(problem)
        found = tabular.policy_value(problem, online["logits"])
        assert found[0] >= 0.95 * best[0]
        np.testing.assert_array_equal(np.asarray(online["logits"]).argmax(axis=1)[path], actions[path])
        np.testing.assert_allclose(online["value"][0], found[0], atol=tolerance)


def test_the_kl_stays_at_its_bound():
    """A target that is never renewed, and an arm that is always better: the policy goes as far as it may and stays there. Over
    the second half of the run its KL is the bound within a fifth on average, and never over twice the bound."""
    bound = 0.02
    learner = VMPO(learning_rate=0.01, multiplier_rate=0.02, alpha_init=2.0, eps_alpha=bound, target_period=1000)
    _, multipliers, reports = tabular.learn(learner, tabular.bandit(), 600, jax.random.key(0))
    kl = np.asarray(reports["kl_categorical"])
    assert 0.8 * bound < kl[300:].mean() < 1.2 * bound
    assert kl.max() < 2 * bound
    assert multipliers["alpha_categorical"] > 0.1  # it takes force to hold it


def test_a_gaussian_policy_finds_its_goal():
    learner = VMPO(learning_rate=0.02, eps_mean=0.05, eps_covariance=0.01, target_period=5)
    found, _, _ = gaussian.learn(learner, 200, jax.random.key(0))
    mean, log_scale = (np.asarray(found[name]) for name in ("mean", "log_scale"))
    np.testing.assert_allclose(mean, gaussian.GOAL, atol=0.1)
    assert (log_scale < -1).all()  # nothing is left to explore


def test_both_parts_of_a_gaussian_kl_stay_at_their_bounds():
    """As for the categorical policy: the target stays, the reward pulls; each part has its own bound and its own force.
    The covariance's bound is narrow for steps of this size: never over two and a half times."""
    settings = {"eps_mean": 0.05, "eps_covariance": 0.01, "alpha_mean_init": 3.0, "alpha_covariance_init": 3.0}
    learner = replace(VMPO(learning_rate=0.01, multiplier_rate=0.02, target_period=1000), **settings)
    _, multipliers, reports = gaussian.learn(learner, 600, jax.random.key(0))
    for part, bound in (("mean", learner.eps_mean), ("covariance", learner.eps_covariance)):
        kl = np.asarray(reports[f"kl_{part}"])
        assert 0.8 * bound < kl[300:].mean() < 1.2 * bound
        assert kl.max() < 2.5 * bound
        assert multipliers[f"alpha_{part}"] > 0.1
