"""The learner's loop: what it learns from, how far it lets actors fall behind, what it does when they fail, what a run leaves."""

import dataclasses
import functools
import json
import os
import signal

import jax
import jax.numpy as jnp
import optax
import pytest

import gtrxl
from gtrxl.gym.task import GymTask
from gtrxl.runs.config import FleetSettings
from gtrxl.runs.errors import RunError
from gtrxl.runs.folder import checkpoints_of
from gtrxl.runs.settings import change
from gtrxl.runs.tasks import GymTasks
from gtrxl.training.actors.conductor import Conductor, Learning
from gtrxl.training.actors.engine import share_out
from gtrxl.training.building import update_of
from gtrxl.training.update import Batch
from tests.training import crew
from tests.training.crew import NET, TASK, InlineFleet, agent_for, assignment
from tests.training.small import assert_trees_close
from tests.training.toys import Bad, Broken

PERIOD = 2


def tiny(**changes):
    """16 frames an update, 4 updates a report, 3 reports."""
    config = gtrxl.defaults(task="gym:Counter", core="lstm", algorithm="vmpo")
    fleet = FleetSettings(actors=2, tasks=2, restarts=2)
    learner = dataclasses.replace(config.learner, target_period=PERIOD)
    config = dataclasses.replace(
        config, net=NET, learner=learner, fleet=fleet, streams=4, unroll=4, steps=192, reports=3, checkpoint_every=2
    )
    return change(config, changes)


UPDATE = update_of(tiny())


def learning_now():
    return Learning.start(UPDATE, jax.tree.map(jnp.array, agent_for()), jax.random.key(0))


def train(folder, config=None, *, fleets=None, task=TASK, **fate):
    def open_fleet(orders, actors):
        made = InlineFleet(orders, actors, **fate)
        if fleets is not None:
            fleets.append(made)
        return made

    return crew.train(config or tiny(), task, run=folder, quiet=True, board=False, open_fleet=open_fleet)


def test_an_update_learns_from_packets_side_by_side():
    """The weights after it are those of `Update` on the batch of all packets, in the order they came."""
    packets = []

    class Watched(InlineFleet):
        def wait(self, timeout):
            came = super().wait(timeout)
            packets.extend(answer for _, answer in came)
            return came

    learning = learning_now()
    key = jax.random.fold_in(learning.key, 0)
    both = Conductor(UPDATE, Watched(assignment(), 2), streams=4, tasks=2, restarts=0)
    after, tally = both.advance(learning_now(), until=1)
    assert (int(after.updates), tally.updates, tally.lags) == (1, 1, [0, 0])

    @jax.jit
    def expected(trained, first, second):
        parts = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), first, second)
        return UPDATE(trained, Batch(**parts), key)

    parts = [{f.name: getattr(packet, f.name) for f in dataclasses.fields(Batch)} for packet in packets[:2]]
    trained, metrics = expected(learning.trained, *parts)
    assert_trees_close(after.trained, trained)
    assert tally.metrics["loss"] == pytest.approx(float(metrics["loss"]), rel=1e-4)


def test_unrolls_under_way_and_their_lag_are_bounded():
    """However slow the learner: never more than (1 + P) B / K under way, none learned from more than 2 P - 1 updates late."""
    seen = []

    class Quick(InlineFleet):
        """All that was asked for has come whenever one looks: the learner is the slow one."""

        def wait(self, timeout):
            seen.append(conductor.under_way)
            return [came for _ in range(len(self.asked)) for came in super(Quick, self).wait(timeout)]

    fleet = Quick(assignment(), 5)
    conductor = Conductor(UPDATE, fleet, streams=4, tasks=2, restarts=0)
    _, tally = conductor.advance(learning_now(), until=20)
    most = 2 * (1 + PERIOD)
    assert max(seen) == most, "as many as are allowed, and no more"
    assert len(conductor.queue) <= most
    assert max(tally.lags) == 2 * PERIOD - 1
    assert fleet.published == list(range(0, 21, PERIOD))


