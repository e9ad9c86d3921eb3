"""The native library against the same mathematics through XLA, and what happens where it cannot be had.

The contract, golden and NumPy tests run on whatever this machine has; here both are run side by side.
"""

import os
import subprocess
import sys
import threading
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gtrxl
from gtrxl.cores import native
from gtrxl.cores.attention import attend_projected
from gtrxl.cores.native.acting import NativeMemory
from gtrxl.cores.native.attention import attend
from tests.cores.building import TRANSFORMERS, assert_close, normal, random_core

CLOSE = 3e-5  # float32, relative to the largest number; gradients sum over streams and steps

needs_library = pytest.mark.skipif(not native.available(), reason="no C++ compiler on this machine")


@pytest.fixture
def through_xla(monkeypatch):
    """Calls a function with the library out of sight, compiled anew."""

    def call(function, *args):
        with monkeypatch.context() as patched:
            patched.setattr(native, "usable", lambda dtype: False)
            return jax.jit(lambda *args: function(*args))(*args)

    return call


def natively(*given: jax.Array) -> Any:
    """`attend_projected` through the library."""
    return attend(attend_projected, *given)


def attention_case(*, streams, steps, memory, heads, head_dim, seed):
    inner = heads * head_dim
    random = np.random.default_rng(seed)
    horizon = np.minimum(random.integers(0, memory + 1, (streams, steps)), memory).astype(np.int32)
    arrays = [
        normal(seed, streams, steps, 3 * inner),
        normal(seed + 1, streams, memory, 2 * inner),
        normal(seed + 2, memory + 1, inner),
        normal(seed + 3, 3 * inner),
        normal(seed + 4, heads, head_dim),
        normal(seed + 5, heads, head_dim),
    ]
    return [jnp.asarray(array) for array in arrays], jnp.asarray(horizon)


@needs_library
@settings(max_examples=8)
@given(
    streams=st.integers(1, 5),
    steps=st.sampled_from([2, 7, 24, 25, 60]),
    memory=st.sampled_from([0, 1, 5, 33, 200]),
    heads=st.integers(1, 3),
    head_dim=st.sampled_from([1, 3, 8, 16, 20, 64]),
    seed=st.integers(0, 99),
)
def test_attention_and_its_gradients(streams, steps, memory, heads, head_dim, seed):
    arrays, horizon = attention_case(streams=streams, steps=steps, memory=memory, heads=heads, head_dim=head_dim, seed=seed)

    @eqx.filter_jit
    def run(function):
        attended, backward = jax.vjp(lambda *arrays: function(*arrays, horizon), *arrays)
        return attended, backward(jnp.asarray(normal(seed, *attended.shape)))

    ours, ours_gradients = run(natively)
    theirs, gradients = run(attend_projected)
    assert_close(ours, theirs, CLOSE)
    # Where a query sees itself alone, gradients cancel to rounding: they are compared with the largest of all.
    largest = max(float(jnp.abs(gradient).max(initial=0)) for gradient in gradients)
    for mine, other in zip(ours_gradients, gradients, strict=True):
        np.testing.assert_allclose(mine, other, rtol=0, atol=CLOSE * largest)


@needs_library
def test_attention_to_scores_of_any_size():
    """Weights of 0 and 1, and no overflow: the largest score is taken off first."""
    arrays, horizon = attention_case(streams=2, steps=9, memory=6, heads=2, head_dim=4, seed=0)
    other: Any = attend_projected
    for size in (0.0, 1e-20, 1e3, 1e9):
        given = [arrays[0] * size, *arrays[1:]]
        ours, theirs = natively(*given, horizon), other(*given, horizon)
        assert np.isfinite(ours).all()
        assert_close(ours, theirs, CLOSE)


SIZES = [
    {"d_model": 8, "layers": 2, "heads": 2, "memory": 5},
    {"d_model": 24, "layers": 3, "heads": 3, "head_dim": 20, "mlp": 20, "memory": 17},
    {"d_model": 64, "layers": 1, "heads": 4, "memory": 0},
    {"d_model": 336, "layers": 2, "heads": 3, "head_dim": 64, "mlp": 80, "memory": 3},  # beyond what each thread reads alone
]


