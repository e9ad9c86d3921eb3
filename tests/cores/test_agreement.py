"""Python and C++ in step: what is changed in one of them is noticed, and arrays are read by name."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gtrxl
from gtrxl.cores import kernels
from gtrxl.cores.gates import GATES, GRUGate
from gtrxl.cores.kernels import agreement, learning
from gtrxl.cores.kernels.acting import NativeMemory
from gtrxl.cores.kernels.description import KINDS, arrays_of, described, header, with_arrays
from tests.cores.building import TRANSFORMERS, random_core

pytestmark = pytest.mark.skipif(not kernels.available(), reason="no C++ compiler on this machine")

SOURCE = Path(gtrxl.__file__).parent
SIZES = {"input_size": 5, "d_model": 8, "layers": 2, "heads": 2, "memory": 4}

PROGRAM = """
import warnings, jax, jax.numpy as jnp
import gtrxl
from gtrxl.cores import gates
{edit}
core = gtrxl.make_core("gtrxl-gru", input_size=5, d_model=8, layers=2, heads=2, memory=4, key=jax.random.key(0))
streams = gtrxl.Streams(core, 2)
xs, resets = jnp.ones((2, 3, 5)), jnp.zeros((2, 3), bool)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    prepared = type(jax.eval_shape(streams.prepare, streams.initial_state())).__name__
    ys, _ = jax.jit(lambda xs: streams.unroll(xs, streams.initial_state(), resets=resets))(xs)
