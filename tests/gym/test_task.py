"""Gymnasium tasks by name: names there and back, what is shown of them, and one line for whatever is missing."""

import multiprocessing
import pickle
import sys
import types

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv
from hypothesis import given
from hypothesis import strategies as st

from gtrxl.gym.by_name import is_gym, parse
from gtrxl.gym.spaces import ActionSpec, ObservationSpec
from gtrxl.gym.task import GymTask
from gtrxl.tasks.errors import TaskError


def one_line(caught) -> str:
    said = str(caught.value)
    assert "\n" not in said
    return said


def played(task: GymTask, steps: int = 20):
    """What an agent that acts at random sees, step by step."""
    env, spaces = task.make(), task.spaces()
    env.action_space.seed(0)
    observation, _ = env.reset(seed=0)
    seen = [spaces.lens(observation)]
    random = np.random.default_rng(0)
    for _ in range(steps):
        spec = spaces.hand.spec
        action = random.integers(spec.discrete[0]) if spec.kind == "categorical" else random.uniform(-1, 1, spec.continuous)
        observation, reward, terminated, truncated, _ = env.step(spaces.hand.to_task(action))
        seen.append(spaces.lens(observation, action=action, reward=float(reward)))
        if terminated or truncated:
            break
    env.close()
    return np.stack(seen)


# Names


@pytest.mark.parametrize(("text", "id", "arguments"), [
    ("gym:CartPole-v1", "CartPole-v1", ()),
    (" gym:ALE/Pong-v5 ", "ALE/Pong-v5", ()),
    ("gym:my.module:Thing-v0", "my.module:Thing-v0", ()),
    ("gym:my.module:Thing-v0:size=3,sure=true", "my.module:Thing-v0", (("size", 3), ("sure", True))),
    ('gym:Maze-v0:map=8x8,at=[1,2],deep={"a":"x,y=1"}', "Maze-v0", (("map", "8x8"), ("at", [1, 2]), ("deep", {"a": "x,y=1"}))),
    ("gym:Maze-v0:say=a b:c, n = 1.5", "Maze-v0", (("say", "a b:c"), ("n", 1.5))),
])  # fmt: skip
def test_names_are_taken_apart_and_put_together(text, id, arguments):
    task = parse(text)
    assert (task.id, task.arguments) == (id, arguments)
    assert parse(task.name) == task
    assert is_gym(text)
    assert hash(pickle.loads(pickle.dumps(task))) == hash(task)


VALUES = st.one_of(st.booleans(), st.integers(), st.text(max_size=8), st.none(), st.lists(st.integers(), max_size=3))


@given(st.dictionaries(st.sampled_from(["a", "b_1", "c"]), VALUES, max_size=3))
def test_any_arguments_come_back_from_a_name(arguments):
    task = GymTask("CartPole-v1", tuple(arguments.items()))
    assert parse(task.name) == task


@pytest.mark.parametrize(("text", "said"), [
    ("grid-numpad", "a Gymnasium task is written gym:ID, got 'grid-numpad'"),
    ("gym:", "a Gymnasium task needs an id, got 'gym:'"),
    ("gym:size=3", "arguments come after the id and a colon, got 'gym:size=3'"),
    ("gym:CartPole-v1:a=1,b", "key=value with commas between, got 'b'"),
    ("gym:CartPole-v1:a=1,", "key=value with commas between, got a comma at the end"),
    ("gym:CartPole-v1:a=1,a=2", "each argument once, got 'a' twice"),
])  # fmt: skip
def test_bad_names_are_said_in_one_line(text, said):
    with pytest.raises(TaskError) as caught:
        parse(text)
    assert said in one_line(caught)


def test_what_json_cannot_hold_has_no_name():
    with pytest.raises(TaskError, match=r"kind must be what JSON can hold, got .*; give env_fn instead"):
        _ = GymTask("CartPole-v1", (("kind", object()),)).name
    assert not is_gym("numpad")


# Making


def test_arguments_reach_the_task():
    for name, size in (("4x4", 16), ("8x8", 64)):
        env = parse(f"gym:FrozenLake-v1:map_name={name},is_slippery=false").make()
        assert env.observation_space == gymnasium.spaces.Discrete(size)


def test_the_previous_action_and_reward_are_shown_as_asked():
    sizes = {}
    for previous in ("none", "action", "action+reward"):
        spaces = parse("gym:CartPole-v1", previous=previous).spaces()
        assert spaces.hand.spec == ActionSpec("categorical", discrete=(2,))
        sizes[previous] = spaces.lens.spec
    floats = ((0, 4),)
    assert sizes == {
        "none": ObservationSpec(4, measured=floats),
        "action": ObservationSpec(6, measured=floats),
        "action+reward": ObservationSpec(7, measured=(*floats, (6, 7))),
    }


@pytest.mark.parametrize(("name", "hidden"), [
    ("CartPole-v1", [1, 3]),
    ("Pendulum-v1", [2]),
    ("Acrobot-v1", [4, 5]),
    ("MountainCar-v0", [1]),
    ("MountainCarContinuous-v0", [1]),
])  # fmt: skip
def test_masked_velocities_read_zero_and_nothing_else_does(name, hidden):
    plain = played(parse(f"gym:{name}", previous="none"))
    masked = played(parse(f"gym:{name}", previous="none", mask_velocity=True))
    others = [i for i in range(plain.shape[1]) if i not in hidden]
    assert not masked[:, hidden].any()
    np.testing.assert_array_equal(masked[:, others], plain[:, others])
    assert np.abs(plain[:, hidden]).max(axis=0).min() > 0
    # The claim that these are velocities: nothing else follows from two positions so closely.
    assert name != "CartPole-v1" or np.allclose(np.diff(plain[:, 0]) / 0.02, plain[:-1, 1], atol=1e-4)


