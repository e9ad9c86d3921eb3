"""NoisyPositionOnlyCartPole: moved as Gymnasium's cart, shown and paid as POPGym's, which are asked step by step."""

import importlib.util
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.gym.task import GymTask
from gtrxl.tasks.episodes import returns
from gtrxl.tasks.errors import TaskError
from gtrxl.tasks.others.cart_pole import CartPoleState, NoisyCartPole
from gtrxl.testing import check_task
from tests.tasks.stepping import begin, random_actions, run

QUIET = NoisyCartPole(noise=0)


def at(motion) -> CartPoleState:
    return CartPoleState(
        motion=jnp.asarray(motion, jnp.float32), elapsed=jnp.int32(0), action=jnp.int32(-1), key=jax.random.key(0)
    )


@pytest.mark.parametrize("seed", range(4))
def test_the_cart_moves_and_the_pole_falls_as_in_gymnasium(seed):
    env: Any = gymnasium.make("CartPole-v1").unwrapped
    env.reset(seed=seed)
    actions = np.random.default_rng(seed).integers(0, 2, 100)
    steps = run(QUIET, at(env.state), jnp.array(actions, jnp.int32))[1]
    for t, action in enumerate(actions):
        (x, _, angle, _), _, fallen, _, _ = env.step(int(action))
        np.testing.assert_allclose(steps.observation[t], [x, angle, action == 0, action == 1], rtol=1e-3, atol=1e-4)
        assert bool(steps.terminated[t]) == fallen, f"step {t}"
        if fallen:
            return
    pytest.fail("a hundred pushes by chance let no pole fall")


@pytest.mark.skipif(importlib.util.find_spec("popgym") is None, reason="needs popgym")
@pytest.mark.parametrize(("name", "noise"), [("Easy", 10), ("Medium", 20), ("Hard", 30)])
def test_noise_rewards_and_lengths_are_popgyms(name, noise):
    task = NoisyCartPole(noise=noise)
    env: Any = GymTask(f"popgym-NoisyPositionOnlyCartPole{name}-v0").make().unwrapped
    assert task.episode_steps == env.max_episode_length
    np.testing.assert_allclose(env.noise_sigma, noise / 100)
    np.testing.assert_allclose(task.observation_space.high[:2], env.observation_space.high, rtol=1e-6)
    np.testing.assert_allclose(task.observation_space.low[:2], env.observation_space.low, rtol=1e-6)
    env.reset(seed=0)
    steps = run(task, at(env.state), jnp.tile(jnp.array([0, 1], jnp.int32), task.episode_steps))[1]
    for t in range(2 * task.episode_steps):
        _, reward, terminated, truncated, _ = env.step(t % 2)
        assert float(steps.reward[t]) == pytest.approx(reward)
        assert (bool(steps.terminated[t]), bool(steps.truncated[t])) == (terminated, truncated), f"step {t}"
        if terminated or truncated:
            return
    pytest.fail("the episode should have ended")


def test_an_episode_that_nothing_ends_is_cut_by_the_clock():
    task = NoisyCartPole(noise=0, episode_steps=5)
    steps = run(task, at(np.zeros(4)), jnp.array([0, 1, 0, 1, 0], jnp.int32))[1]
    assert np.asarray(steps.truncated).tolist() == [False] * 4 + [True]
    assert not np.asarray(steps.terminated).any()
    np.testing.assert_allclose(steps.reward, 0.2)


def test_the_noise_is_normal_and_every_step_has_its_own():
    task, many = NoisyCartPole(noise=10), 4000
    keys = jax.random.split(jax.random.key(2), many)
    states, first = jax.vmap(task.reset)(keys)
    _, after = jax.vmap(task.step)(states, jnp.zeros(many, jnp.int32))
    seen = np.stack([first[:, :2] - states.motion[:, ::2], after.observation[:, :2]])
    assert np.abs(seen[0].mean()) < 0.01
    np.testing.assert_allclose(seen[0].std(0), 0.1, rtol=0.05)
    noise = np.concatenate([seen[0], seen[1] - seen[1].mean(0)], axis=1)
    assert np.abs(np.corrcoef(noise.T) - np.eye(4)).max() < 0.15, "neither of the two places nor of two steps alike"
    task = NoisyCartPole(noise=1000)
    state, observation = begin(task, jax.random.key(0))
    steps = run(task, state, random_actions(task, jax.random.key(1), 30))[1]
    high = task.observation_space.high
    assert (np.abs(np.asarray(steps.observation)) <= high).all()
    assert (np.abs(np.asarray(observation)) <= high).all()


def test_who_reckons_the_speeds_keeps_the_pole_up():
    assert returns(QUIET, QUIET.player(), jax.random.key(1), episodes=64).min() > 0.999
    noisy = NoisyCartPole()
    assert returns(noisy, noisy.player(), jax.random.key(1), episodes=128).mean() > 0.95


def test_it_is_a_task():
    check_task(NoisyCartPole())


@pytest.mark.parametrize(("settings", "said"), [({"noise": -1}, "noise must be from 0"), ({"episode_steps": 0}, "at least 1")])
def test_what_cannot_be_is_refused_in_a_line(settings, said):
    with pytest.raises(TaskError, match=said) as told:
        NoisyCartPole(**settings)
    assert "\n" not in str(told.value)
