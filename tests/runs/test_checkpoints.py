"""What is saved comes back to the bit, a kill loses at most the checkpoint being written, and mistakes are one line."""

import gc
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float

from gtrxl.runs.checkpoints import Checkpoints, size_of
from gtrxl.runs.errors import RunError


class Net(eqx.Module):
    weight: Float[Array, "2 3"]
    activation: object = eqx.field(static=True)
    then: object  # a function that is a leaf
    width: int = 3


def everything():
    """One leaf of each kind that a training state may hold."""
    nan_with_payload = jnp.asarray(np.array([0x7FC12345, 0xFF800000, 0x80000000], np.uint32).view(np.float32))
    return {
        "net": Net(jnp.arange(6.0).reshape(2, 3), jax.nn.relu, jnp.tanh),
        "half": jnp.asarray([1.5, -0.0, jnp.nan], jnp.bfloat16),
        "ints": (jnp.asarray([-3, 2**31 - 1], jnp.int32), jnp.uint32(2**32 - 1), jnp.int8(-7)),
        "flags": jnp.asarray([True, False]),
        "odd": nan_with_payload,
        "scalar": jnp.asarray(3.25, jnp.float32),
        "weak": jnp.asarray(0.1),
        "none": None,
        "empty": jnp.zeros((0, 4)),
        "key": jax.random.key(7),
        "keys": jax.random.split(jax.random.key(3, impl="rbg"), 5),
        "a/b.c": [np.arange(3, dtype=np.int64), np.float64(0.1)],
    }


def small(value: float):
    return {"a": jnp.full((3,), value, jnp.float32)}


def bits(leaf) -> tuple:
    """What two leaves must share to be the same: kind, type and every bit."""
    if isinstance(leaf, jax.Array):
        typed = (jax.Array, str(leaf.dtype), getattr(leaf, "weak_type", False))
        leaf = jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
        return (*typed, leaf.shape, np.asarray(leaf).tobytes())
    if isinstance(leaf, np.ndarray | np.generic):
        return (type(leaf), str(leaf.dtype), leaf.shape, leaf.tobytes())
    return (leaf,)


def assert_same(one, other):
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for (path, a), b in zip(jax.tree.leaves_with_path(one), jax.tree.leaves(other), strict=True):
        assert bits(a) == bits(b), jax.tree_util.keystr(path)


def blank(leaf):
    """The same kind of leaf with other contents."""
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(jnp.zeros_like(jax.random.key_data(leaf)), impl=jax.random.key_impl(leaf))
    return leaf * 0 if isinstance(leaf, jax.Array | np.ndarray | np.float64) and leaf.dtype != bool else leaf


def test_every_kind_of_leaf_comes_back_to_the_bit_and_nothing_is_printed(tmp_path, capfd):
    tree = everything()
    Checkpoints(tmp_path / "c").save(5, tree)
    like = jax.tree.map(blank, tree)
    with pytest.raises(AssertionError):
        assert_same(like, tree)
    assert_same(Checkpoints(tmp_path / "c", read_only=True).restore(like), tree)
    assert capfd.readouterr() == ("", "")


def test_restores_from_shapes_alone(tmp_path):
    tree = {name: leaf for name, leaf in everything().items() if name not in ("net", "weak", "a/b.c")}
    Checkpoints(tmp_path).save(1, tree)
    assert_same(Checkpoints(tmp_path).restore(jax.eval_shape(lambda: tree)), tree)


def test_a_restored_key_goes_on_as_the_saved_one_would(tmp_path):
    Checkpoints(tmp_path).save(1, jax.random.key(11))
    key = Checkpoints(tmp_path).restore(jax.random.key(0))
    assert jax.random.bits(key) == jax.random.bits(jax.random.key(11))


def test_what_was_placed_on_purpose_is_placed_there_again(tmp_path):
    sharding = jax.sharding.NamedSharding(jax.make_mesh((1,), ("batch",)), jax.sharding.PartitionSpec("batch"))
    free = small(1.0)["a"]
    Checkpoints(tmp_path).save(1, {"sharded": free, "free": free})
    restored = Checkpoints(tmp_path).restore({"sharded": jax.device_put(free, sharding), "free": free})
    assert restored["sharded"].sharding == sharding
    assert restored["sharded"].committed
    assert not restored["free"].committed


def test_keeps_the_last_ones_and_the_best_one_also_after_reopening(tmp_path):
    scores = {1: 0.5, 2: 9.0, 3: float("nan"), 4: None, 5: 9.0, 6: float("inf"), 7: 1.0}
    for step, score in scores.items():
        Checkpoints(tmp_path, keep_last=2).save(step, small(step), score=score)
    checkpoints = Checkpoints(tmp_path, keep_last=2)
    assert checkpoints.steps() == [5, 6, 7], "of two that are as good the later one is kept"
    assert (checkpoints.latest, checkpoints.best) == (7, 5)
    assert_same(checkpoints.restore(small(0)), small(7))
    assert_same(checkpoints.restore(small(0), "best"), small(5))
    assert_same(checkpoints.restore(small(0), 6), small(6))
    checkpoints.save(8, small(8), score=10)
    assert checkpoints.steps() == [7, 8]
    assert checkpoints.latest == checkpoints.best == 8


