"""Choices and numbers at once, against SciPy and NumPy, one choice at a time; and an agent that acts and learns with them."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from gtrxl import VMPO, make_core
from gtrxl.gym.spaces import ActionSpec, Hand
from gtrxl.networks.agent import Agent
from gtrxl.networks.encoder import Torso
from gtrxl.networks.policies import Categorical, Gaussian, Head, Hybrid
from gtrxl.training.rollout import Unroll
from gtrxl.training.update import Batch, Update

COUNTS, A = (2, 5, 1, 3), 2
HEAD = Head(ActionSpec("hybrid", discrete=COUNTS, continuous=A))
CHOICES = Head(ActionSpec("hybrid", discrete=COUNTS))
NUMBERS = Head(ActionSpec("hybrid", continuous=A))


def normal(seed, *shape):
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), jnp.float32)


def layer(head, seed):
    """What the layer before the head may say for [2, 3] streams and steps."""
    return 2 * normal(seed, 2, 3, head.width)


def taken(seed):
    random = np.random.default_rng(seed)
    choices = np.stack([random.integers(count, size=(2, 3)) for count in COUNTS], axis=-1).astype(np.int32)
    return {"discrete": jnp.asarray(choices), "continuous": normal(seed, 2, 3, A)}


def apart(numbers):
    """Each choice's log-probabilities and the mean and scale, straight from the numbers."""
    numbers = np.asarray(numbers, np.float64)
    *choices, mean, raw = np.split(numbers, np.cumsum((*COUNTS, A)), axis=-1)
    shift = np.log(np.expm1(0.5 - 1e-3))
    return [special.log_softmax(logits, axis=-1) for logits in choices], mean, np.logaddexp(0, raw + shift) + 1e-3


