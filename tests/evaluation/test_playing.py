"""A trained agent at play: step by step, for a score, exported and back, and as a picture. One tiny run serves all."""

import dataclasses
import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

import gtrxl
from gtrxl.evaluation import compiled
from gtrxl.evaluation.compiled import CompiledAgent, episode, returns
from gtrxl.evaluation.restored import named
from gtrxl.evaluation.trained_agent import OTHER
from gtrxl.runs import settings as configs
from gtrxl.runs.errors import RunError
from gtrxl.runs.folder import checkpoints_of
from gtrxl.tasks.scores import reference_scores
from gtrxl.tasks.specs import ObservationSpec
from gtrxl.training.session import engine_of
from tests.tasks.stepping import begin as reset_one
from tests.tasks.stepping import run as step_many
from tests.training.small import CUT, T, random_agent, unrolled

NET = {"layers": 1, "width": 16, "torso": 16, "hidden": 16}
TASK = gtrxl.make_task("grid-numpad")
EPISODES = 3
PICTURES = "rooms_select_nonmatching_object:height=24,width=32"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """One report, so that the checkpoint before the first update is kept too."""
    folder = tmp_path_factory.mktemp("playing") / "run"
    sizes = {"core": "gru", "streams": 4, "unroll": 8, "steps": 640, "reports": 1, "devices": 1, "net": NET}
    return gtrxl.train(run=folder, quiet=True, board=False, **sizes).folder


@pytest.fixture(scope="module")
def player(run) -> CompiledAgent:
    loaded = gtrxl.load(run)
    assert isinstance(loaded, CompiledAgent)
    return loaded


def play(player, state, observation, *, greedy, seed=0):
    """One episode step by step, as a user would: the actions and the return."""
    thought, actions, total = player.initial_state(seed), [], 0.0
    for _ in range(player.task.episode_steps):
        action, thought = player.act(observation, thought, greedy=greedy)
        state, step = jax.tree.map(lambda leaf: leaf[0], step_many(player.task, state, jnp.asarray(action)[None]))
        actions.append(int(action))
        observation, total = step.observation, total + float(step.reward)
        if step.terminated or step.truncated:
            break
    return actions, total


def test_playing_step_by_step_scores_what_the_evaluation_does(player):
    """The likeliest actions leave nothing to chance but the episode itself."""
    reset_key, _ = jax.random.split(jax.random.fold_in(jax.random.key(4 + OTHER), 0))
    by_hand = [play(player, *reset_one(TASK, key), greedy=True)[1] for key in jax.random.split(reset_key, EPISODES)]
    scores = returns(player.agent, TASK, episodes=EPISODES, seed=4, greedy=True)
    np.testing.assert_array_equal(scores, by_hand)


def test_a_player_remembers_what_it_saw_since_the_episode_began():
    """Its likeliest actions are those of the network unrolled over all observations so far."""
    player = CompiledAgent(agent=random_agent(CUT, spread=1.0), task=gtrxl.make_task(CUT))
    seen = np.random.default_rng(0).standard_normal((T, len(player.task.observation_space.sample()))).astype(np.float32)
    resets = np.zeros((1, T), bool)
    policy, _, _ = unrolled(player.agent, seen[None], player.agent.initial_state(1), resets)
    thought, actions = player.initial_state(), []
    for observation in seen:
        action, thought = player.act(observation, thought, greedy=True)
        actions.append(int(action))
    assert actions == np.argmax(policy.logits[0], axis=-1).tolist()
    assert len(set(actions)) > 1
    forgetful = [int(player.act(observation, player.initial_state(), greedy=True)[0]) for observation in seen]
    assert actions != forgetful, "without its state it plays otherwise"


def test_chance_is_repeated_by_its_seed(player):
    start = reset_one(TASK, jax.random.key(0))
    first, again, other = (play(player, *start, greedy=False, seed=seed)[0] for seed in (0, 0, 1))
    assert first == again != other
    assert len(set(first)) > 4, "a policy that knows nothing takes all kinds of actions"


def test_observations_of_another_shape_are_refused(player):
    with pytest.raises(RunError, match=r"an observation must have shape \[18\], got \[2, 18\]; this agent plays one stream"):
        player.act(np.zeros((2, 18)), player.initial_state())


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"vector": 1}, r"an observation must be float32 of shape \[18\], got a dict of vector"),
        (None, r"an observation must have shape \[18\], got \[\]"),
        ("words", r"an observation must be float32 of shape \[18\], got str"),
        (["1"] * 18, r"an observation must be float32 of shape \[18\], got list"),
        (np.ones(18, complex), r"an observation must be float32 of shape \[18\], got an array of complex128"),
        ({}, r"an observation must be float32 of shape \[18\], got a dict of nothing"),
        (np.full(18, np.nan), "an observation must be finite, got nan among its 18 numbers"),
    ],
)
def test_what_is_no_observation_is_told_in_one_line(player, given, line):
    with pytest.raises(RunError, match=line) as told:
        player.act(given, player.initial_state())
    assert "\n" not in str(told.value)


