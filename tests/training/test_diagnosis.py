"""How stale a memory is and how far gates stand open, on trails made for the purpose. S streams, T steps."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.networks.encoder import Torso
from gtrxl.training.device_loop import Trail
from gtrxl.training.diagnosis import openness, staleness
from tests.training.small import CUT, NET, B, T, random_agent, unrolled

DEEP = dataclasses.replace(NET, layers=3, memory=2)
REACH = 3 * 2
"""Layers times memory: how far back an input can show in what such a core remembers."""
LENGTH = T + REACH + T
NO_RESETS = np.zeros((B, LENGTH), bool)


def agent(seed=0, core="gtrxl-gru"):
    return random_agent(CUT, core, net=DEEP, seed=seed, spread=0.8)


def observations():
    torso = agent().torso
    assert isinstance(torso, Torso)
    size = torso.first.weight.shape[0]
    return jnp.asarray(np.random.default_rng(1).standard_normal((B, LENGTH, size)), jnp.float32)


def trail_of(writer, *, resets=NO_RESETS) -> Trail:
    """What streams saw in REACH steps and T more; the memory is what the writer kept of them and of T steps before."""
    seen = observations()
    _, _, memory = unrolled(writer, seen[:, :-T], writer.initial_state(B), jnp.asarray(resets[:, :-T]))
    return Trail(observation=seen[:, T:], reset=jnp.asarray(resets[:, T:]), memory=memory)


@eqx.filter_jit
def stale(agent, trail):
    return staleness(agent, trail, unroll=T)


def test_a_memory_is_fresh_to_the_weights_that_made_it_and_stale_to_others():
    fresh, moved = (float(stale(agent(), trail_of(writer))) for writer in (agent(), agent(seed=1)))
    assert abs(fresh) < 1e-7
    assert moved > 1e-3


def test_every_step_of_the_layers_reach_is_needed():
    """Why a trail is as long as it is: its first step changes what is remembered at its end."""
    trail = trail_of(agent())
    other = eqx.tree_at(lambda of: of.observation, trail, trail.observation.at[:, 0].multiply(-1.0))
    assert float(stale(agent(), other)) > 1e-6


def test_a_recurrent_memory_is_made_anew_from_the_start_of_its_episode():
    resets = NO_RESETS.copy()
    resets[:, T] = True
    kept = agent(core="gru")
    assert float(stale(kept, trail_of(kept))) > 1e-6, "cut off in the middle of an episode"
    assert abs(float(stale(kept, trail_of(kept, resets=resets)))) < 1e-7


def test_staleness_is_the_kl_from_acting_with_the_new_memory_to_acting_with_the_stored_one():
    trail, now = trail_of(agent(seed=1)), agent()
    stored, _, _ = unrolled(now, trail.observation[:, -T:], trail.memory, trail.reset[:, -T:])
    anew, _, _ = unrolled(now, trail.observation, now.initial_state(B), trail.reset)
    new, old = (jax.nn.log_softmax(logits) for logits in (anew.logits[:, -T:], stored.logits))
    expected = np.mean(np.sum(np.exp(new) * (new - old), axis=-1))
    assert float(stale(now, trail)) == pytest.approx(float(expected), rel=1e-4)


@eqx.filter_jit
def opened(agent, trail):
    return openness(agent, trail, unroll=T)


def test_openness_is_that_of_the_last_unroll_and_falls_to_nothing_as_the_bias_grows():
    trail, now = trail_of(agent()), agent()
    ours = np.asarray(opened(now, trail))
    assert ours.shape == (DEEP.layers, 2)
    assert (ours > 0.01).all()
    assert (ours < 1).all()
    shut = eqx.tree_at(lambda of: of.core.blocks.gate_2.b_g, now, replace_fn=lambda bias: jnp.full_like(bias, 1e3))
    after = np.asarray(opened(shut, trail))
    assert after[:, 1].max() == 0.0
    assert after[0, 0] == pytest.approx(ours[0, 0]), "the gate before it has not changed"
    changed = eqx.tree_at(lambda of: of.observation, trail, trail.observation.at[:, :-T].set(0.0))
    np.testing.assert_array_equal(opened(now, changed), ours)


@pytest.mark.parametrize("core", ["trxl", "trxl-i", "lstm", "gru", "none"])
def test_cores_without_gates_report_none(core):
    made = agent(core=core)
    trail = Trail(observation=observations(), reset=jnp.asarray(NO_RESETS), memory=made.initial_state(len(NO_RESETS)))
    assert openness(made, trail, unroll=T) is None
