"""Several tasks in one run: acting, PopArt, rows, a stop in between, scores. B streams, T steps, N tasks."""

import dataclasses
import json
import os
import signal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gtrxl
from gtrxl import make_task
from gtrxl.cli.main import main
from gtrxl.cli.runs import _ended
from gtrxl.evaluation.evaluate import TaskScore, _of_several
from gtrxl.runs.errors import RunError
from gtrxl.runs.metrics import read, without_clock
from gtrxl.runs.scores import late_tasks
from gtrxl.runs.tasks import CompiledTasks
from gtrxl.tasks import scores
from gtrxl.tasks.scores import Scores
from gtrxl.tasks.sets import MEMORY, make_tasks
from gtrxl.training import placement
from gtrxl.training import session as train
from gtrxl.training.building import make_agent
from gtrxl.training.rollout import Ended, begin, own_value, played
from gtrxl.training.rows import EpisodeRows, ended_episodes
from gtrxl.training.update import Batch
from tests.training.small import ENDS, NET, UPDATE, B, T, acted, updated

OTHER = "t-maze:corridor=4,patience=1"
BOTH = f"{ENDS}+{OTHER}"
NAMES = [ENDS, OTHER]
TASKS = (make_task(ENDS), make_task(OTHER))
N = len(TASKS)
KNOWN = {
    ENDS: Scores(random=0.25, random_error=0.0, best=1.0, best_error=0.0, told=None, told_error=None, episodes=1, seed=0),
    OTHER: Scores(random=0.0, random_error=0.0, best=2.0, best_error=0.0, told=None, told_error=None, episodes=1, seed=0),
}