def test_the_latest_step_may_be_saved_again_and_an_earlier_one_only_after_going_back(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep_last=3)
    for step in (1, 2, 3):
        checkpoints.save(step, small(step), score=step)
    checkpoints.save(3, small(30), score=0.0)
    assert_same(checkpoints.restore(small(0)), small(30))
    assert checkpoints.best == 2
    with pytest.raises(RunError, match=r"got 2 after 3; call forget_after\(2\)"):
        checkpoints.save(2, small(20))
    checkpoints.forget_after(1)
    checkpoints.save(2, small(20))
    assert checkpoints.steps() == [1, 2]


def test_what_a_kill_left_is_never_offered_and_is_cleaned_by_a_writer_only(tmp_path):
    Checkpoints(tmp_path).save(1, small(1))
    shutil.copytree(tmp_path / "1", tmp_path / "saving-2")
    shutil.copytree(tmp_path / "1", tmp_path / "going-0")
    (tmp_path / "saving-3" / "state.orbax-checkpoint-tmp").mkdir(parents=True)
    reader = Checkpoints(tmp_path, read_only=True)
    assert (reader.steps(), reader.latest) == ([1], 1)
    assert (tmp_path / "saving-2").exists()
    Checkpoints(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["1"]


SAVER = """
import sys
import jax.numpy as jnp
from gtrxl.runs.checkpoints import Checkpoints
checkpoints = Checkpoints(sys.argv[1], keep_last=2)
for step in range(10_000):
    checkpoints.save(step, {str(i): jnp.full((50_000,), step, jnp.float32) for i in range(8)}, score=-step)
"""


def test_a_process_killed_while_saving_leaves_a_whole_checkpoint(tmp_path):
    saver = subprocess.Popen([sys.executable, "-c", SAVER, str(tmp_path)])
    deadline = time.monotonic() + 60
    try:
        # Killed in the middle of a save: some have finished and one is being written.
        while not ((Checkpoints(tmp_path, read_only=True).latest or 0) >= 3 and list(tmp_path.glob("saving-*/state*"))):
            assert time.monotonic() < deadline
            assert saver.poll() is None
    finally:
        os.kill(saver.pid, signal.SIGKILL)
        saver.wait()
    checkpoints = Checkpoints(tmp_path, keep_last=2)
    assert not [entry for entry in tmp_path.iterdir() if not entry.name.isdecimal()]
    assert checkpoints.best == 0
    like = {str(i): jnp.zeros((50_000,)) for i in range(8)}
    for step in checkpoints.steps():
        assert all((leaf == step).all() for leaf in jax.tree.leaves(checkpoints.restore(like, step)))


def one_line(error: pytest.ExceptionInfo) -> bool:
    return len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("like", "said"),
    [
        ({"a": jnp.zeros((4,))}, r"\['a'\] is float32\[3\] there and float32\[4\] here;"),
        ({"a": jnp.zeros((3,), jnp.int32)}, r"\['a'\] is float32\[3\] there and int32\[3\] here;"),
        ({"b": jnp.zeros((3,))}, r"\['b'\] is missing there and float32\[3\] here \(and 1 more\)"),
        ({}, r"\['a'\] is float32\[3\] there and missing here"),
        ({"a": jax.random.split(jax.random.key(0), 3)}, r"float32\[3\] there and key<fry>\[3\] here"),
    ],
)
def test_another_structure_is_one_line_with_the_first_difference(tmp_path, like, said):
    Checkpoints(tmp_path).save(1, small(1))
    with pytest.raises(RunError, match=said) as error:
        Checkpoints(tmp_path).restore(like)
    assert one_line(error)


def test_what_is_not_there_is_said(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    assert (checkpoints.steps(), checkpoints.latest, checkpoints.best) == ([], None, None)
    with pytest.raises(RunError, match="no finished checkpoint"):
        checkpoints.restore(small(0))
    checkpoints.save(4, small(4))
    with pytest.raises(RunError, match=r"no checkpoint of step 3 in .*; there are \[4\]"):
        checkpoints.restore(small(0), 3)
    with pytest.raises(RunError, match="none is the best; ask for 'last'"):
        checkpoints.restore(small(0), "best")
    with pytest.raises(RunError, match="read only"):
        Checkpoints(tmp_path, read_only=True).save(5, small(5))
    assert Checkpoints(tmp_path / "nowhere", read_only=True).steps() == []
    assert not (tmp_path / "nowhere").exists()
    with pytest.raises(RunError, match="keep_last must be at least 1, got 0"):
        Checkpoints(tmp_path, keep_last=0)


@pytest.mark.parametrize("damage", ["card.json", "state.safetensors"])
def test_a_damaged_checkpoint_is_one_line(tmp_path, damage):
    Checkpoints(tmp_path).save(4, small(4))
    home = tmp_path / "4" / damage
    home.unlink() if home.is_file() else shutil.rmtree(home)
    with pytest.raises(RunError, match=r"checkpoint 4 .*cannot be read") as error:
        Checkpoints(tmp_path).restore(small(0))
    assert one_line(error)


@pytest.mark.parametrize("place", ["file", "file/below", "/proc/nothing/here"])
def test_an_unwritable_folder_is_said_at_the_start(tmp_path, place):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match=r"checkpoints cannot be written to .*; free some space or choose another folder") as error:
        Checkpoints(tmp_path / Path(place))
    assert one_line(error)


