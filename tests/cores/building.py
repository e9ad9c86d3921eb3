"""Cores for tests, and compiled ways to run them. Nearly all of a test's time is compilation, so little of it is asked for."""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gtrxl import Streams, make_core

TRANSFORMERS = ("trxl", "trxl-i", "gtrxl-input", "gtrxl-output", "gtrxl-highway", "gtrxl-sigtanh", "gtrxl-gru")
LINEAR = ("lru", "s5", "mingru", "minlstm", "mamba2", "mlstm", "deltanet", "ffm", "agalite", "gtrxl-lru")
HEADED = ("mamba2", "mlstm", "deltanet", "agalite")
WITH_ROWS = ("merlin", "rl-mem")
NAMES = ("lstm", "gru", *TRANSFORMERS, *WITH_ROWS, *LINEAR, "none")


@functools.cache
def random_core(name, *, seed=0, spread=None, **sizes) -> Any:
    """A core whose every weight is random, so that no zero bias, unit scale, u or v hides a mistake. Compiles nothing. mLSTM
    divides by sums that may be next to nothing: with large weights float32 is lost in them, whoever computes it."""
    spread = (0.2 if name == "mlstm" else 0.4) if spread is None else spread
    random = np.random.default_rng(seed)

    def filled(path, leaf):
        if not isinstance(leaf, jax.ShapeDtypeStruct):
            return leaf
        centre = 1.0 if jax.tree_util.keystr(path).endswith(".scale") else 0.0
        return jnp.asarray(centre + spread * random.standard_normal(leaf.shape), leaf.dtype)

    shapes = eqx.filter_eval_shape(lambda key: make_core(name, key=key, **sizes), jax.random.key(0))
    return jax.tree_util.tree_map_with_path(filled, shapes)


@functools.cache
def initial_core(name, *, seed=0, **sizes) -> Any:
    """A core as `make_core` gives it, built in one compiled program."""
    return eqx.filter_jit(lambda key: make_core(name, key=key, **sizes))(jax.random.key(seed))


def small_sizes(name, *, memory=4):
    """Sizes that every name takes."""
    sizes = {"input_size": 5, "d_model": 8, "layers": 2}
    if name in WITH_ROWS:
        return {**sizes, "memory": memory, "latent": 3, **({"mlp": 8} if name == "merlin" else {})}
    if name in TRANSFORMERS:
        return {**sizes, "heads": 2, "memory": memory}
    return {**sizes, "heads": 2} if name in HEADED else sizes


@eqx.filter_jit
def unroll(core, xs, state, resets):
    return core.unroll(xs, state, resets=resets)


@eqx.filter_jit
def steps(core, xs, state, resets):
    """One by one, in `lax.scan`; takes plain and prepared states."""

    def step(state, of_step):
        x, reset = of_step
        y, state = core.step(x, state, reset=reset)
        return state, y

    state, ys = jax.lax.scan(step, state, (xs, resets))
    return ys, state


@eqx.filter_jit
def prepared_steps(core, xs, state, resets):
    """The same from `prepare(state)`, taken back with `plain`."""
    ys, state = steps(core, xs, core.prepare(state), resets)
    return ys, core.plain(state)


@eqx.filter_jit
def prepared_steps_of_streams(core, xs, state, resets):
    """As one of `Streams`, which on a CPU with a compiler is the native library."""
    streams = Streams(core, 1)
    alone = jax.tree.map(lambda leaf: leaf[None], state)
    ys, state = steps(streams, xs[:, None], streams.prepare(alone), resets[:, None])
    return ys[:, 0], jax.tree.map(lambda leaf: leaf[0], streams.plain(state))


WAYS = {"unroll": unroll, "step": steps, "prepared step": prepared_steps}


def normal(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def assert_close(ours, theirs, tolerance):
    """Equal up to `tolerance` times the largest number."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance * np.abs(theirs).max())


AGREEMENT = 2e-5
"""Float32: how far apart ways to run a core may lie, relative to the largest output. Measured: below 1e-6."""


@eqx.filter_jit
def streams_step(streams, x, state, reset):
    return streams.step(x, state, reset=reset)


@eqx.filter_jit
def streams_unroll(streams, xs, state, resets):
    return streams.unroll(xs, state, resets=resets)


def assert_streams_agree(streams, *, seed, length=7):
    """Streams that reset at different times: plain steps, prepared steps and unroll against each stream's own unroll."""
    core = streams.core
    random = np.random.default_rng(seed)
    shape = (streams.size, length)
    first, second = random.standard_normal((2, *shape, core.input_size)).astype(np.float32)
    resets = random.random((2, *shape)) < 0.3
    expected, ends = [], []
    for stream in range(streams.size):
        _, own = unroll(core, first[stream], core.initial_state(), resets[0, stream])
        ys, end = unroll(core, second[stream], own, resets[1, stream])
        expected.append(ys)
        ends.append(unroll(core, first[stream], end, np.zeros(length, bool))[0])
    _, state = streams_unroll(streams, first, streams.initial_state(), resets[0])
    unrolled, unrolled_end = streams_unroll(streams, second, state, resets[1])
    assert_close(unrolled, expected, AGREEMENT)
    for start in (state, eqx.filter_jit(type(streams).prepare)(streams, state)):
        now, ys = start, []
        for t in range(length):
            y, now = streams_step(streams, second[:, t], now, resets[1, :, t])
            ys.append(y)
        assert_close(np.stack(ys, axis=1), expected, AGREEMENT)
        after, _ = streams_unroll(streams, first, eqx.filter_jit(type(streams).plain)(streams, now), np.zeros(shape, bool))
        assert_close(after, ends, AGREEMENT)
    after, _ = streams_unroll(streams, first, unrolled_end, np.zeros(shape, bool))
    assert_close(after, ends, AGREEMENT)
