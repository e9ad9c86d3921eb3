"""The compiled loop against the same thing said slowly in Python; chunks, divergence, devices. B streams, T steps."""

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl import make_task
from gtrxl.training.device_loop import AXIS, Loop, Trail, Training
from gtrxl.training.placement import place
from gtrxl.training.rollout import Ended
from gtrxl.training.update import Batch
from tests.training.small import CUT, ENDS, NET, UPDATE, B, T, acted, assert_trees_close, random_agent, updated

PERIOD = UPDATE.learner.target_period
LOOP = Loop(task=make_task(ENDS), update=UPDATE, streams=B, unroll=T)


SET = dataclasses.replace(LOOP, task=(make_task(ENDS), make_task("t-maze:corridor=3,patience=1")))


def first(loop: Loop):
    """Before the first update."""
    return eqx.filter_jit(loop.start)(random_agent(ENDS, "gru", spread=0.3, values=len(loop.tasks)), jax.random.key(5))


@eqx.filter_jit
def run(loop: Loop, training, periods: int):
    return loop.run(training, periods)


@pytest.fixture(scope="module")
def begun():
    return first(LOOP)


@pytest.fixture(scope="module")
def two_periods(begun):
    return run(LOOP, begun, 2)


class Slow(NamedTuple):
    training: Training
    rows: list
    ended: Ended
    seen: list


@pytest.fixture(scope="module")
def slow(begun) -> Slow:
    """Two periods by the definition: each acts with a copy of the weights it began with."""
    training, rows, ended, seen = begun, [], [], []
    for _ in range(2):
        actor, trained, situation = training.trained.agent, training.trained, training.situation
        before = memory = training.memory
        for _ in range(PERIOD):
            keys = jax.random.split(jax.random.fold_in(training.key, len(rows)), B + 1)
            after, situation, unroll, episodes = acted(actor, LOOP.task, memory, situation, keys[1:])
            batch = Batch(unroll=unroll, memory=memory, next_observation=situation.observation, next_reset=situation.reset)
            trained, metrics = updated(UPDATE, trained, batch, keys[0])
            before, memory = memory, after
            rows.append(jax.device_get(metrics))
            ended.append(episodes)
            seen.append(unroll)
        trail = Trail(observation=seen[-1].observation, reset=seen[-1].reset, memory=before)
        training = Training(
            trained=trained,
            memory=memory,
            situation=situation,
            trail=trail,
            key=training.key,
            updates=training.updates + PERIOD,
            diverged=training.diverged,
        )
    return Slow(training, rows, jax.tree.map(lambda *of: np.stack(of), *ended), seen)


def names(tree) -> list[str]:
    """Where its arrays are."""
    return [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_flatten_with_path(eqx.filter(tree, eqx.is_array))[0]]


def numbers(tree) -> list[np.ndarray]:
    """Its arrays, keys as numbers."""
    is_key = lambda leaf: jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)  # noqa: E731
    arrays = jax.tree.leaves(eqx.filter(tree, eqx.is_array))
    return [np.asarray(jax.random.key_data(leaf) if is_key(leaf) else leaf) for leaf in arrays]


def test_the_loop_is_what_it_says(slow, two_periods):
    fast, report = two_periods
    for part in ("trained", "memory", "situation", "key", "updates", "diverged"):
        ours, theirs = getattr(fast, part), getattr(slow.training, part)
        for where, x, y in zip(names(ours), numbers(ours), numbers(theirs), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-4, err_msg=part + where)
    assert int(fast.updates) == 2 * PERIOD
    for name in slow.rows[0]:
        mean = np.mean([row[name] for row in slow.rows])
        assert float(report.metrics[name]) == pytest.approx(float(mean), rel=1e-3, abs=1e-5), name
    assert slow.ended.count.sum() > 0
    over = {"count": np.sum, "total": np.sum, "squares": np.sum, "steps": np.sum, "least": np.min, "most": np.max}
    for name, function in over.items():
        assert float(getattr(report.ended, name)) == pytest.approx(float(function(getattr(slow.ended, name)))), name


def test_the_policy_that_acts_is_copied_at_the_start_of_a_period_alone(slow):
    """The online policy leaves the acting one at the second update of a period, and has met it again at the next."""
    kl = [float(row["kl_categorical"]) for row in slow.rows]
    assert max(abs(kl[0]), abs(kl[PERIOD])) < 1e-6
    assert min(kl[1], kl[PERIOD + 1]) > 1e-5


def test_the_trail_has_what_was_seen_last_and_the_memory_before_the_last_unroll(slow, two_periods):
    trail = two_periods[0].trail
    length = (LOOP.history(two_periods[0].trained.agent.core) or 0) + T
    assert trail.reset.shape == (B, length)
    for name in ("observation", "reset"):
        whole = np.concatenate([getattr(unroll, name) for unroll in slow.seen], axis=1)
        np.testing.assert_array_equal(getattr(trail, name), whole[:, -length:])
    assert_trees_close(trail.memory, slow.training.trail.memory, rtol=1e-3, atol=1e-4)


