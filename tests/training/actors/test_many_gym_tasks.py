"""Several tasks on actors: who plays what, what packets say of it, a value and statistics for each, rows, DeepMind Lab."""

import dataclasses
import functools
import json
import pickle

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gtrxl
from gtrxl import machine
from gtrxl.algorithms.popart import init as popart_of
from gtrxl.evaluation import gym_episodes as hosting
from gtrxl.gym.by_name import parse
from gtrxl.gym.dmlab.levels import LEVELS
from gtrxl.gym.dmlab.task import LabEnv
from gtrxl.gym.sets import GymSet
from gtrxl.gym.stream import FinishedEpisode
from gtrxl.gym.task import GymTask
from gtrxl.runs.config import FleetSettings
from gtrxl.runs.errors import RunError
from gtrxl.runs.settings import change
from gtrxl.runs.tasks import GymTasks
from gtrxl.training.actors import engine
from gtrxl.training.actors.actor import Actor
from gtrxl.training.actors.conductor import Conductor, Learning
from gtrxl.training.actors.engine import share_out
from gtrxl.training.actors.fleet import LocalFleet
from gtrxl.training.building import make_agent, update_of
from gtrxl.training.rows import EpisodeRows, finished_episodes
from tests.gym import fake_lab
from tests.training import crew
from tests.training.crew import NET, InlineFleet, assignment
from tests.training.small import unrolled
from tests.training.toys import Counter, Mixed

PERIOD = 2


class Rich(Counter):
    """A `Counter` that pays a hundred times as much."""

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, 100.0 * reward, terminated, truncated, info


def member(kind, name=""):
    return GymTask(name or kind.__name__, env_fn=kind, previous="action+reward")


BOTH = GymSet("Counter+Rich", members=(member(Counter), member(Rich)))


def tiny(**changes):
    """16 frames an update, 4 updates a report, 3 reports."""
    config = gtrxl.defaults(task="gym:Counter", core="lstm", algorithm="vmpo")
    fleet = FleetSettings(actors=2, tasks=2, restarts=2)
    learner = dataclasses.replace(config.learner, target_period=PERIOD)
    sizes = {"streams": 4, "unroll": 4, "steps": 192, "reports": 3, "checkpoint_every": 2, "popart_step": 0.05}
    return change(dataclasses.replace(config, net=NET, learner=learner, fleet=fleet, **sizes), changes)


UPDATE = update_of(tiny())


@functools.cache
def agent_of_two():
    """With values that are far apart, so that it shows which of them was taken."""
    made = make_agent(tiny(), BOTH.spaces(), jax.random.key(0), values=2)
    return jax.device_get(eqx.tree_at(lambda of: of.value.output.bias, made, jnp.array([1.0, -1.0])))


# Who plays what


def test_streams_play_the_tasks_in_turn():
    """Stream i of all plays task i modulo N, over all actors; each task is played by as many streams as any other."""
    everything = parse("dmlab30")
    orders = assignment(everything, streams=1)
    assert [orders.played(actor) for actor in range(60)] == [(n % 30,) for n in range(60)]
    assert orders.name(31, 0) == "dmlab:rooms_exploit_deferred_effects_train"
    two = assignment(BOTH, streams=3)
    assert [two.played(actor) for actor in range(2)] == [(0, 1, 0), (1, 0, 1)]
    assert pickle.loads(pickle.dumps(orders)).name(3, 0) == "dmlab:rooms_watermaze"


def test_a_lab_has_its_actor_to_itself():
    with pytest.raises(RunError, match="tasks-per-actor must be 1 for dmlab:rooms_watermaze"):
        assignment(parse("dmlab:rooms_watermaze"), streams=2)


def test_actors_are_shared_out_evenly(monkeypatch):
    monkeypatch.setattr(machine, "processors", lambda: 4)

    def shared(task, streams, **fleet):
        given = {"actors": 0, "tasks": 0} | fleet
        config = change(tiny(task="gym:Counter", streams=streams), {"fleet": given})
        found = share_out(config, GymTasks(parse(task))).fleet
        return found.actors, found.tasks

    three = "gym:A-v0+gym:B-v0+gym:C-v0"
    assert shared("dmlab:rooms_watermaze", 16) == (4, 1)
    assert shared("dmlab30", 16) == (30, 1)
    assert shared("dmlab30-memory", 16, actors=16) == (16, 1)
    assert shared(three, 12) == (4, 3)
    assert shared(three, 16) == (6, 4)
    assert shared(three, 12, actors=2) == (2, 6)
    for task, fleet, said in (
        ("dmlab30", {"actors": 7}, "try --actors 30"),
        ("dmlab30-memory", {"tasks": 2}, "tasks-per-actor must be 1"),
        (three, {"actors": 2, "tasks": 4}, "try --actors 3"),
    ):
        with pytest.raises(RunError, match=said) as caught:
            shared(task, 16, **fleet)
        assert "\n" not in str(caught.value)


