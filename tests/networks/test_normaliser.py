"""Inputs of unknown size: the statistics are those of all that was seen, and only measured numbers are touched."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from gtrxl.gym.spaces.hand import Hand
from gtrxl.gym.spaces.lens import Lens
from gtrxl.networks.encoder import Torso, make_torso
from gtrxl.networks.normaliser import LEAST_SPREAD, MOST, Normaliser
from gtrxl.tasks.specs import ObservationSpec

SPEC = ObservationSpec(vector=4, measured=((0, 1), (2, 4)))


class Same(Torso):
    """Gives back what it is given, to look at it."""

    def __call__(self, x):
        return x


@pytest.fixture
def measuring():
    return Normaliser(Same(4, 4, key=jax.random.key(0)), SPEC)  # pyright: ignore[reportCallIssue]


def seen(count, seed=0):
    return np.random.default_rng(seed).normal([3.0, 0.0, -200.0, 0.01], [0.5, 1.0, 30.0, 0.002], (count, 4)).astype(np.float32)


def test_the_statistics_are_those_of_everything_seen(measuring):
    x = seen(60)
    for part in (x[:7], x[7:8], x[8:60].reshape(4, 13, 4)):  # any sizes, any axes in front
        measuring = measuring.follow(jnp.asarray(part))
    np.testing.assert_allclose(measuring.mean, x.mean(0), rtol=1e-5)
    np.testing.assert_allclose(measuring.variance, x.var(0), rtol=1e-4)
    assert measuring.count == 60


def test_measured_numbers_come_to_a_common_size_and_others_stay(measuring):
    x = seen(500)
    y = np.asarray(measuring.follow(jnp.asarray(x))(jnp.asarray(x)))
    np.testing.assert_array_equal(y[:, 1], x[:, 1])
    for i in (0, 2, 3):
        assert abs(y[:, i].mean()) < 1e-2
        assert y[:, i].std() == pytest.approx(1, abs=1e-2)


def test_before_anything_was_seen_it_changes_nothing(measuring):
    x = jnp.array([1.0, 2.0, -3.0, 4.0])
    np.testing.assert_array_equal(measuring(x), x)


def test_a_constant_stays_and_an_outlier_is_cut(measuring):
    measuring = measuring.follow(jnp.ones((50, 4)))
    y = np.asarray(measuring(jnp.array([1.0, 5.0, 1.0 + LEAST_SPREAD, 1e6])))
    np.testing.assert_allclose(y, [0.0, 5.0, 1.0, MOST], atol=1e-3)


def test_no_gradient_reaches_the_statistics(measuring):
    measuring = Normaliser(Torso(4, 3, key=jax.random.key(0)), SPEC).follow(jnp.asarray(seen(9)))
    gradient = eqx.filter_grad(lambda of: jnp.sum(of(jnp.asarray(seen(5)))))(measuring)
    assert not np.any(gradient.mean) and not np.any(gradient.variance)  # noqa: PT018
    assert np.any(gradient.torso.first.weight)


def test_a_picture_passes_beside_the_numbers():
    spec = ObservationSpec(vector=2, images=(("image", (8, 8, 3)),), measured=((0, 2),))
    measuring = Normaliser(make_torso(spec, 5, channels=(2,), key=jax.random.key(0)), spec)
    observation = spec.zeros(3) | {"vector": np.array([[100.0, 0], [200, 0], [300, 1]], np.float32)}
    after = measuring.follow(jax.tree.map(jnp.asarray, observation))
    np.testing.assert_allclose(after.mean, [200, 1 / 3], rtol=1e-6)
    assert after(jax.tree.map(jnp.asarray, observation)).shape == (3, 5)


@pytest.mark.parametrize(
    ("space", "previous", "measured"),
    [
        (spaces.Box(-1, 1, (3,), np.float32), "none", ((0, 3),)),
        (spaces.Box(-1, 1, (3,), np.float32), "action", ((0, 3),)),
        (spaces.Box(-1, 1, (3,), np.float32), "action+reward", ((0, 3), (5, 6))),
        (spaces.Box(0, 9, (3,), np.int64), "none", ()),
        (spaces.Tuple([spaces.Discrete(4), spaces.Box(-1, 1, (2, 2), np.float64), spaces.MultiBinary(3)]), "none", ((4, 8),)),
    ],
)
def test_floats_and_the_reward_are_measured(space, previous, measured):
    assert Lens.of(space, hand=Hand.of(spaces.Discrete(2)), previous=previous).spec.measured == measured
