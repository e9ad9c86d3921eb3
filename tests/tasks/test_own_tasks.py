"""A stranger's task is as good as ours: made and spelled by its place, drawn, played, scored; and its mistakes are said."""

import dataclasses

import gymnasium
import jax
import numpy as np
import pytest

from gtrxl.gym.bridge import TaskEnv
from gtrxl.play.game import Game
from gtrxl.tasks import TaskError, TMaze, frame, make_task, spell
from gtrxl.tasks.contract import Task
from gtrxl.tasks.drawing.pictures import episode_frames
from gtrxl.tasks.episodes import record, returns
from gtrxl.tasks.making import about
from gtrxl.tasks.players.player import Player
from gtrxl.tasks.players.scripted import RandomPlayer, perfect_memory
from gtrxl.tasks.scores import scale_of
from gtrxl.tasks.sets import make_tasks, spell_tasks
from tests.tasks.own import Coloured, Echo, Needy
from tests.training.toy_tasks import Aim, Shades

ECHO = "tests.tasks.own:Echo"


def test_a_place_makes_a_task_and_a_task_is_spelled_by_its_place():
    assert make_task(ECHO) == Echo()
    assert make_task(f" {ECHO}:delay=3, episode_steps=9 ") == make_task(ECHO, delay=3, episode_steps=9) == Echo(3, 9)
    assert spell(Echo()) == ECHO
    assert spell(Echo(delay=3)) == f"{ECHO}:delay=3"
    assert make_task("tests.tasks.own:Needy:delay=4") == Needy(delay=4)
    assert spell(Needy(delay=4)) == "tests.tasks.own:Needy:delay=4"
    assert about(Echo()) == "Say what was shown `delay` steps ago."


def test_a_class_that_cannot_be_imported_is_found_in_the_process_that_was_given_it():
    @dataclasses.dataclass(frozen=True)
    class Other(TMaze):
        pass

    assert make_task(spell(Other(corridor=3))) == Other(corridor=3)
    assert isinstance(make_task(spell(Other())), Other), "not the one of the catalogue that it derives from"


def test_several_go_together():
    tasks = make_tasks(f"{ECHO}+{ECHO}:delay=4")
    assert tasks == (Echo(), Echo(delay=4))
    assert spell_tasks(tasks) == f"{ECHO}+{ECHO}:delay=4"
    with pytest.raises(TaskError, match=f"acted on alike, got a choice of 3 in {ECHO} and a choice of 4 in recall"):
        make_tasks(f"{ECHO}+recall")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("tests.tasks.own:Ecko", "there is no Ecko in tests.tasks.own; did you mean Echo\\? the task is written package"),
        ("tests.nowhere:Echo", "the task tests.nowhere:Echo cannot be imported: No module named 'tests.nowhere'"),
        ("tests.tasks.own:not_a_task", "a task is a class that derives from gtrxl.Task, got <function .* at tests.tasks.own:not"),
        ("tests.tasks.own:EchoState", "a task is a class that derives from gtrxl.Task, got <class 'tests.tasks.own.EchoState'>"),
        ("tests.tasks.own:Half", "a task has spaces, reset and step, got tests.tasks.own:Half without step"),
        ("tests.tasks.own:Unfrozen", "a frozen record of whole numbers, got the class Unfrozen; write @dataclasses"),
        ("tests.tasks.own:Needy", "tests.tasks.own:Needy needs delay, got none; for example tests.tasks.own:Needy:delay=3"),
        (f"{ECHO}:dely=3", "got 'dely'; did you mean delay\\? for example 'tests.tasks.own:Echo:delay=2'"),
        (f"{ECHO}:", "after the colon a task takes name=number"),
        (f"{ECHO}:delay=x", "delay must be a whole number, got 'x'"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(text, line):
    with pytest.raises(TaskError, match=line) as caught:
        make_task(text)
    assert "\n" not in str(caught.value)


def test_fields_that_are_no_whole_numbers_cannot_be_spelled():
    assert spell(Coloured()) == "tests.tasks.own:Coloured"
    with pytest.raises(TaskError, match="a frozen record of whole numbers, got colour='blue' in Coloured; say it by a whole"):
        spell(Coloured(colour="blue"))


def test_what_nobody_wrote_is_none_and_the_rest_has_defaults():
    task = Echo(episode_steps=100)
    assert task.player() is task.told_player() is task.scale() is None
    with pytest.raises(TaskError, match="write your own `Player`"):
        perfect_memory(task)
    with pytest.raises(TaskError, match=r"has a method `observe\(state\)`"):
        task.observe(None)
    assert task.view(None, height=3, width=4) is None
    assert task.instruction(None) == ""
    assert (task.defaults().steps, task.defaults().memory, task.defaults().paper) == (1_000_000, 100, "numpad")
    state, _ = jax.jit(task.reset)(jax.random.key(0))
    after, step = jax.jit(task.step)(state, 1)
    advanced, *rest = jax.jit(task.advance)(state, 1)
    assert eqx_equal(after, advanced)
    assert eqx_equal(rest, [step.reward, step.terminated, step.truncated])


def eqx_equal(one, other) -> bool:
    return all(bool((a == b).all()) for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True))


