"""The agent: acting and learning agree, streams do not touch each other, and it begins knowing nothing."""

from typing import Any

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl import make_core
from gtrxl.networks.agent import Agent, Torso
from gtrxl.networks.policies import Head
from tests.cores.building import normal, small_sizes

B, T, O = 3, 7, 6  # noqa: E741
SPACES = {"categorical": gymnasium.spaces.Discrete(4), "gaussian": gymnasium.spaces.Box(-1, 1, (2,), np.float32)}


def build(core, space, *, values, key, **more) -> Agent:
    torso_key, core_key, agent_key = jax.random.split(key, 3)
    sizes = small_sizes(core)
    remembers = make_core(core, key=core_key, **sizes)
    torso = Torso(O, sizes["input_size"], key=torso_key)
    return Agent(torso=torso, core=remembers, head=Head(SPACES[space]), hidden=8, values=values, key=agent_key, **more)


def first(core, space, *, values=1) -> Agent:
    """As it begins."""
    return eqx.filter_jit(lambda key: build(core, space, values=values, key=key))(jax.random.key(0))


def loud(core, space, *, values=1, **more) -> Agent:
    """Every weight random, and none so small that a mistake would not show. Compiles nothing."""
    random = np.random.default_rng(0)
    shapes = eqx.filter_eval_shape(lambda key: build(core, space, values=values, key=key, **more), jax.random.key(0))

    def filled(leaf):
        return jnp.asarray(0.6 * random.standard_normal(leaf.shape), leaf.dtype) if hasattr(leaf, "shape") else leaf

    return jax.tree.map(filled, shapes)


@eqx.filter_jit
def unroll(agent, observations, state, resets):
    return agent.unroll(observations, state, resets=resets)


@eqx.filter_jit
def prepared_steps(agent, observations, state, resets):
    def step(state, now):
        policy, value, state = agent.step(now[0], state, reset=now[1])
        return state, (policy, value)

    in_time = (jnp.swapaxes(observations, 0, 1), jnp.swapaxes(resets, 0, 1))
    state, answers = jax.lax.scan(step, agent.prepare(state), in_time)
    policy, value = jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), answers)
    return policy, value, agent.plain(state, streams=B)


def assert_close(ours, theirs):
    for x, y in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=2e-5)


KINDS = [("gtrxl-gru", "categorical", 2, True), ("lstm", "gaussian", 1, False), ("none", "gaussian", 1, False)]


@pytest.mark.parametrize(("core", "space", "values", "output_norm"), KINDS)
def test_unroll_is_the_prepared_steps(core, space, values, output_norm):
    agent = loud(core, space, values=values, output_norm=output_norm)
    observations, resets = normal(0, 2, B, T, O), np.random.default_rng(1).random((2, B, T)) < 0.3
    state = other = agent.initial_state(B)
    for observation, reset in zip(observations, resets, strict=True):  # the second goes on from the first
        policy, value, state = unroll(agent, observation, state, reset)
        policy_by_steps, value_by_steps, other = prepared_steps(agent, observation, other, reset)
        assert value.shape == (B, T, values)
        assert np.std(value) > 0.05, "too quiet to tell"
        assert_close((policy, value), (policy_by_steps, value_by_steps))
    assert_close(unroll(agent, observations[0], state, resets[0])[:2], unroll(agent, observations[0], other, resets[0])[:2])


def test_with_the_norm_heads_see_no_size():
    """What the heads say depends on the direction of the core's output alone, however small a deep stack leaves it."""

    class Scaled(eqx.Module):
        """A core whose outputs are so many times another's, and shifted all alike."""

        core: Any
        by: float

        def initial_state(self):
            return self.core.initial_state()

        def step(self, x, state, *, reset):
            y, state = self.core.step(x, state, reset=reset)
            return self.by * (y + 1), state

        def unroll(self, xs, state, *, resets):
            ys, state = self.core.unroll(xs, state, resets=resets)
            return self.by * (ys + 1), state

    observations, resets = normal(5, B, T, O), np.zeros((B, T), bool)
    for norm in (True, False):
        agent = loud("lstm", "categorical", output_norm=norm)
        said = [
            unroll(eqx.tree_at(lambda of: of.core, agent, core), observations, agent.initial_state(B), resets)
            for core in (Scaled(agent.core, 100.0), Scaled(agent.core, 700.0))
        ]
        difference = np.abs(said[0][1] - said[1][1]).max()
        assert difference < 1e-3 if norm else difference > 0.1


def test_a_stream_feels_nothing_of_the_others():
    agent, resets = loud("gtrxl-gru", "categorical", values=2), np.zeros((B, T), bool)
    observations = normal(2, B, T, O)
    policy, value, _ = unroll(agent, observations, agent.initial_state(B), resets)
    changed = np.array(observations)
    changed[1] += 1.0
    policy_then, value_then, _ = unroll(agent, changed, agent.initial_state(B), resets)
    for before, after in ((policy.logits, policy_then.logits), (value, value_then)):
        np.testing.assert_array_equal(before[::2], after[::2])
        assert np.abs(before[1] - after[1]).min(axis=-1).max() > 1e-3


@pytest.mark.parametrize(("core", "space"), [("gtrxl-gru", "categorical"), ("none", "gaussian")])
def test_the_first_policy_is_nearly_uniform_and_the_first_values_nearly_zero(core, space):
    agent = first(core, space, values=2 if core == "gtrxl-gru" else 1)
    policy, value, _ = unroll(agent, normal(3, B, T, O), agent.initial_state(B), np.zeros((B, T), bool))
    assert np.abs(value).max() < 0.1
    if space == "categorical":
        assert (np.log(4) - policy.entropy()).max() < 0.01
    else:
        assert np.abs(policy.mean).max() < 0.1
        np.testing.assert_allclose(policy.scale, agent.head.first_scale, rtol=0.15)


def test_the_torso_is_two_tanh_layers():
    torso = loud("none", "gaussian").torso
    assert isinstance(torso, Torso)
    x = y = normal(4, B, T, O)
    for layer in (torso.first, torso.second):
        y = np.tanh(y @ np.asarray(layer.weight) + np.asarray(layer.bias))
    np.testing.assert_allclose(torso(jnp.asarray(x)), y, atol=1e-6)