def test_actors_that_wait_for_new_weights_play_with_the_newest():
    update = update_of(tiny(learner={"target_period": 1}))
    learning = Learning.start(update, jax.tree.map(jnp.array, agent_for()), jax.random.key(0))
    conductor = Conductor(update, InlineFleet(assignment(), 2), streams=4, tasks=2, restarts=0, ahead=0)
    _, tally = conductor.advance(learning, until=12)
    assert set(tally.lags) == {0}
    with pytest.raises(RunError, match="actors must be at most 2, 1 x streams / tasks of an actor, got 3; more would only wait"):
        Conductor(update, InlineFleet(assignment(), 3), streams=4, tasks=2, restarts=0, ahead=0)


def test_packets_that_come_too_late_are_dropped_and_counted():
    class Late(InlineFleet):
        def wait(self, timeout):
            came: list = super().wait(timeout)
            late = {i: 2 * PERIOD * (self.asks[i] % 3 == 0) for i, _ in came}
            return [(i, dataclasses.replace(packet, version=packet.version - late[i])) for i, packet in came]

    conductor = Conductor(UPDATE, Late(assignment(), 2), streams=4, tasks=2, restarts=0)
    learning, tally = conductor.advance(learning_now(), until=6)
    assert int(learning.updates) == 6
    assert conductor.losses.dropped >= 2
    assert max(tally.lags) <= 2 * PERIOD - 1


def test_an_actor_that_never_starts_does_not_hold_up_the_others():
    class Missing(InlineFleet):
        def wait(self, timeout):
            self.asked = [actor for actor in self.asked if actor == 3]
            return super().wait(timeout)

    conductor = Conductor(UPDATE, Missing(assignment(), 4), streams=4, tasks=2, restarts=0)
    learning, _ = conductor.advance(learning_now(), until=4)
    assert int(learning.updates) == 4


def test_a_run_leaves_rows_checkpoints_and_a_result(tmp_path):
    fleets = []
    run = train(tmp_path / "run", fleets=fleets)
    assert run.status == "finished"
    assert [row["updates"] for row in run.rows] == [4, 8, 12]
    last = run.rows[-1]
    for name in ("return_mean", "episode_steps", "loss", "frames_per_second", "lag_mean", "task_share", "waiting"):
        assert isinstance(last[name], float), name
    counts = {name: last[name] for name in ("frames", "actors", "restarts", "lost_unrolls", "dropped")}
    assert counts == {"frames": 192, "actors": 2, "restarts": 0, "lost_unrolls": 0, "dropped": 0}
    assert 0 <= last["lag_max"] <= 2 * PERIOD - 1
    assert 0 < last["task_share"] < 1
    assert json.loads((run.folder / "result.json").read_text())["status"] == "finished"
    assert checkpoints_of(run.folder, read_only=True).latest == 12
    assert [fleet.closed for fleet in fleets] == [True]


def test_an_interrupted_run_stops_at_once_and_goes_on_with_all_it_had_learned(tmp_path):
    """Optimiser, multipliers, PopArt and counters of the resumed run are those of the checkpoint; its episodes are new ones."""
    config, begun = tiny(), []

    def interrupt(actor, asks):
        if asks == 5 and not begun:
            begun.append(actor)
            os.kill(os.getpid(), signal.SIGINT)

    stopped = train(tmp_path / "run", config, fate=interrupt)
    assert stopped.status == "stopped"
    kept = checkpoints_of(stopped.folder, read_only=True)
    done = kept.latest
    assert done not in (0, 4, 8, 12), "between two reports"
    assert stopped.rows[-1]["updates"] == done
    saved = kept.restore(crew.engine(config, TASK).shapes(), "last")
    assert int(saved.updates) == done
    assert int(saved.trained.agent_optimiser[0].count) == done

    class First(InlineFleet):
        def publish(self, version, weights):
            begun.append((version, weights, self.assignment.since))
            super().publish(version, weights)

    resumed = crew.resume(config, TASK, stopped.folder, quiet=True, board=False, open_fleet=First)
    version, weights, since = begun[1]
    assert (version, since) == (done, done)
    assert_trees_close(weights, saved.trained.acting(), rtol=0, atol=0)
    assert resumed.status == "finished"
    assert [row["updates"] for row in resumed.rows][-1] == 12
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_failures_are_said_counted_and_survived(tmp_path, capsys):
    """Every third unroll of actor 1 fails; the run makes all its updates."""
    fate = lambda actor, asks: "Counter, actor 1: lost its keys" if actor == 1 and asks % 3 == 0 else None  # noqa: E731
    open_fleet = functools.partial(InlineFleet, fate=fate)
    config = tiny(fleet={"restarts": 5})  # in a longer run so many failures would be too many
    run = crew.train(config, TASK, run=tmp_path / "run", board=False, open_fleet=open_fleet)
    last = run.rows[-1]
    assert (run.status, last["updates"]) == ("finished", 12)
    assert last["restarts"] >= 2
    assert last["lost_unrolls"] >= last["restarts"]
    assert "actor 1: lost its keys" in capsys.readouterr().err


