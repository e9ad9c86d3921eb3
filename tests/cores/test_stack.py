"""Whole stacks with every weight random (u, v, norms and biases too) against the float64 transcription of the paper."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl import Memory, Transformer, make_core
from tests.cores import reference
from tests.cores.building import assert_close, random_core, unroll
from tests.cores.weights import weights_of

TOLERANCE = 1e-4  # float32 against float64, relative to the largest output
STEPS, WIDTH, MEMORY, LAYERS = 7, 8, 4, 3


@pytest.mark.parametrize(
    ("filled", "resets"),
    [(0, []), (2, [5]), (4, []), (4, [0, 3, 4])],
    ids=["empty", "partly filled, a reset", "full", "full, resets at the start and in a row"],
)
@pytest.mark.parametrize("name", reference.VARIANTS)
def test_stack_is_the_paper_s(name, filled, resets):
    heads = 2
    core = random_core(name, input_size=5, d_model=WIDTH, layers=LAYERS, heads=heads, mlp=6, memory=MEMORY)
    random = np.random.default_rng(2)
    xs = random.normal(size=(STEPS, 5))
    remembered = random.normal(size=(LAYERS, MEMORY, WIDTH))
    remembered[:, : MEMORY - filled] = 1000  # must never be looked at
    starts = np.isin(np.arange(STEPS), resets)
    embedded = xs @ np.asarray(core.embed.weight, np.float64) + np.asarray(core.embed.bias, np.float64)
    expected, inputs = reference.stack(name, weights_of(core), embedded, remembered, heads, starts, filled)
    state = Memory(inputs=jnp.asarray(remembered, jnp.float32), filled=jnp.asarray(filled, jnp.int32))
    ys, after = unroll(core, xs.astype(np.float32), state, starts)
    assert_close(ys, expected, TOLERANCE)
    assert_close(after.inputs, inputs[:, -MEMORY:], TOLERANCE)


@pytest.mark.parametrize("name", reference.VARIANTS)
def test_memory_kept_from_other_weights_is_read_with_the_present_ones(name):
    """What is stored is each layer's input; keys and values are those of the weights in use (mistake 11)."""
    sizes = {"input_size": WIDTH, "d_model": WIDTH, "layers": 2, "heads": 2, "memory": MEMORY}
    old, new = random_core(name, seed=1, **sizes), random_core(name, seed=2, **sizes)
    random = np.random.default_rng(3)
    first, second = random.normal(size=(2, STEPS, WIDTH))
    resets = np.zeros(STEPS, bool)
    _, state = unroll(old, first.astype(np.float32), old.initial_state(), resets)
    embedded = second @ np.asarray(new.embed.weight, np.float64) + np.asarray(new.embed.bias, np.float64)
    expected, _ = reference.stack(name, weights_of(new), embedded, np.asarray(state.inputs), 2, resets, MEMORY)
    stale, _ = reference.stack(name, weights_of(old), embedded, np.asarray(state.inputs), 2, resets, MEMORY)
    assert np.abs(expected - stale).max() > 0.1 * np.abs(expected).max(), "the weights must differ enough to tell"
    ys, _ = unroll(new, second.astype(np.float32), state, resets)
    assert_close(ys, expected, TOLERANCE)


@pytest.mark.parametrize("name", reference.VARIANTS)
def test_new_weights_have_the_variance_that_was_asked_for_and_nothing_else_changes(name):
    def built(variance):
        sizes = {"input_size": 64, "d_model": 64, "layers": 3, "heads": 2, "memory": 4}
        core = make_core(name, **sizes, init_variance=variance, key=jax.random.key(4))
        assert isinstance(core, Transformer)
        return core

    usual, asked = built(1 / 3), built(0.75)
    for one, other in zip(jax.tree.leaves(usual), jax.tree.leaves(asked), strict=True):
        matrix = one.ndim - (one.shape[0] == 3) == 2  # the layers are stacked
        np.testing.assert_allclose(other, one * 1.5 if matrix else one, rtol=1e-6)
    for linear in (asked.embed.weight, asked.blocks.mlp.first.weight, asked.blocks.attention.w_qkv, asked.blocks.attention.w_o):
        assert float(jnp.var(linear)) * linear.shape[-2] == pytest.approx(0.75, rel=0.05), "of inputs of variance 1"