@dataclasses.dataclass(frozen=True)
class Guess(Player):
    """Always says 1."""

    def begin(self, state):
        return None

    def act(self, notes, observation, key):
        return None, jax.numpy.int32(1)


class Watched(Echo):
    """Brings a player."""

    def player(self) -> Guess:
        return Guess()


def test_a_task_with_a_player_has_a_scale():
    task = Watched()
    scale = scale_of(task)
    assert scale is not None
    assert scale.random == pytest.approx(10 / 3, abs=0.3)
    assert scale.of_100(scale.random) == 0
    assert returns(task, perfect_memory(task), jax.random.key(0), episodes=8).shape == (8,)


def test_it_is_drawn_by_its_observation_or_its_state():
    task = Echo()
    episode = record(task, RandomPlayer(task), jax.random.key(0))
    frames = episode_frames(task, episode)
    assert len(frames) == task.episode_steps + 1
    assert any((one != frames[0]).any() for one in frames[1:])
    state, _ = jax.jit(task.reset)(jax.random.key(0))
    pictures = [frame(task, state, observation=np.eye(3, dtype=np.float32)[i]) for i in range(3)]
    assert pictures[0].shape == (264, 264, 3)
    assert (pictures[0] != pictures[1]).any()
    np.testing.assert_array_equal(pictures[0], pictures[0])


def test_a_picture_in_an_observation_is_a_picture():
    task = Shades(height=32, width=32)
    state, observation = jax.jit(task.reset)(jax.random.key(0))
    bright = {**observation, "image": np.full((32, 32, 3), (200, 10, 10), np.uint8)}
    picture = frame(task, state, observation=bright)
    assert (picture == np.array([200, 10, 10])).all(axis=2).sum() > 32 * 32


@pytest.mark.parametrize("numbers", [1, 3, 48, 49, 3000])
def test_any_count_of_numbers_can_be_drawn(numbers):
    up, down = (Task.draw(Echo(), {"numbers": np.full(numbers, sign, np.float32)}) for sign in (5.0, -5.0))
    assert (up != down).any()
    assert np.isfinite(up).all()
    assert Task.draw(Echo(), {"none": np.zeros(0)}).shape == (264, 264, 3)


def test_people_play_it():
    game = Game(Echo(), seed=1)
    assert [button.name for button in game.controls.buttons] == ["action 1", "action 2", "action 3"]
    first = game.view()["picture"]
    told = game.about()
    assert (told["task"], told["about"], told["random"], told["clock"]) == (ECHO, about(Echo()), None, None)
    seen = set()
    for _ in range(12):
        game.step({"action 2"})
        seen.add(game.view()["picture"])
    assert game.view()["over"]
    assert seen - {first}
    with pytest.raises(TaskError, match=r"a person plays with buttons, got the actions Dict.*; give the task a method `controls"):
        Game(Aim())


def test_gymnasium_shows_it():
    env = TaskEnv(Echo(), render_mode="rgb_array")
    env.reset(seed=0)
    before = env.render()
    pictures = []
    for _ in range(6):
        env.step(0)
        pictures.append(env.render())
    assert before is not None
    assert any((picture != before).any() for picture in pictures)
    assert isinstance(env.action_space, gymnasium.spaces.Discrete)
