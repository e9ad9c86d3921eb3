"""The native library against the same mathematics through XLA, and what happens where it cannot be had.

The contract, golden and NumPy tests run on whatever this machine has; here both are run side by side.
"""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gtrxl
from gtrxl.cores import kernels
from gtrxl.cores.kernels import library
from gtrxl.cores.kernels.acting import NativeMemory
from tests.cores.building import TRANSFORMERS, assert_close, normal, random_core
from tests.marks import few

CLOSE = 3e-5  # float32, relative to the largest number

needs_library = pytest.mark.skipif(not kernels.available(), reason="no C++ compiler on this machine")


@pytest.fixture
def through_xla(monkeypatch):
    """Calls a function with the library out of sight, compiled anew."""

    def call(function, *args):
        with monkeypatch.context() as patched:
            patched.setattr(kernels, "usable", lambda dtype: False)
            return jax.jit(lambda *args: function(*args))(*args)

    return call


SIZES = [
    {"d_model": 8, "layers": 2, "heads": 2, "memory": 5},
    {"d_model": 24, "layers": 3, "heads": 3, "head_dim": 20, "mlp": 20, "memory": 17},
    {"d_model": 64, "layers": 1, "heads": 4, "memory": 0},
    {"d_model": 336, "layers": 2, "heads": 3, "head_dim": 64, "mlp": 80, "memory": 3},  # beyond what each thread reads alone
]


STEPS = [(name, sizes, 3) for sizes in SIZES for name in TRANSFORMERS]
STEPS += [
    ("gtrxl-gru", SIZES[3], 1),  # fewer streams than threads, which divide its memory
    ("gtrxl-gru", {**SIZES[3], "heads": 8, "memory": 110}, 1),  # all heads of a vector, and more rows than go at once
    ("trxl", {**SIZES[3], "heads": 12, "head_dim": 20}, 27),
    ("gtrxl-highway", {**SIZES[1], "heads": 1, "memory": 300}, 2),
]


