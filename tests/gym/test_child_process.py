"""Processes that serve this one: who starts them may go, and a task that stands still is not waited for."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from multiprocessing import spawn

import pytest

from gtrxl.gym import child_process, isolated
from gtrxl.gym.child_process import Child, is_stopped
from gtrxl.gym.isolated import IsolatedEnv
from gtrxl.tasks.errors import TaskError
from tests.training.crew import TASK


def state_of(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]


def test_a_child_outlives_the_thread_that_asked_for_it(tmp_path):
    """Linux sends the signal that ties a child to its parent when the thread that started it ends."""
    begun = tmp_path / "begun"
    child = Child(_wait, (str(begun),), name="waits")
    thread = threading.Thread(target=child.start)
    thread.start()
    thread.join()
    try:
        deadline = time.monotonic() + 30
        while not begun.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        assert begun.exists()
        time.sleep(0.1)
        assert child.is_alive()
        assert not is_stopped(child.pid or 0)
        os.kill(child.pid or 0, signal.SIGSTOP)
        while state_of(child.pid) != "T":
            time.sleep(0.01)
        assert is_stopped(child.pid or 0)
    finally:
        child.kill()
        child.join()
    assert not is_stopped(child.pid or 0), "it is gone"


def _wait(path):
    with open(path, "w"):
        pass
    time.sleep(1000)


def test_what_cannot_be_started_is_said_where_it_was_asked_for():
    with pytest.raises((AttributeError, TypeError), match="pickle"):
        Child(lambda: None, (), name="nothing").start()


def test_a_task_that_was_stopped_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(isolated, "STOPPED", 1.0)
    env = IsolatedEnv(TASK)
    try:
        env.reset(seed=1)
        os.kill(env._process.pid or 0, signal.SIGSTOP)
        begun = time.monotonic()
        with pytest.raises(TaskError, match="the process of gym:Counter was stopped for 1 s and has been killed; who stopped it"):
            env.step(0)
        assert time.monotonic() - begun < 5
        with pytest.raises(TaskError, match="ended with code -9"):
            env.step(0)
    finally:
        env.close()


def test_a_child_whose_parent_is_killed_before_it_knows_what_to_do_says_nothing():
    usual = spawn.get_command_line
    for quiet in (True, False):
        read, write = os.pipe()
        with child_process._orphans_quiet() if quiet else contextlib.nullcontext():
            command = spawn.get_command_line(tracker_fd=read, pipe_handle=read)
        os.close(write)  # what a kill does
        ended = subprocess.run(command, pass_fds=(read,), capture_output=True, text=True, check=False, timeout=60)
        os.close(read)
        assert ended.returncode == 1
        assert (ended.stderr == "") == quiet, ended.stderr
    assert spawn.get_command_line is usual
