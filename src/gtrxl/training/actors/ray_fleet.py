"""Actors on a Ray cluster: the same `Actor`, the same answers, wherever Ray has room for it.

Weights are put into Ray's object store once for each version, and every machine fetches them once; unrolls come back through it.
Ray places the actors and says when one is gone. When one is started anew is decided by the learner, so that no unroll is
lost without being counted. Ray ends all actors when the learner's process ends, however that happens.
"""

import contextlib
import math
import os
import time
from typing import Any, NamedTuple

from gtrxl.gym.child_process import environment
from gtrxl.gym.stream import MAKE, too_long, where
from gtrxl.networks.agent import Agent
from gtrxl.runs.errors import first_line
from gtrxl.training.actors.actor import Actor, Assignment, settle
from gtrxl.training.actors.packets import Failure, Kind, Packet, Sealed
from gtrxl.training.actors.ray_cluster import join

GRACE = 10.0
"""Seconds that an answer may take on its way, beyond the time limit of a task."""
PATIENCE = 300.0
"""Seconds that no actor at all may have a place, before that is a failure."""


class Beat(NamedTuple):
    """The call of a task that is under way in an actor, 0 if none, and since how many seconds."""

    stream: int
    step: int
    call: int
    seconds: float


class Place(NamedTuple):
    """Where an actor is."""

    node: str
    """Of the cluster, by Ray's name for it."""
    pid: int


class RemoteActor:
    """What runs on the cluster: an actor, and beside it a thread that takes new weights and says what the actor is doing."""

    def __init__(self, assignment: Assignment, index: int, attempt: int):
        settle()
        self._actor = Actor(assignment, index, attempt=attempt, pulse=self._pulse)
        self._call = (0, 0, 0, time.monotonic())
        self._newest: tuple[int, Agent | None] = (-1, None)
        self._acting = -1

    def unroll(self, weights: Agent, version: int) -> Packet | Failure:
        """One unroll, with these weights, or newer ones if it has them by now."""
        newest, fresh = self._newest
        if newest < version or fresh is None:
            newest, fresh = version, weights
        taken, self._acting = (fresh if newest != self._acting else None), newest
        return self._actor.answer(taken, newest)

    def take(self, weights: Agent, version: int) -> None:
        """Weights for the unrolls that begin from now on."""
        self._newest = (version, weights)

    def beat(self) -> Beat:
        """What it is doing."""
        stream, step, call, since = self._call
        return Beat(stream, step, call, time.monotonic() - since)

    def place(self) -> Place:
        """Where it does it."""
        import ray

        return Place(ray.get_runtime_context().get_node_id(), os.getpid())

    def close(self) -> None:
        """Lets its tasks go."""
        self._actor.close()

    def _pulse(self, stream: int, step: int, call: int) -> None:
        self._call = (stream, step, call, time.monotonic())


