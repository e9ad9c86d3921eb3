"""Runs in which task, acting and learning are one compiled program."""

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray

from gtrxl.cores.kernels.comparison import QUICKLY
from gtrxl.runs import settings
from gtrxl.runs.checkpoints import Checkpoints
from gtrxl.runs.config import Config
from gtrxl.runs.folder import Which
from gtrxl.runs.tasks import CompiledTasks
from gtrxl.training.building import make_agent, update_of
from gtrxl.training.device_loop import AXIS, Chunk, Loop, Training
from gtrxl.training.diagnosis import openness, staleness
from gtrxl.training.engine import Advance, Row
from gtrxl.training.multihost import hosts
from gtrxl.training.placement import choose_devices, collect, make_mesh, place, resized
from gtrxl.training.rows import EpisodeRows, ended_episodes


class DeviceEngine:
    """Everything on the devices of this host, or of several."""

    stops: ClassVar[str] = "at the next report"
    begins: str = "compiling"

    def __init__(self, config: Config[Any], tasks: CompiledTasks):
        self.config = choose_devices(config)
        self.tasks = tasks
        hosts.check_same(settings.as_dict(self.config))

    @functools.cached_property
    def loop(self) -> Loop:
        """The program's fixed parts, for the devices there are."""
        return _loop(self.config, self.tasks, make_mesh(self.config))

    def shapes(self) -> Training:
        """The state as shapes alone: what checkpoints are read into, whatever devices they come from."""
        return eqx.filter_eval_shape(_start, self.config, _loop(self.config, self.tasks, None), jax.random.key(0))

    def start(self) -> Training:
        """Before the first update, in one piece. It is made once: XLA takes less care with it, and less than half the time."""
        rest: list[Training] = []

        def first(key: PRNGKeyArray) -> Training:
            arrays, others = eqx.partition(_start(self.config, self.loop, key), eqx.is_array)
            rest.append(others)
            return arrays

        arrays = jax.jit(first, compiler_options=QUICKLY)(jax.random.key(self.config.seed))
        return eqx.combine(arrays, rest[-1])

    def restore(self, checkpoints: Checkpoints, which: Which | int = "last") -> Training:
        """The state of a checkpoint, in one piece."""
        like = self.shapes()
        # Older ones of n devices hold the trail of more streams; the first are the same.
        rows = (*checkpoints.shapes(which).get(".trail.reset", ()), like.trail.reset.shape[0])[0]
        wider = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((rows, *leaf.shape[1:]), leaf.dtype), like.trail)
        training = checkpoints.restore(eqx.tree_at(lambda of: of.trail, like, wider), which)
        return eqx.tree_at(lambda of: of.trail, training, resized(training.trail, like.trail.reset.shape[0]))

    def placed(self, state: Training) -> Training:
        """Spread over the devices."""
        return place(self.loop, state)

    def whole(self, state: Training) -> Training:
        """In one piece, on host 0."""
        return collect(self.loop, state)

    @contextlib.contextmanager
    def running(
        self, state: Training, *, before: Sequence[Mapping[str, Any]], say: Callable[[str], None]
    ) -> Iterator["_Compiled"]:
        """Compiled for the updates between two reports."""
        del say
        yield _Compiled(self, state, EpisodeRows(self.tasks, before))


def build(config: Config[Any]) -> tuple[Loop, Training]:
    """The program's parts for these settings, and its state before the first update, in place: to measure it by itself."""
    assert isinstance(config.tasks, CompiledTasks)
    engine = DeviceEngine(config, config.tasks)
    return engine.loop, engine.placed(engine.start())


def _loop(config: Config[Any], tasks: CompiledTasks, mesh: jax.sharding.Mesh | None) -> Loop:
    update = update_of(config, axis=None if mesh is None else AXIS, dials=config.learner.dials())
    task = tasks.tasks[0] if len(tasks) == 1 else tasks.tasks
    return Loop(task=task, update=update, streams=config.streams, unroll=config.unroll, mesh=mesh)


def _start(config: Config[Any], loop: Loop, key: PRNGKeyArray) -> Training:
    agent_key, loop_key = jax.random.split(key)
    return loop.start(make_agent(config, loop.tasks[0], agent_key, values=len(loop.tasks)), loop_key)


class _Compiled:
    """The program of one report's updates and of a look at the memory; its argument is used up.

    Neither the seed, nor the learner's dials, nor the number of updates, in all or between two reports, are part of it: runs that
    differ in these alone find it compiled where JAX keeps compiled programs.
    """

    def __init__(self, engine: DeviceEngine, training: Training, episodes: EpisodeRows):
        self._engine, self._episodes = engine, episodes
        self._updates = engine.config.updates_per_report
        loop = self._loop = engine.loop
        arrays, rest = eqx.partition(training, eqx.is_array)
        dials, fixed = eqx.partition(loop, lambda leaf: isinstance(leaf, float))
        self._rest = rest
        self._dials = jax.tree.map(np.float32, dials)  # of NumPy: the same on all hosts, on no device yet
        self._periods = np.int32(self._updates // loop.period)

        def program(arrays: Training, dials: Loop, periods: Int[Array, ""]):
            training, chunk = eqx.combine(dials, fixed).run(eqx.combine(arrays, rest), periods)
            return eqx.filter(training, eqx.is_array), chunk

        self._program = jax.jit(program, donate_argnums=0).lower(arrays, self._dials, self._periods).compile()

        def diagnose(arrays: Training):
            training: Training = eqx.combine(arrays, rest)
            agent, trail = training.trained.agent, resized(training.trail, loop.watched)
            stale = None if loop.history(agent.core) is None else staleness(agent, trail, unroll=loop.unroll)
            return stale, openness(agent, trail, unroll=loop.unroll)

        everywhere = None if loop.mesh is None else jax.sharding.NamedSharding(loop.mesh, jax.sharding.PartitionSpec())
        self._look = jax.jit(diagnose, out_shardings=everywhere).lower(arrays).compile()

    def advance(self, state: Training, *, until: int, stop: Callable[[], bool]) -> Advance:
        """One report further; it cannot stop in between."""
        del stop
        assert until == int(state.updates) + self._updates, (until, int(state.updates), self._updates)
        arrays, chunk = self._program(eqx.filter(state, eqx.is_array), self._dials, self._periods)
        look = self._look(arrays)
        state = eqx.combine(arrays, self._rest)
        return Advance(state, self._row(state, *jax.device_get((chunk, look))))

    def _row(self, training: Training, chunk: Chunk, look: Any) -> Row:
        loop, updates = self._loop, int(training.updates)
        stale, open_ = look
        trail_full = updates * loop.unroll >= training.trail.reset.shape[1]
        return {
            "frames": updates * loop.frames_per_update,
            "updates": updates,
            "task": self._engine.config.task,
            **self._episodes.row(ended_episodes(chunk.ended, len(loop.tasks)), jax.device_get(training.trained.popart)),
            **{name: float(value) for name, value in chunk.metrics.items()},
            "memory_staleness": float(stale) if trail_full and stale is not None else None,
            "gate_openness": None if open_ is None else np.asarray(open_, np.float64).round(6).tolist(),
        }
