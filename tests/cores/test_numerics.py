"""Gradients, bfloat16, keys, memory of nothing, and the size of the compiled program."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl import make_core
from tests.cores import reference
from tests.cores.building import LINEAR, NAMES, TRANSFORMERS, WAYS, assert_close, normal, random_core, small_sizes, unroll
from tests.cores.weights import weights_of
from tests.marks import few

STEPS = 7


@eqx.filter_jit
def last_output_gradients(core, xs, state, weight):
    """Of weight . y_T with respect to the core's arrays, the inputs and the state."""

    def score(of):
        core, xs, state = of
        return jnp.sum(weight * core.unroll(xs, state, resets=jnp.zeros(xs.shape[0], bool))[0][-1])

    return eqx.filter_grad(score)((core, xs, state))


@pytest.mark.parametrize("name", few(NAMES, keep=lambda _, name: name in ("lstm", "trxl", "gtrxl-gru", "none")))
def test_gradients_are_finite_reach_all_weights_and_stop_at_the_state(name):
    core = random_core(name, **small_sizes(name))
    _, state = unroll(core, normal(0, STEPS, 5), core.initial_state(), np.zeros(STEPS, bool))
    by_core, by_xs, by_state = last_output_gradients(core, normal(1, STEPS, 5), state, normal(2, core.output_size))
    for leaf in jax.tree.leaves((by_core, by_xs)):
        assert np.isfinite(leaf).all()
    for leaf in jax.tree.leaves(by_state):
        assert np.all(np.asarray(leaf) == 0)
    if name == "merlin":
        return  # what its outputs may teach, and what its predictions: tests/cores/merlin
    for path, leaf in jax.tree_util.tree_leaves_with_path(by_core):
        assert np.any(np.asarray(leaf) != 0), f"no gradient reaches {jax.tree_util.keystr(path)}"
    if name == "none":
        assert np.all(np.asarray(by_xs)[:-1] == 0)
    else:
        assert np.all(np.abs(by_xs).max(axis=1) > 0), "the whole segment must learn"


@pytest.mark.parametrize("name", few(TRANSFORMERS, keep=lambda _, name: name in ("trxl", "gtrxl-gru")))
def test_gradient_through_the_segment_is_that_of_the_paper_s_equations(name):
    """Against central differences of the float64 reference, by every input, with a full memory held constant."""
    width, memory, length = 4, 2, 4
    core = random_core(name, input_size=width, d_model=width, layers=2, heads=2, memory=memory)
    _, state = unroll(core, normal(0, length, width), core.initial_state(), np.zeros(length, bool))
    xs, weight = normal(1, length, width), normal(2, width)
    _, by_xs, _ = last_output_gradients(core, xs, state, weight)
    layers, remembered = weights_of(core), np.asarray(state.inputs, np.float64)
    embedding, bias = np.asarray(core.embed.weight, np.float64), np.asarray(core.embed.bias, np.float64)

    def score(xs):
        ys, _ = reference.stack(name, layers, xs @ embedding + bias, remembered, 2, np.zeros(length, bool), memory)
        return weight @ ys[-1]

    small, measured = 1e-6, np.zeros((length, width))
    for t in range(length):
        for i in range(width):
            nudge = np.zeros((length, width))
            nudge[t, i] = small
            measured[t, i] = (score(xs + nudge) - score(xs - nudge)) / (2 * small)
    assert np.all(np.abs(measured).max(axis=1) > 1e-6), "every step of the segment must count"
    assert_close(by_xs, measured, 1e-3)


