"""Where rows are looked at: TensorBoard and Weights & Biases get the same numbers, and neither can end a run by a full disk."""

import gc
import importlib
import json
import re
import resource
import sys
import threading

import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.runs.boards import Board, NoBoard, WandB
from gtrxl.runs.errors import RunError
from gtrxl.runs.metrics import Metrics, Rows, read


def rows_of(updates) -> list[dict]:
    return [{"updates": n, "frames": 100 * n, "loss": n / 7} for n in updates]


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
    with pytest.raises(RunError, match=r"TensorBoard cannot write to .*; free some space, or leave it out with --no-board"):
        Board(tmp_path / "file" / "board")


def test_a_board_that_has_no_room_any_more_says_so_once_and_ends_nothing(tmp_path, capfd):
    """The system refuses to write more than some bytes into one file, as a full disk would."""
    said, threads = [], threading.active_count()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    board = Board(tmp_path / "board", say=said.append)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, hard))
        for n in range(1, 200):
            board.write({"frames": n, "loss": 0.5, "kl": 1.0})
        board.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    del board
    gc.collect()
    assert len(said) == 1
    assert re.fullmatch(r"TensorBoard cannot write to .*board: .*File too large; the run goes on without it", said[0])
    assert capfd.readouterr() == ("", "")
    assert threading.active_count() <= threads, "it has left no thread that goes on trying"


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
