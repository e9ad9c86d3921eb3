"""Gradients of both forms against differences of the paper's equations in float64, where they are hard: without a memory, where
many are zero, and with scores so large that weights are 0 and 1.

T steps, M memory slots. A gradient that is zero is rounding in one form or another: differences count beside the gradient of all
weights together.
"""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gtrxl
from gtrxl.cores import kernels
from tests.cores import reference
from tests.cores.building import TRANSFORMERS, assert_close, normal, random_core
from tests.cores.weights import weights_of
from tests.marks import few

STEPS, WIDTH, HEADS = 5, 16, 1
CLOSE = 1e-5
"""Of the length of the whole gradient."""

needs_library = pytest.mark.skipif(not kernels.available(), reason="no C++ compiler on this machine")
FORMS = ("XLA", pytest.param("library", marks=needs_library))


@eqx.filter_jit
def gradients(core, xs, state, resets, wish, library):
    """Of a weighted sum of the outputs of an unroll, by the core's arrays and by the inputs."""
    del library  # part of what is compiled: the form is chosen while it is traced

    def score(learned):
        core, xs = learned
        return jnp.sum(wish * core.unroll(xs, state, resets=resets)[0])

    return eqx.filter_grad(score)((core, xs))


def run(form, core, xs, state, resets, wish):
    with pytest.MonkeyPatch.context() as patched:
        if form == "XLA":
            patched.setattr(kernels, "usable", lambda dtype: False)
        return gradients(core, jnp.asarray(xs), state, resets, wish, form == "library")


class Reference:
    """The same weighted sum in float64, and its derivative along one direction in one array, by differences."""

    def __init__(self, name, core, xs, state, resets, wish):
        self.layers, self.xs, self.wish = weights_of(core), xs.astype(np.float64), wish
        self.embedding = tuple(np.asarray(of, np.float64) for of in (core.embed.weight, core.embed.bias))
        self.remembered, self.filled = np.asarray(state.inputs, np.float64), int(state.filled)
        self.stack = functools.partial(reference.stack, name, heads=HEADS, resets=resets)

    def score(self, layers, xs):
        weight, bias = self.embedding
        return np.sum(self.wish * self.stack(layers, xs @ weight + bias, self.remembered, filled=self.filled)[0])

    def along(self, layer, symbol, direction):
        def moved(by):
            changed = [dict(of) for of in self.layers]
            changed[layer][symbol] = changed[layer][symbol] + by * direction
            return self.score(changed, self.xs)

        return (moved(1e-6) - moved(-1e-6)) / 2e-6

    def along_inputs(self, direction):
        small = 1e-6 * np.abs(self.xs).max()
        return (self.score(self.layers, self.xs + small * direction) - self.score(self.layers, self.xs - small * direction)) / (
            2 * small
        )


def length(tree):
    return float(np.sqrt(sum(np.sum(np.square(np.asarray(leaf, np.float64))) for leaf in jax.tree.leaves(tree))))


def assert_right(by_core, by_xs, expected):
    """Along a random direction in every array, and in every input."""
    random, whole = np.random.default_rng(5), length(by_core.blocks)
    for layer, symbols in enumerate(weights_of(by_core)):
        for symbol, gradient in symbols.items():
            direction = random.standard_normal(gradient.shape)
            direction /= np.linalg.norm(direction)
            off = abs(float(np.sum(gradient * direction)) - expected.along(layer, symbol, direction))
            assert off < CLOSE * whole, (layer, symbol, off / whole)
    steps = np.eye(by_xs.size).reshape(-1, *by_xs.shape)
    assert_close(np.asarray(by_xs).ravel(), [expected.along_inputs(step) for step in steps], 1e-4)


def given(name, *, memory, layers, scale=1.0, seed=0):
    core = random_core(name, seed=seed, spread=0.25, input_size=3, d_model=WIDTH, layers=layers, heads=HEADS, memory=memory)
    xs, wish = normal(1 + seed, STEPS, 3) * np.float32(scale), normal(2, STEPS, WIDTH)
    state = gtrxl.Memory(
        inputs=jnp.asarray(normal(3, layers, memory, WIDTH) * np.float32(scale)), filled=jnp.asarray(memory, jnp.int32)
    )
    return core, xs, state, np.arange(STEPS) == 3, wish


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", few(TRANSFORMERS, keep=lambda _, name: name in ("trxl", "gtrxl-gru")))
def test_without_a_memory(name, form):
    """Each step sees itself alone, whatever the score: what makes scores has no gradient at all, to the last bit."""
    case = given(name, memory=0, layers=2)
    by_core, by_xs = run(form, *case)
    assert_right(by_core, by_xs, Reference(name, *case))
    for symbols in weights_of(by_core):
        for symbol in ("W_Q", "W_K", "W_R", "u", "v"):
            np.testing.assert_array_equal(symbols[symbol], 0)
        assert np.abs(symbols["W_V"]).max() > 1e-2


@needs_library
@pytest.mark.parametrize("name", few(TRANSFORMERS, keep=lambda _, name: name in ("trxl", "gtrxl-gru")))
def test_without_a_memory_both_forms_agree(name):
    case = given(name, memory=0, layers=2)
    ours, theirs = run("library", *case), run("XLA", *case)
    whole = length(theirs)
    for mine, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(mine, other, rtol=0, atol=1e-6 * whole)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("scale", [1e2, 3e4, 1e6])
def test_scores_so_large_that_weights_are_0_and_1(scale, form):
    """TrXL has no norm before its scores: here they are about 1e4, 1e9 and 1e12. What flows through the softmax is then nothing,
    and must not be what rounding leaves, times keys as large."""
    case = given("trxl", memory=3, layers=1, scale=scale)
    by_core, by_xs = run(form, *case)
    assert_right(by_core, by_xs, Reference("trxl", *case))
