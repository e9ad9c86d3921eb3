"""One process at a time works on a run: a second one hears who has it, and nothing that a process leaves behind keeps it."""

import errno
import os
import re
import signal
import socket
import subprocess
import sys
import threading

import pytest

from gtrxl.runs import errors, folder, lock
from gtrxl.runs.errors import RunError, TakenError


@pytest.fixture(autouse=True)
def _nothing_said(monkeypatch):
    monkeypatch.setattr(errors, "_said", set())


def test_a_second_one_is_told_who_has_it_and_since_when(tmp_path):
    with lock.hold(tmp_path):
        who = rf"process {os.getpid()} on {re.escape(socket.gethostname())} since \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d"
        assert re.fullmatch(who, lock.holder(tmp_path) or "")
        rule = "one process at a time works on a run, got .*"
        with pytest.raises(TakenError, match=f"{rule}, which {who} works on; wait") as said, lock.hold(tmp_path):
            pytest.fail("two at once")
        assert "\n" not in str(said.value)
        with pytest.raises(TakenError, match=who):
            lock.check_free(tmp_path)
    assert lock.holder(tmp_path) is None
    lock.check_free(tmp_path)
    with lock.hold(tmp_path):
        pass


def test_it_waits_if_it_is_to(tmp_path):
    got = threading.Event()

    def wait():
        with lock.hold(tmp_path, wait=True):
            got.set()

    waiting = threading.Thread(target=wait)
    with lock.hold(tmp_path):
        waiting.start()
        assert not got.wait(0.2)
    waiting.join(10)
    assert got.is_set()


LEARNER = """
import os, subprocess, sys, time
from pathlib import Path
from gtrxl.runs import lock
with lock.hold(Path(sys.argv[1])):
    started = subprocess.Popen(["sleep", "60"], close_fds=False)
    if not os.fork():
        print(os.getpid(), started.pid, flush=True)
    time.sleep(60)
"""


def test_a_killed_process_keeps_nothing_though_its_children_live_on(tmp_path):
    learner = subprocess.Popen([sys.executable, "-c", LEARNER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert learner.stdout is not None
    children = [int(word) for word in learner.stdout.readline().split()]
    try:
        assert f"process {learner.pid} " in (lock.holder(tmp_path) or "")
        os.kill(learner.pid, signal.SIGKILL)
        learner.wait()
        for child in children:
            os.kill(child, 0)  # still there
        assert lock.holder(tmp_path) is None
        assert f"process {learner.pid} " in (tmp_path / "lock").read_text(), "the name is stale, the lock is not"
        with lock.hold(tmp_path):
            assert f"process {os.getpid()} " in (tmp_path / "lock").read_text()
    finally:
        learner.stdout.close()
        for child in children:
            os.kill(child, signal.SIGKILL)


def test_what_is_lent_has_one_borrower_at_a_time(tmp_path):
    with lock.hold(tmp_path), lock.lend(tmp_path):
        lock.check_free(tmp_path)
        with lock.hold(tmp_path), pytest.raises(TakenError), lock.hold(tmp_path):
            pass
        with lock.hold(tmp_path):
            pass
        taken = []

        def other():
            with pytest.raises(TakenError), lock.hold(tmp_path):
                pass
            taken.append(True)

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert taken, "another thread borrows nothing"
    assert lock.holder(tmp_path) is None


def test_a_lock_file_that_was_removed_is_made_again(tmp_path):
    with lock.hold(tmp_path):
        (tmp_path / "lock").unlink()
    with lock.hold(tmp_path):
        assert lock.holder(tmp_path) is not None


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_without_locks_is_said_once_and_the_run_goes_on(tmp_path, monkeypatch, capsys, number):
    def flock(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(lock.fcntl, "flock", flock)
    for _ in range(2):
        with lock.hold(tmp_path), lock.hold(tmp_path):
            assert lock.holder(tmp_path) is None
    said = capsys.readouterr().err
    assert said.startswith(f"gtrxl: the file system of {tmp_path} has no locks ({os.strerror(number)}): see that no other")
    assert said.count("\n") == 1


def test_a_system_without_file_locks_is_said_once_and_the_run_goes_on(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(lock, "fcntl", None)
    for _ in range(2):
        with lock.hold(tmp_path), lock.hold(tmp_path):
            lock.check_free(tmp_path)
    assert capsys.readouterr().err == f"gtrxl: this system has no file locks: see that no other process works on {tmp_path}\n"


def test_a_folder_that_takes_no_lock_is_said(tmp_path):
    what = r"the lock .*lock cannot be written: No such file or directory; make the folder"
    with pytest.raises(RunError, match=what), lock.hold(tmp_path / "none"):
        pass


def test_it_is_not_written_through_a_link(tmp_path):
    """A stranger's folder: its lock is a link to a file of the user's, which would be emptied."""
    mine, folder = tmp_path / "mine", tmp_path / "run"
    mine.write_text("what I wrote")
    folder.mkdir()
    (folder / "lock").symlink_to(mine)
    with pytest.raises(RunError, match=r"the lock .* cannot be written"), lock.hold(folder):
        pytest.fail("through the link")
    assert mine.read_text() == "what I wrote"


def test_a_link_to_itself_leads_nowhere(tmp_path):
    (tmp_path / "config.json").symlink_to("config.json")
    folder.check_inside(tmp_path)  # inside: what it is read as is said by who reads it
    (tmp_path / "rows").symlink_to(tmp_path.parent)
    with pytest.raises(RunError, match="leads out of the run's folder"):
        folder.check_inside(tmp_path)
