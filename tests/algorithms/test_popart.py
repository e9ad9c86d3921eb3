"""PopArt: statistics by one return after the other, values kept through a change, against rlax."""

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.algorithms import LearnerError, PopArt, popart
from tests.algorithms import naive
from tests.algorithms.oracle import rlax

update = jax.jit(popart.update, static_argnames="step")


def returns(seed=0):
    """Two streams of each of three tasks, five steps; task 2 has none that count."""
    random = np.random.default_rng(seed)
    task = np.array([0, 1, 2, 1, 0, 2])
    targets = (random.standard_normal((6, 5)) * 10.0 ** task[:, None] + 3 * task[:, None]).astype(np.float32)
    valid = random.random((6, 5)) < 0.7
    valid[task == 2] = False
    return jnp.asarray(targets), jnp.asarray(valid), jnp.asarray(task)


def some_stats():
    return PopArt(mean=jnp.array([0.5, -3, 7]), variance=jnp.array([4.0, 1, 9]), scale=jnp.array([2.0, 1, 3]))


@pytest.mark.parametrize("step", [1e-4, 1e-2])
def test_statistics_move_as_by_one_return_after_the_other(step):
    """Up to the order of the returns, which a running mean has and a batch has not."""
    targets, valid, task = returns()
    old = some_stats()
    new = update(old, targets, valid, task, step=step)
    for n in range(2):
        seen = np.concatenate([np.asarray(targets[b])[np.asarray(valid[b])] for b in range(6) if task[b] == n]).astype(float)
        both = []
        for order in (seen, seen[::-1]):
            first = float(old.mean[n]), float(old.variance[n] + old.mean[n] ** 2)
            both.append(naive.popart_one_by_one(*first, order, step))
        mean, second_moment = np.mean(both, axis=0)  # of both orders: what depends on the order cancels, nearly
        tolerance = 10 * step**2 * np.abs(seen**2).max() * len(seen)
        np.testing.assert_allclose(new.mean[n], mean, atol=tolerance, rtol=1e-5)
        np.testing.assert_allclose(new.variance[n] + new.mean[n] ** 2, second_moment, atol=tolerance, rtol=1e-5)
    for field in ("mean", "variance", "scale"):
        assert getattr(new, field)[2] == getattr(old, field)[2]


def test_one_return_moves_the_statistics_as_rlax():
    """For one return per task there is no order, and the two agree to rounding."""
    start, update = rlax.popart(2, 1e-2, 1e-2, 1e6)
    targets, index = jnp.array([[5.0], [-300.0]]), jnp.array([0, 1])
    params = {"w": jnp.arange(6.0).reshape(3, 2), "b": jnp.array([1.0, -2.0])}
    theirs, state = update(params, start(), targets[:, 0], index)
    old = popart.init(2)
    new = popart.update(old, targets, jnp.ones((2, 1), bool), index, step=1e-2)
    weight, bias = popart.preserve(params["w"], params["b"], old=old, new=new)
    for mine, their in ((new.mean, state.shift), (new.scale, state.scale), (weight, theirs["w"]), (bias, theirs["b"])):
        np.testing.assert_allclose(mine, their, rtol=1e-4)


def test_values_in_reward_units_are_kept():
    random = np.random.default_rng(1)
    weight, bias, x = (jnp.asarray(random.standard_normal(shape), jnp.float32) for shape in ((4, 3), (3,), (6, 4)))
    targets, valid, task = returns()
    old = some_stats()
    new = update(old, targets, valid, task, step=0.1)
    assert not np.allclose(new.scale[:2], old.scale[:2], rtol=0.1)
    new_weight, new_bias = popart.preserve(weight, bias, old=old, new=new)
    before, after = (x @ w + b[None] for w, b in ((weight, bias), (new_weight, new_bias)))
    for n in range(3):
        kept = after[:, n] * new.scale[n] + new.mean[n]
        np.testing.assert_allclose(kept, before[:, n] * old.scale[n] + old.mean[n], rtol=1e-4, atol=1e-4)


@hypothesis.given(
    seed=st.integers(0, 10_000),
    present=st.sets(st.integers(0, 3), min_size=1),
    size=st.floats(-3, 4),
    step=st.sampled_from([1e-4, 1e-2, 0.5]),
)
def test_values_are_kept_for_any_returns_of_any_tasks(seed, present, size, step):
    """Four tasks, some of them in the batch, returns of any size: values in reward units stay, and so do the statistics and the
    output of every task that is not there, to the bit."""
    random = np.random.default_rng(seed)
    floats = lambda *shape: random.standard_normal(shape).astype(np.float32)  # noqa: E731
    spread = np.abs(floats(4)) + np.float32(0.1)
    old = PopArt(mean=jnp.asarray(floats(4)), variance=jnp.asarray(spread**2), scale=jnp.asarray(spread))
    task = random.choice(sorted(present), 6).astype(np.int32)
    targets = np.float32(10**size) * (floats(6, 5) + floats(4)[task][:, None])
    new = update(old, targets, random.random((6, 5)) < 0.8, task, step=step)
    weight, bias, x = floats(7, 4), floats(4), floats(9, 7)
    new_weight, new_bias = (np.asarray(of) for of in popart.preserve(jnp.asarray(weight), jnp.asarray(bias), old=old, new=new))
    for n in range(4):
        before = (x @ weight[:, n] + bias[n]) * float(old.scale[n]) + float(old.mean[n])
        after = (x @ new_weight[:, n] + new_bias[n]) * float(new.scale[n]) + float(new.mean[n])
        # Exact but for rounding, which is of the largest number on the way.
        largest = max(np.abs(before).max(), abs(float(new.mean[n])), float(old.scale[n]) * np.abs(x).max())
        np.testing.assert_allclose(after, before, rtol=0, atol=4e-6 * largest)
        if n not in task:
            for field in ("mean", "variance", "scale"):
                assert getattr(new, field)[n] == getattr(old, field)[n]
            np.testing.assert_array_equal(new_weight[:, n], weight[:, n])
            np.testing.assert_array_equal(new_bias[n], bias[n])


def test_the_spread_is_found_far_from_zero():
    """Returns of 10,000 +- 0.1: E[x^2] - E[x]^2 in float32 would have lost the spread."""
    random = np.random.default_rng(0)
    stats, update = popart.init(1), jax.jit(lambda s, x: popart.update(s, x, jnp.ones((4, 50), bool), step=1e-2))
    for _ in range(40):
        stats = update(stats, (1e4 + 0.1 * random.standard_normal((4, 50))).astype(np.float32))
    np.testing.assert_allclose(stats.mean, 1e4, rtol=1e-5)
    np.testing.assert_allclose(stats.scale, 0.1, rtol=0.1)


def test_the_scale_keeps_its_bounds():
    ones = jnp.ones((2, 3), bool)
    for targets, bound in ((jnp.zeros((2, 3)), 1e-2), (jnp.array([[0, 1e9, 0], [1e9, 0, 1e9]]), 1e6)):
        stats = popart.init(1)
        for _ in range(3):
            stats = update(stats, targets, ones, step=0.9)
        np.testing.assert_allclose(stats.scale, bound)


def test_masked_returns_count_nowhere():
    targets, valid, task = returns()
    other = jnp.where(valid, targets, jnp.nan)
    for x, y in zip(*(jax.tree.leaves(update(some_stats(), t, valid, task, step=1e-4)) for t in (targets, other)), strict=True):
        np.testing.assert_array_equal(x, y)


def test_tasks_are_at_least_one():
    with pytest.raises(LearnerError, match="tasks must be at least 1, got 0; "):
        popart.init(0)
