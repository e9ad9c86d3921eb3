"""The on-device loop: task, acting and learning in one compiled program, thousands of updates without a return to Python.

B streams, T steps of an unroll, N tasks.

A period is the paper's T_target learner steps. At its start the acting network becomes a copy of the online one and the
memory is prepared for it; then acting and learning alternate. Between periods the whole of training is one pytree, `Training`.

On n devices, of one host or several, each acts for and learns from B / n of the streams, under `shard_map`; weights are the
same on all of them, and the loss is that of the whole batch. Random numbers belong to streams, so that the number of devices
changes rounding only.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from gtrxl.cores import Core, State
from gtrxl.cores.streams import history
from gtrxl.networks.agent import Agent
from gtrxl.tasks.contract import Task
from gtrxl.tasks.specs import ObservationSpec
from gtrxl.training.rollout import Ended, Situation, Tasks, act, begin, played, tasks_of
from gtrxl.training.update import Batch, Metrics, Trained, Update, is_fine

AXIS = "streams"
WATCHED = 4
"""Streams whose trail is kept: the first ones, whatever the number of devices."""
TRAIL_BYTES = 64 * 2**20
"""No trail is larger: of pictures and a long memory none is kept, and how stale that memory is stays unknown."""
SPREAD = ("memory", "situation", "trail")
"""The parts of `Training` that have streams in front."""


class Trail(eqx.Module):
    """What some streams saw in their last H + T steps, and their memory T steps ago: to tell how stale a memory has become.

    The H steps before the last unroll are enough to make the memory anew: see `history`; H is 0 where they would be too many.
    """

    observation: PyTree
    reset: Bool[Array, "S H_T"]
    memory: State

    def follow(self, batch: Batch) -> "Trail":
        """The trail after one more unroll."""
        watched, steps = self.reset.shape[0], batch.unroll.reset.shape[1]

        def longer(before: Array, seen: Array) -> Array:
            return jnp.concatenate([before[:, steps:], seen[:watched]], axis=1)

        return Trail(
            observation=jax.tree.map(longer, self.observation, batch.unroll.observation),
            reset=longer(self.reset, batch.unroll.reset),
            memory=jax.tree.map(lambda leaf: leaf[:watched], batch.memory),
        )


class Training(eqx.Module):
    """All there is to know between two periods; what a checkpoint holds."""

    trained: Trained
    memory: State
    situation: Situation
    trail: Trail
    key: PRNGKeyArray
    updates: Int[Array, ""]
    diverged: Int[Array, ""]
    """The update after which something was not finite; -1 while all is well."""


class Chunk(eqx.Module):
    """What happened in a chunk: means over its updates, and its episodes (of several tasks: of each of them)."""

    metrics: Metrics
    ended: Ended


class Loop(eqx.Module):
    """The compiled program's fixed parts."""

    task: Tasks = eqx.field(static=True)
    """One task, or several: stream i plays task i % N."""
    update: Update
    streams: int = eqx.field(static=True)
    unroll: int = eqx.field(static=True)
    mesh: jax.sharding.Mesh | None = eqx.field(static=True, default=None)
    """One axis, AXIS, of devices (of all hosts) to spread the streams over; None for one device."""

    @property
    def period(self) -> int:
        """Updates between two copies of the network."""
        return self.update.learner.target_period

    @property
    def frames_per_update(self) -> int:
        """Observations that one update learns from."""
        return self.streams * self.unroll

    @property
    def watched(self) -> int:
        """Streams whose trail means something: the first rows of it."""
        return min(WATCHED, self.streams)

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The tasks, one or several."""
        return tasks_of(self.task)

    def history(self, core: Core) -> int | None:
        """From how many steps a memory can be made anew, exactly: a whole episode, or as far as the layers look back together.
        None where so many observations would be more than `TRAIL_BYTES`."""
        steps = history(core, max(task.episode_steps for task in self.tasks))
        seen = jax.tree.leaves(ObservationSpec.of(self.tasks[0].observation_space).zeros())
        return steps if self.watched * (steps + self.unroll) * sum(leaf.nbytes for leaf in seen) <= TRAIL_BYTES else None

    def start(self, agent: Agent, key: PRNGKeyArray) -> Training:
        """Before the first update, in one piece."""
        key, streams_key = jax.random.split(key)
        situation = begin(self.task, jax.random.split(streams_key, self.streams))
        watched, length = self.watched, (self.history(agent.core) or 0) + self.unroll
        return Training(
            trained=self.update.start(agent),
            memory=agent.initial_state(self.streams),
            situation=situation,
            trail=Trail(
                observation=jax.tree.map(
                    lambda leaf: jnp.zeros((watched, length, *leaf.shape[1:]), leaf.dtype), situation.observation
                ),
                reset=jnp.zeros((watched, length), bool),
                memory=agent.initial_state(watched),
            ),
            key=key,
            updates=jnp.int32(0),
            diverged=jnp.int32(-1),
        )

    def run(self, training: Training, periods: int | Int[Array, ""]) -> tuple[Training, Chunk]:
        """`periods` periods, and what to report of them. To be compiled by the caller, with `training` donated; one program does
        for any number of periods if that is one of its arguments."""
        if self.mesh is None:
            return self._run(training, periods)
        arrays, rest = eqx.partition(training, eqx.is_array)
        dials, fixed = eqx.partition(self, eqx.is_array)
        where = self.placement(arrays)

        def local(arrays: Training, dials: Loop, periods: Int[Array, ""]) -> tuple[Training, Chunk]:
            training, report = eqx.combine(dials, fixed)._run(eqx.combine(arrays, rest), periods)
            return eqx.filter(training, eqx.is_array), report

        spread = jax.shard_map(local, mesh=self.mesh, in_specs=(where, P(), P()), out_specs=(where, P()), check_vma=False)
        arrays, report = spread(arrays, dials, jnp.int32(periods))
        return eqx.combine(arrays, rest), report

    def placement(self, training: Training) -> Training:
        """Which arrays have a part on each device (the streams') and which are the same on all."""
        return jax.tree_util.tree_map_with_path(lambda at, _: P(AXIS) if at[0].name in SPREAD else P(), training)

    def _run(self, training: Training, periods: int | Int[Array, ""]) -> tuple[Training, Chunk]:
        # Traced once, though it is asked for its shapes first.
        period = jax.jit(lambda training: self._period(training))
        metrics, ended = jax.eval_shape(lambda training: _summed(*period(training)[1]), training)
        empty = (
            jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), metrics),
            Ended(
                **{
                    name: jnp.full(leaf.shape, {"least": jnp.inf, "most": -jnp.inf}.get(name, 0.0), leaf.dtype)
                    for name, leaf in vars(ended).items()
                }
            ),
        )

        def one(_: Int[Array, ""], carry: tuple[Training, tuple[Metrics, Ended]]) -> tuple[Training, tuple[Metrics, Ended]]:
            training, (metrics, ended) = carry
            training, found = period(training)
            more, others = _summed(*found)
            return training, (jax.tree.map(jnp.add, metrics, more), ended.and_others(others))

        training, (metrics, ended) = jax.lax.fori_loop(0, periods, one, (training, empty))
        count = jnp.float32(periods) * self.period
        if self.mesh is not None:
            total = lambda x: jax.lax.psum(x, AXIS)  # noqa: E731
            ended = Ended(
                count=total(ended.count),
                total=total(ended.total),
                squares=total(ended.squares),
                least=jax.lax.pmin(ended.least, AXIS),
                most=jax.lax.pmax(ended.most, AXIS),
                steps=total(ended.steps),
            )
        return training, Chunk(metrics=jax.tree.map(lambda sum_: sum_ / count, metrics), ended=ended)

    def _period(self, training: Training) -> tuple[Training, tuple[dict[str, Float[Array, " updates"]], Ended]]:
        actor = training.trained.acting()
        weights, rest = eqx.partition(training, eqx.is_array)
        streams = training.situation.reset.shape[0]  # of this device
        fast = actor.prepare(training.memory)

        def one(carry: tuple[State, Training], _: None):
            fast, weights = carry
            training: Training = eqx.combine(weights, rest)
            memory = actor.plain(fast, streams=streams)
            keys = jax.random.split(jax.random.fold_in(training.key, training.updates), self.streams + 1)
            first = 0 if self.mesh is None else jax.lax.axis_index(AXIS) * streams
            mine = jax.lax.dynamic_slice_in_dim(keys[1:], first, streams)
            fast, situation, unroll, ended = act(actor, self.task, fast, training.situation, keys=mine, steps=self.unroll)
            batch = Batch(
                unroll=unroll,
                memory=memory,
                next_observation=situation.observation,
                next_reset=situation.reset,
                task=played(self.task, streams),
            )
            trained, metrics = self.update(training.trained, batch, keys[0], updates=training.updates)
            updates = training.updates + 1
            fine = is_fine(trained, metrics)
            training = Training(
                trained=trained,
                memory=training.memory,
                situation=situation,
                trail=training.trail.follow(batch),
                key=training.key,
                updates=updates,
                diverged=jnp.where((training.diverged < 0) & ~fine, updates, training.diverged),
            )
            return (fast, eqx.filter(training, eqx.is_array)), (metrics, ended)

        (fast, weights), rows = jax.lax.scan(one, (fast, weights), length=self.period)
        training = eqx.combine(weights, rest)
        memory = actor.plain(fast, streams=streams)
        return eqx.tree_at(lambda of: of.memory, training, memory), rows


def _summed(rows: dict[str, Float[Array, " updates"]], ended: Ended) -> tuple[Metrics, Ended]:
    """Over the updates of a period."""
    return jax.tree.map(jnp.sum, rows), Ended(
        count=jnp.sum(ended.count, 0),
        total=jnp.sum(ended.total, 0),
        squares=jnp.sum(ended.squares, 0),
        least=jnp.min(ended.least, 0),
        most=jnp.max(ended.most, 0),
        steps=jnp.sum(ended.steps, 0),
    )
