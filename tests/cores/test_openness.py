"""How far gates stand open: each gate's formula, the stack's report of it, and what a closed gate says."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl import Memory, Streams
from gtrxl.cores.streams import history
from tests.cores import reference
from tests.cores.building import assert_close, normal, random_core
from tests.cores.test_gates import WITH_BIAS, apply, random_gate
from tests.cores.weights import gate_weights, weights_of


def opening(kind, weights, x, y):
    """By the paper's formulas: the share of the stream that is not carried on, or of the update that is let in."""
    match kind:
        case "none":
            return np.ones_like(x)
        case "input":
            return 1 - reference.sigmoid(x @ weights["W_g"])
        case "output":
            return reference.sigmoid(x @ weights["W_g"] - weights["b_g"])
        case "highway":
            return 1 - reference.sigmoid(x @ weights["W_g"] + weights["b_g"])
        case "sigtanh":
            return reference.sigmoid(y @ weights["W_g"] - weights["b_g"])
        case "gru":
            return reference.sigmoid(y @ weights["W_z"] + x @ weights["U_z"] - weights["b_g"])
    raise ValueError(kind)


@eqx.filter_jit
def open_by(gate, skip, update):
    return gate.opening(skip=skip, update=update)


@pytest.mark.parametrize("kind", ["none", "input", *WITH_BIAS])
def test_formula(kind):
    gate, skip, update = random_gate(kind), normal(2, 5, 6), normal(3, 5, 6)
    ours = open_by(gate, skip, update)
    assert_close(ours, opening(kind, gate_weights(gate), skip, update), 2e-6)
    assert ours.shape == skip.shape


@pytest.mark.parametrize("kind", WITH_BIAS)
def test_a_closed_gate_is_open_by_nothing_and_passes_the_stream(kind):
    skip, update = normal(2, 5, 6), normal(3, 5, 6)
    means = [float(np.mean(open_by(random_gate(kind, bias=bias), skip, update))) for bias in (0.0, 4.0, 8.0)]
    assert means == sorted(means, reverse=True), means
    shut = random_gate(kind, bias=1e4)
    assert np.max(open_by(shut, skip, update)) == 0.0
    np.testing.assert_array_equal(apply(shut, skip, update), skip)


STREAMS, STEPS, MEMORY, WIDTH, LAYERS = 2, 5, 3, 8, 2


@eqx.filter_jit
def openness(core, xs, states, resets):
    return core.openness(xs, states, resets)


def stack_inputs():
    random = np.random.default_rng(4)
    xs, remembered = random.normal(size=(STREAMS, STEPS, 5)), random.normal(size=(STREAMS, LAYERS, MEMORY, WIDTH))
    filled, resets = np.array([3, 1], np.int32), np.zeros((STREAMS, STEPS), bool)
    resets[1, 2] = True
    return xs, remembered, filled, resets


def sized(name, **sizes):
    return random_core(name, input_size=5, d_model=WIDTH, layers=LAYERS, heads=2, mlp=6, memory=MEMORY, **sizes)


@pytest.mark.parametrize("name", ["gtrxl-gru", "gtrxl-output"])
def test_a_stack_reports_the_mean_of_each_gate(name, monkeypatch):
    """Against every gate that the float64 transcription of the paper goes through: layer by layer, attention then MLP."""
    core, (xs, remembered, filled, resets) = sized(name), stack_inputs()
    asked, gate = [], reference.gate

    def spied(kind, weights, x, y):
        asked.append(opening(kind, weights, x, y).mean())
        return gate(kind, weights, x, y)

    monkeypatch.setattr(reference, "gate", spied)
    for stream in range(STREAMS):
        embedded = xs[stream] @ np.asarray(core.embed.weight, np.float64) + np.asarray(core.embed.bias, np.float64)
        reference.stack(name, weights_of(core), embedded, remembered[stream], 2, resets[stream], filled[stream])
    expected = np.reshape(asked, (STREAMS, LAYERS, STEPS, 2)).mean(axis=(0, 2))
    states = Memory(inputs=jnp.asarray(remembered, jnp.float32), filled=jnp.asarray(filled))
    ours = openness(core, xs.astype(np.float32), states, resets)
    assert_close(ours, expected, 1e-5)
    assert np.ptp(ours) > 0.01, "the gates must differ enough to tell them apart"


@pytest.mark.parametrize("name", ["trxl", "trxl-i"])
def test_cores_without_gates_have_none_to_report(name):
    xs, remembered, filled, resets = stack_inputs()
    states = Memory(inputs=jnp.asarray(remembered, jnp.float32), filled=jnp.asarray(filled))
    assert sized(name).openness(jnp.asarray(xs, jnp.float32), states, jnp.asarray(resets)) is None


@pytest.mark.parametrize("name", ["lstm", "none"])
def test_other_cores_have_none_either(name):
    core = random_core(name, input_size=5, d_model=WIDTH, layers=LAYERS)
    xs, _, _, resets = stack_inputs()
    assert core.openness(jnp.asarray(xs, jnp.float32), Streams(core, STREAMS).initial_state(), jnp.asarray(resets)) is None


@pytest.mark.parametrize(("name", "expected"), [("gtrxl-gru", {4: 4, 6: 6, 50: 6}), ("lstm", {4: 4, 6: 6, 50: 50})])
def test_history_is_what_a_state_depends_on(name, expected):
    """Two layers that see 3 steps back depend on the last 6; a recurrent network on the whole episode."""
    sizes = {"input_size": 5, "d_model": WIDTH, "layers": LAYERS}
    core = random_core(name, **sizes, **({"heads": 2, "memory": MEMORY} if "trxl" in name else {}))
    assert {steps: history(core, steps) for steps in expected} == expected
