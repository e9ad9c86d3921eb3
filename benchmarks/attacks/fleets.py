"""SIGKILL and SIGSTOP for those that act, here and on Ray, while their learner goes on.

The task waits as long as a file is there (`tasks.PACE`): it keeps the run under way until it was attacked and has noticed.
"""

import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from gtrxl.runs import metrics

from . import tiny
from .cases import Case, Form, Part
from .kills import Broken, check_alone, check_said
from .processes import BENCHMARKS, Command, Hang, command_line, descendants, send
from .tasks import PACE

REPORTS = 60
NOTICE = 120.0
"""Seconds within which an actor that says nothing must be noticed; its task may take 5 for a step."""
TIME_LIMIT = 5.0
STEP = 0.05
"""Seconds that a step of the task takes until the attacks are over."""
OWN = ("--from", str(BENCHMARKS))
ON_LOCALHOST = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""What lets Ray take 127.0.0.1 at its word."""
Under = tuple[Command, Path, Path]


class Attacked(Part):
    """Runs that are under way until they were attacked as often as they should be."""

    def __init__(self, work: Path, seed: int):
        super().__init__(work, seed)
        self.programs = work

    @contextlib.contextmanager
    def run(self, number: int, *, fleet: dict[str, Any], variables: dict[str, str] | None = None) -> Iterator[Under]:
        """A run under way, its folder, and the file that slows it down."""
        folder, pace = self.work / f"run-{number}", self.work / f"pace-{number}"
        shutil.rmtree(folder, ignore_errors=True)
        pace.write_text(str(STEP))
        chosen = tiny.actors_settings("env:attacks.tasks.paced", reports=REPORTS, fleet=fleet)
        line = ["train", *tiny.line(chosen), "--run", str(folder), "--no-board", *OWN]
        command = Command(line, work=self.programs, variables={PACE: str(pace), **(variables or {})})
        try:
            yield command, folder, pace
        finally:
            pace.unlink(missing_ok=True)
            command.end()

    def finish(self, command: Command, folder: Path, pace: Path, *, restarts: int) -> None:
        """Lets it go on at full speed; it must have counted so many restarts, and lack nothing."""
        pace.unlink(missing_ok=True)
        if code := command.wait():
            raise Broken(f"ended with code {code}: {command.said.strip()[-300:]!r}")
        check_said(command)
        check_alone(command)
        if wrong := tiny.hole(folder, reports=REPORTS) or tiny.left_over(folder):
            raise Broken(wrong)
        if (counted := last(folder)["restarts"]) < restarts:
            raise Broken(f"{restarts} actors were lost, and {counted} restarts are in the rows")

    def judged(self, number: int, did: list[str], attacked: Any) -> Case:
        """Does it, and judges."""
        begun, fault = time.monotonic(), ""
        try:
            attacked()
        except (Broken, Hang) as broken:
            fault = str(broken)
        seconds = round(time.monotonic() - begun, 1)
        outcome = "fault" if fault else "counted"
        return Case(self.name, number, "; ".join(did), outcome, fault, attacks=len(did), seconds=seconds)


class Actors(Attacked):
    """Processes of this machine."""

    name: ClassVar[str] = "actors"
    about: ClassVar[str] = "SIGKILL and SIGSTOP of actors, and of a learner whose actor is stopped"
    counts: ClassVar[dict[Form, int]] = {"full": 6, "quick": 3}
    alone: ClassVar[bool] = True

    def attack(self, numbers: list[int]) -> list[Case]:
        """In turn: killed, stopped, and stopped when the learner is killed."""
        ways = (self._killed, self._stopped, self._orphaned)
        cases = []
        for number in numbers:
            did: list[str] = []
            way = ways[number % len(ways)]
            cases.append(self.judged(number, did, lambda: way(number, self.random(number), did)))
        return cases

    def _killed(self, number: int, random: np.random.Generator, did: list[str]) -> None:
        """One actor after the other, each when the one before is noticed."""
        with self.run(number, fleet={"time_limit": TIME_LIMIT}) as (command, folder, pace):
            for kill in range(4):
                wait_for(command, lambda: len(workers(command)) >= 2 and counted(folder) >= kill)
                victim = int(random.choice(workers(command)))
                if send(victim, signal.SIGKILL):
                    did.append("SIGKILL of an actor")
                wait_for(command, lambda: counted(folder) > kill)
            self.finish(command, folder, pace, restarts=len(did))

    def _stopped(self, number: int, random: np.random.Generator, did: list[str]) -> None:
        """One actor does not move, while it starts or in the middle of its task: it is noticed, and another takes its place."""
        starting = number // 3 % 2 == 0
        with self.run(number, fleet={"time_limit": TIME_LIMIT}) as (command, folder, pace):
            wait_for(command, lambda: len(workers(command)) >= 2 and (starting or bool(rows(folder))))
            victim = int(random.choice(workers(command)))
            send(victim, signal.SIGSTOP)
            did.append(f"SIGSTOP of an actor {'that starts' if starting else 'at work'}")
            begun = time.monotonic()
            pace.write_text("0.3")  # slowly enough that there are rows to come for as long as it may take
            while counted(folder) < 1:
                if time.monotonic() - begun > NOTICE:
                    raise Broken(f"a stopped actor was not noticed within {NOTICE:.0f} s")
                if command.process.poll() is not None:
                    raise Broken(f"the run ended before the stopped actor was noticed: {command.said.strip()[-200:]!r}")
                time.sleep(0.1)
            self.finish(command, folder, pace, restarts=1)

    def _orphaned(self, number: int, random: np.random.Generator, did: list[str]) -> None:
        """The learner is killed while an actor is stopped: nothing outlives it, and the run goes on."""
        with self.run(number, fleet={"time_limit": TIME_LIMIT}) as (command, folder, pace):
            wait_for(command, lambda: len(workers(command)) >= 2 and bool(rows(folder)))
            send(int(random.choice(workers(command))), signal.SIGSTOP)
            command.kill()
            did += ["SIGSTOP of an actor", "SIGKILL of its learner"]
            check_alone(command)
            pace.unlink()
            again = Command(["resume", str(folder), "--trust", *OWN], work=self.programs)
            self.finish(again, folder, pace, restarts=0)


class Ray(Attacked):
    """A cluster of several nodes on this machine."""

    name: ClassVar[str] = "ray"
    about: ClassVar[str] = "SIGKILL of actors, and of whole nodes, of a Ray cluster"
    counts: ClassVar[dict[Form, int]] = {"full": 2, "quick": 1}
    alone: ClassVar[bool] = True
    KILLS: ClassVar[tuple[str, ...]] = ("actor", "actor", "node", "actor", "actor", "node")

    def attack(self, numbers: list[int]) -> list[Case]:
        """A run on a cluster of its own, and six kills."""
        cases = []
        for number in numbers:
            did: list[str] = []
            cases.append(self.judged(number, did, lambda: self._run(number, self.random(number), did)))
        return cases

    def _run(self, number: int, random: np.random.Generator, did: list[str]) -> None:
        with contextlib.ExitStack() as stack:
            started, add = stack.enter_context(cluster({PACE: str(self.work / f"pace-{number}")}))
            nodes, lost = [add(), add()], 0
            fleet = {"engine": "ray", "address": started.address, "restarts": 10}
            command, folder, pace = stack.enter_context(self.run(number, fleet=fleet, variables=ON_LOCALHOST))
            for what in self.KILLS:
                wait_for(command, lambda: counted(folder) >= lost and any(on(node) for node in nodes))
                if what == "actor":
                    victim = int(random.choice([pid for node in nodes for pid in on(node)]))
                    send(victim, signal.SIGKILL)
                    lost += 1
                else:
                    node = next(node for node in nodes if on(node))
                    lost += len(on(node))
                    started.remove_node(node, allow_graceful=False)
                    nodes = [each for each in nodes if each is not node] + [add()]
                did.append(f"SIGKILL of {'an actor' if what == 'actor' else 'a node'}")
                wait_for(command, lambda: counted(folder) >= lost)
            self.finish(command, folder, pace, restarts=lost)


@contextlib.contextmanager
def cluster(variables: dict[str, str]) -> Iterator[tuple[Any, Any]]:
    """A head without room for actors, on 127.0.0.1; and what adds a node with room for two. Actors find these variables."""
    ours = {"node_ip_address": "127.0.0.1", "object_store_memory": 80 * 2**20}
    own = {**variables, **ON_LOCALHOST, "RAY_DEDUP_LOGS_SKIP_REGEX": "^", "RAY_USAGE_STATS_ENABLED": "0"}
    own |= {"PYTHONPATH": os.pathsep.join([str(BENCHMARKS), *(path for path in sys.path if path)])}
    before = {name: os.environ.get(name) for name in own}
    asked = signal.getsignal(signal.SIGTERM)  # Ray takes it
    os.environ.update(own)
    try:
        from ray._private import ray_constants
        from ray.cluster_utils import Cluster

        enabled, ray_constants.ENABLE_RAY_CLUSTER = ray_constants.ENABLE_RAY_CLUSTER, False
        started = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **ours})
        try:
            yield started, lambda: started.add_node(num_cpus=2, wait=True, **ours)
        finally:
            started.shutdown()
            ray_constants.ENABLE_RAY_CLUSTER = enabled
            signal.signal(signal.SIGTERM, asked)
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})


def on(node: Any) -> list[int]:
    """The actors on a node of the cluster."""
    raylet = node.all_processes["raylet"][0].process.pid
    return [pid for pid in descendants(raylet) if command_line(pid).startswith("ray::RemoteActor")]


def workers(command: Command) -> list[int]:
    """The actors of a learner on this machine."""
    return sorted(pid for pid, line in command.others().items() if "spawn_main" in line)


def rows(folder: Path) -> list[dict[str, Any]]:
    """What a run has reported so far."""
    file = folder / "metrics.jsonl"
    return metrics.read(file) if file.exists() else []


def last(folder: Path) -> dict[str, Any]:
    """The newest row."""
    return rows(folder)[-1]


def counted(folder: Path) -> int:
    """Restarts so far, -1 before the first row."""
    found = rows(folder)
    return found[-1]["restarts"] if found else -1


def wait_for(command: Command, happened: Any) -> None:
    """Waits while the run goes on."""
    if not command.wait_until(happened, every=0.1):
        raise Broken(f"the run ended too early: {command.said.strip()[-300:]!r}")
