"""Which devices a run uses, and where its state is: spread over those of all hosts while it runs, in one piece in a checkpoint.

The piece is the same whatever the number of devices and hosts: a run can go on with others.
"""

import contextlib
import dataclasses
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding

from gtrxl import machine
from gtrxl.runs.config import Config
from gtrxl.runs.errors import RunError
from gtrxl.training.device_loop import AXIS, Loop, Trail, Training
from gtrxl.training.multihost import hosts

MOST_CPUS = 8
"""Cores of a CPU that are taken unasked: small networks gain nothing from more."""


def choose_devices(config: Config[Any]) -> Config[Any]:
    """The settings with a number of devices on each host: the one asked for, or the most there are that divide the streams."""
    most, all_hosts = open_cpus(_sensible(config.devices)), hosts.count()
    if config.devices:
        return config
    share = all_hosts * _each(config)
    fits = [n for n in range(1, most + 1) if config.streams % (n * share) == 0]
    return dataclasses.replace(config, devices=max(fits, default=1))


def _each(config: Config[Any]) -> int:
    """What divides the streams of every device: the minibatches, and the tasks."""
    return math.lcm(config.learner.minibatches, len(config.tasks))


def open_cpus(count: int = 1) -> int:
    """How many devices this host has. A CPU can be as many as one likes, until JAX first uses it: so it is opened as one for each
    core at least, whatever this call asks for, because a later one may want them."""
    count = max(count, min(machine.processors(), MOST_CPUS))
    with contextlib.suppress(RuntimeError):
        if jax.config.jax_num_cpu_devices < count:  # pyright: ignore[reportAttributeAccessIssue]
            jax.config.update("jax_num_cpu_devices", count)
    return len(jax.local_devices())


def _sensible(devices: int) -> int:
    """How many devices a CPU is opened as. More than it has cores are for trying things out: a handful, never what a slip of the
    finger asks for."""
    return devices if devices <= max(machine.processors(), MOST_CPUS) else 1


def make_mesh(config: Config[Any]) -> jax.sharding.Mesh | None:
    """One axis of as many devices of each host as the settings ask for, host after host; None for one in all."""
    each, all_hosts = config.devices, hosts.count()
    there = open_cpus(_sensible(each))
    if each > there:
        raise RunError(f"devices must be at most {there}, which this process has, got {each}; 0 takes all of them")
    share = each * all_hosts * _each(config)
    if config.streams % share:
        spread = f"{each}" if all_hosts == 1 else f"{each} x {all_hosts} hosts"
        tasks = len(config.tasks)
        if tasks > 1:
            raise RunError(
                f"every device must play all {tasks} tasks equally often: streams must be a multiple of {share}, got "
                f"{config.streams} for {spread} devices; try --streams {share * math.ceil(config.streams / share)}"
            )
        raise RunError(
            f"streams must be a multiple of devices times minibatches, got {config.streams} for {spread} x "
            f"{config.learner.minibatches}; change --streams"
        )
    if each * all_hosts == 1:
        return None
    chosen = [device for host in range(all_hosts) for device in jax.local_devices(process_index=host)[:each]]
    return jax.sharding.Mesh(np.array(chosen), (AXIS,), axis_types=(jax.sharding.AxisType.Auto,))


def place(loop: Loop, training: Training) -> Training:
    """A state in one piece -> each array where the loop wants it. Of several hosts, host 0's state is everyone's."""
    mesh = loop.mesh
    if mesh is None:
        return training
    # Every device has as many rows of the trail: those beyond the streams that are watched are never looked at.
    training = _with_trail(training, mesh.size * min(loop.watched, loop.streams // mesh.size))
    arrays, rest = eqx.partition(training, eqx.is_array)
    where = jax.tree.map(lambda spec: NamedSharding(mesh, spec), loop.placement(arrays))
    placed = jax.device_put(arrays, where) if hosts.count() == 1 else jax.tree.map(_spread, arrays, where)
    return eqx.combine(placed, rest)


def collect(loop: Loop, training: Training) -> Training:
    """What `place` placed, in one piece again, on host 0. All hosts must call it; what the others get is not to be used."""
    if loop.mesh is None:
        return training
    if hosts.count() > 1:
        arrays, rest = eqx.partition(training, eqx.is_array)
        training = eqx.combine(jax.tree.map(_gathered, arrays), rest)
    return _with_trail(training, loop.watched)


def _with_trail(training: Training, rows: int) -> Training:
    return eqx.tree_at(lambda of: of.trail, training, resized(training.trail, rows))


def resized(trail: Trail, rows: int) -> Trail:
    """The trail of the first streams; blank ones are added if there are not so many."""

    def one(leaf: Any) -> Any:
        if len(leaf) == rows:
            return leaf
        blank = (rows - len(leaf), *leaf.shape[1:])
        return leaf[:rows] if len(leaf) > rows else np.concatenate([np.asarray(leaf), np.zeros(blank, leaf.dtype)])

    return jax.tree.map(one, trail)


def _spread(leaf: jax.Array, where: NamedSharding) -> jax.Array:
    if _is_key(leaf):
        return jax.random.wrap_key_data(_spread(jax.random.key_data(leaf), where), impl=jax.random.key_impl(leaf))
    whole = hosts.from_first(np.asarray(leaf))
    return jax.make_array_from_callback(whole.shape, where, lambda part: whole[part])


def _gathered(leaf: jax.Array) -> Any:
    if _is_key(leaf):
        return jax.random.wrap_key_data(jnp.asarray(_gathered(jax.random.key_data(leaf))), impl=jax.random.key_impl(leaf))
    if leaf.is_fully_replicated:
        return np.asarray(leaf.addressable_data(0))
    parts = sorted(leaf.addressable_shards, key=lambda shard: shard.index[0].start or 0)
    return hosts.to_first(np.concatenate([np.asarray(shard.data) for shard in parts]))


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