print(prepared, bool(jnp.allclose(ys, core.embed(xs))))
print(*(warning.message for warning in caught), sep="\\n")
"""


def run(edit="", *, source=SOURCE):
    """A Python of its own: a kind of block is compared once in a process."""
    given = {**os.environ, "PYTHONPATH": str(source.parent)}
    command = [sys.executable, "-c", PROGRAM.format(edit=edit)]
    done = subprocess.run(command, env=given, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    used, *messages = done.stdout.strip().splitlines()
    return used, "\n".join(messages)


def test_a_formula_changed_in_memory_is_noticed_and_used():
    used, message = run("gates.GRUGate.__call__ = lambda self, *, skip, update: skip")
    assert used == "PreparedStreams True", "the stream must pass through, as the changed gate says"
    assert re.fullmatch(
        r"gtrxl's native library and its Python form of a block with gate='gru', norm_inputs=True differ by \S+ of the largest "
        r"number; going on with the Python form, through XLA and slower\. GTRXL_NATIVE=0 silences this",
        message,
    )


def copied(folder, *edits):
    """The package as somebody changed it."""
    changed = folder / "gtrxl"
    shutil.copytree(SOURCE, changed, ignore=shutil.ignore_patterns("__pycache__"))
    text = (changed / "cores/gates.py").read_text()
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    (changed / "cores/gates.py").write_text(text)
    return changed


@pytest.mark.slow
def test_a_formula_changed_in_the_source_is_noticed(tmp_path):
    changed = copied(tmp_path, ("return (1 - z) * skip + z * h", "return z * skip + (1 - z) * h"))
    used, message = run(source=changed)
    assert used == "PreparedStreams False"
    assert "differ by" in message


@pytest.mark.slow
def test_the_order_of_a_gate_s_fields_does_not_matter(tmp_path):
    """They are passed by name: the library goes on, and has been compared anew."""
    w, rz, g, bias = (
        f"    {field}\n"
        for field in (
            'w_rzg: Float[Array, "D 3*D"]',
            'u_rz: Float[Array, "D 2*D"]',
            'u_g: Float[Array, "D D"]',
            'b_g: Float[Array, " D"]',
        )
    )
    used, message = run(source=copied(tmp_path, (w + rz + g + bias, bias + g + rz + w)))
    assert used == "NativeMemory False"
    assert not message


def test_asked_for_the_library_or_nothing_a_difference_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setattr(agreement, "_found", {})
    monkeypatch.setattr(agreement, "_note", lambda *given: tmp_path / "note")
    monkeypatch.setattr(agreement, "_compare", lambda *given: 0.5)
    monkeypatch.setenv("GTRXL_NATIVE", "1")
    with pytest.raises(kernels.NativeError, match=r"differ by 5\.0e-01 of the largest number; GTRXL_NATIVE=1"):
        agreement.holds(GRUGate, True, make=gtrxl.Transformer)
    assert not list(tmp_path.iterdir())


def test_what_agreed_is_not_compared_again(monkeypatch, tmp_path):
    compared = []
    monkeypatch.setattr(agreement, "_note", lambda *given: tmp_path / "note")
    monkeypatch.setattr(agreement, "_compare", lambda *given: compared.append(given) or 1e-6)
    for _ in range(2):
        monkeypatch.setattr(agreement, "_found", {})
        assert agreement.holds(GRUGate, True, make=gtrxl.Transformer)
    assert len(compared) == 1


def test_a_comparison_that_fails_is_told_and_done_without(monkeypatch, tmp_path):
    def fails(*given):
        raise RuntimeError("this gate cannot be computed\nat all")

    monkeypatch.setattr(agreement, "_found", {})
    monkeypatch.setattr(agreement, "_note", lambda *given: tmp_path / "note")
    monkeypatch.setattr(agreement, "_compare", fails)
    monkeypatch.setenv("GTRXL_NATIVE", "auto")
    with pytest.warns(UserWarning, match=r"could not be compared \(RuntimeError: this gate cannot be computed\); going on"):
        assert not agreement.holds(GRUGate, True, make=gtrxl.Transformer)


def test_the_note_s_name_is_that_of_what_is_in_memory(monkeypatch):
    before = agreement._note("gru", True, gtrxl.Transformer)
    assert agreement._note("gru", True, gtrxl.Transformer) == before
    assert agreement._note("gru", False, gtrxl.Transformer) != before
    monkeypatch.setattr(GRUGate, "__call__", lambda self, *, skip, update: skip)
    assert agreement._note("gru", True, gtrxl.Transformer) != before


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_every_array_of_a_block_goes_and_comes_back_by_name(name):
    blocks = random_core(name, **SIZES).blocks
    arrays = arrays_of(blocks)
    assert {id(array) for array in arrays} == {id(leaf) for leaf in jax.tree.leaves(blocks)}
    doubled = with_arrays(blocks, [2 * array for array in arrays])
    jax.tree.map(lambda one, two: np.testing.assert_array_equal(2 * one, two), blocks, doubled)


def test_arrays_in_another_order_are_refused_by_the_library(monkeypatch):
    core = random_core("gtrxl-gru", **SIZES)
    streams = gtrxl.Streams(core, 2)

    def run(xs):
        return streams.unroll(xs, streams.initial_state(), resets=jnp.zeros((2, 3), bool))[0]

    monkeypatch.setattr(agreement, "_found", {(GRUGate, True): True})
    swapped = arrays_of(core.blocks)
    swapped[0], swapped[1] = swapped[1], swapped[0]
    monkeypatch.setattr(learning, "arrays_of", lambda blocks: swapped)
    with pytest.raises(jax.errors.JaxRuntimeError, match="gtrxl's unroll got arrays of other shapes than its sizes ask for"):
        jax.jit(run)(jnp.ones((2, 3, 5)))


def test_a_block_that_is_not_described_is_left_to_xla():
    class Other(GRUGate):
        """Somebody's variation of the gate."""

    blocks = random_core("gtrxl-gru", **SIZES).blocks
    assert described(blocks)
    other = object.__new__(Other)
    for field in ("w_rzg", "u_rz", "u_g", "b_g"):
        object.__setattr__(other, field, getattr(blocks.gate_1, field))
    assert not described(eqx.tree_at(lambda of: of.gate_1, blocks, other))
    assert not described(eqx.tree_at(lambda of: of.gate_2, blocks, other))


def test_the_header_has_every_gate_by_its_place_in_the_table():
    assert [kind.name for kind in KINDS.values()] == list(GATES)
    assert [kind.number for kind in KINDS.values()] == list(range(len(GATES)))
    assert "RESIDUAL = 0, INPUT = 1, OUTPUT = 2, HIGHWAY = 3, SIGTANH = 4, GRU = 5" in header()


@pytest.mark.slow
def test_streams_of_every_transformer_go_through_the_library_here():
    for name in TRANSFORMERS:
        streams = gtrxl.Streams(random_core(name, **SIZES), 2)
        assert isinstance(jax.eval_shape(streams.prepare, streams.initial_state()), NativeMemory)