@needs_library
@pytest.mark.parametrize("sizes", SIZES, ids=lambda sizes: f"width {sizes['d_model']}")
@pytest.mark.parametrize("name", TRANSFORMERS)
def test_prepared_steps_of_streams(name, sizes, through_xla):
    """Through the library and through XLA, from memories of different ages, with resets, around the ring and on."""
    core = random_core(name, spread=1 / np.sqrt(sizes["d_model"]), input_size=5, **sizes)
    size, length = 3, 2 * sizes["memory"] + 5
    xs, resets = normal(1, length, size, 5), np.random.default_rng(2).random((length, size)) < 0.1
    streams = gtrxl.Streams(core, size)
    memory = streams.initial_state()
    filled = jnp.asarray([0, sizes["memory"] // 2, sizes["memory"]], jnp.int32)
    memory = gtrxl.Memory(inputs=jnp.asarray(normal(3, *memory.inputs.shape)), filled=filled)

    def run(memory, xs, resets):
        def step(state, given):
            y, state = streams.step(given[0], state, reset=given[1])
            return state, y

        state, ys = jax.lax.scan(step, streams.prepare(memory), (xs, resets))
        return ys, streams.plain(state)

    assert isinstance(jax.eval_shape(streams.prepare, memory), NativeMemory)
    ours, ours_after = jax.jit(run)(memory, xs, resets)
    theirs, after = through_xla(run, memory, xs, resets)
    assert_close(ours, theirs, 1e-4)
    np.testing.assert_array_equal(ours_after.filled, after.filled)
    np.testing.assert_allclose(ours_after.inputs, after.inputs, rtol=1e-4, atol=1e-4)


@needs_library
@pytest.mark.parametrize("name", ["gtrxl-gru", "gtrxl-highway", "gtrxl-sigtanh"])
def test_gates_of_inputs_of_any_size(name, through_xla):
    """Gates that are wide open, shut, or hardly move anything: no overflow, and small numbers keep their figures."""
    core = random_core(name, input_size=4, d_model=16, layers=1, heads=2, memory=3)
    streams = gtrxl.Streams(core, 2)

    def run(x):
        return streams.step(x, streams.prepare(streams.initial_state()), reset=jnp.ones(2, bool))[0]

    for size in (1e-6, 1e3, 1e8):
        x = jnp.asarray(normal(0, 2, 4)) * size
        ours, theirs = jax.jit(run)(x), through_xla(run, x)
        assert np.isfinite(ours).all()
        assert_close(ours, theirs, CLOSE)


@needs_library
def test_unrolls_through_the_library_have_the_gradients_of_xla(through_xla):
    core = random_core("gtrxl-gru", spread=0.2, input_size=5, d_model=16, layers=2, heads=2, memory=6)
    streams = gtrxl.Streams(core, 3)
    xs, resets = jnp.asarray(normal(0, 3, 11, 5)), jnp.asarray(np.random.default_rng(1).random((3, 11)) < 0.2)

    def gradient(core):
        def loss(core):
            return jnp.sum(gtrxl.Streams(core, 3).unroll(xs, streams.initial_state(), resets=resets)[0] ** 2)

        return eqx.filter_grad(loss)(core)

    ours, theirs = jax.tree.leaves(jax.jit(gradient)(core)), jax.tree.leaves(through_xla(gradient, core))
    largest = max(float(jnp.abs(leaf).max()) for leaf in theirs)
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, other, rtol=0, atol=CLOSE * largest)


@needs_library
def test_threads_that_call_at_the_same_time():
    """The library's threads serve one call; another one at the same time does without them, and both are right."""
    core = random_core("gtrxl-gru", spread=0.05, input_size=5, d_model=336, layers=2, heads=3, memory=3)
    streams = gtrxl.Streams(core, 4)
    fast, x, reset = streams.prepare(streams.initial_state()), jnp.asarray(normal(0, 4, 5)), jnp.zeros(4, bool)
    step = jax.jit(lambda x, fast: streams.step(x, fast, reset=reset)[0])
    expected = np.asarray(step(x, fast))
    wrong = []

    def many():
        wrong.extend(number for number in range(200) if not np.array_equal(step(x, fast), expected))

    threads = [threading.Thread(target=many) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
        assert not thread.is_alive()
    assert np.isfinite(expected).all()
    # Alone or with the others, a product is cut at the same columns and summed in the same order.
    assert not wrong


@needs_library
def test_a_prepared_state_survives_a_step_that_was_not_given_it():
    """The rings are written in place only if nobody else needs them."""
    core = random_core("gtrxl-gru", input_size=5, d_model=8, layers=2, heads=2, memory=4)
    streams = gtrxl.Streams(core, 2)
    fast = streams.prepare(streams.initial_state())
    before = jax.tree.map(np.array, fast)
    streams.step(jnp.asarray(normal(0, 2, 5)), fast, reset=jnp.zeros(2, bool))
    jax.tree.map(np.testing.assert_array_equal, before, jax.tree.map(np.array, fast))


@needs_library
def test_streams_under_vmap():
    core = random_core("gtrxl-gru", input_size=5, d_model=8, layers=2, heads=2, memory=4)
    streams = gtrxl.Streams(core, 2)
    fast, xs = streams.prepare(streams.initial_state()), jnp.asarray(normal(0, 3, 2, 5))
    reset = jnp.zeros(2, bool)
    many = jax.vmap(lambda x: streams.step(x, fast, reset=reset)[0])(xs)
    for x, y in zip(xs, many, strict=True):
        np.testing.assert_array_equal(streams.step(x, fast, reset=reset)[0], y)


def test_threads_are_divided_among_devices_and_bounded(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(6)), raising=False)
    assert native.threads() == 6
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    assert native.threads() == 4
    mesh = jax.sharding.AbstractMesh((2,), ("device",))
    spec, seen = jax.sharding.PartitionSpec("device"), []
    monkeypatch.setattr(jax, "local_device_count", lambda: 2)
    jax.eval_shape(
        jax.shard_map(lambda x: seen.append(native.threads()) or x, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False),
        jax.ShapeDtypeStruct((2,), jnp.float32),
    )
    assert seen == [2]


def run(program, **environment):
    """A Python of its own: whether there is a library is decided once in a process."""
    given = {**os.environ, "JAX_PLATFORMS": "cpu", **environment}
    command = [sys.executable, "-W", "always", "-c", program]
    return subprocess.run(command, env=given, capture_output=True, text=True, timeout=120, check=False)


ASK = "from gtrxl.cores import native; print(native.available())"


def test_switched_off():
    done = run(ASK, GTRXL_NATIVE="0")
    assert done.stdout == "False\n"
    assert not done.stderr


def test_a_switch_that_is_neither():
    done = run(ASK, GTRXL_NATIVE="yes")
    assert "GTRXL_NATIVE must be 0 (never), 1 (or fail) or auto (if a compiler is found), got 'yes'" in done.stderr


def test_no_compiler_is_no_error_unless_asked_for(tmp_path):
    quiet = run(ASK, CXX="no-such-compiler", GTRXL_CACHE=str(tmp_path), GTRXL_NATIVE="auto")
    assert quiet.stdout == "False\n"
    assert not quiet.stderr
    asked = run(ASK, CXX="no-such-compiler", GTRXL_CACHE=str(tmp_path), GTRXL_NATIVE="1")
    assert asked.returncode
    assert "no C++ compiler found as CXX=no-such-compiler; install g++ or clang++" in asked.stderr


def test_a_compiler_that_fails_is_named_in_one_line_and_done_without(tmp_path):
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho 'error: this compiler is broken' >&2\nexit 1\n")
    broken.chmod(0o755)
    done = run(ASK, CXX=str(broken), GTRXL_CACHE=str(tmp_path / "cache"))
    assert done.stdout == "False\n"
    assert "could not build gtrxl's native library: error: this compiler is broken; going on without it" in done.stderr
    assert not list((tmp_path / "cache").iterdir())


def test_a_cache_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    done = run(ASK, CXX=sys.executable, GTRXL_CACHE=str(tmp_path / "file"))
    assert done.stdout == "False\n"
    assert "set GTRXL_CACHE to a folder" in done.stderr


@needs_library
def test_processes_that_start_together_all_get_a_library(tmp_path):
    """Built once or several times, but never read half-written; the next process finds it."""
    given = {**os.environ, "JAX_PLATFORMS": "cpu", "GTRXL_CACHE": str(tmp_path), "GTRXL_NATIVE": "1"}
    together = [subprocess.Popen([sys.executable, "-c", ASK], env=given, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate(timeout=200)[0] for process in together] == ["True\n"] * 2
    (library,) = tmp_path.iterdir()
    assert library.suffix == ".so"
    written = library.stat().st_mtime_ns
    assert run(ASK, GTRXL_CACHE=str(tmp_path), GTRXL_NATIVE="1").stdout == "True\n"
    assert library.stat().st_mtime_ns == written