# What packets say


def test_a_packet_says_what_each_stream_plays_and_values_are_of_that_task():
    agent = agent_of_two()
    actor = Actor(assignment(BOTH, streams=2, steps=8), 0)
    packet = actor.unroll(agent, 0)
    actor.close()
    assert packet.task is not None
    assert packet.task.tolist() == [0, 1]
    assert {(episode.task, episode.score > 50) for episode in packet.ended} == {(0, False), (1, True)}
    values = unrolled(agent, packet.unroll.observation, packet.memory, packet.unroll.reset)[1]
    own = np.stack([values[0, :, 0], values[1, :, 1]])
    np.testing.assert_allclose(packet.unroll.value, own, rtol=1e-4, atol=1e-5)
    assert packet.unroll.value[0].min() > 0 > packet.unroll.value[1].max()


def test_statistics_are_kept_for_each_task():
    """PopArt finds each task's own scale, a hundred times the other's; packets of any mixture make a batch."""
    learning = Learning.start(UPDATE, jax.tree.map(jnp.array, agent_of_two()), jax.random.key(0))
    conductor = Conductor(UPDATE, InlineFleet(assignment(BOTH, streams=1), 4), streams=4, tasks=1, restarts=0)
    after, tally = conductor.advance(learning, until=24)
    mean = np.asarray(after.trained.popart.mean)
    assert mean[1] > 20 * mean[0] > 0
    assert {episode.task for episode in tally.ended} == {0, 1}


# Runs


def train(folder, config, fleets=None):
    def open_fleet(orders, actors):
        return InlineFleet(orders, actors)

    return crew.train(config, BOTH, run=folder, quiet=True, board=False, open_fleet=fleets or open_fleet)


@pytest.mark.slow
def test_a_run_of_two_tasks_reports_each_and_goes_on(tmp_path):
    run = train(tmp_path / "run", tiny())
    assert run.status == "finished"
    for row in run.rows:
        parts = row["tasks"]
        assert set(parts) == {"gym:Counter", "gym:Rich"}
        assert sum(part["episodes"] for part in parts.values()) == row["episodes"]
        assert {"return_mean", "return_std", "normalised", "value_mean", "value_scale"} < set(parts["gym:Rich"])
    last = run.rows[-1]
    each = [last["tasks"][name]["return_mean"] for name in ("gym:Counter", "gym:Rich")]
    assert each[1] > 20 * each[0]
    assert last["return_mean"] == pytest.approx(np.mean(each)), "a task counts once, however many episodes it had"
    config = change(tiny(), {"steps": 256, "reports": 4})
    more = crew.resume(config, BOTH, run.folder, quiet=True, board=False, open_fleet=InlineFleet)
    assert [row["updates"] for row in more.rows] == [4, 8, 12, 16]


def test_rows_keep_the_latest_score_of_a_task_without_an_episode():
    """Also across a resume."""
    tasks = parse("dmlab30-memory")
    before = [{"tasks": {task.name: {"return_mean": LEVELS[task.id].human} for task in tasks.tasks}}]
    rows, popart = EpisodeRows(GymTasks(tasks), before), popart_of(8)
    watermaze = next(n for n, task in enumerate(tasks.tasks) if task.id == "rooms_watermaze")
    found = rows.row(finished_episodes([FinishedEpisode(4.065, 10, watermaze)], 8), popart)
    assert found["return_mean"] == pytest.approx(700 / 8), "seven humans and one random policy"
    assert found["human_normalised"]["memory"] == {"mean": pytest.approx(87.5), "capped": pytest.approx(87.5), "levels": 8}
    assert found["tasks"]["dmlab:rooms_watermaze"]["normalised"] == pytest.approx(0.0)
    assert found["tasks"]["dmlab:explore_object_rewards_few"]["normalised"] is None
    assert rows.row(finished_episodes([], 8), popart)["return_mean"] is None, "nothing ended"


def test_tasks_without_a_human_count_as_they_are():
    scales = GymTasks(BOTH).scales
    assert scales.mean({"gym:Counter": 1.0}) is None
    assert scales.mean({"gym:Counter": 1.0, "gym:Rich": 3.0}) == 2.0
    assert (scales.lines, scales.of_100(2.0), GymTasks(BOTH).beside({"gym:Counter": 1.0})) == ({}, None, {})


