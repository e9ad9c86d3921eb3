"""Rows survive a kill, resume to the same bytes and read back to the same bits; TensorBoard gets the same numbers."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gtrxl.runs import sealed
from gtrxl.runs.boards import NoBoard
from gtrxl.runs.errors import RunError
from gtrxl.runs.metrics import CLOCK_FIELDS, Callback, Metrics, Rows, check_whole, read, read_result, without_clock
from gtrxl.runs.scores import late


def rows_of(updates) -> list[dict]:
    return [{"updates": n, "frames": 100 * n, "loss": n / 7} for n in updates]


def write_all(path, rows) -> bytes:
    file = Rows(path)
    for row in rows:
        file.write(row)
    file.close()
    return path.read_bytes()


@given(st.dictionaries(st.text(), st.floats(allow_nan=False, allow_infinity=False) | st.integers() | st.none() | st.text()))
def test_a_row_reads_back_to_the_same_bits(tmp_path_factory, row):
    path = tmp_path_factory.mktemp("rows") / "metrics.jsonl"
    write_all(path, [row, row])
    assert repr(read(path)) == repr([row, row])


def test_numbers_of_jax_and_numpy_are_written_exactly_and_what_is_not_finite_as_null(tmp_path):
    row = {
        "jax": jnp.float32(0.1),
        "half": jnp.bfloat16(0.1),
        "numpy": np.float64(0.1),
        "count": np.int64(2**53 + 1),
        "gates": jnp.asarray([0.5, jnp.nan]),
        "per_task": {"a": jnp.inf, "b": (1, -np.inf)},
    }
    line = write_all(tmp_path / "m.jsonl", [row])
    (back,) = read(tmp_path / "m.jsonl")
    assert np.float32(back["jax"]) == np.float32(0.1)
    assert jnp.bfloat16(back["half"]) == jnp.bfloat16(0.1)
    assert (back["numpy"], back["count"]) == (0.1, 2**53 + 1)
    assert (back["gates"], back["per_task"]) == ([0.5, None], {"a": None, "b": [1, None]})
    assert line.count(b"\n") == 1
    assert b"NaN" not in line
    assert b"Infinity" not in line


@given(kept=st.integers(0, 4), cut=st.integers(1, 60))
def test_a_torn_last_line_is_not_read_and_is_dropped_on_opening(tmp_path_factory, kept, cut):
    path = tmp_path_factory.mktemp("rows") / "metrics.jsonl"
    whole = write_all(path, rows_of(range(kept)))
    torn = json.dumps({"updates": kept, "loss": 0.123456789, "name": "é\n}", "more": {"x": [1, 2, 3]}}).encode()[:-1]
    path.write_bytes(whole + torn[:cut])
    assert read(path) == rows_of(range(kept))
    again = write_all(path, rows_of([kept]))
    assert again == whole + write_all(path.with_name("other"), rows_of([kept]))


def test_a_last_row_without_its_newline_is_whole(tmp_path):
    path = tmp_path / "m.jsonl"
    whole = write_all(path, rows_of([0, 1]))
    path.write_bytes(whole[:-1])
    assert read(path) == rows_of([0, 1])
    assert write_all(path, rows_of([2])).startswith(whole)
    assert read(path) == rows_of([0, 1, 2])


@given(reached=st.integers(0, 6), back_to=st.integers(0, 7))
def test_resuming_ends_in_the_same_bytes_as_never_stopping(tmp_path_factory, reached, back_to):
    folder = tmp_path_factory.mktemp("rows")
    uninterrupted = write_all(folder / "one", rows_of(range(7)))
    write_all(folder / "two", rows_of(range(reached)))
    file = Rows(folder / "two")
    file.truncate_after(updates=back_to - 1)
    for row in rows_of(range(min(reached, back_to), 7)):
        file.write(row)
    file.close()
    assert (folder / "two").read_bytes() == uninterrupted
    assert sorted(entry.name for entry in folder.iterdir()) == ["one", "two"]


WRITER = """
import sys
from gtrxl.runs.metrics import Rows
rows = Rows(sys.argv[1])
for n in range(10_000_000):
    rows.write({"updates": n, "text": "x" * (n % 5000)})
