"""Actors as processes: they answer, they die, they hang, and nothing is left of them."""

import contextlib
import dataclasses
import functools
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import gtrxl
from gtrxl.gym.task import GymTask
from gtrxl.runs.config import FleetSettings
from gtrxl.training.actors import heartbeat
from gtrxl.training.actors.fleet import LocalFleet
from gtrxl.training.actors.packets import Failure, Packet
from tests.training import crew
from tests.training.crew import NET, agent_for, assignment
from tests.training.toys import Bad


def gather(fleet, count, *, within=60.0):
    """The next `count` answers."""
    came, deadline = [], time.monotonic() + within
    while len(came) < count:
        assert time.monotonic() < deadline, f"only {len(came)} of {count} answers came"
        came += fleet.wait(1.0)
    return came


def is_there(pid):
    """Whether a process still runs; one that has ended and is not collected yet does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(pids, *, within=10.0):
    deadline = time.monotonic() + within
    while time.monotonic() < deadline and any(map(is_there, pids)):
        time.sleep(0.05)
    return not any(map(is_there, pids))


def test_actors_answer_with_the_newest_weights_and_come_back_from_death():
    with LocalFleet(assignment(), 2) as fleet:
        fleet.publish(0, agent_for())
        assert fleet.wait(0.0) == [], "nothing was asked for"
        for actor in (0, 1):
            fleet.ask(actor)
        first = dict(gather(fleet, 2))
        assert {actor: packet.version for actor, packet in first.items()} == {0: 0, 1: 0}
        assert not np.array_equal(first[0].unroll.observation, first[1].unroll.observation), "actors differ in their seeds"
        fleet.publish(5, agent_for(seed=1))
        fleet.ask(0)
        [(_, second)] = gather(fleet, 1)
        assert second.version == 5
        np.testing.assert_array_equal(second.unroll.observation[:, 0], first[0].next_observation)

        old = fleet.pids
        os.kill(old[1], signal.SIGKILL)
        fleet.ask(1)
        [(actor, failure)] = gather(fleet, 1)
        assert (actor, failure.kind) == (1, "died")
        assert "actor 1" in failure.message
        assert "ended by SIGKILL" in failure.message
        assert fleet.wait(0.3) == [], "a death is told once"
        fleet.restart(1)
        fleet.ask(1)
        [(actor, again)] = gather(fleet, 1)
        assert isinstance(again, Packet)
        assert (actor, again.version) == (1, 5)
        assert not np.array_equal(again.unroll.observation, first[1].unroll.observation), "new episodes"
        pids = [*old, *fleet.pids]
    assert gone(pids)


def test_an_actor_that_no_signal_reaches_is_killed_and_closing_does_not_wait_for_it():
    task = GymTask("Bad", env_fn=functools.partial(Bad, "stubborn"), previous="action+reward")
    with LocalFleet(assignment(task, time_limit=0.5), 1, grace=0.5) as fleet:
        fleet.publish(0, agent_for())
        fleet.ask(0)
        [(_, failure)] = gather(fleet, 1)
        assert (failure.kind, failure.actor) == ("hung", 0)
        assert "gym:Bad, actor 0, stream 0, at step 1: a call must return within 0.5 s" in failure.message
        assert gone(fleet.pids)


def test_closing_ends_actors_in_the_middle_of_a_step_within_seconds():
    """One sleeps for ever and can be woken, one cannot."""
    fleets = []
    for what in ("sleep", "stubborn"):
        task = GymTask("Bad", env_fn=functools.partial(Bad, what), previous="action+reward")
        fleets.append(LocalFleet(assignment(task, time_limit=1000.0), 1))
        fleets[-1].publish(0, agent_for())
        fleets[-1].ask(0)
    pids = [pid for fleet in fleets for pid in fleet.pids]
    deadline = time.monotonic() + 60
    while any(fleet._workers[0]._pulse[3] != 3 or fleet._workers[0]._pulse[2] != 1 for fleet in fleets):
        assert time.monotonic() < deadline
        for fleet in fleets:
            assert fleet.wait(0.1) == []
    before = time.monotonic()
    for fleet in fleets:
        fleet.close()
        fleet.close()
    assert time.monotonic() - before < 8
    assert gone(pids)


def test_a_task_that_ends_its_process_is_named_with_the_exit_code():
    task = GymTask("Bad", env_fn=functools.partial(Bad, "exit"), previous="action+reward")
    with LocalFleet(assignment(task), 1) as fleet:
        fleet.publish(0, agent_for())
        fleet.ask(0)
        [(_, failure)] = gather(fleet, 1)
    assert failure.kind == "died"
    assert "gym:Bad, actor 0, stream 0, at step 1: its process ended with code 7" in failure.message


PARENT = """
import os, signal, time
from gtrxl.gym.isolated import IsolatedEnv
from gtrxl.training.actors.fleet import LocalFleet
from tests.training.crew import TASK, agent_for, assignment
fleet = LocalFleet(assignment(), 2)  # without asking whether this is the main script
fleet.publish(0, agent_for())
fleet.ask(0)
envs = [IsolatedEnv(TASK), IsolatedEnv(TASK)]
while not (came := fleet.wait(1.0)):
    pass
