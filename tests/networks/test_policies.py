"""Policies against distrax and NumPy: probabilities, entropy, KL by parts, and what sampling gives."""

import warnings

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from gtrxl.networks import AgentError
from gtrxl.networks.policies import LEAST_SCALE, Categorical, Gaussian, Head

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what distrax imports warns about itself
    import distrax

ACTIONS = 3
DISCRETE = Head(gymnasium.spaces.Discrete(ACTIONS))
CONTINUOUS = Head(gymnasium.spaces.Box(-1, 1, (ACTIONS,), np.float32))


def normal(seed, *shape):
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), jnp.float32)


def gaussian(seed) -> Gaussian:
    return Gaussian(mean=normal(seed, 2, 4, ACTIONS), scale=0.1 + jnp.abs(normal(seed + 100, 2, 4, ACTIONS)))


def pair(kind: str, seed: int):
    """A policy of [2, 4] streams and steps, the same from distrax, and actions."""
    if kind == "categorical":
        logits = 2 * normal(seed, 2, 4, ACTIONS)
        return Categorical(logits), distrax.Categorical(logits), jnp.argmax(normal(seed + 1, 2, 4, ACTIONS), axis=-1)
    ours = gaussian(seed)
    return ours, distrax.MultivariateNormalDiag(ours.mean, ours.scale), normal(seed + 1, 2, 4, ACTIONS)