def test_probability_and_entropy_are_those_of_all_parts_together():
    numbers, action = layer(HEAD, 0), taken(1)
    choices, mean, scale = apart(numbers)
    log_prob = stats.norm.logpdf(np.asarray(action["continuous"]), mean, scale).sum(-1)
    entropy = stats.norm.entropy(mean, scale).sum(-1)
    for k, log_p in enumerate(choices):
        log_prob += np.take_along_axis(log_p, np.asarray(action["discrete"][..., k : k + 1]), -1)[..., 0]
        entropy += stats.entropy(np.exp(log_p), axis=-1)
    policy = HEAD(numbers)
    np.testing.assert_allclose(policy.log_prob(action), log_prob, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(policy.entropy(), entropy, rtol=1e-5, atol=1e-5)


def test_kl_has_one_part_for_all_choices_and_two_for_the_numbers():
    old, new = layer(HEAD, 2), layer(HEAD, 3)
    kl = HEAD(new).kl_from(HEAD(old))
    assert tuple(kl) == HEAD.parts == ("categorical", "mean", "covariance")
    (old_choices, old_mean, old_scale), (choices, mean, scale) = apart(old), apart(new)
    wanted = sum(stats.entropy(np.exp(p), np.exp(q), axis=-1) for p, q in zip(old_choices, choices, strict=True))
    np.testing.assert_allclose(kl["categorical"], wanted, rtol=1e-4, atol=1e-5)
    gaussian = Gaussian(mean=jnp.float32(mean), scale=jnp.float32(scale))
    for name, part in gaussian.kl_from(Gaussian(mean=jnp.float32(old_mean), scale=jnp.float32(old_scale))).items():
        np.testing.assert_allclose(kl[name], part, rtol=1e-3, atol=1e-5)


def test_alone_each_kind_is_what_it_was():
    numbers, action = layer(CHOICES, 4), {"discrete": taken(5)["discrete"]}
    assert CHOICES.parts == ("categorical",)
    assert set(CHOICES.noise(jax.random.key(0), (3,))) == set(CHOICES(numbers).mode()) == {"discrete"}
    one = Head(ActionSpec("hybrid", discrete=(4,)))
    logits, choice = normal(6, 2, 3, 4), taken(7)["discrete"][..., :1]
    plain = Categorical(logits)
    np.testing.assert_allclose(one(logits).log_prob({"discrete": choice}), plain.log_prob(choice[..., 0]), rtol=1e-6)
    np.testing.assert_array_equal(one(logits).mode()["discrete"][..., 0], plain.mode())
    assert np.isfinite(CHOICES(numbers).log_prob(action)).all()
    numbers, pure = layer(NUMBERS, 8), Head(gymnasium.spaces.Box(-1, 1, (A,), np.float32))
    assert NUMBERS.parts == pure.parts
    np.testing.assert_array_equal(NUMBERS(numbers).entropy(), pure(numbers).entropy())
    np.testing.assert_array_equal(NUMBERS(numbers).mode()["continuous"], pure(numbers).mode())


def test_draws_are_as_likely_as_the_policy_says_and_no_choice_is_ever_too_large():
    draws = 20_000
    numbers = jnp.broadcast_to(normal(9, HEAD.width), (draws, HEAD.width))
    action = HEAD(numbers).sample(HEAD.noise(jax.random.key(1), (draws,)))
    choices, mean, scale = apart(normal(9, 1, HEAD.width))
    assert action["discrete"].dtype == jnp.int32
    for k, log_p in enumerate(choices):
        seen = np.bincount(np.asarray(action["discrete"][:, k]), minlength=COUNTS[k])
        assert len(seen) == COUNTS[k]
        assert COUNTS[k] == 1 or stats.chisquare(seen, draws * np.exp(log_p[0])).pvalue > 1e-3
    for a in range(A):
        assert stats.kstest(np.asarray(action["continuous"][:, a]), "norm", args=(mean[0, a], scale[0, a])).pvalue > 1e-3
    together = np.corrcoef(np.asarray(action["discrete"][:, 0]), np.asarray(action["discrete"][:, 1]))[0, 1]
    assert abs(together) < 0.03, "choices are drawn independently"


def test_zeros_are_the_uniform_policy_and_its_gradient_is_finite():
    entropy = HEAD(jnp.zeros((1, HEAD.width))).entropy()[0]
    np.testing.assert_allclose(entropy, np.log(COUNTS).sum() + stats.norm(0, 0.5).entropy() * A, rtol=1e-5)
    action = jax.tree.map(lambda leaf: leaf[:1, 0], taken(10))

    def all_of_it(numbers):
        policy = HEAD(numbers)
        parts = sum(policy.kl_from(HEAD(numbers + 1)).values(), jnp.zeros(1))
        return jnp.sum(policy.log_prob(action) + policy.entropy() + parts)

    assert np.isfinite(jax.jit(jax.grad(all_of_it))(3 * normal(11, 1, HEAD.width))).all()


def test_an_agent_with_a_hybrid_head_acts_and_learns():
    hand = Hand.of(gymnasium.spaces.Dict({"go": gymnasium.spaces.Box(0, 5, (2,)), "say": gymnasium.spaces.MultiDiscrete([2, 3])}))
    B, T, O = 2, 3, 4  # noqa: E741

    def program(key):
        torso_key, core_key, agent_key, noise_key = jax.random.split(key, 4)
        core = make_core("lstm", input_size=4, d_model=4, key=core_key)
        agent = Agent(torso=Torso(O, 4, key=torso_key), core=core, head=Head(hand.spec), hidden=4, key=agent_key)
        seen, reset = jax.random.normal(key, (B, T, O)), jnp.zeros((B, T), bool)
        policy, value, _ = agent.unroll(seen, agent.initial_state(B), resets=reset)
        action = policy.sample(agent.head.noise(noise_key, (B, T)))
        # The first choice brings a reward when it is 1.
        reward = action["discrete"][..., 0].astype(jnp.float32)
        unroll = Unroll(
            observation=seen, reset=reset, action=action, behaviour=policy, value=value[..., 0], reward=reward,
            terminated=reset, valid=~reset
        )  # fmt: skip
        batch = Batch(unroll=unroll, memory=agent.initial_state(B), next_observation=seen[:, 0], next_reset=reset[:, 0])
        update = Update(learner=VMPO(learning_rate=1e-3), discount=0.0, popart_step=0.0)
        trained, metrics = update(update.start(agent), batch, key)
        after, _, _ = trained.agent.unroll(seen, agent.initial_state(B), resets=reset)
        return action, metrics, trained.multipliers, policy.log_prob(action), after.log_prob(action), reward

    action, metrics, multipliers, before, after, reward = jax.jit(program)(jax.random.key(0))
    assert isinstance(Head(hand.spec)(jnp.zeros((1, 9))), Hybrid)
    member = hand.to_task(jax.tree.map(lambda leaf: np.asarray(leaf[0, 0]), action))
    assert set(member) == {"go", "say"}
    assert all(np.isfinite(value) for value in metrics.values())
    assert {"categorical", "mean", "covariance"} <= {name.removeprefix("alpha_") for name in multipliers}
    assert reward.min() < reward.max(), "nothing to tell apart"
    change = np.asarray(after - before)
    assert change[np.asarray(reward) == 1].mean() > change[np.asarray(reward) == 0].mean()


@pytest.mark.parametrize("spec", [ActionSpec("categorical", discrete=(4,)), ActionSpec("gaussian", continuous=3)])
def test_a_spec_gives_the_head_of_its_space(spec):
    space = gymnasium.spaces.Discrete(4) if spec.discrete else gymnasium.spaces.Box(-1, 1, (3,), np.float32)
    assert Head(spec) == Head(space) == Head(Hand.of(space).spec)