def test_a_task_that_keeps_failing_ends_the_run_with_its_error_and_a_checkpoint(tmp_path):
    fleets = []
    task = GymTask("Bad", env_fn=functools.partial(Bad, "nan reward", at=4), previous="action+reward")
    with pytest.raises(
        RunError, match=r"failed 3 times without .* gym:Bad, actor \d, stream \d, at step 3: reward must be finite"
    ):
        train(tmp_path / "run", task=task, fleets=fleets)
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["status"] == "failed"
    assert "reward must be finite" in result["error"]
    assert checkpoints_of(tmp_path / "run", read_only=True).latest is not None
    assert fleets[0].closed


def test_a_task_that_cannot_be_made_ends_the_run_the_second_time(tmp_path):
    fleets, task = [], GymTask("Broken", env_fn=Broken, previous="action+reward")
    with pytest.raises(RunError, match=r"its task cannot be made, tried twice: gym:Broken, actor \d, stream 0, when made: "):
        crew.train(tiny(), TASK, run=tmp_path / "run", quiet=True, board=False, open_fleet=broken_fleet(task, fleets))
    assert sum(fleets[0].attempts) == 1


def broken_fleet(task, fleets):
    """Actors that are asked to play another task than the learner thinks."""

    def open_fleet(orders, actors):
        fleets.append(InlineFleet(dataclasses.replace(orders, task=task), actors))
        return fleets[-1]

    return open_fleet


def test_divergence_ends_the_run_and_keeps_the_last_good_checkpoint(tmp_path):
    config = tiny(learner={"learning_rate": 1e30})
    run = train(tmp_path / "run", config)
    assert run.status == "diverged"
    assert checkpoints_of(run.folder, read_only=True).latest == 0
    assert json.loads((run.folder / "result.json").read_text())["diverged_at_update"] >= 1


def test_weights_that_are_not_finite_are_not_saved(tmp_path, monkeypatch):
    """The first loss and gradient are fine, but the step they lead to is more than a float holds."""
    config = tiny(learner={"target_period": 1}, steps=32, reports=2, checkpoint_every=1)
    monkeypatch.setattr(type(config.learner), "optimiser", lambda self: optax.chain(optax.scale(-1e38), optax.scale(1e38)))
    run = train(tmp_path / "run", config)
    assert run.status == "diverged"
    assert json.loads((run.folder / "result.json").read_text())["diverged_at_update"] == 1
    assert isinstance(run.rows[0]["loss"], float)
    assert checkpoints_of(run.folder, read_only=True).latest == 0


def test_streams_are_shared_out_among_actors():
    def shared(**fleet):
        config = share_out(tiny(streams=12, fleet={"actors": 0, "tasks": 0, **fleet}), GymTasks(TASK))
        return config.fleet.actors * config.fleet.tasks, config.fleet.tasks

    assert shared()[0] == 12
    assert shared(actors=3) == (12, 4)
    assert shared(actors=6, tasks=4) == (24, 4)
    assert shared(actors=5) == (10, 2)
    assert shared(actors=24) == (24, 1)  # more actors than streams: each batch is of those that came first
    with pytest.raises(RunError, match="got 12 for 2 actors of 5 tasks each; try --streams 10"):
        shared(actors=2, tasks=5)
    with pytest.raises(RunError, match=r"actors must be at most 6, .* got 7"):
        Conductor(UPDATE, InlineFleet(assignment(), 7), streams=4, tasks=2, restarts=0)
    with pytest.raises(RunError, match="streams must be a multiple of the 3 tasks"):
        Conductor(UPDATE, InlineFleet(assignment(), 1), streams=4, tasks=3, restarts=0)
