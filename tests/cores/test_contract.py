"""The contract by property: any chunking, any resets, any age of the state, prepared or not, and weights that change half-way.

Lengths come from a few values, so that each core compiles a handful of programs and every example after that is cheap.
"""

import functools
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gtrxl import Streams, make_core
from gtrxl.cores import kernels
from tests.cores.building import (
    AGREEMENT,
    LINEAR,
    NAMES,
    assert_close,
    assert_streams_agree,
    random_core,
    small_sizes,
    steps,
    streams_unroll,
    unroll,
)
from tests.marks import few

CHUNKS = (1, 3, 8)  # with a memory of 4: shorter and longer than it
CORES = [*((name, 4) for name in NAMES), ("trxl", 0), ("gtrxl-gru", 0), ("gtrxl-gru", 1)]


@functools.cache
def two_cores(name, memory):
    """The same core under two sets of weights."""
    sizes = small_sizes(name, memory=memory)
    return random_core(name, seed=1, **sizes), random_core(name, seed=2, **sizes)


@eqx.filter_jit
def step(core, x, state, reset):
    return core.step(x, state, reset=reset)


prepare = eqx.filter_jit(lambda core, state: core.prepare(state))
plain = eqx.filter_jit(lambda core, state: core.plain(state))

chunkings = st.lists(st.sampled_from(CHUNKS), min_size=1, max_size=4)
seeds = st.integers(0, 2**31 - 1)
reset_rates = st.sampled_from([0.0, 0.15, 0.5, 1.0])


def episode_data(seed, length, rate):
    random = np.random.default_rng(seed)
    return random.standard_normal((length, 5)).astype(np.float32), random.random(length) < rate


@pytest.mark.parametrize(("name", "memory"), few(CORES, keep=lambda _, case: case[0] in ("lstm", "trxl", "gtrxl-gru", "none")))
@settings(max_examples=12)
@given(before=chunkings, after=chunkings, seed=seeds, rate=reset_rates, change=st.booleans())
def test_unroll_is_steps_is_prepared_steps(name, memory, before, after, seed, rate, change):
    """`before` runs under the old weights, `after` under the new (or the same); each way runs both, from a fresh state."""
    old, new = two_cores(name, memory)
    new = new if change else old
    xs, resets = episode_data(seed, sum(before) + sum(after), rate)
    outputs = {}

    state, ys, at = old.initial_state(), [], 0
    for core, chunks in ((old, before), (new, after)):
        for chunk in chunks:
            part, state = unroll(core, xs[at : at + chunk], state, resets[at : at + chunk])
            ys.append(np.asarray(part))
            at += chunk
    outputs["unroll"] = np.concatenate(ys)

    state, ys, at = old.initial_state(), [], 0
    for core, chunks in ((old, before), (new, after)):
        for _ in range(sum(chunks)):
            y, state = step(core, xs[at], state, resets[at])
            ys.append(np.asarray(y))
            at += 1
    outputs["step"] = np.stack(ys)

    state, ys, at = old.initial_state(), [], 0
    for core, chunks in ((old, before), (new, after)):
        state = prepare(core, plain(core, state))
        for _ in range(sum(chunks)):
            y, state = step(core, xs[at], state, resets[at])
            ys.append(np.asarray(y))
            at += 1
    outputs["prepared step"] = np.stack(ys)

    for way in ("step", "prepared step"):
        assert_close(outputs[way], outputs["unroll"], AGREEMENT)


@pytest.mark.parametrize(("name", "memory"), few(CORES, keep=lambda _, case: case[0] in ("lstm", "trxl", "gtrxl-gru", "none")))
@settings(max_examples=12)
@given(seed=seeds, at=st.integers(0, 7), start=st.integers(0, 3))
def test_nothing_leaks_past_a_reset_or_from_the_future(name, memory, seed, at, start):
    """Bit for bit: what precedes a reset at step `at`, and what follows step `at`, has no influence."""
    core, other_core = two_cores(name, memory)
    xs, resets = episode_data(seed, 8, 0.2)
    other_xs, other_resets = episode_data(seed + 1, 8, 0.5)
    _, state = unroll(core, *_with_state(core, seed, start))
    _, other_state = unroll(other_core, *_with_state(core, seed + 1, start))
    resets[at] = True
    ys, _ = unroll(core, xs, state, resets)
    earlier = np.arange(8) < at
    changed_xs, changed_resets = np.where(earlier[:, None], 100 * other_xs, xs), np.where(earlier, other_resets, resets)
    changed, _ = unroll(core, changed_xs, other_state, changed_resets)
    np.testing.assert_array_equal(np.asarray(changed)[at:], np.asarray(ys)[at:])
    later_xs, later_resets = np.where(earlier[:, None], xs, 100 * other_xs), np.where(earlier, resets, other_resets)
    changed, _ = unroll(core, later_xs, state, later_resets)
    np.testing.assert_array_equal(np.asarray(changed)[:at], np.asarray(ys)[:at])