@needs_library
@pytest.mark.parametrize(("name", "sizes", "size"), few(STEPS, keep=lambda number, _: number % 4 == 0))
def test_prepared_steps_of_streams(name, sizes, size, through_xla):
    """Through the library and through XLA, from memories of different ages, with resets, around the ring and on."""
    core = random_core(name, spread=1 / np.sqrt(sizes["d_model"]), input_size=5, **sizes)
    length = 2 * sizes["memory"] + 5
    xs, resets = normal(1, length, size, 5), np.random.default_rng(2).random((length, size)) < 0.1
    streams = gtrxl.Streams(core, size)
    memory = streams.initial_state()
    filled = jnp.asarray([i % 3 * sizes["memory"] // 2 for i in range(2, size + 2)], jnp.int32)
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


UNROLLS = [
    *((name, SIZES[1], 30) for name in TRANSFORMERS),
    ("trxl", SIZES[0], 3),
    ("gtrxl-gru", SIZES[2], 17),
    ("gtrxl-gru", SIZES[3], 50),
    ("gtrxl-gru", {"d_model": 20, "layers": 2, "heads": 1, "head_dim": 3, "mlp": 7, "memory": 200}, 61),
    ("trxl", {"d_model": 8, "layers": 2, "heads": 2, "memory": 5}, 2),
]


@needs_library
@pytest.mark.parametrize(("name", "sizes", "steps"), few(UNROLLS, keep=lambda number, _: number % 3 == 0))
def test_unrolls_and_their_gradients(name, sizes, steps, through_xla):
    """Outputs, memory and the gradient of every weight, from memories of different ages, with resets."""
    core = random_core(name, spread=1 / np.sqrt(sizes["d_model"]), input_size=5, **sizes)
    size, memory = 3, sizes["memory"]
    wish = jnp.asarray(normal(4, size, steps, sizes["d_model"]))
    resets = jnp.asarray(np.random.default_rng(2).random((size, steps)) < 0.05)
    inputs = normal(3, size, sizes["layers"], memory, sizes["d_model"])
    inputs[0], inputs[1, :, : memory - memory // 2] = np.nan, np.nan  # slots that hold nothing
    state = gtrxl.Memory(inputs=jnp.asarray(inputs), filled=jnp.asarray([0, memory // 2, memory], jnp.int32))

    def run(core, xs):
        def loss(core, xs):
            ys, after = gtrxl.Streams(core, size).unroll(xs, state, resets=resets)
            return jnp.sum(ys * wish), (ys, after)

        gradients, (ys, after) = jax.grad(loss, argnums=(0, 1), has_aux=True)(core, xs)
        return gradients, ys, after

    def error(mine, other, least):
        return float(jnp.abs(mine - other).max()) / max(float(jnp.abs(other).max()), least)

    worst = {}
    for draw in (1, 11, 21):
        xs = jnp.asarray(normal(draw, size, steps, 5))
        ours_gradients, ours, ours_after = jax.jit(run)(core, xs)
        gradients, theirs, after = through_xla(run, core, xs)
        assert_close(ours, theirs, CLOSE)
        np.testing.assert_array_equal(ours_after.filled, after.filled)
        np.testing.assert_allclose(ours_after.inputs, after.inputs, rtol=1e-4, atol=1e-4)
        # A gradient that cancels is rounding beside those that do not.
        least = 1e-3 * max(float(jnp.abs(leaf).max()) for leaf in jax.tree.leaves(gradients))
        errors = jax.tree.map(lambda mine, other, least=least: error(mine, other, least), ours_gradients, gradients)
        worst[draw] = max((of, jax.tree_util.keystr(path)) for path, of in jax.tree.leaves_with_path(errors))
        if worst[draw][0] < 2e-4:
            return
        # Rounding may put a ReLU on the other side of zero, and then gradients differ. Not at every draw.
    raise AssertionError(f"gradients differ at every draw: {worst}")


@needs_library
def test_attention_to_scores_of_any_size(through_xla):
    """Weights of 0 and 1, and no overflow: the largest score is taken off first."""
    core = random_core("trxl", input_size=4, d_model=8, layers=1, heads=2, memory=6)
    streams = gtrxl.Streams(core, 2)
    resets = jnp.zeros((2, 9), bool)

    def run(xs):
        return streams.unroll(xs, streams.initial_state(), resets=resets)[0]

    for size in (0.0, 1e-20, 1e3, 1e9):
        xs = jnp.asarray(normal(0, 2, 9, 4)) * size
        ours, theirs = jax.jit(run)(xs), through_xla(run, xs)
        assert np.isfinite(ours).all()
        assert_close(ours, theirs, CLOSE)


@needs_library
def test_a_lowering_for_other_platforms_does_without_the_library():
    """The same traced program, exported for an accelerator from a machine that has none."""
    core = random_core("gtrxl-gru", input_size=5, d_model=8, layers=2, heads=2, memory=4)
    streams = gtrxl.Streams(core, 2)

    def loss(core, xs, resets):
        return jnp.sum(gtrxl.Streams(core, 2).unroll(xs, streams.initial_state(), resets=resets)[0])

    traced = jax.jit(jax.grad(loss)).trace(core, jnp.zeros((2, 3, 5)), jnp.zeros((2, 3), bool))
    assert "gtrxl_unroll" in traced.lower(lowering_platforms=("cpu",)).as_text()
    assert "gtrxl_unroll" not in traced.lower(lowering_platforms=("tpu",)).as_text()


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
    assert kernels.threads() == 6
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    assert kernels.threads() == 4
    mesh = jax.sharding.AbstractMesh((2,), ("device",))
    spec, seen = jax.sharding.PartitionSpec("device"), []
    monkeypatch.setattr(jax, "local_device_count", lambda: 2)
    jax.eval_shape(
        jax.shard_map(lambda x: seen.append(kernels.threads()) or x, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False),
        jax.ShapeDtypeStruct((2,), jnp.float32),
    )
    assert seen == [2]


def run(program, **environment):
    """A Python of its own: whether there is a library is decided once in a process."""
    given = {**os.environ, "JAX_PLATFORMS": "cpu", **environment}
    command = [sys.executable, "-W", "always", "-c", program]
    return subprocess.run(command, env=given, capture_output=True, text=True, timeout=120, check=False)


ASK = "from gtrxl.cores import kernels; print(kernels.available())"


def test_switched_off():
    done = run(ASK, GTRXL_NATIVE="0")
    assert done.stdout == "False\n"
    assert not done.stderr


def test_a_switch_that_is_neither():
    done = run(ASK, GTRXL_NATIVE="yes")
    assert "GTRXL_NATIVE must be 0 (never), 1 (or fail) or auto (if it can be had), got 'yes'" in done.stderr


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


@pytest.mark.slow
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


def test_those_that_start_together_compile_once(monkeypatch, tmp_path, capfd):
    """Thirty actors begin on a new machine: one compiles, the others wait for it."""
    calls = []

    def compile_slowly(*command):
        calls.append(command)
        time.sleep(0.05)
        Path(command[-1]).write_text("")

    monkeypatch.setattr(library, "compiler", lambda: "c++")
    monkeypatch.setattr(library.Library, "place", lambda _: tmp_path / "cache" / "native.so")
    monkeypatch.setattr(library, "_call", compile_slowly)
    threads = [threading.Thread(target=library.CORES.build) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == len(library.CORES.sources) + 1
    assert capfd.readouterr().err.count("compiling its native library") == 1
    assert (tmp_path / "cache" / "native.so").exists()