@pytest.mark.parametrize("kind", ["categorical", "gaussian"])
def test_log_prob_entropy_and_mode_are_those_of_distrax(kind):
    ours, theirs, action = pair(kind, 0)
    np.testing.assert_allclose(ours.log_prob(action), theirs.log_prob(action), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(ours.entropy(), theirs.entropy(), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(ours.mode(), theirs.mode())
    assert ours.log_prob(action).shape == ours.entropy().shape == (2, 4)


def test_kl_of_a_categorical_is_that_of_distrax_and_goes_from_old_to_new():
    (old, old_d, _), (new, new_d, _) = pair("categorical", 0), pair("categorical", 5)
    kl = new.kl_from(old)
    assert set(kl) == {"categorical"} == set(DISCRETE.parts)
    np.testing.assert_allclose(kl["categorical"], old_d.kl_divergence(new_d), rtol=1e-4, atol=1e-6)
    assert np.abs(kl["categorical"] - new_d.kl_divergence(old_d)).max() > 0.01, "the two directions must not be confused"


def test_kl_of_a_gaussian_comes_in_two_parts_each_the_whole_when_the_other_stands_still():
    old, new = gaussian(0), gaussian(5)
    assert set(new.kl_from(old)) == {"mean", "covariance"} == set(CONTINUOUS.parts)
    for moved, part, still in (
        (Gaussian(mean=new.mean, scale=old.scale), "mean", "covariance"),
        (Gaussian(mean=old.mean, scale=new.scale), "covariance", "mean"),
    ):
        whole = distrax.MultivariateNormalDiag(old.mean, old.scale).kl_divergence(
            distrax.MultivariateNormalDiag(moved.mean, moved.scale)
        )
        kl = moved.kl_from(old)
        np.testing.assert_allclose(kl[part], whole, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(kl[still], 0.0, atol=1e-6)
        np.testing.assert_allclose(new.kl_from(old)[part], kl[part], rtol=1e-6)  # whatever the other does


@pytest.mark.parametrize("kind", ["categorical", "gaussian"])
def test_kl_from_itself_is_zero(kind):
    policy, _, _ = pair(kind, 3)
    for name, kl in policy.kl_from(policy).items():
        np.testing.assert_allclose(kl, 0.0, atol=1e-6, err_msg=name)


DRAWS = 40_000


def test_actions_are_drawn_as_often_as_they_are_likely():
    p = np.array([0.6, 0.3, 0.1])
    policy = Categorical(jnp.broadcast_to(jnp.log(jnp.asarray(p)) + 7.0, (DRAWS, ACTIONS)))
    action = np.asarray(policy.sample(DISCRETE.noise(jax.random.key(0), (DRAWS,))))
    assert action.shape == (DRAWS,)
    _, p_value = stats.chisquare(np.bincount(action, minlength=ACTIONS), DRAWS * p)
    assert p_value > 1e-3


def test_an_action_that_is_forbidden_is_never_drawn():
    policy = Categorical(jnp.broadcast_to(jnp.array([0.0, -jnp.inf, 0.0]), (DRAWS, ACTIONS)))
    action = np.asarray(policy.sample(DISCRETE.noise(jax.random.key(1), (DRAWS,))))
    assert set(np.unique(action)) == {0, 2}


def test_vectors_are_drawn_with_their_mean_and_scale_and_not_clipped():
    mean, scale = np.array([0.0, 0.5, -3.0]), np.array([1.0, 0.1, 0.5])
    wide = (DRAWS, ACTIONS)
    policy = Gaussian(
        mean=jnp.broadcast_to(jnp.asarray(mean, jnp.float32), wide), scale=jnp.broadcast_to(jnp.asarray(scale, jnp.float32), wide)
    )
    action = np.asarray(policy.sample(CONTINUOUS.noise(jax.random.key(2), (DRAWS,))))
    for i in range(ACTIONS):
        assert stats.kstest(action[:, i], "norm", args=(mean[i], scale[i])).pvalue > 1e-3
    assert action[:, 2].max() < -0.5, "a mean of -3 must be drawn around -3, outside of [-1, 1]"


def test_zeros_are_the_uniform_policy():
    policy = DISCRETE(jnp.zeros((5, DISCRETE.width)))
    assert isinstance(policy, Categorical)
    np.testing.assert_allclose(policy.entropy(), np.log(ACTIONS), rtol=1e-6)
    for action in range(ACTIONS):
        np.testing.assert_allclose(policy.log_prob(jnp.full(5, action)), -np.log(ACTIONS), rtol=1e-6)


@pytest.mark.parametrize("first_scale", [0.5, 0.05, 3.0])
def test_zeros_are_a_gaussian_at_zero_with_the_first_scale(first_scale):
    head = Head(gymnasium.spaces.Box(-1, 1, (ACTIONS,), np.float32), first_scale=first_scale)
    policy = head(jnp.zeros((5, head.width)))
    assert isinstance(policy, Gaussian)
    np.testing.assert_array_equal(policy.mean, np.zeros((5, ACTIONS)))
    np.testing.assert_allclose(policy.scale, first_scale, rtol=1e-5)


@pytest.mark.parametrize(("first_scale", "widest"), [(0.5, 1.0), (0.1, 3.0)])
def test_with_a_bound_a_scale_begins_where_it_would_and_never_passes_it(first_scale, widest):
    head = Head(gymnasium.spaces.Box(-1, 1, (1,), np.float32), first_scale=first_scale, widest=widest)
    numbers = jnp.array([-1e4, -1.0, 0.0, 1.0, 1e4])
    policy = head(jnp.stack([jnp.zeros(5), numbers], axis=-1))
    assert isinstance(policy, Gaussian)
    scale = np.asarray(policy.scale[:, 0])
    assert scale[0] == pytest.approx(LEAST_SCALE)
    assert scale[2] == pytest.approx(first_scale, rel=1e-5)
    assert scale[4] == pytest.approx(widest, rel=1e-5)
    assert (np.diff(scale) > 0).all()


def test_a_bound_below_the_first_scale_is_refused():
    with pytest.raises(AgentError, match=r"widest spread must be above 0\.5, .* got 0\.4; 0 sets no bound"):
        Head(gymnasium.spaces.Box(-1, 1, (1,), np.float32), widest=0.4)


def test_a_scale_never_falls_below_the_least_and_grows_with_its_number():
    numbers = jnp.array([-1e4, -50.0, 0.0, 5.0])[:, None]
    policy = CONTINUOUS(jnp.concatenate([jnp.zeros((4, ACTIONS)), jnp.broadcast_to(numbers, (4, ACTIONS))], axis=-1))
    assert isinstance(policy, Gaussian)
    scale = np.asarray(policy.scale[:, 0])
    assert scale[0] == pytest.approx(LEAST_SCALE)
    assert scale[1] == pytest.approx(LEAST_SCALE)
    assert scale[1] < scale[2] < scale[3]
    assert np.isfinite(policy.log_prob(jnp.ones((4, ACTIONS)))).all()


def test_a_head_is_as_wide_as_its_policy_needs():
    assert (DISCRETE.width, CONTINUOUS.width) == (ACTIONS, 2 * ACTIONS)
    assert DISCRETE.noise(jax.random.key(0), (2, 4)).shape == CONTINUOUS.noise(jax.random.key(0), (2, 4)).shape == (2, 4, ACTIONS)


@pytest.mark.parametrize(
    "space", [gymnasium.spaces.MultiDiscrete([2, 2]), gymnasium.spaces.Box(-1, 1, (2, 2), np.float32), gymnasium.spaces.Text(3)]
)
def test_other_action_spaces_are_refused_in_one_line(space):
    with pytest.raises(AgentError, match=r"must be Discrete, a Box with one axis, or a Dict of both, got .*; wrap") as caught:
        Head(space)
    assert "\n" not in str(caught.value)


HYBRID = {"continuous": gymnasium.spaces.Box(-1, 1, (3,)), "discrete": gymnasium.spaces.MultiDiscrete([2, 5])}


@pytest.mark.parametrize("parts", [("continuous", "discrete"), ("continuous",), ("discrete",)])
def test_a_dict_of_both_is_a_hybrid_policy(parts):
    head = Head(gymnasium.spaces.Dict({name: HYBRID[name] for name in parts}))
    assert head.spec.kind == "hybrid"
    assert head.spec.continuous == 3 * ("continuous" in parts)
    assert head.spec.discrete == ((2, 5) if "discrete" in parts else ())


@pytest.mark.parametrize(
    "space",
    [
        {"continuous": gymnasium.spaces.Box(-1, 1, (3, 2))},
        {"discrete": gymnasium.spaces.Discrete(3)},
        {**HYBRID, "third": gymnasium.spaces.Discrete(2)},
    ],
)
def test_other_dicts_are_refused_in_one_line(space):
    with pytest.raises(AgentError, match=r'must be a Dict of "discrete" .* and "continuous" .*, got .*; name and shape them so'):
        Head(gymnasium.spaces.Dict(space))


def test_noise_that_lasts_is_as_large_at_each_step_and_alike_from_one_to_the_next():
    head, steps = Head(gymnasium.spaces.Box(-1, 1, (2,))), 8
    drawn = head.noise(jax.random.key(0), (20_000,))
    lasting = np.asarray(head.lasting(drawn, steps))
    assert lasting.shape == (20_000 - steps + 1, 2)
    np.testing.assert_allclose(lasting.std(axis=0), 1.0, atol=0.06)
    for apart in (1, 4, 7, 8, 20):
        alike = np.mean(lasting[apart:] * lasting[:-apart])
        assert alike == pytest.approx(max(0.0, 1 - apart / steps), abs=0.07)
    np.testing.assert_array_equal(head.lasting(drawn, 1), drawn)


def test_choices_are_drawn_anew_at_every_step():
    drawn = Head(gymnasium.spaces.Discrete(3)).noise(jax.random.key(0), (9,))
    np.testing.assert_array_equal(Head(gymnasium.spaces.Discrete(3)).lasting(drawn, 4), drawn[:6])
    both = Head(
        gymnasium.spaces.Dict(discrete=gymnasium.spaces.MultiDiscrete([2, 3]), continuous=gymnasium.spaces.Box(-1, 1, (2,)))
    )
    noise = both.noise(jax.random.key(0), (9,))
    lasting = both.lasting(noise, 4)
    np.testing.assert_array_equal(lasting["discrete"], noise["discrete"][:6])
    np.testing.assert_allclose(lasting["continuous"][0], noise["continuous"][:4].sum(axis=0) / 2, rtol=1e-5)