def test_the_trail_is_as_long_as_a_memory_can_reach():
    """A transformer of L layers sees the inputs of its first layer L * M steps back, and never more than an episode."""
    long = dataclasses.replace(LOOP, task=make_task("grid-numpad"))
    deep = dataclasses.replace(NET, layers=3, memory=4)
    assert long.history(random_agent(CUT, net=deep).core) == 12
    assert LOOP.history(random_agent(CUT, net=deep).core) == LOOP.tasks[0].episode_steps
    assert long.history(random_agent(CUT, "lstm").core) == 50


@pytest.fixture(scope="module")
def one_and_one(begun):
    first, report_of_first = run(LOOP, begun, 1)
    second, report_of_second = run(LOOP, first, 1)
    return first, second, report_of_first, report_of_second


def test_two_periods_are_one_and_one(two_periods, one_and_one):
    """To rounding: they are two programs, and a compiler may order a sum in another way."""
    (together, report), (_, second, report_of_first, report_of_second) = two_periods, one_and_one
    for where, x, y in zip(names(together), numbers(together), numbers(second), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5, err_msg=where)
    assert float(report.ended.total) == float(report_of_first.ended.total + report_of_second.ended.total)
    loss = (report_of_first.metrics["loss"] + report_of_second.metrics["loss"]) / 2
    assert float(report.metrics["loss"]) == pytest.approx(float(loss), rel=1e-4)


def test_the_state_between_two_periods_is_all_there_is(one_and_one):
    """Gone on from a copy that was on the host, as from a checkpoint: the same bits."""
    first, second, _, _ = one_and_one
    copy = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)), eqx.tree_at(lambda of: of.key, first, jnp.zeros(())))
    again, _ = run(LOOP, eqx.tree_at(lambda of: of.key, copy, first.key), 1)
    for where, x, y in zip(names(again), numbers(again), numbers(second), strict=True):
        np.testing.assert_array_equal(x, y, err_msg=where)


POISONED = {
    "policy": lambda of: of.trained.agent.policy.hidden.weight,
    "value": lambda of: of.trained.agent.value.output.bias,
    "torso": lambda of: of.trained.agent.torso.first.weight,
    "temperature": lambda of: of.trained.multipliers["eta"],
    # What these spoil is not the first loss or gradient but what the first update leaves.
    "weights to come": lambda of: of.trained.agent_optimiser[0].mu.value.output.bias,
    "temperature to come": lambda of: of.trained.multiplier_optimiser[0].mu["eta"],
    "statistics": lambda of: of.trained.popart.variance,
}


@pytest.mark.parametrize("where", POISONED)
def test_divergence_is_dated_by_its_first_update(one_and_one, where):
    good = one_and_one[0]
    assert int(good.diverged) == -1
    bad = eqx.tree_at(POISONED[where], good, replace_fn=lambda leaf: jnp.full_like(leaf, jnp.nan))
    bad, _ = run(LOOP, bad, 1)
    assert int(bad.diverged) == PERIOD + 1
    bad, _ = run(LOOP, bad, 1)
    assert int(bad.diverged) == PERIOD + 1, "later updates are not finite either, and it stays at the first"


def test_frames_are_counted_by_streams_and_steps():
    assert LOOP.frames_per_update == B * T
    assert LOOP.period == PERIOD


def main(path: str) -> None:
    """Two periods on two devices, saved."""
    jax.config.update("jax_num_cpu_devices", 2)
    mesh = jax.make_mesh((2,), (AXIS,), axis_types=(jax.sharding.AxisType.Auto,))
    saved = []
    for one in (LOOP, SET):
        loop = dataclasses.replace(one, update=dataclasses.replace(UPDATE, axis=AXIS), mesh=mesh)
        training, report = run(loop, place(loop, first(loop)), 2)
        assert len(training.situation.reset.sharding.device_set) == 2
        saved += numbers((training, report))
    np.savez(path, *saved)


@pytest.mark.slow
def test_two_devices_change_rounding_only(begun, two_periods, tmp_path):
    """Of one task, and of two. In a process of its own, because devices are counted once per process."""
    path, of_set = tmp_path / "two.npz", run(SET, first(SET), 2)
    assert of_set[1].ended.count.shape == (2,)
    assert np.all(np.asarray(of_set[1].ended.count) > 0)
    program = [sys.executable, "-m", "tests.training.test_device_loop", str(path)]
    done = subprocess.run(program, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    with np.load(path) as saved:
        on_two = [saved[name] for name in saved.files]
    on_one = (two_periods, of_set)
    for where, x, y in zip(names(on_one), numbers(on_one), on_two, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-4, err_msg=where)


if __name__ == "__main__":
    main(sys.argv[1])
