"""Rows survive a kill, resume to the same bytes and read back to the same bits; TensorBoard gets the same numbers."""

import importlib
import json
import os
import signal
import subprocess
import sys
import time

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gtrxl.runs.errors import RunError
from gtrxl.runs.metrics import CLOCK_FIELDS, Board, Callback, Metrics, NoBoard, Rows, WandB, read, without_clock
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
    with pytest.raises(RunError, match=r"line 2 is not: b'not a row'; remove that line"):
        read(tmp_path / "bad.jsonl")


def test_the_clock_is_the_only_thing_left_out_of_comparisons():
    row = {"updates": 1, "loss": 0.5, "seconds": 3.0, "frames_per_second": 10.0}
    assert set(row) - set(without_clock(row)) == set(CLOCK_FIELDS)


def events(folder) -> list:
    """What TensorBoard's files in a folder hold, record by record: length, checksum, event, checksum."""
    from tensorboardX.proto import event_pb2

    found = []
    for file in sorted(folder.iterdir()):
        data = file.read_bytes()
        while data:
            length = int.from_bytes(data[:8], "little")
            found.append(event_pb2.Event.FromString(data[12 : 12 + length]))  # pyright: ignore[reportAttributeAccessIssue]
            data = data[16 + length :]
    return found


def drawn(folder) -> dict[str, list[tuple[int, float]]]:
    found: dict[str, list[tuple[int, float]]] = {}
    for event in events(folder):
        for value in event.summary.value:
            found.setdefault(value.tag, []).append((event.step, value.simple_value))
    return found


def test_the_board_draws_every_finite_number_against_frames(tmp_path, capfd):
    metrics = Metrics(Rows(tmp_path / "m.jsonl"), Board(tmp_path / "board"))
    metrics.write({"frames": 100, "updates": 1, "loss": jnp.float32(0.5), "return_mean": None, "gate": jnp.asarray([0.25, 1.0])})
    metrics.write({"frames": 200, "updates": 2, "loss": np.nan, "task": "grid", "solved": {"a": 3}})
    metrics.close()
    assert drawn(tmp_path / "board") == {
        "loss": [(100, 0.5)],
        "gate/0": [(100, 0.25)],
        "gate/1": [(100, 1.0)],
        "solved/a": [(200, 3.0)],
    }
    assert [row["updates"] for row in read(tmp_path / "m.jsonl")] == [1, 2]
    assert capfd.readouterr() == ("", "")


def test_a_resumed_board_hides_what_came_after_the_frame_it_resumes_at(tmp_path):
    board = Board(tmp_path, resume_at=300)
    board.write({"frames": 400, "loss": 1.0})
    board.close()
    # TensorBoard drops what it read before a START from its step on.
    assert [event.step for event in events(tmp_path) if event.session_log.status == event.session_log.START] == [301]


def test_no_board_draws_nothing_and_a_bad_folder_for_one_is_said(tmp_path):
    quiet = NoBoard()
    metrics = Metrics(Rows(tmp_path / "m.jsonl"), quiet)
    metrics.write({"frames": 1})
    metrics.close()
    assert [entry.name for entry in tmp_path.iterdir()] == ["m.jsonl"]
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="TensorBoard cannot write to"):
        Board(tmp_path / "file" / "board")


STAND_IN = '''
"""What Weights & Biases does with a run, as far as we use it: it keeps what it is told, and refuses to go back in steps."""
import os

runs = {}


class Run:
    def __init__(self, told):
        self.told, self.logged, self.finished = told, [], False
        self.offline = os.environ.get("WANDB_MODE") == "offline"

    @property
    def url(self):
        assert not self.offline, "it would warn"
        return "https://wandb.invalid/" + self.told["id"]

    @property
    def step(self):
        return self.logged[-1][0] + 1 if self.logged else 0

    def log(self, data, step):
        assert step >= self.step, "a step that went back would be dropped with a warning"
        self.logged.append((step, data))

    def finish(self):
        self.finished = True


def init(**told):
    if os.environ.get("WANDB_MODE") == "broken":
        raise RuntimeError("api_key not configured (no-tty).\\nmore of it")
    assert told["resume"] == "allow"
    return runs.setdefault(told["id"], Run(told))
'''


@pytest.fixture
def wandb(tmp_path, monkeypatch):
    """A module named wandb that stands in for the real one."""
    home = tmp_path / "site"
    home.mkdir()
    (home / "wandb.py").write_text(STAND_IN)
    monkeypatch.syspath_prepend(str(home))
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    yield importlib.import_module("wandb")
    sys.modules.pop("wandb", None)


def test_weights_and_biases_gets_every_finite_number_at_its_frames_with_the_settings(wandb, tmp_path, capfd):
    folder = tmp_path / "runs" / "first"
    metrics = Metrics(Rows(folder / "m.jsonl"), WandB(folder, settings={"core": "lstm", "learner": {"lam": np.float32(0.5)}}))
    metrics.write({"frames": 100, "updates": 1, "loss": jnp.float32(0.5), "return_mean": None, "gate": jnp.asarray([0.25, 1.0])})
    metrics.write({"frames": 200, "updates": 2, "loss": np.nan, "task": "grid", "solved": {"a": 3}})
    metrics.close()
    (run,) = wandb.runs.values()
    assert run.told | {"id": ""} == {
        "id": "", "resume": "allow", "dir": str(folder), "project": "gtrxl", "name": "first",
        "config": {"core": "lstm", "learner": {"lam": 0.5}}, "settings": {"silent": True, "console": "off"},
    }  # fmt: skip
    assert run.logged == [
        (100, {"frames": 100, "updates": 1, "loss": 0.5, "gate/0": 0.25, "gate/1": 1.0}),
        (200, {"frames": 200, "updates": 2, "solved/a": 3}),
    ]
    assert run.finished
    assert capfd.readouterr() == ("", "")


def test_a_resumed_run_goes_on_in_the_same_run_there_and_repeats_nothing(wandb, tmp_path):
    for reports in (rows_of([1, 2, 3]), rows_of([3, 4])):  # killed after the third, gone on with from the second
        board = WandB(tmp_path, settings={})
        for report in reports:
            board.write(report)
        board.close()
    (run,) = wandb.runs.values()
    assert [step for step, _ in run.logged] == [100, 200, 300, 400]
    assert json.loads((tmp_path / "wandb.json").read_text()) == {"id": run.told["id"]}
    other = tmp_path / "other"
    other.mkdir()
    WandB(other, settings={})
    assert len(wandb.runs) == 2


def test_it_has_an_address_unless_it_is_offline(wandb, tmp_path, monkeypatch):
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    assert (WandB(tmp_path / "one", settings={}).address or "").startswith("https://wandb.invalid/")
    monkeypatch.setenv("WANDB_MODE", "offline")
    assert WandB(tmp_path / "two", settings={}).address is None


def test_what_keeps_weights_and_biases_from_working_is_one_line(wandb, tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "broken")
    with pytest.raises(RunError, match=r"written to: api_key not configured \(no-tty\); `wandb login` once, or WANDB") as said:
        WandB(tmp_path, settings={})
    assert "\n" not in str(said.value)
    (tmp_path / "wandb.json").write_text("{}")
    with pytest.raises(RunError, match=r"wandb\.json must hold the id of the run at Weights & Biases: 'id'; remove it"):
        WandB(tmp_path, settings={})
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(RunError, match=r"Weights & Biases must be installed .*; pip install 'gtrxl\[wandb\]'"):
        WandB(tmp_path, settings={})


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