def test_a_disk_too_small_for_what_will_be_kept_is_said_at_the_start(tmp_path):
    room = shutil.disk_usage(tmp_path).free
    with pytest.raises(RunError, match=r"checkpoints need .* MB in .* MB are free") as error:
        Checkpoints(tmp_path, keep_last=2, expected_bytes=room // 3)
    assert one_line(error)
    Checkpoints(tmp_path, keep_last=2, expected_bytes=size_of(everything()))


def test_a_save_that_the_disk_refuses_is_said_and_keeps_the_one_before(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, small(1))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        # The system then refuses to write more than this into one file, as it would on a full disk.
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
        noise = jax.random.bits(jax.random.key(0), (100_000,))
        with pytest.raises(
            RunError, match=r"checkpoint of step 2 could not be written .*; .* MB are free there, and it needs 0\.4 MB"
        ) as error:
            checkpoints.save(2, {"a": noise})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert one_line(error)
    assert [entry.name for entry in tmp_path.iterdir()] == ["1"]
    checkpoints.save(2, small(2))
    assert_same(checkpoints.restore(small(0)), small(2))


def test_importing_and_looking_needs_no_orbax(tmp_path):
    code = f"""
import sys
from gtrxl.runs.checkpoints import Checkpoints
assert Checkpoints({str(tmp_path)!r}).best is None
assert not [name for name in sys.modules if name.startswith(("orbax", "tensorstore"))]
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_any_library_of_safetensors_reads_the_arrays(tmp_path):
    from safetensors.numpy import load_file

    tree = {"a": jnp.arange(6, dtype=jnp.float32).reshape(2, 3), "b": {"c": jnp.int8(-7)}, "flag": jnp.asarray([True])}
    Checkpoints(tmp_path).save(1, tree)
    found = load_file(tmp_path / "1" / "state.safetensors")
    assert {name: (array.tolist(), str(array.dtype)) for name, array in found.items()} == {
        "['a']": ([[0, 1, 2], [3, 4, 5]], "float32"), "['b']['c']": (-7, "int8"), "['flag']": ([True], "bool"),
    }  # fmt: skip


def write_as_before(home: Path, tree, *, step: int, score: float | None) -> None:
    """A checkpoint as it was written before there were hashes: by Orbax, with a card of four fields."""
    import orbax.checkpoint as ocp

    leaves = {jax.tree_util.keystr(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}
    arrays = {}
    for name, leaf in leaves.items():
        is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        key = str(jax.random.key_impl(leaf)) if is_key else None
        arrays[name] = {"shape": list(leaf.shape), "dtype": str(leaf.dtype), "key": key}
        leaves[name] = jax.random.key_data(leaf) if is_key else leaf
    with ocp.PyTreeCheckpointer() as writer:
        writer.save(home / str(step) / "state", leaves)
    (home / str(step) / "card.json").write_text(json.dumps({"step": step, "score": score, "arrays": arrays}))


@pytest.mark.filterwarnings("ignore")
def test_what_was_written_before_there_were_hashes_is_still_read(tmp_path):
    tree = {"a": jnp.arange(3.0), "half": jnp.asarray([1.5], jnp.bfloat16), "key": jax.random.key(7), "n": jnp.int32(3)}
    write_as_before(tmp_path, tree, step=4, score=2.5)
    checkpoints = Checkpoints(tmp_path)
    assert (checkpoints.latest, checkpoints.best, checkpoints.score(4), checkpoints.settings()) == (4, 4, 2.5, None)
    assert_same(checkpoints.restore(jax.tree.map(blank, tree)), tree)
    checkpoints.save(5, tree)
    assert_same(checkpoints.restore(jax.tree.map(blank, tree), 5), tree)


def test_saving_leaves_nothing_in_memory(tmp_path):
    """TensorStore, which Orbax writes with, kept 12 kB of Python's memory and more of its own with each checkpoint."""
    checkpoints = Checkpoints(tmp_path)
    tree = {str(number): jnp.full((5,), number, jnp.float32) for number in range(20)}

    def save(steps):
        for step in steps:
            checkpoints.save(step, tree, score=step, settings={"task": "t-maze"})
        gc.collect()

    save(range(5))
    grown = []
    for first in (5, 25, 45):  # a thread of an earlier test may allocate in one of them; what leaks does so in all
        tracemalloc.start()
        try:
            save(range(first, first + 5))
            before = tracemalloc.get_traced_memory()[0]
            save(range(first + 5, first + 20))
            grown.append(tracemalloc.get_traced_memory()[0] - before)
        finally:
            tracemalloc.stop()
    assert min(grown) < 15 * 2_000, f"{min(grown) / 15:.0f} bytes with each"