class RayFleet:
    """A fleet on the Ray cluster at `address` (`auto`, or host:port), or on one of its own on this machine.

    A cluster without room for all actors gets as many as fit: the others begin when there is room, and until then the unrolls
    asked of them are under way. Only when no actor at all has a place for `patience` seconds does one fail.
    """

    def __init__(
        self,
        assignment: Assignment,
        actors: int,
        *,
        address: str | None = None,
        cpus: float = 1.0,
        grace: float = GRACE,
        patience: float = PATIENCE,
    ):
        self.size = actors
        self.assignment = assignment
        self._grace, self._patience = grace, patience
        self._cluster = join(address, cpus=math.ceil(actors * cpus))
        ray = self._cluster.ray
        # Every loss is to be seen here: Ray itself neither restarts an actor nor asks it again.
        placing = {"num_cpus": cpus, "max_restarts": 0, "max_task_retries": 0, "scheduling_strategy": "SPREAD"}
        running = {"concurrency_groups": {"beside": 1}, "runtime_env": {"env_vars": environment()}}
        self._class = ray.remote(**placing, **running)(RemoteActor)
        self._weights: Any = None
        self._version = -1
        self._placed_at = time.monotonic()
        self._actors = [_Remote(self._class, assignment, index, attempt=0) for index in range(actors)]

    def __enter__(self) -> "RayFleet":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def publish(self, version: int, weights: Agent) -> None:
        """New acting weights: an agent with NumPy arrays, for unrolls that begin from now on."""
        self._weights, self._version = self._cluster.ray.put(Sealed(weights)), version
        for actor in self._actors:
            actor.hand_over(self._cluster.ray, self._weights, version)

    def ask(self, actor: int) -> None:
        """One more unroll."""
        self._actors[actor].ask(self._weights, self._version)

    def wait(self, timeout: float) -> list[tuple[int, Packet | Failure]]:
        """What has come."""
        ray = self._cluster.ray
        deadline = time.monotonic() + timeout
        while True:
            asked = {actor.unrolls[0]: actor for actor in self._actors if actor.unrolls}
            left = max(0.0, min(deadline - time.monotonic(), 0.5))
            ready = []
            if asked:
                ray.wait([*asked], num_returns=1, timeout=left)
                ready, _ = ray.wait([*asked], num_returns=len(asked), timeout=0)
            else:
                time.sleep(left)
            came = [(asked[ref].index, self._collect(asked[ref])) for ref in ready]
            came += [(actor.index, failure) for actor in self._actors if (failure := self._hung(actor)) is not None]
            came += self._nowhere()
            if came or time.monotonic() >= deadline:
                return came

    def restart(self, actor: int) -> None:
        """Ends an actor, wherever it is, and lets Ray place another."""
        old = self._actors[actor]
        old.end(self._cluster.ray)
        self._placed_at = time.monotonic()
        self._actors[actor] = _Remote(self._class, self.assignment, actor, attempt=old.attempt + 1)

    def places(self, timeout: float = GRACE) -> list[Place | None]:
        """Where the actors are; None for those that have no place, or do not say."""
        ray = self._cluster.ray
        asked = [actor.beside.place() for actor in self._actors]
        there, _ = ray.wait(asked, num_returns=len(asked), timeout=timeout)
        places: list[Place | None] = []
        for ref in asked:
            with contextlib.suppress(ray.exceptions.RayError):
                places.append(ray.get(ref, timeout=GRACE) if ref in there else None)
                continue
            places.append(None)
        return places

    def close(self) -> None:
        """Lets the actors close their tasks, for two seconds; then ends them, and the cluster if it was started for them."""
        ray = self._cluster.ray
        with contextlib.suppress(Exception):  # a cluster that is gone has no actors left
            closing = [actor.actor.close.remote() for actor in self._actors if actor.placed]
            if closing:
                ray.wait(closing, num_returns=len(closing), timeout=2.0)
            for actor in self._actors:
                actor.end(ray)
        self._actors = []
        self._cluster.close()

    def _collect(self, actor: "_Remote") -> Packet | Failure:
        """The oldest answer of an actor, which is there."""
        errors = self._cluster.ray.exceptions
        try:
            answer = self._cluster.ray.get(actor.unrolls.pop(0), timeout=GRACE)
        except errors.RayTaskError as error:
            answer = self._failure(actor, f"raised {first_line(error.cause)}", kind="raised", detail=str(error))
        except errors.ActorUnavailableError as error:
            answer = self._failure(actor, f"it cannot be reached: {_reason(error)}")
        except errors.RayActorError as error:
            answer = self._failure(actor, f"its process is gone: {_reason(error)}")
        except errors.RayError as error:  # its machine is gone, and the unroll with it
            answer = self._failure(actor, f"its unroll is lost: {_reason(error)}")
        if isinstance(answer, Failure):
            actor.end(self._cluster.ray)
        else:
            self._placed_at = actor.heard()
        return answer

    def _hung(self, actor: "_Remote") -> Failure | None:
        """A failure, if the call of a task that is under way takes too long; the actor is ended then."""
        ray, limit = self._cluster.ray, self.assignment.time_limit
        if not actor.unrolls:
            return None
        failure, now = None, time.monotonic()
        if actor.beat is None:
            if now - actor.heard_at > min(limit / 4, self._grace):
                actor.beat = actor.beside.beat()
                if actor.beat_at <= actor.heard_at:  # else an earlier question has been lost, and counts
                    actor.beat_at = now
        elif ray.wait([actor.beat], timeout=0)[0]:
            asked, actor.beat = actor.beat, None
            with contextlib.suppress(ray.exceptions.RayError):  # the unroll itself says what happened
                beat: Beat = ray.get(asked, timeout=GRACE)
                self._placed_at = actor.heard()
                if beat.call and beat.seconds > limit + self._grace:
                    task = self.assignment.name(actor.index, beat.stream)
                    place = where(task, actor=actor.index, stream=beat.stream, step=beat.step, call=beat.call)
                    failure = Failure(actor.index, "hung", f"{place}: {too_long(limit)}", when_made=beat.call == MAKE)
        elif actor.placed and now - actor.beat_at > limit + self._grace:  # a call that lets no other thread run
            failure = self._failure(actor, too_long(limit), kind="hung")
        if failure is not None:
            actor.end(ray)
        return failure

    def _nowhere(self) -> list[tuple[int, Failure]]:
        """A failure, if no actor has had a place for too long."""
        waiting = [actor for actor in self._actors if actor.unrolls]
        patient = time.monotonic() - self._placed_at <= self._patience
        if not waiting or patient or any(actor.placed for actor in self._actors):
            return []
        waiting[0].end(self._cluster.ray)
        said = f"no machine of the cluster has had room for it, nor for any other actor, for {self._patience:g} s; add machines"
        return [(waiting[0].index, self._failure(waiting[0], said))]

    def _failure(self, actor: "_Remote", said: str, *, kind: Kind = "died", detail: str = "") -> Failure:
        return Failure(actor.index, kind, f"{self.assignment.task.name}, actor {actor.index}: {said}", detail)