def test_velocities_of_other_tasks_are_not_known():
    with pytest.raises(TaskError, match=r"mask_velocity must come with one of CartPole, .*, got 'FrozenLake-v1'") as caught:
        parse("gym:FrozenLake-v1", mask_velocity=True).make()
    one_line(caught)


class Cart(CartPoleEnv):
    """Refuses as it is told."""

    def __init__(self, fail: bool = False, **rest):
        super().__init__(**rest)
        if fail:
            raise RuntimeError("no wheels\nand no pole")


@pytest.fixture
def registering(monkeypatch):
    """A module that registers a task when it is imported, as users have them."""
    module = types.ModuleType("users_tasks")
    monkeypatch.setitem(sys.modules, "users_tasks", module)
    gymnasium.register("UsersCart-v0", entry_point=Cart, max_episode_steps=3)
    yield
    del gymnasium.registry["UsersCart-v0"]


def test_a_registered_task_is_made_with_its_time_limit(registering):
    for name in ("gym:UsersCart-v0", "gym:users_tasks:UsersCart-v0"):
        env = parse(name).make()
        env.reset(seed=0)
        assert [env.step(0)[3] for _ in range(3)] == [False, False, True]


@pytest.mark.parametrize(("name", "said"), [
    ("gym:UsersCart-v0:fail=true", "fail=true cannot be made: RuntimeError: no wheels and no pole; check its arguments"),
    ("gym:CartPole-v1:wheels=4", "unexpected keyword argument 'wheels'"),
    ("gym:CartPol-v1", "must be registered, got gym:CartPol-v1: Environment `CartPol` doesn't exist"),
    ("gym:CartPole-v7", "must be registered, got gym:CartPole-v7"),
    ("gym:Taxi-v1", "gym:Taxi-v1 is no longer made by Gymnasium: Environment version v1 for `Taxi` is deprecated"),
    ("gym:no_such_module:CartPole-v1", "gym:no_such_module:CartPole-v1 cannot be made: No module named 'no_such_module'"),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore:.*out of date")
def test_a_task_that_cannot_be_made_says_why_in_one_line(registering, name, said):
    with pytest.raises(TaskError) as caught:
        parse(name).spaces()
    assert said in one_line(caught)


@pytest.mark.parametrize(("name", "module", "install"), [
    ("MiniGrid-Empty-5x5-v0", "minigrid", "minigrid"),
    ("popgym-AutoencodeEasy-v0", "popgym", "popgym"),
    ("ALE/Pong-v5", "ale_py", "ale-py"),
    ("Endless-MortarMayhem-v0", "memory_gym", "memory-gym"),
])  # fmt: skip
def test_a_missing_package_is_named_with_the_install(name, module, install, monkeypatch):
    monkeypatch.delitem(gymnasium.registry, name, raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(TaskError, match=f"gym:{name} needs the package {module}, got none installed; pip install {install}$"):
        parse(f"gym:{name}").make()


# From Python


def test_a_function_makes_the_task():
    task = GymTask("my-cart", env_fn=Cart)
    assert task.name == "gym:my-cart"
    assert isinstance(task.make().unwrapped, Cart)
    with pytest.raises(TaskError, match=r"env_fn must give a gymnasium\.Env, got int; shimmy"):
        GymTask("three", env_fn=lambda: 3).make()  # pyright: ignore[reportArgumentType]
    with pytest.raises(TaskError, match="gym:none cannot be made: KeyError: 'x'"):
        GymTask("none", env_fn=lambda: {}["x"]).make()
    with pytest.raises(TaskError, match="env_fn takes no arguments"):
        GymTask("my-cart", (("fail", True),), env_fn=Cart)


def vector_size(task: GymTask) -> int:
    return task.spaces().lens.spec.vector


def test_a_task_goes_to_another_process_also_when_a_lambda_makes_it():
    shape = (5,)
    task = GymTask("lambda", previous="none", env_fn=lambda: Shaped(shape))
    again = pickle.loads(pickle.dumps(task))
    assert again.make().observation_space.shape == shape
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply_async(vector_size, (parse("gym:CartPole-v1"),)).get(timeout=60) == 6


class Shaped(gymnasium.Env):
    """Shows an array of any shape."""

    def __init__(self, shape):
        self.observation_space = gymnasium.spaces.Box(0, 1, shape)
        self.action_space = gymnasium.spaces.Discrete(2)


# Packages


def test_minigrid_is_seen_as_one_hot_cells():
    pytest.importorskip("minigrid")
    task = parse("gym:MiniGrid-MemoryS13-v0")
    lens = task.spaces().lens
    assert lens.spec == ObservationSpec(vector=7 * 7 * 20 + 4 + 7), "cells, direction, previous action; the mission never changes"
    seen = played(task)
    assert set(np.unique(seen)) == {0, 1}
    cells = seen[:, 4 : 4 + 7 * 7 * 20].reshape(len(seen), 7, 7, 20)
    assert (cells.sum(axis=-1) == 3).all(), "one object, one colour, one state in every cell"


def test_missions_that_differ_are_read():
    pytest.importorskip("minigrid")
    for name in ("MiniGrid-Fetch-5x5-N2-v0", "BabyAI-GoToObj-v0"):
        lens = parse(f"gym:{name}").spaces().lens
        assert lens.spec.texts == (("text:mission", 32),)


def test_popgym_is_played():
    pytest.importorskip("popgym")
    task = parse("gym:popgym-RepeatPreviousEasy-v0")
    assert task.spaces().lens.spec == ObservationSpec(vector=8)
    assert (played(task)[1:].sum(axis=1) == 2).all(), "a card and the previous action, one-hot"
