"""Whole losses: against the transcriptions, value and gradients; and what no loss may depend on."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.algorithms import LEARNERS, PPO, VMPO, VTrace, vmpo
from tests.algorithms import batches, naive
from tests.algorithms.oracle import rlax

PARTS = ("categorical", "mean", "covariance")
NUMBERS = {
    "eta": np.array(0.7),
    "alpha_categorical": np.array(1.7),
    "alpha_mean": np.array(0.4),
    "alpha_covariance": np.array(2.0),
}
REFERENCE = {"vmpo": naive.vmpo, "ppo": naive.ppo, "vtrace": naive.impala}
LIVE = {"log_prob", "entropy", "value", *NUMBERS, *(f"kl_{name}" for name in PARTS)}

# Odd numbers: a setting that is ignored, or taken for another, shows.
ODD = {
    "vmpo": VMPO(lam=0.8, eps_eta=0.3, eps_alpha=0.6, eps_mean=0.9, eps_covariance=1.1),
    "vmpo, reward units": VMPO(lam=1.0, eps_eta=0.3, rank_in_reward_units=True),
    "ppo": PPO(lam=0.8, clip=0.15, entropy_cost=0.2, value_cost=0.7),
    "vtrace": VTrace(lam=0.9, rho_bar=1.2, c_bar=0.8, entropy_cost=0.2, value_cost=0.7),
}


def batch_for(name, seed=0, **more):
    """A batch, with V-MPO's multipliers among its arrays."""
    batch = batches.make(seed, kl=PARTS, **more)
    return batch | (NUMBERS if name.startswith("vmpo") else {})


def run(name, batch):
    """The loss, its report, and the gradient for every array by name."""
    loss, report, (by_multipliers, by_inputs) = batches.loss_and_gradients(
        ODD[name], batches.multipliers(batch), batches.inputs(batch)
    )
    fields = {field: getattr(by_inputs, field) for field in type(by_inputs).__dataclass_fields__ if field not in ("kl", "valid")}
    return loss, report, fields | by_multipliers | {f"kl_{part}": slope for part, slope in by_inputs.kl.items()}


@pytest.mark.parametrize("name", ODD)
def test_loss_and_gradients_are_the_paper_s(name):
    """Every term's value, and every array's gradient: central differences of the transcription, and zero where the paper
    stops gradients."""
    batch, learner = batch_for(name), ODD[name]
    reference = REFERENCE[name.split(",")[0]]
    loss, report, gradients = run(name, batch)
    terms = reference(learner, batch, batch)
    np.testing.assert_allclose(loss, sum(terms.values()), rtol=1e-5)
    for term, value in terms.items():
        np.testing.assert_allclose(report[f"loss_{term}"], value, rtol=1e-4, atol=1e-6)
    for array, slope in gradients.items():
        expected = np.zeros_like(slope)
        if array in LIVE:
            expected = naive.gradient(lambda live, still: reference(learner, live, still), batch, batch, array)
        np.testing.assert_allclose(slope, expected, rtol=1e-3, atol=1e-6, err_msg=array)


@pytest.mark.parametrize("name", ODD)
def test_repeating_the_batch_changes_nothing(name):
    """The loss stays, and each copy has half the gradient: together they teach what one did."""
    batch = batch_for(name)
    loss, _, gradients = run(name, batch)
    twice, _, twice_gradients = run(name, batches.repeated(batch))
    np.testing.assert_allclose(twice, loss, rtol=1e-5)
    for array, slope in gradients.items():
        both = np.asarray(twice_gradients[array])
        both = both[: batches.B] + both[batches.B :] if both.ndim else both
        np.testing.assert_allclose(both, slope, rtol=1e-4, atol=1e-7, err_msg=array)


@pytest.mark.parametrize("name", ODD)
def test_masked_steps_count_nowhere(name):
    """Anything at all at masked steps: the same loss, report and gradients, bit for bit. Only a value after a time limit
    counts, as it must: it continues the return."""
    batch = batch_for(name)
    before = run(name, batch)
    other = {array: np.array(of) for array, of in batch.items()}
    masked = ~batch["valid"]
    for array in ("reward", "discount", "log_prob", "behaviour_log_prob", "entropy", *(f"kl_{part}" for part in PARTS)):
        other[array][masked] = np.nan
    for array in ("value", "behaviour_value"):
        for at in ((0, 3), (2, 0), (2, 6)):
            other[array][at] = -77.0
    after = run(name, other)
    assert np.isfinite(before[0])
    for x, y in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True):
        np.testing.assert_array_equal(x, y)
    for array, slope in before[2].items():
        if slope.ndim == 2:
            assert not np.asarray(slope)[:, : batches.T][masked].any(), array


@pytest.mark.parametrize("name", ODD)
def test_targets_are_in_reward_units(name):
    """What PopArt gets: the same whether values are given in normalised space or in reward units."""
    batch = batch_for(name)
    plain = batch | {value: naive.in_units(batch, batch[value]) for value in ("value", "behaviour_value")}
    plain |= {"shift": np.zeros(batches.B), "scale": np.ones(batches.B)}
    targets = [ODD[name].targets(batches.inputs(x)) for x in (batch, plain)]
    np.testing.assert_allclose(*targets, rtol=1e-4, atol=1e-5)
    value = plain["behaviour_value" if name == "ppo" else "value"][:, :-1]
    masked = ~batch["valid"]
    np.testing.assert_allclose(np.asarray(targets[0])[masked], value[masked], rtol=1e-5)