class _Remote:
    """One actor as seen from here."""

    def __init__(self, kind: Any, assignment: Assignment, index: int, *, attempt: int):
        self.index, self.attempt = index, attempt
        self.actor = kind.remote(assignment, index, attempt)
        self.beside = _Beside(self.actor)
        self.unrolls: list[Any] = []
        """Asked for and not answered yet, oldest first."""
        self.beat: Any = None
        """The question what it is doing, as long as it is open, and when it was asked."""
        self.beat_at = 0.0
        self.weights: Any = None
        """Whether the last weights have arrived."""
        self.placed = False
        """Whether it has ever answered."""
        self.heard_at = time.monotonic()

    def ask(self, weights: Any, version: int) -> None:
        if not self.unrolls:
            self.heard_at = time.monotonic()  # it had nothing to say
        self.unrolls.append(self.actor.unroll.remote(weights, version))

    def hand_over(self, ray: Any, weights: Any, version: int) -> None:
        """For the unrolls that it has been asked for already. One that is slow to take them, or has no place, is not pressed: the
        weights of the unroll that it was asked for last will do, and none pile up."""
        if self.unrolls and self.placed and (self.weights is None or ray.wait([self.weights], timeout=0)[0]):
            self.weights = self.beside.take(weights, version)

    def heard(self) -> float:
        self.placed, self.heard_at = True, time.monotonic()
        return self.heard_at

    def end(self, ray: Any) -> None:
        ray.kill(self.actor, no_restart=True)
        self.unrolls.clear()
        self.beat, self.placed = None, False


class _Beside:
    """The calls that an actor answers while it is at work."""

    def __init__(self, actor: Any):
        self._actor = actor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._actor, name).options(concurrency_group="beside").remote


def _reason(error: BaseException) -> str:
    """The part of Ray's long message that says why."""
    lines = [" ".join(line.split()) for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if "because" in line or "died" in line.lower()] or lines or [type(error).__name__]
    return telling[-1].split(" Some common causes")[0][:300].rstrip(". ")
