"""The learner's loop over any fleet: unrolls in, updates, weights out.

B streams of a batch, K of a packet, T steps, P updates of a target period.

Packets are learned from in the order they arrive, B / K of them in an update. Acting weights are published every P updates, so an
unroll that begins has weights of at most P - 1 updates ago. From then on it waits for its turn. Never more than (1 + P) B / K
unrolls are under way (being acted, or waiting to be learned from), so at most P updates come before its own. Hence the lag, the
updates between an unroll's weights and the update that learns from it, is at most 2 P - 1: an unroll is learned from at most one
period after its weights were the newest. With P = 1 that is 1: a batch is acted while the one before is learned from. An actor
that is slower than the others can fall further behind; its packets are dropped and counted. Without playing ahead there are
never more than P B / K under way; with P = 1 an unroll is then of the weights that learn from it.

Nothing else waits either: an actor has one unroll in its hands and one more asked for at most. So memory is bounded, and a slow
learner slows the actors down.
"""

import collections
import dataclasses
import functools
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray

from gtrxl.gym.stream import FinishedEpisode
from gtrxl.networks.agent import Agent
from gtrxl.runs.errors import RunError
from gtrxl.training.actors.failures import Failures
from gtrxl.training.actors.fleet import Fleet
from gtrxl.training.actors.packets import Failure, Packet
from gtrxl.training.device_loop import WATCHED, Trail
from gtrxl.training.diagnosis import openness
from gtrxl.training.update import Batch, Metrics, Trained, Update, is_fine

AT_ONCE = 2
"""Unrolls that one actor is asked for at a time: one in its hands, one more."""
PATIENCE = 60.0
"""Seconds without a packet after which that is said."""


class Learning(eqx.Module):
    """All there is to know between two updates; what a checkpoint holds. Tasks and memories are the actors' and begin anew."""

    trained: Trained
    key: PRNGKeyArray
    updates: Int[Array, ""]
    diverged: Int[Array, ""]
    """The update after which something was not finite; -1 while all is well."""

    @classmethod
    def start(cls, update: Update, agent: Agent, key: PRNGKeyArray) -> "Learning":
        """Before the first update."""
        return cls(trained=update.start(agent), key=key, updates=jnp.int32(0), diverged=jnp.int32(-1))


@dataclasses.dataclass
class Tally:
    """What happened between two reports."""

    metrics: dict[str, float] = dataclasses.field(default_factory=lambda: collections.defaultdict(float))
    """Sums over the updates."""
    updates: int = 0
    ended: list[FinishedEpisode] = dataclasses.field(default_factory=list)
    lags: list[int] = dataclasses.field(default_factory=list)
    in_task: float = 0.0
    acting: float = 0.0
    """Seconds of all actors together, and those of them in the task."""
    waiting: float = 0.0
    seconds: float = 0.0
    """From the first of its updates to the last."""
    openness: Any = None


@dataclasses.dataclass
class Losses:
    """What went wrong since the run began."""

    restarts: int = 0
    lost_unrolls: int = 0
    """Asked for, and gone with their actor."""
    dropped: int = 0
    """Packets that came too late to be learned from."""

    @classmethod
    def since(cls, row: dict[str, Any] | None) -> "Losses":
        """As the last row of a run has them."""
        return cls() if row is None else cls(**{field.name: row.get(field.name, 0) for field in dataclasses.fields(cls)})


