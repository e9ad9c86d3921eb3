"""`gtrxl.torch.load` acts like `gtrxl.load`: the same actions for the same observations and seeds, over whole episodes."""

import json

import gymnasium
import jax
import numpy as np
import pytest

torch = pytest.importorskip("torch")

import gtrxl
import gtrxl.torch
from gtrxl.evaluation.restored import named
from gtrxl.runs.errors import RunError
from gtrxl.tasks.errors import TaskError
from gtrxl.torch.agents.acting import TorchCompiledAgent
from gtrxl.torch.agents.building import twin
from gtrxl.torch.agents.loading import acting
from tests.cores.building import NAMES
from tests.marks import few
from tests.torch.agents.kinds import KINDS, jax_player, observed, restored

STEPS = 9


def played(player, seen, *, seeds=(0, 5), greedy=False):
    """An episode for each seed over the same observations; every third action is the likeliest."""
    actions = []
    for seed in seeds:
        state = player.initial_state(seed)
        for number, observation in enumerate(seen):
            action, state = player.act(observation, state, reward=0.5 * number, greedy=greedy or number % 3 == 2)
            actions.append(action)
    return actions


def assert_same_actions(ours, theirs):
    for one, other in zip(ours, theirs, strict=True):
        assert jax.tree.structure(one) == jax.tree.structure(other)
        for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
            assert (type(a), np.asarray(a).dtype, np.shape(a)) == (type(b), np.asarray(b).dtype, np.shape(b))
            if np.asarray(a).dtype.kind == "f":
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
            else:
                np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("kind", "core"), few(
    [*((kind, "gtrxl-gru") for kind in KINDS), *(("numbers", core) for core in NAMES)], keep=lambda number, _: number < 4
))  # fmt: skip
def test_the_same_actions_for_the_same_observations_and_seeds(kind, core):
    found = restored(kind, core)
    ours, theirs = acting(found, twin(found.agent)), jax_player(found)
    assert (ours.name, ours.task) == (theirs.name, theirs.task)
    seen = observed(found, STEPS)
    actions = played(ours, seen)
    assert_same_actions(actions, played(theirs, seen))
    assert len({str(action) for action in actions}) > 1, "an agent that always does the same shows nothing"


def test_an_older_state_can_be_gone_on_from_again():
    found = restored("numbers")
    player = acting(found, twin(found.agent))
    seen = observed(found, STEPS)
    state = player.initial_state(1)
    for observation in seen[:4]:
        _, state = player.act(observation, state)

    def on(state):
        actions = []
        for observation in seen[4:]:
            action, state = player.act(observation, state)
            actions.append(int(action))
        return actions

    assert on(state) == on(state)


@pytest.mark.parametrize(("kind", "greedy"), [("numbers", False), pytest.param("two tasks", True, marks=pytest.mark.slow)])
def test_scores_of_whole_episodes_are_the_same(kind, greedy):
    found = restored(kind)
    ours, theirs = acting(found, twin(found.agent)), jax_player(found)
    scores = ours.returns(episodes=5, seed=3, greedy=greedy)
    np.testing.assert_array_equal(scores, theirs.returns(episodes=5, seed=3, greedy=greedy))
    assert scores.shape == (5,)


def test_scores_in_a_gymnasium_task_are_the_same():
    found = restored("gymnasium, all parts")
    ours, theirs = acting(found, twin(found.agent)), jax_player(found)
    scores = ours.returns(episodes=4, seed=1)
    np.testing.assert_allclose(scores, theirs.returns(episodes=4, seed=1), rtol=1e-4)
    assert len(set(scores)) > 1


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A second of training."""
    folder = tmp_path_factory.mktemp("torch") / "run"
    net = {"layers": 2, "width": 16, "heads": 2, "head_dim": 8, "mlp": 16, "memory": 8, "torso": 16, "hidden": 16}
    sizes = {"streams": 4, "unroll": 8, "steps": 640, "reports": 1, "devices": 1, "net": net}
    return gtrxl.train(task="grid-numpad:episode_steps=10", run=folder, quiet=True, board=False, **sizes).folder


def test_a_run_and_its_exported_file_give_the_same_agent(run, tmp_path):
    file, _ = gtrxl.export(run, tmp_path / "agent.safetensors")
    theirs, ours, again = gtrxl.load(run), gtrxl.torch.load(run), gtrxl.torch.load(file)
    assert isinstance(ours, TorchCompiledAgent)
    assert isinstance(again, TorchCompiledAgent)
    env = gymnasium.make("gtrxl/GridNumpad-v0", episode_steps=10)
    seen = [env.reset(seed=0)[0]]
    state, over = theirs.initial_state(2), False
    while not over:
        action, state = theirs.act(seen[-1], state)
        observation, _, terminated, truncated, _ = env.step(action)
        seen.append(observation)
        over = terminated or truncated
    for player in (ours, again):
        assert_same_actions(played(player, seen), played(theirs, seen))
        for name, part in player.module.state_dict().items():
            np.testing.assert_array_equal(part, named(theirs.agent)[name])
    film, rewards = ours.film(seed=0, greedy=True, secret=False)
    assert len(film) == len(rewards) + 1
    assert gtrxl.torch.load(run, task="grid-numpad:episode_steps=20").name == "grid-numpad:episode_steps=20"


def one_line(match, call, *arguments):
    with pytest.raises((RunError, TaskError), match=match) as caught:
        call(*arguments)
    assert "\n" not in str(caught.value)


def test_bad_files_are_told_in_one_line(run, tmp_path):
    file, card = gtrxl.export(run, tmp_path / "agent.safetensors")
    whole, told = file.read_bytes(), json.loads(card.read_text())
    one_line("has one checkpoint, got 'last'", gtrxl.torch.load, file, "last")
    one_line(r"cannot read .*nothing\.safetensors", gtrxl.torch.load, tmp_path / "nothing.safetensors")
    one_line("cannot read|there is no", gtrxl.torch.load, tmp_path / "nothing")
    for damaged in (whole[: len(whole) // 2], b"foreign", b""):
        file.write_bytes(damaged)
        one_line(r"cannot read .*agent\.safetensors and its card", gtrxl.torch.load, file)
    file.write_bytes(whole)
    changes = {
        r"core\.blocks\.attention\.w_o must be \[2, 16, 12\], got \[2, 16, 16\]": {"net": {**told["config"]["net"], "width": 12}},
        r"core lstm on grid-numpad:.*, got others: core\.blocks\.\S+ must not be there, .* \(it was written": {"core": "lstm"},
        r"'colour'.*written by gtrxl '9\.0": {"colour": "red"},
    }
    for said, changed in changes.items():
        card.write_text(json.dumps({**told, "version": "9.0", "config": {**told["config"], **changed}}))
        one_line(said, gtrxl.torch.load, file)


def test_observations_of_another_space_are_told_in_one_line(run):
    player = gtrxl.torch.load(run)
    one_line(r"must have shape \[18\], got \[4\]", player.act, np.zeros(4), player.initial_state())
    found = restored("gymnasium, all parts")
    player = acting(found, twin(found.agent))
    one_line("an observation must be a dict of", player.act, np.zeros(3), player.initial_state())