def test_what_is_no_state_is_told_in_one_line(player):
    seen = np.zeros(18, np.float32)
    for state in (None, player.act(seen, player.initial_state())):  # the pair, not taken apart
        with pytest.raises(RunError, match="state must be what initial_state or the last act of this agent gave, got"):
            player.act(seen, state)


def test_a_picture_is_not_cast_to_what_it_is_not():
    """Numbers from 0 to 1 would all be black as bytes."""
    player = CompiledAgent(agent=random_agent(CUT), task=gtrxl.make_task(PICTURES))
    seen = ObservationSpec.of(player.task.observation_space).zeros()
    assert isinstance(seen, dict)
    for wrong in (np.full(seen["image"].shape, 0.5), np.full(seen["image"].shape, 300)):
        with pytest.raises(
            RunError, match=r"an observation of uint8 must be whole numbers that fit, got (0.5|300) among (float|int)64"
        ):
            player.act({**seen, "image": wrong}, player.initial_state())
    with pytest.raises(
        RunError, match=r"must be a dict of vector, image, instruction, got a dict of vector, image; see the task"
    ):
        player.act({name: seen[name] for name in ("vector", "image")}, player.initial_state())


@pytest.fixture(scope="module")
def evaluation(run):
    return gtrxl.evaluate(run, episodes=128, which=0)


def test_an_untrained_agent_scores_about_what_chance_does(evaluation):
    assert evaluation.update == 0
    assert evaluation.mean_return == pytest.approx(evaluation.random, abs=4 * evaluation.std / np.sqrt(128))
    assert abs(evaluation.normalised) < 2


def test_an_evaluation_is_the_statistics_of_its_episodes(run, evaluation):
    agent = gtrxl.load(run, 0).agent
    scores = returns(agent, TASK, episodes=128)
    assert evaluation.mean_return == pytest.approx(scores.mean())
    assert evaluation.std == pytest.approx(scores.std(ddof=1))
    half = 1.96 * scores.std(ddof=1) / np.sqrt(128)
    assert evaluation.interval == pytest.approx((scores.mean() - half, scores.mean() + half))
    assert (evaluation.episodes, evaluation.task, evaluation.seed) == (128, "grid-numpad", 0)
    reference = reference_scores(TASK)
    assert (evaluation.random, evaluation.best) == (reference.random, reference.best)
    assert evaluation.normalised == pytest.approx(100 * (scores.mean() - reference.random) / (reference.best - reference.random))
    assert not np.array_equal(scores, returns(agent, TASK, episodes=128, seed=1)), "other seeds, other episodes"


def test_more_episodes_than_are_played_at_once_are_all_different_and_begin_with_the_same(run):
    agent = gtrxl.load(run, 0).agent
    many, few = returns(agent, TASK, episodes=200), returns(agent, TASK, episodes=128)
    assert many.shape == (200,)
    np.testing.assert_array_equal(many[:128], few)
    assert not np.array_equal(many[128:], few[:72])


def test_evaluations_that_make_no_sense_are_refused(run):
    with pytest.raises(RunError, match="episodes must be at least 2, got 1; an interval needs a spread"):
        gtrxl.evaluate(run, episodes=1)
    with pytest.raises(
        RunError,
        match=r"task must have the spaces of grid-numpad, got t-maze: 4 numbers to see, a choice of 3 to act; change only",
    ):
        gtrxl.evaluate(run, task="t-maze")


def test_folders_and_checkpoints_that_are_not_there_are_named(run, tmp_path):
    with pytest.raises(RunError, match=r"there is no run in .*: it has no config.json; `gtrxl train --run"):
        gtrxl.load(tmp_path)
    with pytest.raises(RunError, match="7"):
        gtrxl.load(run, 7)
    (tmp_path / "agent.onnx").write_text("")
    with pytest.raises(RunError, match=r"NAME.safetensors, zoo:NAME or hf:owner/name, got the file .*agent.onnx"):
        gtrxl.load(tmp_path / "agent.onnx")


def test_a_run_of_more_devices_than_there_are_can_be_played(tmp_path):
    """Also if its checkpoints hold more streams of the trail than they do today."""
    config = dataclasses.replace(gtrxl.defaults(core="none"), devices=4)
    like = engine_of(config).shapes()
    more = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((4 * 4, *leaf.shape[1:]), leaf.dtype), like.trail)
    like = eqx.tree_at(lambda of: of.trail, like, more)
    state = eqx.tree_at(lambda of: of.key, like, jax.random.key(0))
    state = jax.tree.map(lambda leaf: np.ones(leaf.shape, leaf.dtype) if isinstance(leaf, jax.ShapeDtypeStruct) else leaf, state)
    configs.write(config, tmp_path / "config.json")
    checkpoints_of(tmp_path).save(10, state)
    assert engine_of(config).restore(checkpoints_of(tmp_path)).trail.reset.shape[0] == 4
    agent = gtrxl.load(tmp_path).agent
    assert all((np.asarray(array) == 1).all() for array in named(agent).values())