class Conductor:
    """Keeps a fleet's actors busy and learns from what they send.

    conductor = Conductor(update, fleet, streams=16, tasks=8, restarts=10)
    learning, tally = conductor.advance(learning, until=100)
    conductor.failed     # why it cannot go on, if it cannot
    """

    def __init__(
        self,
        update: Update,
        fleet: Fleet,
        *,
        streams: int,
        tasks: int,
        restarts: int,
        ahead: int = 1,
        losses: Losses | None = None,
        say: Callable[[str], None] = lambda _: None,
    ):
        if streams % tasks:
            raise RunError(f"streams must be a multiple of the {tasks} tasks of an actor, got {streams}; change --streams")
        self.losses = losses or Losses()
        self.failed: str | None = None
        self.queue: collections.deque[Packet] = collections.deque()
        """Packets that wait to be learned from."""
        self._update = update
        self._fleet = fleet
        self._say = say
        self._period = update.learner.target_period
        self._packets = streams // tasks
        batches = self._period + ahead
        self.most = self._packets * batches
        """Unrolls under way."""
        if fleet.size > self.most:
            raise RunError(
                f"actors must be at most {self.most}, {batches} x streams / tasks of an actor, got {fleet.size}; "
                "more would only wait: use more --streams"
            )
        self._asked = [0] * fleet.size
        self._proven = [False] * fleet.size
        self._failures = Failures(fleet.size, restarts=restarts)
        self._published = False
        self._heard = time.monotonic()

    @property
    def under_way(self) -> int:
        """Unrolls asked for and not learned from yet. An actor that has not shown one since it started does not count: it may be
        waiting for a machine, and must not keep the others from working."""
        return len(self.queue) + sum(asked for asked, proven in zip(self._asked, self._proven, strict=True) if proven)

    def advance(self, learning: Learning, *, until: int, stop: Callable[[], bool] = lambda: False) -> tuple[Learning, Tally]:
        """Learns until so many updates have been made in all; or `stop()`, or something is not finite, or it has `failed`."""
        tally, begun = Tally(), time.monotonic()
        done = int(learning.updates)
        if not self._published:
            self._publish(learning, done)
        fine, last = True, None
        while done < until and fine and not stop() and self.failed is None:
            self._ask()
            batch = self._batch(tally, done)
            if batch is None:
                continue
            last = batch
            learning, metrics = _learn(self._update, learning, batch)
            done += 1
            tally.updates += 1
            fine = int(learning.diverged) < 0
            for name, value in jax.device_get(metrics).items():
                tally.metrics[name] += float(value)
            if fine and done % self._period == 0:
                self._publish(learning, done)
        if last is not None:
            tally.openness = jax.device_get(_openness(learning.trained.agent, last))
        tally.seconds = time.monotonic() - begun
        return learning, tally

    def _publish(self, learning: Learning, version: int) -> None:
        self._fleet.publish(version, jax.device_get(learning.trained.acting()))
        self._published = True

    def _ask(self) -> None:
        """Keeps every actor busy, the least busy first, as far as the bound allows."""
        for actor in sorted(range(self._fleet.size), key=lambda actor: self._asked[actor]):
            while self._asked[actor] < (AT_ONCE if self._proven[actor] else 1):
                if self._proven[actor] and self.under_way >= self.most:
                    return
                self._fleet.ask(actor)
                self._asked[actor] += 1

    def _batch(self, tally: Tally, done: int) -> dict[str, Any] | None:
        """A batch, if there are enough packets after looking for new ones once."""
        enough = len(self.queue) >= self._packets
        before = time.monotonic()
        came = self._fleet.wait(0.0 if enough else 0.2)
        now = time.monotonic()
        tally.waiting += 0.0 if enough else now - before
        for actor, answer in came:
            self._heard = now
            if isinstance(answer, Failure):
                self._failure(actor, answer)
            else:
                self._asked[actor] -= 1
                self._proven[actor] = True
                self._failures.unrolled(actor)
                self.queue.append(answer)
                tally.ended += answer.ended
                tally.in_task += answer.seconds.task
                tally.acting += answer.seconds.whole
        if now - self._heard > PATIENCE:
            self._say(f"no unroll has come for {PATIENCE:.0f} s; waiting for {self._fleet.size} actors")
            self._heard = now
        self._drop_old(done)
        if len(self.queue) < self._packets:
            return None
        packets = [self.queue.popleft() for _ in range(self._packets)]
        tally.lags += [done - packet.version for packet in packets]
        return _joined(packets)

    def _drop_old(self, done: int) -> None:
        fresh = [packet for packet in self.queue if done - packet.version < 2 * self._period]
        self.losses.dropped += len(self.queue) - len(fresh)
        self.queue = collections.deque(fresh)

    def _failure(self, actor: int, failure: Failure) -> None:
        self.losses.lost_unrolls += self._asked[actor]
        self._asked[actor], self._proven[actor] = 0, False
        ending = self._failures.add(actor, failure)
        if ending is not None:  # which says what this failure was
            self.failed = self.failed or ending
            return
        self._say(failure.message)
        self.losses.restarts += 1
        self._fleet.restart(actor)


def _joined(packets: list[Packet]) -> dict[str, Any]:
    """Packets side by side: the fields of a `Batch`, in NumPy."""
    names = [field.name for field in dataclasses.fields(Batch)]
    parts = [{name: getattr(packet, name, None) for name in names} for packet in packets]
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


@functools.partial(jax.jit, static_argnums=0, donate_argnums=1)
def _learn(update: Update, learning: Learning, parts: dict[str, Any]) -> tuple[Learning, Metrics]:
    """One update; the state given to it is used up."""
    key = jax.random.fold_in(learning.key, learning.updates)
    trained, metrics = update(learning.trained, Batch(**parts), key, updates=learning.updates)
    updates = learning.updates + 1
    diverged = jnp.where((learning.diverged < 0) & ~is_fine(trained, metrics), updates, learning.diverged)
    return Learning(trained=trained, key=learning.key, updates=updates, diverged=diverged), metrics


@eqx.filter_jit
def _openness(agent: Agent, parts: dict[str, Any]) -> Any:
    """How far the gates stand open, over a few streams of a batch; None for cores without gates."""
    unroll, memory = jax.tree.map(lambda leaf: leaf[:WATCHED], (parts["unroll"], parts["memory"]))
    trail = Trail(observation=unroll.observation, reset=unroll.reset, memory=memory)
    return openness(agent, trail, unroll=unroll.reset.shape[1])