@pytest.mark.parametrize("name", few(NAMES, keep=lambda _, name: name in ("lstm", "gtrxl-gru")))
def test_bfloat16_is_finite_and_near_float32(name):
    sizes = small_sizes(name)
    exact, coarse = random_core(name, spread=0.2, **sizes), random_core(name, spread=0.2, dtype="bfloat16", **sizes)
    xs, resets = normal(0, STEPS, 5), np.arange(STEPS) == 3
    expected, _ = unroll(exact, xs, exact.initial_state(), resets)
    for way in WAYS.values():
        ys, state = way(coarse, xs, coarse.initial_state(), resets)
        assert ys.dtype == jnp.float32, "outputs are float32 whatever the core computes in"
        wide = [leaf for leaf in jax.tree.leaves(state) if leaf.ndim > 1]
        if name in LINEAR:
            assert all(leaf.dtype == jnp.float32 for leaf in wide), "bfloat16 cannot tell a slow decay from none"
        else:
            assert all(leaf.dtype != jnp.float32 for leaf in wide), "the memory is kept in bfloat16"
        assert np.isfinite(ys).all()
        assert_close(ys, expected, 0.05)  # bfloat16 has 8 bits: 0.4 % for each rounding
    by_core, by_xs, _ = last_output_gradients(coarse, xs, coarse.initial_state(), normal(2, coarse.output_size))
    assert all(np.isfinite(np.asarray(leaf, np.float32)).all() for leaf in jax.tree.leaves((by_core, by_xs)))
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(by_core)), "parameters and their gradients stay float32"


@pytest.mark.parametrize("name", NAMES)
def test_a_key_decides_the_weights(name):
    build = eqx.filter_jit(lambda key: make_core(name, key=key, **small_sizes(name)))
    first, again, other = (jax.tree.leaves(build(jax.random.key(seed))) for seed in (0, 0, 1))
    for leaf, same in zip(first, again, strict=True):
        np.testing.assert_array_equal(leaf, same)
    leaves = [(np.asarray(leaf), np.asarray(new)) for leaf, new in zip(first, other, strict=True)]
    if name in LINEAR:  # their vectors may be laid out by a rule (decays, frequencies), or be of two numbers
        leaves = [(leaf, new) for leaf, new in leaves if leaf.ndim > 1]
    different = [bool(np.any(leaf != new)) for leaf, new in leaves]
    random = [bool(np.unique(leaf).size > 2) for leaf, _ in leaves]  # not a bias of zeros or ones
    assert different == random
    matrices = [leaf.ravel()[:8].tobytes() for (leaf, _), is_random in zip(leaves, random, strict=True) if is_random]
    assert len(set(matrices)) == len(matrices), "a key was used twice"


@pytest.mark.parametrize("name", NAMES)
def test_outputs_are_deterministic(name):
    """Through unroll; `check_core` asks the same of step and of prepared steps."""
    core = random_core(name, **small_sizes(name))
    xs, resets = normal(0, STEPS, 5), np.zeros(STEPS, bool)
    once, _ = unroll(core, xs, core.initial_state(), resets)
    twice, _ = unroll(core, xs, core.initial_state(), resets)
    np.testing.assert_array_equal(once, twice)


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_memory_of_nothing_means_no_past(name):
    """Each step attends to itself alone: shuffling the steps shuffles the outputs, with no reset anywhere."""
    core = random_core(name, **small_sizes(name, memory=0))
    xs, resets, order = normal(0, STEPS, 5), np.zeros(STEPS, bool), np.random.default_rng(1).permutation(STEPS)
    ys, _ = unroll(core, xs, core.initial_state(), resets)
    shuffled, _ = unroll(core, xs[order], core.initial_state(), resets)
    assert_close(shuffled, np.asarray(ys)[order], 1e-6)


@pytest.mark.parametrize("name", ["trxl", "gtrxl-gru"])
def test_program_of_an_unroll_does_not_grow_with_depth(name):
    """Layers are scanned, forward and backward: as many equations for 2 layers as for 12."""

    def program(layers):
        core = eqx.filter_eval_shape(
            lambda key: make_core(name, input_size=5, d_model=8, layers=layers, heads=2, memory=4, key=key), jax.random.key(0)
        )
        state = jax.eval_shape(core.initial_state)

        def score(core, xs, state):
            return jnp.sum(core.unroll(xs, state, resets=jnp.zeros(STEPS, bool))[0])

        arrays, rest = eqx.partition(core, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))
        gradient = jax.jit(jax.value_and_grad(lambda arrays, xs, state: score(eqx.combine(arrays, rest), xs, state)))
        return len(gradient.lower(arrays, jax.ShapeDtypeStruct((STEPS, 5), jnp.float32), state).as_text().splitlines())

    assert program(2) == program(12)
