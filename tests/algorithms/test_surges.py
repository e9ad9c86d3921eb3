"""What `max_surge` promises: usual gradients pass, sudden ones are shortened, scale does not matter, and nothing gets stuck."""

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.algorithms import PPO, VMPO
from gtrxl.algorithms.errors import LearnerError
from gtrxl.algorithms.surges import FIRST, limit_surges

DIRECTION = {"a": jnp.array([3.0, 0.0]), "b": jnp.array([[0.0, 4.0]])}
"""Of length 5."""


def lengths(sizes, most=1.5):
    """How long gradients of these lengths come out, and that their direction is theirs."""
    limit = limit_surges(most)
    state, out = limit.init(DIRECTION), []
    for size in sizes:
        given = jax.tree.map(lambda leaf, size=size: leaf * (size / 5), DIRECTION)
        passed, state = limit.update(given, state)
        flat, _ = jax.flatten_util.ravel_pytree(passed)
        out.append(float(np.linalg.norm(flat)))
        np.testing.assert_allclose(flat[0] * 4, flat[3] * 3, rtol=1e-6)
    return np.array(out)


def by_hand(sizes, most=1.5):
    """The rule in plain Python: the weighted mean of past squares, written out."""
    kept = []
    for size in sizes:
        weights = 0.99 ** np.arange(len(kept))[::-1]
        usual = np.sqrt(np.sum(weights * np.square(kept)) / np.sum(weights)) if kept else 0.0
        kept.append(min(size, most * usual) if len(kept) >= FIRST and usual else size)
    return np.array(kept)


def test_it_is_the_rule_written_out():
    sizes = np.random.default_rng(0).lognormal(0, 1, 300)
    np.testing.assert_allclose(lengths(sizes), by_hand(sizes), rtol=2e-4)
    assert np.sum(lengths(sizes) < 0.99 * sizes) > 30


def test_usual_gradients_pass_and_a_surge_is_shortened():
    out = lengths([1.0] * 50 + [20.0] + [1.0] * 5)
    np.testing.assert_allclose(np.delete(out, 50), 1.0, rtol=1e-5)
    np.testing.assert_allclose(out[50], 1.5, rtol=1e-5)


def test_scale_does_not_matter():
    sizes = np.random.default_rng(1).lognormal(0, 1, 100)
    np.testing.assert_allclose(1e-6 * lengths(sizes), lengths(1e-6 * sizes), rtol=1e-4)


def test_the_first_ones_pass_whatever_they_are():
    sizes = np.array([1e-3, 1e3] * (FIRST // 2))
    np.testing.assert_allclose(lengths(sizes), sizes, rtol=1e-6)


def test_after_gradients_of_nothing_the_first_something_passes():
    assert lengths([0.0] * 30 + [2.0])[-1] == pytest.approx(2.0)


def test_gradients_that_stay_large_are_let_through_in_the_end():
    out = lengths([1.0] * 50 + [4.0] * 400)
    assert out[60] < 2
    assert out[-1] == pytest.approx(4.0)


def test_learners_have_it_and_check_it():
    assert (VMPO().max_surge, VMPO.paper().max_surge, PPO().max_surge) == (0.0, 0.0, 0.0)
    with pytest.raises(LearnerError, match=r"max_surge must be at least 1, got 0.5; 1.5 holds what is solved, 0 switches it off"):
        VMPO(max_surge=0.5)


def test_a_learner_without_it_keeps_the_optimiser_that_old_checkpoints_have():
    was = jax.tree.structure(VMPO().optimiser().init(DIRECTION))
    now = jax.tree.structure(VMPO(max_surge=1.5).optimiser().init(DIRECTION))
    assert was.num_leaves + 2 == now.num_leaves