@pytest.fixture(autouse=True, scope="module")
def known():
    """Scores that need no measuring."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scores, "known_scores", lambda task: KNOWN[gtrxl.tasks.spell(task)])
        yield


@pytest.fixture(scope="module")
def agent():
    config = gtrxl.defaults(task=BOTH, core="none")
    return make_agent(dataclasses.replace(config, net=NET), TASKS[0], jax.random.key(1), values=N)


@pytest.fixture(scope="module")
def together(agent):
    """An unroll of both tasks, and what it was begun with."""
    first = eqx.filter_jit(begin)(TASKS, jax.random.split(jax.random.key(3), B))
    keys = jax.random.split(jax.random.key(4), B)
    memory = agent.initial_state(B)
    memory, situation, _, _ = acted(agent, TASKS, memory, first, keys)
    _, last, unroll, ended = acted(agent, TASKS, memory, situation, jax.random.split(jax.random.key(5), B))
    return memory, situation, last, unroll, ended


def test_a_stream_lives_as_if_its_task_were_alone(agent, together):
    """Every second stream is the first task's: the same steps as in a run of that task alone, from the same keys."""
    memory, situation, last, unroll, ended = together
    keys = jax.random.split(jax.random.key(5), B)
    for n, task in enumerate(TASKS):
        part = lambda tree, n=n: jax.tree.map(lambda leaf: leaf[n::N], tree)  # noqa: E731
        alone = dataclasses.replace(part(dataclasses.replace(situation, task=None)), task=situation.task[n])
        twice = jax.tree.map(lambda leaf: jnp.concatenate([leaf, leaf]), (alone, part(keys)))  # as many streams: one program less
        one = eqx.tree_at(lambda of: of.value.output, agent, jax.tree.map(lambda leaf: leaf[..., n : n + 1], agent.value.output))
        _, after, mine, of_task = acted(one, task, memory, *twice)
        half = jax.tree.map(lambda leaf: leaf[: B // N], (after, mine))
        assert eqx.tree_equal(half[0].task, last.task[n])
        for field in ("reset", "action", "reward", "terminated", "valid"):
            np.testing.assert_array_equal(getattr(half[1], field), getattr(unroll, field)[n::N], err_msg=field)
        np.testing.assert_allclose(half[1].value, unroll.value[n::N], rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(half[1].observation, unroll.observation[n::N])
        for field in ("count", "total", "squares", "steps"):
            assert float(getattr(of_task, field)) == pytest.approx(2 * float(getattr(ended, field)[n])), field
        for field in ("least", "most"):
            assert float(getattr(of_task, field)) == float(getattr(ended, field)[n])
    assert ended.count.sum() > 0


def test_values_are_those_of_the_task_that_a_stream_plays(agent, together):
    _, _, _, unroll, _ = together
    plays = np.array(played(TASKS, B))
    np.testing.assert_array_equal(plays, np.arange(B) % N)
    _, values, _ = eqx.filter_jit(agent.unroll)(unroll.observation, agent.initial_state(B), resets=unroll.reset)
    for b in range(B):
        np.testing.assert_allclose(unroll.value[b], values[b, :, plays[b]], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(own_value(values, None), values[..., 0])
    assert played(TASKS[0], B) is None
    assert not np.allclose(values[..., 0], values[..., 1])


def test_each_task_has_its_own_statistics_and_those_that_are_not_there_keep_theirs(agent, together):
    """A batch of the first task alone, then one of both: values in reward units are kept through every change."""
    memory, _, last, unroll, _ = together
    update = dataclasses.replace(UPDATE, learner=dataclasses.replace(UPDATE.learner, learning_rate=1e-9))
    trained = update.start(agent)
    assert trained.popart.mean.shape == (N,)
    told = {"unroll": unroll, "memory": memory, "next_observation": last.observation, "next_reset": last.reset}
    first, _ = updated(update, trained, Batch(**told, task=jnp.zeros(B, jnp.int32)), jax.random.key(0))
    assert float(first.popart.mean[1]) == 0
    assert float(first.popart.scale[1]) == 1
    assert abs(float(first.popart.scale[0]) - 1) > 1e-2
    both, metrics = updated(update, first, Batch(**told, task=played(TASKS, B)), jax.random.key(0))
    assert np.all(np.abs(np.asarray(both.popart.scale - first.popart.scale)) > 1e-3)
    assert float(metrics["value_scale"]) == pytest.approx(float(both.popart.scale.mean()))
    x = np.random.default_rng(0).standard_normal((5, NET.hidden))
    for n in range(N):
        kept = []
        for of in (trained, first, both):
            last_layer = of.agent.value.output
            value = x @ np.asarray(last_layer.weight)[:, n] + np.asarray(last_layer.bias)[n]
            kept.append(value * float(of.popart.scale[n]) + float(of.popart.mean[n]))
        np.testing.assert_allclose(kept[1:], [kept[0]] * 2, rtol=1e-4, atol=1e-5)


# A run

SETTINGS = {
    "task": BOTH, "core": "none", "streams": B, "unroll": T, "steps": B * T * 60, "reports": 3, "checkpoint_every": 1,
    "devices": 1, "net": dataclasses.asdict(NET),
}  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return gtrxl.train(run=tmp_path_factory.mktemp("whole") / "run", quiet=True, board=False, **SETTINGS)


def test_rows_have_each_task_and_the_mean_of_their_scores(whole):
    assert whole.status == "finished"
    assert len(whole.rows) == 3
    for row in whole.rows:
        tasks = row["tasks"]
        assert list(tasks) == NAMES
        assert sum(of["episodes"] for of in tasks.values()) == row["episodes"] > 20
        assert row["return_mean"] == pytest.approx(np.mean([of["normalised"] for of in tasks.values()]))
        for name, of in tasks.items():
            scale = KNOWN[name]
            assert of["normalised"] == pytest.approx(100 * (of["return_mean"] - scale.random) / (scale.best - scale.random))
        steps = sum(of["episode_steps"] * of["episodes"] for of in tasks.values())
        assert row["episode_steps"] == pytest.approx(steps / row["episodes"])
    scales = [of["value_scale"] for of in whole.rows[-1]["tasks"].values()]
    assert scales[0] != scales[1]
    late = late_tasks(whole.rows)
    assert late[OTHER]["return_mean"] == pytest.approx(whole.rows[-1]["tasks"][OTHER]["return_mean"])
    assert json.loads((whole.folder / "result.json").read_text())["normalised"] == pytest.approx(whole.mean_return)


def test_the_end_of_a_run_says_a_score_for_all_and_returns_for_each(whole, capsys):
    assert _ended(whole) == 0
    lines = capsys.readouterr().out.splitlines()
    (said,) = [line for line in lines if "late in" in line and "frames" in line]
    assert said.startswith(f"mean score of 2 tasks {whole.mean_return:.2f} late in ")
    assert said.endswith(f"(perfect memory 100.00, random 0.00): {whole.mean_return:.0f} of 100")
    assert [line.split()[0] for line in lines[-3:-1]] == NAMES


def test_a_stopped_run_goes_on_to_the_same_bits(whole, tmp_path, monkeypatch):
    written = train.Metrics.write

    def write(self, row):
        written(self, row)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(train.Metrics, "write", write)
    stopped = gtrxl.train(run=tmp_path / "run", quiet=True, board=False, **SETTINGS)
    assert stopped.status == "stopped"
    assert len(stopped.rows) == 1
    monkeypatch.undo()
    resumed = gtrxl.resume(stopped.folder, quiet=True, board=False)
    ours, theirs = ([without_clock(row) for row in read(run.folder / "metrics.jsonl")] for run in (resumed, whole))
    assert ours == theirs


def test_eval_has_a_line_for_each_task(whole, capsys):
    assert main(["eval", str(whole.folder), "--episodes", "8", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert list(said["tasks"]) == NAMES
    each = [of["normalised"] for of in said["tasks"].values()]
    assert said["mean_return"] == said["normalised"] == pytest.approx(np.mean(each))
    assert (said["random"], said["best"], said["episodes"]) == (0, 100, 16)
    for name, of in said["tasks"].items():
        assert (of["random"], of["best"], of["episodes"]) == (KNOWN[name].random, KNOWN[name].best, 8)
    assert main(["eval", str(whole.folder), "--episodes", "8"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:3]] == NAMES
    assert f"{BOTH}: mean score of 100" in lines[-1]
    alone = gtrxl.evaluate(whole.folder, episodes=8, task=OTHER)
    assert alone.tasks is None
    assert alone.mean_return == said["tasks"][OTHER]["mean_return"]


def test_one_task_is_chosen_to_play(whole):
    assert gtrxl.load(whole.folder).task == TASKS[0]
    assert gtrxl.load(whole.folder, task=OTHER).task == TASKS[1]
    with pytest.raises(RunError, match="task must have the spaces of"):
        gtrxl.load(whole.folder, task="recall")


def test_streams_are_a_multiple_of_the_tasks(monkeypatch):
    with pytest.raises(RunError, match=r"streams must be a multiple of the 2 tasks, got 5; try --streams 6"):
        gtrxl.Config(task=BOTH, streams=5)
    settings = dataclasses.replace(gtrxl.defaults(task=BOTH), streams=6, devices=2)
    monkeypatch.setattr(placement, "open_cpus", lambda count=1: 2)
    with pytest.raises(
        RunError, match=r"every device must play all 2 tasks equally often: streams must be a multiple of 4, got 6"
    ):
        placement.make_mesh(settings)
    assert placement.choose_devices(dataclasses.replace(settings, devices=0)).devices == 1
    three = gtrxl.defaults(task=BOTH + "+t-maze", algorithm="ppo")
    assert three.streams % 12 == 0
    assert len(make_tasks(three.task)) == 3


# Rows from numbers


def ended(counts, totals):
    """Episodes of both tasks, by their numbers and the sums of their returns."""
    counts, totals = np.array(counts, np.float32), np.array(totals, np.float32)
    named = {"count": counts, "total": totals, "squares": totals, "least": totals, "most": totals, "steps": counts}
    return ended_episodes(Ended(**{name: jnp.asarray(value) for name, value in named.items()}), 2)


def test_a_task_without_new_episodes_counts_with_its_latest(agent):
    tasks, popart = CompiledTasks(TASKS), UPDATE.start(agent).popart
    rows = EpisodeRows(tasks)
    first = rows.row(ended([2, 0], [1.0, 0.0]), popart)  # a mean of 0.5: a third of the way from 0.25 to 1
    assert first["return_mean"] is None
    second = rows.row(ended([0, 1], [0.0, 1.0]), popart)
    assert second["return_mean"] == pytest.approx((100 / 3 + 50) / 2)
    assert second["tasks"][ENDS]["normalised"] is None
    again = EpisodeRows(tasks, [first]).row(ended([0, 1], [0.0, 1.0]), popart)
    assert again == second, "as a run that goes on"
    assert rows.row(ended([0, 0], [0.0, 0.0]), popart)["return_mean"] is None
    assert tasks.scales.lines == {"perfect memory": 100.0, "random": 0.0}


def test_without_a_scale_returns_are_averaged_as_they_are(agent, monkeypatch):
    monkeypatch.setattr(scores, "known_scores", lambda task: KNOWN.get(gtrxl.tasks.spell(task)) if task == TASKS[0] else None)
    tasks = CompiledTasks(TASKS)
    row = EpisodeRows(tasks).row(ended([2, 1], [1.0, 4.0]), UPDATE.start(agent).popart)
    assert row["return_mean"] == pytest.approx((0.5 + 4.0) / 2)
    assert (tasks.scales.lines, tasks.scales.of_100(3.0)) == ({}, None)


@pytest.mark.parametrize(("prefix", "splits"), [("", None), ("dmlab:", {"memory"})])
def test_a_re_creation_has_no_human_score(prefix, splits):
    """It bears the name of a level that people played, and is another."""
    ends = {"random": 0.0, "best": 10.0, "best_is": "human", "normalised": 10.0}
    score = TaskScore(mean_return=1.0, interval=(0.0, 2.0), std=1.0, episodes=2, **ends)
    found = _of_several("a set", {prefix + name: score for name in MEMORY}, seed=0, update=1)
    assert found.mean_return == pytest.approx(10)
    assert (None if found.human_normalised is None else set(found.human_normalised)) == splits