"""


def test_a_killed_process_leaves_whole_rows_in_order(tmp_path):
    path = tmp_path / "m.jsonl"
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)])
    deadline = time.monotonic() + 60
    try:
        while not (path.exists() and path.stat().st_size > 1_000_000):
            assert time.monotonic() < deadline
        read(path)  # also while it is being written
    finally:
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()
    Rows(path).close()
    rows = read(path)
    assert [row["updates"] for row in rows] == list(range(len(rows)))
    assert path.read_bytes().endswith(b"}\n")


def test_each_row_is_on_disk_when_write_returns(tmp_path):
    file = Rows(tmp_path / "deep" / "m.jsonl")
    file.write({"updates": 1})
    assert read(tmp_path / "deep" / "m.jsonl") == [{"updates": 1}]
    file.close()


def test_what_cannot_be_written_or_read_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="metrics cannot be written to"):
        Rows(tmp_path / "file" / "m.jsonl")
    full = Rows("/dev/full")
    with pytest.raises(RunError, match=r"/dev/full: .*No space left on device; free some space"):
        full.write({"updates": 1})
    full.close()
    with pytest.raises(RunError, match="there are no metrics at"):
        read(tmp_path / "none.jsonl")
    (tmp_path / "bad.jsonl").write_text('{"a": 1}\nnot a row\n{"a": 2}\n')
    with pytest.raises(RunError, match=r"line 2 is not: b'not a row'; remove that line, or let `gtrxl resume` do it"):
        read(tmp_path / "bad.jsonl")


ROW = {"updates": 0, "frames": 0, "episodes": 3, "seconds": 1.5, "return_mean": 0.25, "loss": -1.25e-07, "gates": [[0.5], None]}


def test_every_line_is_plain_json_with_a_checksum_that_is_no_part_of_the_row(tmp_path):
    line = write_all(tmp_path / "m.jsonl", [ROW])
    kept = json.loads(line)
    assert list(kept) == [*ROW, "check"]
    assert {name: kept[name] for name in ROW} == ROW
    assert read(tmp_path / "m.jsonl") == [ROW]


def test_no_flipped_bit_gives_other_rows(tmp_path):
    """Each is noticed and named by its line; at the end of the file a row that is torn is as good as not there."""
    path = tmp_path / "m.jsonl"
    rows = [ROW | {"updates": n} for n in range(3)]
    whole = write_all(path, rows)
    noticed = []
    for bit in range(0, 8 * len(whole), 13):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        try:
            found = read(path)
        except RunError as error:
            noticed.append(str(error))
        else:
            assert found in (rows, rows[:2]), bit
    assert len(noticed) > 8 * len(whole) / 13 * 0.8
    for said in noticed:
        assert re.fullmatch(r"every line of .* must be (a JSON object|as it was written), line \d is not: .*; remove .*", said), (
            said
        )


GARBAGE = [
    b"not a row", b"", b"{}", b"[1, 2]", b"null", b"\xff\xfe\x00", b"[" * 100_000, b'{"updates": 1, "frames": 100}',
    b'{"updates": "x", "frames": 1, "episodes": 1, "seconds": 1, "return_mean": 1}', b'{"updates": 1, "check": "00000000"}',
]  # fmt: skip


@pytest.mark.parametrize("garbage", GARBAGE)
@pytest.mark.parametrize("older", [False, True])
def test_going_on_drops_a_damaged_line_and_keeps_those_before_and_after_it(tmp_path, garbage, older):
    path = tmp_path / "m.jsonl"
    rows = [ROW | {"updates": n} for n in range(4)]
    lines = [json.dumps(row).encode() for row in rows] if older else write_all(path, rows).splitlines()
    path.write_bytes(b"\n".join([*lines[:2], garbage, *lines[2:], b""]))
    file = Rows(path)
    assert file.truncate_after(updates=2) == [3]
    file.write(rows[3])
    file.close()
    assert read(path) == rows
    assert (tmp_path / "m.jsonl.damaged").read_bytes() == garbage + b"\n"
    assert Rows(path).truncate_after(updates=9) == []


def test_rows_that_are_older_than_checksums_are_taken_as_they_are(tmp_path):
    path = tmp_path / "m.jsonl"
    path.write_text("".join(json.dumps(ROW | {"updates": n}) + "\n" for n in range(2)))
    file = Rows(path)
    assert file.truncate_after(updates=5) == []
    file.write(ROW | {"updates": 2})
    file.close()
    assert read(path) == [ROW | {"updates": n} for n in range(3)]


def test_a_result_says_how_a_run_ended_or_is_one_line(tmp_path):
    assert read_result(tmp_path) == {}
    sealed.write(tmp_path / "result.json", {"status": "finished", "updates": 40})
    assert read_result(tmp_path) == {"status": "finished", "updates": 40}
    check_whole(tmp_path, [{"updates": 40}], read_result(tmp_path))
    with pytest.raises(
        RunError, match=r"metrics\.jsonl must have the rows until update 40, got those until 20; the others are lost"
    ):
        check_whole(tmp_path, [{"updates": 20}], read_result(tmp_path))
    for content in (b'{"status": "fini', b"[]", b"{}", b'{"status": 5}', b"\xff", b"[" * 100_000):
        (tmp_path / "result.json").write_bytes(content)
        with pytest.raises(RunError, match=r"result\.json must .*; `gtrxl resume .*` writes it again") as said:
            read_result(tmp_path)
        assert "\n" not in str(said.value)


def test_the_clock_is_the_only_thing_left_out_of_comparisons():
    row = {"updates": 1, "loss": 0.5, "seconds": 3.0, "frames_per_second": 10.0}
    assert set(row) - set(without_clock(row)) == set(CLOCK_FIELDS)


def test_what_one_writer_raises_leaves_no_other_one_open(tmp_path):
    class Fragile(NoBoard):
        def close(self):
            raise RunError("no")

    rows = Rows(tmp_path / "m.jsonl")
    closed = []
    last = NoBoard()
    last.close = lambda: closed.append(True)
    with pytest.raises(RunError, match="no"):
        Metrics(rows, Fragile(), last).close()
    assert (rows._file, closed) == (-1, [True])


def test_a_callback_gets_each_row_as_plain_python_after_it_is_on_disk(tmp_path):
    path = tmp_path / "m.jsonl"
    seen = []
    metrics = Metrics(Rows(path), Callback(lambda row: seen.append((row, len(read(path))))))
    metrics.write({"frames": 100, "loss": jnp.float32(0.5), "gate": jnp.asarray([0.25, jnp.nan])})
    metrics.write({"frames": 200, "loss": np.inf})
    metrics.close()
    assert seen == [({"frames": 100, "loss": 0.5, "gate": [0.25, None]}, 1), ({"frames": 200, "loss": None}, 2)]
    assert type(seen[0][0]["loss"]) is float


def test_what_a_callback_raises_ends_in_one_line_that_names_it(tmp_path):
    def telling(row):
        return row["score"]

    with pytest.raises(
        RunError, match=r"the callback tests\.runs\.test_metrics\..*telling failed at 100 frames: KeyError: 'score'"
    ) as said:
        Callback(telling).write({"frames": 100})
    assert isinstance(said.value.__cause__, KeyError)
    metrics = Metrics(Rows(tmp_path / "m.jsonl"), Callback(telling))
    with pytest.raises(RunError):
        metrics.write({"frames": 100})
    assert read(tmp_path / "m.jsonl") == [{"frames": 100}]

    def stopped(row):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):  # no mistake of the callback's
        Callback(stopped).write({"frames": 100})


def test_the_late_return_is_the_mean_over_the_episodes_of_the_last_tenth():
    rows = [{"return_mean": float(n), "episodes": 1} for n in range(18)]
    rows += [{"return_mean": 10.0, "episodes": 1}, {"return_mean": 20.0, "episodes": 3}]
    assert late(rows) == 17.5
    assert late([*rows, *[{"return_mean": None, "episodes": 0}] * 5]) is None
    assert late([]) is None