@pytest.fixture(scope="module")
def exported(run):
    return gtrxl.export(run)


def test_an_exported_agent_plays_the_same(player, exported):
    back = gtrxl.load_export(exported[0])
    assert back.task == player.task
    ours, theirs = named(player.agent), named(back.agent)
    assert list(ours) == list(theirs)
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)
    start = reset_one(TASK, jax.random.key(1))
    for greedy in (True, False):
        assert play(back, *start, greedy=greedy) == play(player, *start, greedy=greedy)


def test_the_card_says_what_the_weights_are(run, player, exported):
    from safetensors.numpy import load_file

    weights, card = load_file(exported[0]), json.loads(exported[1].read_text())
    assert exported == (run / "agent.safetensors", run / "agent.json")
    assert {name: list(array.shape) for name, array in weights.items()} == {
        name: of["shape"] for name, of in card["arrays"].items()
    }
    assert card["parameters"] == sum(array.size for array in weights.values())
    assert (card["update"], card["frames"]) == (20, 640)
    assert card["config"]["net"] | NET == card["config"]["net"]
    np.testing.assert_array_equal(weights["torso.first.weight"], player.agent.torso.first.weight)


def test_exports_that_cannot_be_are_said_in_a_line(run, exported, tmp_path):
    with pytest.raises(RunError, match=r"the file to export to must end in .safetensors, got agent.bin; its card"):
        gtrxl.export(run, "agent.bin")
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match=r"cannot export to .*; choose another file with --to"):
        gtrxl.export(run, tmp_path / "file" / "agent.safetensors")
    with pytest.raises(RunError, match=r"cannot read .*none.safetensors and its card none.json: No such file"):
        gtrxl.load_export(tmp_path / "none.safetensors")
    card = json.loads(exported[1].read_text())
    copy = tmp_path / "copy.safetensors"
    copy.write_bytes(exported[0].read_bytes())
    for change, line in (
        (
            {**card, "config": {**card["config"], "core": "lstm"}},
            "card's settings, core lstm on grid-numpad, got others: .* must be",
        ),
        ({**card, "config": {**card["config"], "net": {**NET, "hidden": 8}}}, "must hold the arrays of its card's settings"),
        ({"what": "something else"}, "cannot read .* and its card copy.json: the card has no settings under `config`"),
    ):
        copy.with_suffix(".json").write_text(json.dumps(change))
        with pytest.raises(RunError, match=line):
            gtrxl.load_export(copy)
    copy.with_suffix(".json").write_text(json.dumps(card))
    copy.write_bytes(b"not weights")
    with pytest.raises(RunError, match=r"cannot read .*copy.safetensors and its card copy.json"):
        gtrxl.load_export(copy)
    copy.with_suffix(".json").write_text("{")
    with pytest.raises(RunError, match=r"cannot read .*copy.safetensors and its card copy.json"):
        gtrxl.load_export(copy)


@pytest.fixture(scope="module")
def played(player):
    return episode(player, seed=2)


def test_an_episode_is_played_to_its_end_and_repeated_by_its_seed(player, played):
    states, observations, rewards = played
    assert len(observations) == len(states)
    assert len(states) - 1 == len(rewards) == TASK.episode_steps
    assert [int(state.elapsed) for state in states] == list(range(TASK.episode_steps + 1))
    again = episode(player, seed=2)
    assert eqx.tree_equal(states, again.states)
    assert not eqx.tree_equal(states, episode(player, seed=3).states)


@pytest.fixture
def brief(played, monkeypatch):
    """Drawing takes its time: the first five steps."""
    states, observations, rewards = played
    assert sum(rewards[:5]) > 0
    monkeypatch.setattr(compiled, "episode", lambda *_, **__: compiled.Played(states[:6], observations[:6], rewards[:5]))
    return rewards[:5]


def test_a_gif_has_every_state_of_the_episode(run, brief, tmp_path):
    path, total, steps = gtrxl.watch(run, tmp_path / "new" / "one.gif", seed=2)
    assert (total, steps) == (sum(brief), 5)
    with Image.open(path) as picture:
        assert picture.n_frames == steps + 1  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.usefixtures("brief")
def test_frames_go_into_a_folder(run, tmp_path):
    path, _, steps = gtrxl.watch(run, tmp_path / "new" / "frames")
    names = sorted(entry.name for entry in path.iterdir())
    assert names == [f"{number:04d}.png" for number in range(6)]
    assert steps == 5
    with Image.open(path / names[0]) as first, Image.open(path / names[-1]) as last:
        assert first.size == last.size
        assert first.tobytes() != last.tobytes()


@pytest.mark.usefixtures("brief")
def test_pictures_that_cannot_be_are_said_in_a_line(run, tmp_path):
    with pytest.raises(RunError, match=r"an episode is written as .gif or as frames in a folder, got one.mp4; MP4 can be made"):
        gtrxl.watch(run, "one.mp4")
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match=r"cannot write the episode to .*; choose another place with --to"):
        gtrxl.watch(run, tmp_path / "file" / "one.gif")