def _with_state(core, seed, start):
    """Arguments of an unroll whose last reset is `start` steps before its end: a memory of that age."""
    xs, _ = episode_data(seed, 8, 0.0)
    return xs, core.initial_state(), np.arange(8) == 8 - start


@pytest.mark.parametrize("name", few(NAMES, keep=lambda _, name: name not in (*LINEAR, "rl-mem") or name == "deltanet"))
@settings(max_examples=4)
@given(seed=seeds)
def test_streams_reset_at_different_times(name, seed):
    assert_streams_agree(Streams(two_cores(name, 4)[0], 3), seed=seed)


@pytest.mark.parametrize("name", ["lstm", "gtrxl-gru"])
def test_one_stream_alone(name):
    assert_streams_agree(Streams(two_cores(name, 4)[0], 1), seed=0)


@pytest.mark.parametrize("name", ["lstm", "gtrxl-gru", "none"])
def test_streams_are_vmap(name):
    """What `Streams` gives, `jax.vmap` over the core's own calls gives."""
    core, size = two_cores(name, 4)[0], 3
    xs = np.stack([episode_data(seed, 8, 0.3)[0] for seed in range(size)])
    resets = np.stack([episode_data(seed, 8, 0.3)[1] for seed in range(size)])
    streams = Streams(core, size)
    ours, _ = streams_unroll(streams, xs, streams.initial_state(), resets)
    state = jax.tree.map(lambda leaf: jnp.stack([leaf] * size), core.initial_state())
    theirs, _ = jax.vmap(lambda xs, state, resets: steps(core, xs, state, resets))(xs, state, resets)
    assert_close(ours, theirs, AGREEMENT)


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("library", [True, False])
def test_a_compiled_loop_of_prepared_steps_copies_no_ring(size, library, monkeypatch):
    """Keys and values of a long memory are most of what a step reads: they are written in place, also for one stream alone."""
    if not library:
        monkeypatch.setattr(kernels, "usable", lambda dtype: False)
    core = make_core("gtrxl-gru", input_size=5, d_model=8, layers=2, heads=2, memory=37, key=jax.random.key(0))
    streams = Streams(core, size)
    fast = jax.tree.map(jnp.copy, streams.prepare(streams.initial_state()))

    def loop(streams, xs, fast):
        def step(fast, x):
            y, fast = streams.step(x, fast, reset=jnp.zeros(size, bool))
            return fast, y

        return jax.lax.scan(step, fast, xs)

    program = jax.jit(loop, donate_argnums=2).lower(streams, jnp.zeros((6, size, 5)), fast).compile().as_text() or ""
    # 37 remembered steps and the present one, heads of 4, which the native library fills up to 16.
    rings = r"f32\[[\d,]*38,(?:4|16)\]"
    assert re.search(rings, program)
    assert not re.findall(rings + r"\S* copy\(", program)


@pytest.mark.parametrize("name", NAMES)
def test_state_has_fixed_shapes(name):
    """So that it lives in `scan`, sharded arrays and checkpoints."""
    core = two_cores(name, 4)[0]
    state = core.initial_state()
    types = lambda tree: jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), tree)  # noqa: E731
    xs, resets = jnp.zeros((3, 5)), jnp.zeros(3, bool)
    unrolled = jax.eval_shape(lambda state: core.unroll(xs, state, resets=resets)[1], state)
    fast = jax.eval_shape(core.prepare, state)
    stepped = jax.eval_shape(lambda state: core.step(xs[0], state, reset=True)[1], fast)
    assert types(unrolled) == types(state)
    assert types(stepped) == types(fast)
    assert types(jax.eval_shape(core.plain, stepped)) == types(state)
    assert types(jax.eval_shape(core.prepare, fast)) == types(fast)