tasks = [env._process.pid for env in envs]
os.kill(fleet.pids[1], signal.SIGSTOP)
os.kill(tasks[1], signal.SIGSTOP)
print(type(came[0][1]).__name__, *fleet.pids, *tasks, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_neither_actors_nor_tasks_outlive_their_learner_even_stopped_ones(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with open(tmp_path / "out", "w") as out, open(tmp_path / "errors", "w") as errors:  # who is left would hold a pipe open
        ended = subprocess.run(
            [sys.executable, str(script)], stdout=out, stderr=errors, timeout=120, env=environment, check=False
        )
    assert ended.returncode == -signal.SIGKILL, (tmp_path / "errors").read_text()
    answer, *pids = (tmp_path / "out").read_text().split()
    assert (answer, len(pids)) == ("Packet", 4)
    try:
        assert gone([int(pid) for pid in pids], within=3.0)
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)


def test_cartpole_end_to_end_with_one_actor_killed_on_the_way_and_one_stopped(tmp_path, monkeypatch, capsys):
    """Two actors of two tasks each: the run makes all its updates, and says what it lost."""
    monkeypatch.setattr(heartbeat, "STOPPED", 1.0)
    config = gtrxl.defaults(task="gym:CartPole-v1", core="lstm", algorithm="vmpo")
    config = dataclasses.replace(
        config, net=NET, fleet=FleetSettings(actors=2, tasks=2), streams=4, unroll=8, steps=640, reports=2, checkpoint_every=1
    )
    config = dataclasses.replace(config, learner=dataclasses.replace(config.learner, target_period=2))

    class Killing(LocalFleet):
        killed = 0

        def publish(self, version, weights):
            super().publish(version, weights)
            if version == 6:
                os.kill(self.pids[0], signal.SIGKILL)
            if version == 12:
                os.kill(self.pids[1], signal.SIGSTOP)
                noticed["stopped"] = time.monotonic()

        def wait(self, timeout):
            """Until it is noticed, nothing else comes: else the other actor could end the run alone."""
            held.extend(super().wait(timeout))
            unnoticed = "stopped" in noticed and 1 not in noticed
            came = [answer for answer in held if not unnoticed or isinstance(answer[1], Failure)]
            held[:] = [answer for answer in held if unnoticed and not isinstance(answer[1], Failure)]
            return came

        def restart(self, actor):
            noticed.setdefault(actor, time.monotonic())
            super().restart(actor)

    noticed, held = {}, []
    run = crew.train(config, crew.gym_task(config), run=tmp_path / "run", board=False, open_fleet=Killing)
    assert run.status == "finished"
    assert [row["updates"] for row in run.rows] == [10, 20]
    last = run.rows[-1]
    assert last["restarts"] == 2
    assert 2 <= last["lost_unrolls"] <= 4
    assert noticed[1] - noticed["stopped"] < 10
    said = " ".join("".join(capsys.readouterr()).split())
    assert re.search(r"gym:CartPole-v1, actor 1, stream \d, .{0,30}: its process has been stopped for \d s; it was killed", said)
    assert last["episodes"] > 0
    assert 8 <= last["return_min"] <= last["return_mean"] <= last["return_max"] <= 500


@pytest.mark.parametrize("name", ["JAX_PLATFORMS", "XLA_FLAGS", "OMP_NUM_THREADS"])
def test_starting_actors_leaves_the_environment_as_it_was(name):
    before = os.environ.get(name)
    with LocalFleet(assignment(), 1):
        assert os.environ.get(name) == before


def test_what_cannot_be_unpacked_elsewhere_is_said():
    """A function of this process alone: the actor says what is missing instead of dying."""
    import types

    module = types.ModuleType("only_here")
    exec("def make(): pass", module.__dict__)
    sys.modules["only_here"] = module
    module.make.__module__ = "only_here"
    try:
        with LocalFleet(assignment(GymTask("Hidden", env_fn=module.make)), 1) as fleet:
            fleet.publish(0, agent_for())
            fleet.ask(0)
            [(_, failure)] = gather(fleet, 1)
    finally:
        del sys.modules["only_here"]
    assert isinstance(failure, Failure)
    assert "actor 0 cannot start: ModuleNotFoundError: No module named 'only_here'" in failure.message
