"""Runs of tasks that live outside of the compiled program: `conductor` learns, a fleet acts."""

import contextlib
import dataclasses
import importlib.util
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import numpy as np

from gtrxl import machine
from gtrxl.runs.checkpoints import Checkpoints
from gtrxl.runs.config import Config
from gtrxl.runs.errors import RunError
from gtrxl.runs.folder import Which
from gtrxl.runs.tasks import GymTasks
from gtrxl.training.actors import ray_cluster
from gtrxl.training.actors.actor import Assignment
from gtrxl.training.actors.conductor import Conductor, Learning, Losses, Tally
from gtrxl.training.actors.fleet import Fleet, LocalFleet
from gtrxl.training.building import make_agent, update_of
from gtrxl.training.engine import Advance, Row
from gtrxl.training.multihost import hosts
from gtrxl.training.rows import EpisodeRows, finished_episodes

OpenFleet = Callable[[Assignment, int], Fleet]
"""Starts so many actors."""


class ActorsEngine:
    """Actors step the tasks, here or on a cluster; this process learns from what they send."""

    stops: ClassVar[str] = "after this update"

    def __init__(self, config: Config[Any], tasks: GymTasks, *, open_fleet: OpenFleet | None = None):
        hosts.alone(f"{config.task} is stepped by actors")
        self.config = share_out(config, tasks)
        self.tasks = tasks
        self._open = open_fleet or _fleet_of(self.config)

    @property
    def begins(self) -> str:
        """What it does first."""
        actors = self.config.fleet.actors
        return f"starting {actors} actor{'s' * (actors != 1)}"

    def shapes(self) -> Learning:
        """The state as shapes alone: what checkpoints are read into."""
        return eqx.filter_eval_shape(self._begin)

    def start(self) -> Learning:
        """Before the first update; the agent has a value for each task."""
        return self._begin()

    def _begin(self) -> Learning:
        agent_key, learning_key = jax.random.split(jax.random.key(self.config.seed))
        agent = make_agent(self.config, self.tasks.shown, agent_key, values=len(self.tasks))
        return Learning.start(update_of(self.config), agent, learning_key)

    def restore(self, checkpoints: Checkpoints, which: Which | int = "last") -> Learning:
        """The same weights, optimiser, multipliers and statistics; episodes begin anew."""
        return checkpoints.restore(self.shapes(), which)

    def placed(self, state: Learning) -> Learning:
        """As it is."""
        return state

    def whole(self, state: Learning) -> Learning:
        """As it is."""
        return state

    @contextlib.contextmanager
    def running(
        self, state: Learning, *, before: Sequence[Mapping[str, Any]], say: Callable[[str], None]
    ) -> Iterator["_Conducted"]:
        """With its actors started."""
        config = self.config
        assignment = Assignment(
            task=self.tasks.task,
            streams=config.fleet.tasks,
            steps=config.unroll,
            seed=config.seed,
            time_limit=config.fleet.time_limit,
            noise_steps=config.gym.noise_steps,
            since=int(state.updates),
        )
        fleet = self._open(assignment, config.fleet.actors)
        try:
            told = {"streams": config.streams, "tasks": config.fleet.tasks, "restarts": config.fleet.restarts}
            losses = Losses.since(dict(before[-1]) if before else None)
            conductor = Conductor(update_of(config), fleet, **told, ahead=config.fleet.ahead, losses=losses, say=say)
            yield _Conducted(self, conductor, EpisodeRows(self.tasks, before))
        finally:
            fleet.close()


class _Conducted:
    """A learner with its actors."""

    def __init__(self, engine: ActorsEngine, conductor: Conductor, episodes: EpisodeRows):
        self._engine, self._conductor, self._episodes = engine, conductor, episodes

    def advance(self, state: Learning, *, until: int, stop: Callable[[], bool]) -> Advance:
        """To that update, or to whatever comes before it."""
        state, tally = self._conductor.advance(state, until=until, stop=stop)
        return Advance(state, self._row(state, tally) if tally.updates else None, self._conductor.failed)

    def _row(self, learning: Learning, tally: Tally) -> Row:
        updates, config, conductor = int(learning.updates), self._engine.config, self._conductor
        popart = jax.device_get(learning.trained.popart)
        return {
            "frames": updates * config.frames_per_update,
            "updates": updates,
            "task": config.task,
            **self._episodes.row(finished_episodes(tally.ended, len(self._engine.tasks)), popart),
            **{name: total / tally.updates for name, total in tally.metrics.items()},
            "memory_staleness": None,
            "gate_openness": None if tally.openness is None else np.asarray(tally.openness, np.float64).round(6).tolist(),
            "actors": config.fleet.actors,
            **dataclasses.asdict(conductor.losses),
            "lag_mean": float(np.mean(tally.lags)) if tally.lags else None,
            "lag_max": max(tally.lags, default=None),
            "task_share": tally.in_task / tally.acting if tally.acting else None,
            "waiting": tally.waiting / max(tally.seconds, 1e-9),
            "queue": len(conductor.queue),
        }


def share_out(config: Config[Any], tasks: GymTasks) -> Config[Any]:
    """The settings with a number of actors and of tasks for each: those asked for, or the streams shared out among the cores."""
    fleet, streams = config.fleet, config.streams
    number, each = len(tasks), 1 if tasks.alone else fleet.tasks
    cores = machine.processors()
    actors = fleet.actors or (cores if tasks.alone else max(n for n in range(1, cores + 1) if streams % n == 0))
    # A batch is whole packets. With more actors than streams each has one task, and every batch is of those that came first.
    fitting = [n for n in range(1, max(1, streams // actors) + 1) if streams % n == 0]
    per_actor = each or max((n for n in fitting if actors * n % number == 0), default=fitting[-1])
    if not fleet.actors:  # as many more as let each task of a set have as many streams as the others
        alike = number // math.gcd(number, per_actor)
        actors = math.ceil(actors / alike) * alike
    if tasks.alone and fleet.tasks > 1:
        raise RunError(f"tasks-per-actor must be 1 for {tasks.name}: a process holds one of it, got {fleet.tasks}; leave it out")
    if streams % per_actor:
        raise RunError(
            f"streams must be a multiple of the tasks of an actor, got {streams} for {actors} actors of {per_actor} tasks each; "
            f"try --streams {per_actor * max(1, round(streams / per_actor))}"
        )
    if actors * per_actor % number:
        alike = number // math.gcd(number, per_actor)
        raise RunError(
            f"actors must share the {number} tasks of {tasks.name} out evenly, got {actors} with {per_actor} each; "
            f"try --actors {math.ceil(actors / alike) * alike}"
        )
    return dataclasses.replace(config, fleet=dataclasses.replace(fleet, actors=actors, tasks=per_actor))


def _fleet_of(config: Config[Any]) -> OpenFleet:
    if config.fleet.engine != "ray":
        return LocalFleet
    if importlib.util.find_spec("ray") is None:
        raise RunError(ray_cluster.MISSING)

    def open_fleet(assignment: Assignment, actors: int) -> Fleet:
        from gtrxl.training.actors.ray_fleet import RayFleet  # takes seconds to import

        return RayFleet(assignment, actors, address=config.fleet.address)

    return open_fleet
