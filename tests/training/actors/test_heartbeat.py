"""When an actor is given up for dead: stopped ones soon, silent ones late, and never because the learner itself was away."""

import subprocess
import sys
import types

import pytest

from gtrxl.training.actors import heartbeat
from gtrxl.training.actors.heartbeat import EVERY, STILL, STOPPED, Heart


@pytest.fixture
def world(monkeypatch):
    """A clock and a process, as the test wants them."""
    state = types.SimpleNamespace(now=1000.0, stopped=False)
    monkeypatch.setattr(heartbeat.time, "monotonic", lambda: state.now)
    monkeypatch.setattr(heartbeat, "is_stopped", lambda pid: state.stopped)
    return state


def watched(world, heart, *, seconds, beats, in_task=False, every=0.2):
    """Looks for so long; when something was said and what, or None. `beats` says what the last beat is at a time."""
    until = world.now + seconds
    while world.now < until:
        said = heart.trouble(beats(world.now), pid=1, in_task=in_task)
        if said:
            return said
        world.now += every
    return None


def beating(now):
    return now - now % EVERY


def test_a_heart_that_beats_is_fine_whatever_else_happens(world):
    assert watched(world, Heart(), seconds=2000, beats=beating, every=0.4) is None


@pytest.mark.parametrize("in_task", [False, True])
@pytest.mark.parametrize("last", [0.0, 1000.0], ids=["while it starts", "later"])
def test_one_that_is_stopped_is_noticed_within_seconds(world, in_task, last):
    world.stopped, begun = True, world.now
    assert watched(world, Heart(), seconds=60, beats=lambda _: last, in_task=in_task) == (
        f"its process has been stopped for {STOPPED:.0f} s; it was killed"
    )
    assert world.now - begun < STOPPED + 4 * EVERY


def test_one_that_is_silent_has_a_minute_outside_of_its_task_and_the_task_s_time_inside(world):
    begun = world.now
    said = watched(world, Heart(), seconds=600, beats=lambda _: 1000.0)
    assert said == f"its process has done nothing at all for {STILL:.0f} s; it was killed"
    assert world.now - begun < STILL + 4 * EVERY
    assert watched(world, Heart(), seconds=600, beats=lambda _: 1000.0, in_task=True) is None
    assert watched(world, Heart(), seconds=600, beats=lambda _: 0.0) is None, "it imports and has not begun to beat"


def test_after_ctrl_z_nobody_is_dead(world):
    """Learner and actors stood still for an hour. The learner may be awake before the others, which the system still calls
    stopped."""
    heart = Heart()
    assert watched(world, heart, seconds=10, beats=beating) is None
    last = beating(world.now)
    world.now, world.stopped = world.now + 3600, True
    assert watched(world, heart, seconds=1.0, beats=lambda _: last) is None
    world.stopped = False
    assert watched(world, heart, seconds=10, beats=beating) is None


def test_a_learner_that_looks_seldom_notices_too(world):
    """One look for each update, and an update takes half a minute."""
    world.stopped, begun = True, world.now
    assert watched(world, Heart(), seconds=600, beats=lambda _: 1000.0, every=30.0) is not None
    assert world.now - begun <= 120


def test_a_signal_to_leave_inside_a_callback_is_one_to_leave_at_once():
    """A callback of the garbage collector cannot raise: Python would print a traceback, and the actor would stay."""
    program = """
import gc, os, signal, sys
from gtrxl.training.actors import fleet
signal.signal(signal.SIGTERM, fleet._leave)
sys.unraisablehook = fleet._left_out
gc.callbacks.append(lambda *_: os.kill(os.getpid(), signal.SIGTERM))
gc.collect()
print("still here")
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
