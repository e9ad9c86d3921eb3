"""A run of a Gymnasium task from Python, and what one does with its agent: load, act, score, draw, export."""

import json

import numpy as np
import pytest

import gtrxl
from gtrxl.evaluation.gym_agent import GymAgent
from gtrxl.gym.by_name import parse
from gtrxl.gym.task import GymTask
from gtrxl.runs.errors import RunError
from gtrxl.tasks.errors import TaskError
from tests.training.toys import Counter


class Drawn(Counter):
    """A `Counter` that draws its step as a shade of grey."""

    def __init__(self, render_mode=None):
        super().__init__()
        self.render_mode = render_mode

    def render(self):
        return np.full((16, 16, 3), 10 * self.step_number, np.uint8)


def make_counter():
    return Drawn()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gym") / "run"
    settings = {"core": "lstm", "net": {"width": 8, "torso": 8, "hidden": 8}, "fleet": {"actors": 1}, "streams": 2, "unroll": 8}
    trained = gtrxl.train(env_fn=make_counter, steps=320, reports=2, run=folder, quiet=True, board=False, **settings)
    assert trained.status == "finished"
    return trained


def test_the_settings_say_where_the_task_comes_from(run):
    assert run.config.task == f"env:{__name__}:make_counter"
    assert gtrxl.read_run(run.folder).config == run.config
    assert run.rows[-1]["frames"] == 320
    assert run.rows[-1]["episodes"] > 0


def test_three_lines_act_in_the_task(run):
    agent = gtrxl.load(run.folder)
    state = agent.initial_state()
    env = make_counter()
    observation, _ = env.reset(seed=3)
    for _ in range(3):
        action, state = agent.act(observation, state)
        assert env.action_space.contains(action)
        observation, *_ = env.step(action)


def test_an_evaluation_has_a_random_score_and_no_best(run):
    said = gtrxl.evaluate(run.folder, episodes=20)
    assert said.episodes == 20
    # Every episode of `Counter` lasts 3 or 5 steps: 1 + 2 + 3 and more for action 1, at most 15 + 2.5.
    assert 6 <= said.mean_return <= 17.5
    assert said.random is not None
    assert 6 <= said.random <= 17.5
    assert said.best is None
    assert said.normalised is None
    assert json.loads(json.dumps(said.__dict__))["best"] is None


def test_a_task_with_other_spaces_is_refused(run):
    with pytest.raises(RunError, match=r"task must have the spaces of env:.*, got gym:CartPole-v1"):
        gtrxl.evaluate(run.folder, episodes=2, task="gym:CartPole-v1")


def test_an_episode_is_drawn_as_the_task_draws_it(run, tmp_path):
    path, score, steps = gtrxl.watch(run.folder, tmp_path / "frames", seed=1)
    from PIL import Image

    shades = [int(np.asarray(Image.open(file))[0, 0, 0]) for file in sorted(path.iterdir())]
    assert shades == [10 * step for step in range(steps + 1)]
    assert score >= 6


def test_a_task_that_cannot_draw_itself_says_so(run):
    with pytest.raises(RunError, match="must draw itself as an array"):
        gtrxl.watch(run.folder, env_fn=Counter)


def test_an_exported_agent_acts_as_the_run_s(run, tmp_path):
    weights, card = gtrxl.export(run.folder, tmp_path / "agent.safetensors")
    assert json.loads(card.read_text())["random"] is None
    here, there = gtrxl.load(run.folder), gtrxl.load_export(weights)
    assert isinstance(here, GymAgent)
    assert isinstance(there, GymAgent)
    observation, _ = make_counter().reset(seed=3)
    first, state = here.act(observation, here.initial_state(5))
    again, other = there.act(observation, there.initial_state(5))
    assert first == again
    assert here.act(observation, state)[0] == there.act(observation, other)[0]


def test_a_run_goes_on_longer(run):
    longer = gtrxl.resume(run.folder, steps=640, quiet=True, board=False)
    assert [row["frames"] for row in longer.rows][-1] == 640
    assert longer.status == "finished"


def test_a_function_that_cannot_be_found_again_is_asked_for():
    task = GymTask.of(lambda: Counter())
    assert "<lambda>" in task.name
    assert isinstance(task.make(), Counter)
    with pytest.raises(TaskError, match=r"<lambda> cannot be imported here; give the function again as env_fn"):
        parse(task.name).make()


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"task": "grid-numpad", "fleet": {"engine": "actors"}}, "engine must be device for a compiled task, got 'actors'"),
        ({"task": "gym:CartPole-v1", "fleet": {"engine": "device"}}, "engine must be actors or ray for gym:CartPole-v1"),
        ({"task": "grid-numpad", "gym": {"mask_velocity": True}}, "mask_velocity and previous are for Gymnasium tasks"),
        ({"task": "gym:CartPole-v1", "fleet": {"address": "auto"}}, "address must come with engine ray, got engine 'auto'"),
        ({"task": "gym:CartPole-v1", "fleet": {"time_limit": 0.0}}, "time_limit must be more than 0 seconds, got 0.0"),
        ({"task": "gym:CartPole-v1", "fleet": {"actors": -1}}, "actors must be at least 0, got -1"),
        ({"task": "gym:"}, "a Gymnasium task needs an id"),
        ({"task": "gym:NoSuch-v0"}, "a Gymnasium task must be registered, got gym:NoSuch-v0"),
    ],
)
def test_settings_that_cannot_be_are_one_line(changes, line, tmp_path):
    with pytest.raises(ValueError, match=line) as caught:
        gtrxl.train(**changes, run=tmp_path / "run", quiet=True)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()
