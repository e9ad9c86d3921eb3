"""Many runs: each is done once, whatever is killed, and what cannot be done is said when the rest is."""

import dataclasses
import os
import signal
import threading
import time
from collections import deque

import pytest

import gtrxl
from gtrxl.experiments import sweeps
from gtrxl.runs import lock
from gtrxl.runs.errors import RunError
from gtrxl.runs.metrics import read

NET = gtrxl.Net(layers=1, width=8, torso=8, hidden=8)
CONFIG = dataclasses.replace(
    gtrxl.defaults(task="grid-numpad", core="none"),
    net=NET,
    learner=gtrxl.VMPO(target_period=2),
    streams=2,
    unroll=4,
    steps=128,
    reports=8,
    checkpoint_every=1,
)
UPDATES = list(range(2, 18, 2))
"""Of each row."""


def rows(folder):
    return [row["updates"] for row in read(folder / "metrics.jsonl")]


def kill_when_at_work(folder, killed):
    """SIGKILL for the process that works on a run, when it has written three rows."""
    for _ in range(6000):
        time.sleep(0.01)
        if (folder / "metrics.jsonl").exists() and (done := len(rows(folder))) >= 3:
            os.kill(int((folder / "lock").read_text().split()[1]), signal.SIGKILL)
            killed.append(done)
            return


def test_what_was_killed_goes_on_and_what_is_done_is_skipped(tmp_path):
    planned = {"a": CONFIG}
    killed = []
    killer = threading.Thread(target=kill_when_at_work, args=(tmp_path / "a", killed))
    killer.start()
    [run] = sweeps.sweep(planned, tmp_path, jobs=2, quiet=True)
    killer.join()
    assert len(killed) == 1
    assert 3 <= killed[0] < len(UPDATES)
    assert run.status == "finished"
    assert rows(run.folder) == UPDATES
    assert (tmp_path / "a" / "log.txt").read_text().count("compiling") == 2  # it was begun, and gone on with
    before = (run.folder / "metrics.jsonl").stat().st_mtime_ns
    [again] = sweeps.sweep(planned, tmp_path, quiet=True)
    assert again == run
    assert (run.folder / "metrics.jsonl").stat().st_mtime_ns == before
    with pytest.raises(RunError, match="unroll 4 there and 8 here"):
        sweeps.sweep({"a": dataclasses.replace(CONFIG, unroll=8)}, tmp_path)


@pytest.mark.slow
def test_a_run_that_lost_its_settings_is_not_taken_for_another(tmp_path):
    sweeps.sweep({"a": CONFIG}, tmp_path, quiet=True)
    (tmp_path / "a" / "config.json").unlink()
    with pytest.raises(RunError, match="must hold a run with the settings planned, got steps 128 there and 256 here"):
        sweeps.sweep({"a": dataclasses.replace(CONFIG, steps=256)}, tmp_path, quiet=True)


@pytest.mark.slow
def test_runs_that_differ_in_seed_and_bounds_share_one_compiled_program(tmp_path):
    other = dataclasses.replace(CONFIG, seed=5, learner=dataclasses.replace(CONFIG.learner, eps_alpha=0.07))
    first, second = sweeps.sweep({"a": CONFIG, "b": other}, tmp_path, jobs=1, quiet=True)
    assert len(list((tmp_path / ".compiled").rglob("jit_program-*-cache"))) == 1
    assert [row["loss"] for row in first.rows] != [row["loss"] for row in second.rows]
    alone = gtrxl.train(other, run=tmp_path / "alone", board=False, quiet=True)
    assert [row["loss"] for row in alone.rows] == [row["loss"] for row in second.rows]


@pytest.mark.slow
def test_a_longer_run_finds_the_program_of_a_shorter_one(tmp_path):
    """Its reports have more updates, and its learning rate falls more slowly."""
    longer = dataclasses.replace(CONFIG, steps=2 * CONFIG.steps)
    first, second = sweeps.sweep({"a": CONFIG, "b": longer}, tmp_path, jobs=1, quiet=True)
    assert len(list((tmp_path / ".compiled").rglob("jit_program-*-cache"))) == 1
    assert [row["updates"] for row in second.rows] == [2 * row["updates"] for row in first.rows]


class Scripted:
    """Workers that do nothing but end as told: a list of reasons for each run."""

    jobs = 2

    def __init__(self, script):
        self.script, self.log = script, []

    def start(self, folder):
        self.log.append(folder.name)
        return folder.name

    def ended(self, handle):
        return self.script[handle].pop(0) if self.script[handle] else ""

    def stop(self, handle):
        self.log.append(f"stop {handle}")

    def close(self):
        pass


def test_a_crash_is_tried_again_once(tmp_path, monkeypatch):
    monkeypatch.setattr(sweeps, "read_run", lambda folder: gtrxl.Run(folder=folder, config=CONFIG, status="finished", rows=[]))
    workers = Scripted({"a": [None, "boom", ""], "b": ["boom", "bang"], "c": [""]})
    said = []
    crashes = sweeps._do(workers, tmp_path, sweeps.deque("abc"), say=said.append)
    assert crashes == {"b": "bang"}
    assert sorted(workers.log) == ["a", "a", "b", "b", "c"]
    assert workers.log[:2] == ["a", "b"]
    assert said[0] == "b crashed: boom; going on with it"


def test_what_others_work_on_is_left_for_the_end(tmp_path):
    """Two sweeps of one folder share the runs; neither waits for the other's while there are others to do."""
    left: deque[str] = deque(("one", "two", "three"))
    for name in left:
        (tmp_path / name).mkdir()
    with lock.hold(tmp_path / "one"), lock.hold(tmp_path / "three"):
        assert [sweeps._next(tmp_path, left) for _ in range(3)] == ["two", "one", "three"]
    left = deque(("one", "two"))
    assert sweeps._next(tmp_path, left) == "one", "a lock that was let go is none"
    assert list(left) == ["two"]


def test_an_interrupt_stops_what_is_under_way_and_starts_no_more(tmp_path):
    def interrupted():
        raise KeyboardInterrupt

    class Interrupted(Scripted):
        def ended(self, handle):
            answer = super().ended(handle)
            return interrupted() if answer == "interrupt" else answer

    workers = Interrupted({"a": [None, None, None, ""], "b": [None, "interrupt", None, None, ""], "c": []})
    with pytest.raises(KeyboardInterrupt):
        sweeps._do(workers, tmp_path, sweeps.deque("abc"), say=lambda line: None)
    assert workers.log == ["a", "b", "stop a", "stop b"]


def test_a_polite_kill_is_an_interrupt_as_long_as_runs_are_under_way(monkeypatch, tmp_path):
    """Runs are processes of their own: without it they would go on alone."""
    before = signal.getsignal(signal.SIGTERM)

    class Killed(Scripted):
        def ended(self, handle):
            answer = super().ended(handle)
            if answer == "kill":
                signal.raise_signal(signal.SIGTERM)
            return answer

    workers = Killed({"a": [None, "kill", None, ""]})
    monkeypatch.setattr(sweeps, "_Processes", lambda jobs: workers)
    with pytest.raises(KeyboardInterrupt):
        sweeps.sweep({"a": CONFIG}, tmp_path, quiet=True)
    assert workers.log == ["a", "stop a"]
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_sweep_that_cannot_be(tmp_path):
    with pytest.raises(RunError, match=r"letters, digits .* got '\.\./x'"):
        sweeps.sweep({"../x": CONFIG}, tmp_path)
    with pytest.raises(RunError, match="jobs must be at least 0, got -1"):
        sweeps.sweep({"a": CONFIG}, tmp_path, jobs=-1)