def test_tasks_with_other_spaces_are_refused_before_there_is_a_folder(tmp_path):
    odd = GymSet("Counter+Mixed", members=(member(Counter), member(Mixed)))
    with pytest.raises(ValueError, match="tasks of one run must have the same spaces") as caught:
        crew.train(tiny(), odd, run=tmp_path / "run", quiet=True, board=False)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


# DeepMind Lab


@pytest.fixture
def lab(tmp_path, monkeypatch):
    fake_lab.install(tmp_path, monkeypatch)
    monkeypatch.setattr(LabEnv, "_open", None)
    return monkeypatch


TWO_LEVELS = "dmlab:rooms_watermaze:height=8,width=8+dmlab:explore_goal_locations_small:height=8,width=8"


@pytest.mark.slow
def test_two_levels_train_on_actors_and_a_lab_that_ends_its_process_is_started_anew(lab, tmp_path):
    lab.setenv("FAKE_LAB_FRAMES", "24")
    (tmp_path / "exit").write_text("")
    lab.setenv("FAKE_LAB_EXIT", str(tmp_path / "exit"))
    said = []
    fleets = []

    def open_fleet(orders, actors):
        fleets.append(LocalFleet(orders, actors))
        return fleets[-1]

    sizes = {"streams": 2, "steps": 64, "reports": 2, "net": {"channels": "tiny"}}
    config = change(tiny(), {"task": TWO_LEVELS, "fleet": {"actors": 0, "tasks": 0}, **sizes})
    lab.setattr(machine, "processors", lambda: 1)
    lab.setattr(engine, "Conductor", functools.partial(_listening, said))
    run = crew.train(config, crew.gym_task(config), run=tmp_path / "run", quiet=True, board=False, open_fleet=open_fleet)
    assert (run.status, run.config.fleet.actors, run.config.fleet.tasks) == ("finished", 2, 1)
    last = run.rows[-1]
    assert last["restarts"] >= 1
    assert any("its process ended with code 1" in line and line.startswith("dmlab:") and "at step" in line for line in said), said
    names = TWO_LEVELS.split("+")
    assert set(last["tasks"]) == set(names)
    assert sum(row["episodes"] for row in run.rows) > 0
    # Every episode has 6 steps.
    assert {row["episode_steps"] for row in run.rows if row["episodes"]} == {6.0}
    assert json.loads((run.folder / "config.json").read_text())["task"] == TWO_LEVELS


@pytest.mark.slow
def test_all_thirty_levels_train_at_once(lab, tmp_path):
    """In this process, where the stand-in does no harm: thirty actors of one level each, a row for each, the three splits."""
    lab.setenv("FAKE_LAB_FRAMES", "8")
    lab.setattr(LabEnv, "_check_alone", lambda _: None)
    lab.setattr(machine, "processors", lambda: 2)
    sizes = {"streams": 30, "unroll": 4, "steps": 240, "reports": 1, "net": {"channels": "tiny"}}
    config = change(tiny(), {"task": "dmlab30:height=8,width=8", "fleet": {"actors": 0, "tasks": 0}, **sizes})
    run = crew.train(config, crew.gym_task(config), run=tmp_path / "run", quiet=True, board=False, open_fleet=InlineFleet)
    last = run.rows[-1]
    assert (run.config.fleet.actors, len(last["tasks"])) == (30, 30)
    assert {part["episodes"] > 0 for part in last["tasks"].values()} == {True}
    assert {split: found["levels"] for split, found in last["human_normalised"].items()} == {
        "all": 30,
        "memory": 8,
        "reactive": 22,
    }
    assert last["return_mean"] == last["human_normalised"]["all"]["mean"]
    assert json.loads((run.folder / "result.json").read_text())["normalised"] == last["return_mean"]


def _listening(said, update, fleet, *, say, **others):
    def both(line):
        said.append(line)
        say(line)

    return Conductor(update, fleet, say=both, **others)


def test_labs_are_scored_in_processes_of_their_own(lab):
    """Test levels, two at once, and the process that dies takes nobody with it."""
    lab.setenv("FAKE_LAB_FRAMES", "16")
    held_out = parse("dmlab:rooms_collect_good_objects:height=8,width=8").held_out()
    scores = hosting.random_returns(held_out, episodes=2)
    assert scores.shape == (2,)
    assert set(np.abs(scores) % 4) == {0.0}
    with pytest.raises(RunError, match=r"process of dmlab:tests/missing_map ended with code 1") as caught:
        hosting.random_returns(parse("dmlab:tests/missing_map"), episodes=2)
    assert "\n" not in str(caught.value)