def test_ppo_agrees_with_rlax():
    """Its clipped surrogate, with our standardised advantages."""
    batch, learner = batch_for("ppo", all_valid=True), ODD["ppo"]
    inputs = batches.inputs(batch)
    raw = (learner.targets(inputs) - inputs.in_reward_units(inputs.behaviour_value)[:, :-1]) / inputs.scale[:, None]
    advantage = (raw - raw.mean()) / raw.std()

    def theirs(log_prob):
        ratio = jnp.exp(log_prob - inputs.behaviour_log_prob)
        return rlax.clipped_surrogate_pg_loss(ratio.ravel(), advantage.ravel(), learner.clip)

    expected, slope = jax.value_and_grad(theirs)(inputs.log_prob)
    _, report, gradients = run("ppo", batch)
    np.testing.assert_allclose(report["loss_policy"], expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(gradients["log_prob"], slope, rtol=1e-3, atol=1e-6)


def test_policy_and_temperature_do_not_teach_the_value():
    """The value's gradient is the value term's alone, though advantages are made of values."""
    batch = batch_for("vmpo")
    _, _, gradients = run("vmpo", batch)
    target = naive.returns(batch["reward"], batch["discount"], naive.in_units(batch, batch["value"]), batch["valid"], 0.8)
    error = np.where(batch["valid"], batch["value"][:, :-1] - naive.normalised(batch, target), 0) / batch["valid"].sum()
    np.testing.assert_allclose(gradients["value"][:, :-1], error, rtol=1e-4, atol=1e-6)
    assert not gradients["value"][:, -1].any()


def test_the_report_says_what_happened():
    batch = batch_for("vmpo")
    at = batch["valid"]
    _, report, _ = run("vmpo", batch)
    target = naive.returns(batch["reward"], batch["discount"], naive.in_units(batch, batch["value"]), at, 0.8)
    target = naive.normalised(batch, target)[at]
    error = target - batch["value"][:, :-1][at]
    expected = {
        "eta": 0.7,
        "alpha_mean": 0.4,
        "kl_covariance": batch["kl_covariance"][at].mean(),
        "entropy": batch["entropy"][at].mean(),
        "explained_variance": 1 - error.var() / target.var(),
        "advantage_mean": error.mean(),
        "advantage_std": error.std(),
    }
    for name, value in expected.items():
        np.testing.assert_allclose(report[name], value, rtol=1e-4, err_msg=name)
    log_ratio = (batch["log_prob"] - batch["behaviour_log_prob"])[at]
    _, report, _ = run("ppo", batch_for("ppo"))
    np.testing.assert_allclose(report["clipped"], (np.abs(np.exp(log_ratio) - 1) > 0.15).mean(), rtol=1e-5)


def test_a_batch_without_a_valid_step_teaches_nothing():
    for name in ODD:
        batch = batch_for(name)
        batch["valid"] = np.zeros_like(batch["valid"])
        loss, report, gradients = run(name, batch)
        assert np.isfinite([loss, *report.values()]).all()
        for array in ("log_prob", "entropy", "value", "kl_mean"):
            assert not gradients[array].any()


@pytest.mark.parametrize("name", LEARNERS)
def test_multipliers_are_a_learner_s_own(name):
    learner = LEARNERS[name]()
    multipliers = learner.multipliers(("mean", "covariance"))
    expected = {"eta": 1.0, "alpha_mean": 1.0, "alpha_covariance": 1.0} if name == "vmpo" else {}
    assert {key: float(of) for key, of in multipliers.items()} == expected
    below = learner.project({key: of - 2 for key, of in multipliers.items()})
    assert all(of == vmpo.FLOOR for of in below.values())
    assert learner.multiplier_rate > 0


def test_the_half_is_of_the_whole_batch():
    """Streams that get ever better: the half is the later streams, not the later half of each."""
    batch = batch_for("vmpo", all_valid=True) | {"shift": np.zeros(batches.B), "scale": np.ones(batches.B)}
    batch["value"][:], batch["discount"][:] = 0, 0
    better = np.arange(batches.B * batches.T).reshape(batches.B, batches.T)
    batch["reward"] = 0.1 * better
    _, _, gradients = run("vmpo", batch)
    np.testing.assert_array_equal(np.asarray(gradients["log_prob"]) != 0, better >= batches.B * batches.T // 2)


def test_ppo_does_not_blow_up_differences_that_are_small_beside_the_returns():
    """A batch without a reward: its advantages are a hundredth of the returns' spread. They count less, or like any others."""
    batch = batches.make(all_valid=True)
    quiet = batch | {name: 0.01 * batch[name] for name in ("reward", "value", "behaviour_value")}
    quiet |= {"shift": np.zeros(batches.B), "scale": np.ones(batches.B)}
    loud = quiet | {name: 100 * quiet[name] for name in ("reward", "value", "behaviour_value")}

    def slope(learner, of):
        by_inputs = batches.loss_and_gradients(learner, {}, batches.inputs(of))[2][1]
        return np.asarray(by_inputs.log_prob)

    usual, bounded = PPO(entropy_cost=0.0), PPO(entropy_cost=0.0, least_spread=0.5)
    np.testing.assert_allclose(slope(usual, quiet), slope(usual, loud), rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(slope(bounded, loud), slope(usual, loud), rtol=1e-3, atol=1e-6)
    share = np.abs(slope(bounded, quiet)).max() / np.abs(slope(usual, quiet)).max()
    assert 0.005 < share < 0.1
