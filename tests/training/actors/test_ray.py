"""Actors on Ray: a cluster of several nodes on this machine, and everything in it killed at least once."""

import importlib.util
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.experiments.sweeps import sweep
from gtrxl.runs.folder import read_config
from gtrxl.runs.metrics import read
from gtrxl.training.actors.actor import Actor
from gtrxl.training.actors.conductor import Conductor, Learning
from gtrxl.training.actors.packets import Failure, Packet
from gtrxl.training.actors.ray_fleet import RayFleet
from tests.experiments.test_sweeps import CONFIG, UPDATES, kill_when_at_work, rows
from tests.training import crew, ray_cases
from tests.training.small import UPDATE

pytestmark = [
    pytest.mark.filterwarnings(r"ignore:os\.fork:RuntimeWarning"),  # Ray starts its processes so, and they do not use JAX
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs ray"),  # importing it here would be too early
]

ROOT = pathlib.Path(__file__).parents[3]
OURS = {"node_ip_address": "127.0.0.1", "object_store_memory": 80 * 2**20}


@pytest.fixture(scope="module")
def cluster():
    """A head that has no room for actors. It listens on 127.0.0.1, and so do the nodes that are added."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        patch.setenv("RAY_DEDUP_LOGS_SKIP_REGEX", "^")
        from ray._private import ray_constants
        from ray.cluster_utils import Cluster

        patch.setattr(ray_constants, "ENABLE_RAY_CLUSTER", False)
        started = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **OURS})
        yield started
        started.shutdown()


@pytest.fixture(scope="module")
def two(cluster):
    """Two nodes with room for two actors each."""
    nodes = [cluster.add_node(num_cpus=2.0, wait=False, **OURS) for _ in range(2)]
    cluster.wait_for_nodes()
    return nodes


def answers(fleet, count, *, seconds=300.0):
    """The next `count` answers, by actor."""
    came, until = [], time.monotonic() + seconds
    while len(came) < count:
        assert time.monotonic() < until, f"{len(came)} of {count} answers within {seconds} s"
        came += fleet.wait(1.0)
    return came


def test_the_unrolls_are_those_of_an_actor_here(cluster, two):
    """On whatever machine: the same seeds and weights give the same steps, and new weights begin at the next unroll."""
    old, new = ray_cases.agent(6), ray_cases.agent(6, seed=1)
    with RayFleet(ray_cases.cartpole(), 4, address=cluster.address) as fleet:
        fleet.publish(0, old)
        for actor in range(4):
            fleet.ask(actor)
        first = dict(answers(fleet, 4))
        places = fleet.places()
        fleet.publish(7, new)
        fleet.ask(3)
        [(index, second)] = answers(fleet, 1)
    assert sorted(first) == [0, 1, 2, 3]
    assert index == 3
    assert sorted(np.unique([place.node for place in places if place], return_counts=True)[1]) == [2, 2]
    assert not np.array_equal(first[0].unroll.observation, first[1].unroll.observation)
    here = Actor(ray_cases.cartpole(), 3)
    for ours, theirs in ((here.unroll(old, 0), first[3]), (here.unroll(new, 7), second)):
        assert ours.version == theirs.version
        assert ours.ended == theirs.ended
        arrays = [(x.unroll, x.memory, x.next_observation, x.next_reset) for x in (ours, theirs)]
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), *arrays)
    here.close()


@pytest.mark.slow
def test_weights_reach_unrolls_that_were_asked_for_before(cluster, two):
    """An actor that has two unrolls to do begins the second with the weights that came meanwhile."""
    slow = ray_cases.odd("dawdles")
    with RayFleet(slow, 1, address=cluster.address) as fleet:
        fleet.publish(0, ray_cases.agent(2))
        fleet.ask(0)
        answers(fleet, 1)
        fleet.ask(0)
        fleet.ask(0)
        time.sleep(0.2)
        fleet.publish(1, ray_cases.agent(2, seed=1))
        assert [packet.version for _, packet in answers(fleet, 2)] == [0, 1]


@pytest.mark.slow
def test_every_way_to_fail_is_one_line(cluster, two):
    """All at once, each in a fleet of its own."""
    expected = {
        "sleeps": ("hung", r"gym:sleeps, actor 0, stream 0, at step 4: a call must return within 4 s, got no answer"),
        "clutches": ("hung", r"gym:clutches, actor 0: a call must return within 4 s, got no answer"),
        "exits": ("died", r"gym:exits, actor 0: its process is gone: "),
        "raises": ("raised", r"gym:raises, actor 0, stream 0, at step 4: raised KeyError: 'the third door'"),
    }
    fleets = {habit: RayFleet(ray_cases.odd(habit, time_limit=4.0), 1, address=cluster.address, grace=1.0) for habit in expected}
    try:
        for fleet in fleets.values():
            fleet.publish(0, ray_cases.agent(2))
            fleet.ask(0)
            fleet.ask(0)
        for habit, (kind, message) in expected.items():
            [(_, packet)] = answers(fleets[habit], 1)
            if habit != "exits" or isinstance(packet, Packet):  # who exits may take the answer before along
                assert isinstance(packet, Packet)
                [(_, failure)] = answers(fleets[habit], 1)
            else:
                failure = packet
            assert isinstance(failure, Failure)
            assert failure.kind == kind
            assert re.match(message, failure.message)
            assert "\n" not in failure.message
    finally:
        for fleet in reversed(fleets.values()):  # the first one holds the connection
            fleet.close()


def test_a_cluster_without_room_for_anyone(cluster, two):
    """Is waited for, but not for ever; and it may have room later."""
    with RayFleet(ray_cases.odd("waits"), 2, address=cluster.address, cpus=3.0, patience=0.5) as fleet:
        fleet.publish(0, ray_cases.agent(2))
        fleet.ask(0)
        fleet.ask(1)
        [(index, failure)] = answers(fleet, 1)
        assert isinstance(failure, Failure)
        assert "no machine of the cluster has had room for it" in failure.message
        fleet.restart(index)
        fleet.ask(index)
        assert fleet.wait(0.1) == []
        assert fleet.places(0.1) == [None, None]


@pytest.mark.slow
def test_a_killed_learner_takes_its_cluster_along_and_resumes(cluster, two, tmp_path, monkeypatch):
    """SIGKILL after the third row, on a cluster of its own, which listens to nobody else. The run goes on elsewhere, from what
    the second checkpoint was made of: weights, optimiser, multipliers, PopArt and counters."""
    folder = tmp_path / "run"
    line = "import sys; from tests.training.ray_cases import killed; killed(sys.argv[1])"
    program = [sys.executable, "-c", line, str(tmp_path)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")} | {"HOME": str(tmp_path)}
    ended = subprocess.run(program, cwd=ROOT, env=environment, timeout=200, check=False)
    assert ended.returncode == -signal.SIGKILL

    left = json.loads((tmp_path / "left.json").read_text())
    assert sum(name.startswith("ray::RemoteActor") for name in left["processes"].values()) == 2
    assert len(left["listening"]) > 4
    assert set(left["listening"]) == {"127.0.0.1"}
    # Two of Ray's own look for the dead for a minute.
    going = [int(pid) for pid, name in left["processes"].items() if not name.endswith("Agent")]
    until = time.monotonic() + 30
    while any(ray_cases.is_running(pid) for pid in going):
        assert time.monotonic() < until, "something of the learner's cluster outlived it"
        time.sleep(0.2)

    began = []

    def advance(self, learning, *, until, stop, advance=Conductor.advance):
        began.append(ray_cases.numbers(learning))
        return advance(self, learning, until=until, stop=stop)

    monkeypatch.setattr(Conductor, "advance", advance)
    config = read_config(folder)
    assert [row["updates"] for row in read(folder / "metrics.jsonl")] == [2, 4, 6]

    def open_fleet(assignment, actors):
        return RayFleet(assignment, actors, address=cluster.address)

    run = crew.resume(config, crew.gym_task(config), folder, quiet=True, board=False, open_fleet=open_fleet)
    with np.load(tmp_path / "saved-4.npz") as saved:
        assert len(saved.files) == len(began[0])
        for name, number in zip(saved.files, began[0], strict=True):
            np.testing.assert_array_equal(saved[name], number)
    assert run.status == "finished"
    assert [row["updates"] for row in run.rows] == [2, 4, 6, 8]
    assert {"lost_unrolls", "restarts", "lag_max"} <= run.rows[-1].keys()


@pytest.mark.slow
def test_a_sweep_over_the_cluster_goes_on_with_what_was_killed(cluster, two, tmp_path):
    """The same as on the cores of one machine."""
    killed = []
    killer = threading.Thread(target=kill_when_at_work, args=(tmp_path / "a", killed))
    killer.start()
    [run] = sweep({"a": CONFIG}, tmp_path, engine="ray", address=cluster.address, quiet=True)
    killer.join()
    assert len(killed) == 1
    assert run.status == "finished"
    assert rows(run.folder) == UPDATES
    assert (tmp_path / "a" / "log.txt").read_text().count("compiling") == 2


@pytest.mark.slow
def test_a_run_goes_on_whatever_is_killed(cluster, two):
    """One actor ten times, then a node with all that was on it: the learner makes every update, and what was lost is counted."""
    said = []
    with RayFleet(ray_cases.cartpole(), 4, address=cluster.address) as fleet:
        conductor = Conductor(UPDATE, fleet, streams=4, tasks=2, restarts=10, say=said.append)
        learning = Learning.start(UPDATE, jax.tree.map(jnp.asarray, ray_cases.agent(6)), jax.random.key(0))
        for kill in range(1, 11):
            learning, _ = conductor.advance(learning, until=int(learning.updates) + 2)
            os.kill(place_of(fleet, 0).pid, signal.SIGKILL)
            learning, _ = conductor.advance(learning, until=10_000, stop=lambda: conductor.losses.restarts == kill)
            assert conductor.losses.restarts == kill
        assert conductor.losses.lost_unrolls >= 10
        assert len(said) == 10
        assert all(line.startswith("gym:CartPole-v1, actor 0: its process is gone") for line in said)

        doomed = place_of(fleet, 1).node
        cluster.remove_node(next(node for node in two if node.node_id == doomed), allow_graceful=False)
        lost = conductor.losses.lost_unrolls
        learning, _ = conductor.advance(learning, until=20_000, stop=lambda: conductor.losses.restarts == 12)
        learning, tally = conductor.advance(learning, until=int(learning.updates) + 10)
        assert tally.updates == 10
        assert conductor.failed is None
        assert conductor.losses.restarts == 12
        assert conductor.losses.lost_unrolls > lost
        nodes = [place.node for place in fleet.places(2.0) if place]
        assert 1 <= len(nodes) <= 2  # for the others there is no room
        assert doomed not in nodes


def place_of(fleet, actor):
    """Where an actor is, as soon as it is somewhere."""
    for _ in range(60):
        place = fleet.places(1.0)[actor]
        if place is not None:
            return place
    raise AssertionError(f"actor {actor} is nowhere")
