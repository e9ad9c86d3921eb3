"""Every linear core against its equations in plain NumPy: with resets, from random weights and from its own first ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl import CoreError, make_core
from gtrxl.cores.linear.deltanet import DeltaNetLayer, Driven
from gtrxl.cores.linear.lru import LinearRecurrence
from gtrxl.cores.linear.mamba2 import first_rates, first_steps
from gtrxl.cores.linear.s5 import hippo_basis
from gtrxl.cores.linear.units import lasting
from tests.cores.building import LINEAR, assert_close, initial_core, normal, random_core, small_sizes, unroll
from tests.cores.linear import plain
from tests.marks import few

STEPS = 14
RESETS = np.isin(np.arange(STEPS), (0, 3, 4, 9))


def in_float64(core):
    return jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), core)


@pytest.mark.parametrize("name", LINEAR)
def test_random_weights(name):
    """No weight is zero or one, so that none can be left out; and a long stretch without a reset."""
    core = random_core(name, **small_sizes(name))
    for resets in (RESETS, np.arange(STEPS) == 0):
        xs = normal(3, STEPS, 5)
        ys, _ = unroll(core, xs, core.initial_state(), resets)
        assert_close(ys, plain.outputs(name, in_float64(core), xs.astype(np.float64), resets), 1e-4)


@pytest.mark.parametrize("name", few(LINEAR, keep=lambda _, name: name in ("s5", "mlstm")))
def test_first_weights(name):
    core = initial_core(name, **small_sizes(name))
    xs = normal(4, STEPS, 5)
    ys, _ = unroll(core, xs, core.initial_state(), RESETS)
    assert_close(ys, plain.outputs(name, in_float64(core), xs.astype(np.float64), RESETS), 1e-4)


def test_the_matrix_lstm_s_stabiliser_has_no_say():
    """Input gates of exp(60) and exp(-60) by turns: without it nothing of this fits a float; the equations are those without."""
    core = random_core("mlstm", **{**small_sizes("mlstm"), "layers": 1})
    (layer,) = core.layers
    bias = layer.inputs.bias.at[-2:].set(jnp.asarray([60.0, -60.0]))
    core = jax.tree.unflatten(
        jax.tree.structure(core), [bias if leaf is layer.inputs.bias else leaf for leaf in jax.tree.leaves(core)]
    )
    xs = normal(5, STEPS, 5)
    ys, _ = unroll(core, xs, core.initial_state(), RESETS)
    assert_close(ys, plain.outputs("mlstm", in_float64(core), xs.astype(np.float64), RESETS), 1e-3)


def test_the_delta_rule_replaces_one_entry_and_leaves_the_others():
    """Two values under keys at right angles; the second key's is then written anew. With the product on S's left this fails."""
    layer = DeltaNetLayer(4, 1, 4, key=jax.random.key(0))
    keys = np.array([[[1.0, 0, 0, 0]], [[0, 1.0, 0, 0]], [[0, 1.0, 0, 0]]])
    values = np.array([[[1.0, 2, 3, 4]], [[5.0, 6, 7, 8]], [[-1.0, 0, 1, 2]]])
    state = layer.inner_state()
    for k, v in zip(keys, values, strict=True):
        driven = Driven(q=jnp.asarray(k), k=jnp.asarray(k), v=jnp.asarray(v), kept=jnp.ones(1), rate=jnp.ones(1), z=jnp.zeros(4))
        state = layer.advance(state, driven, None)
    np.testing.assert_allclose(keys[0, 0] @ np.asarray(state)[0], values[0, 0], atol=1e-6)
    np.testing.assert_allclose(keys[2, 0] @ np.asarray(state)[0], values[2, 0], atol=1e-6)


def test_hippo_s_basis_is_that_of_its_matrix():
    """The published matrix, entry by entry: -1/2 on the diagonal, minus (below) or plus (above) sqrt((n + 1/2)(k + 1/2))."""
    size = 6
    matrix = np.array(
        [
            [-0.5 if n == k else np.sqrt((n + 0.5) * (k + 0.5)) * (-1 if n > k else 1) for k in range(2 * size)]
            for n in range(2 * size)
        ]
    )
    frequencies, vectors = hippo_basis(size)
    assert (frequencies > 0).all()
    np.testing.assert_allclose(matrix @ vectors, vectors * (-0.5 + 1j * frequencies), atol=1e-9)


def test_first_values_lie_where_they_are_said_to():
    key = jax.random.key(0)
    unit = LinearRecurrence(8, 4096, shortest=0.9, longest=0.999, key=key)
    kept = unit.kept()
    size = np.hypot(kept.re, kept.im)
    assert size.min() >= 0.9 - 1e-4
    assert size.max() <= 0.999 + 1e-4
    np.testing.assert_allclose(np.mean(size**2), (0.9**2 + 0.999**2) / 2, atol=2e-3)  # evenly by area
    assert float(jax.nn.softplus(first_steps(key, 512)).min()) > 0.001 * 0.99
    assert float(jax.nn.softplus(first_steps(key, 512)).max()) < 0.1 * 1.01
    assert 1 <= float(jnp.exp(first_rates(key, 512)).min()) < float(jnp.exp(first_rates(key, 512)).max()) <= 16
    lasts = 1 / jax.nn.sigmoid(-lasting(key, 512, 100))  # 1 / (1 - kept)
    assert 2 - 1e-3 < float(lasts.min()) < float(lasts.max()) < 100 + 1e-2


@pytest.mark.parametrize(
    ("name", "sizes", "told"),
    [
        ("lru", {"shortest": 0.99, "longest": 0.9}, "shortest and longest"),
        ("lru", {"state_size": 0}, "state_size must be at least 1"),
        ("mlstm", {"heads": 3}, "heads must divide d_model"),
        ("mamba2", {"convolution": 0}, "convolution must be at least 1"),
        ("agalite", {"frequencies": 0}, "frequencies must be at least 1"),
        ("gtrxl-lru", {"gate_bias": "deep"}, "gate_bias must be a number"),
        ("ffm", {"dtype": "float16"}, "dtype must be one of"),
    ],
)
def test_wrong_sizes_are_told_in_one_line(name, sizes, told):
    with pytest.raises(CoreError, match=told) as caught:
        make_core(name, input_size=5, **{"d_model": 8, **sizes}, key=jax.random.key(0))
    assert "\n" not in str(caught.value)
