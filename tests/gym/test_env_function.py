"""Functions that make environments: named by their place, found again by it, and said to be lost where they cannot be."""

import functools
import pickle
import subprocess
import sys

import gymnasium
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

from gtrxl.gym.by_name import foreign, is_gym, parse
from gtrxl.gym.task import GymTask
from gtrxl.tasks.errors import TaskError


def make_cart() -> gymnasium.Env:
    return CartPoleEnv()


def hidden() -> gymnasium.Env:
    return CartPoleEnv()


HIDDEN = hidden
hidden = 3  # pyright: ignore[reportAssignmentType]


class Factory:
    """Functions may live in classes, and objects may be functions."""

    @staticmethod
    def make() -> gymnasium.Env:
        return CartPoleEnv()

    def __call__(self) -> gymnasium.Env:
        return CartPoleEnv()


@pytest.mark.parametrize("text", [
    f"env:{__name__}.make_cart",
    f"env:{__name__}:make_cart",
    f" env:{__name__}:Factory.make ",
    f"gym:env_fn/{__name__}.make_cart",
    f"gym:env_fn/{__name__}.Factory.make",
    "env:gymnasium.envs.classic_control:CartPoleEnv",
])  # fmt: skip
def test_a_function_is_found_at_its_place(text):
    task = parse(text)
    assert is_gym(text)
    assert task.name.startswith("env:")
    assert parse(task.name) == task == pickle.loads(pickle.dumps(task))
    assert isinstance(task.make().unwrapped, CartPoleEnv)
    assert task.spaces().hand.spec.discrete == (2,)


def test_the_place_of_a_function_is_its_name():
    for function, place in ((make_cart, "make_cart"), (Factory.make, "Factory.make"), (Factory, "Factory")):
        task = GymTask.of(function)  # pyright: ignore[reportArgumentType]
        assert task.name == f"env:{__name__}:{place}"
        assert parse(task.name).id == task.id


@pytest.mark.parametrize(("function", "place"), [
    (lambda: CartPoleEnv(), f"{__name__}:<lambda>"),
    (functools.partial(CartPoleEnv), "functools:<partial>"),
    (Factory(), f"{__name__}:<Factory>"),
    (HIDDEN, f"{__name__}:<hidden>"),
])  # fmt: skip
def test_a_function_that_cannot_be_imported_works_here_and_says_so_elsewhere(function, place):
    task = GymTask.of(function)
    assert task.name == f"env:{place}"
    assert isinstance(task.make(), CartPoleEnv)
    assert isinstance(pickle.loads(pickle.dumps(task)).make(), CartPoleEnv)
    with pytest.raises(TaskError, match=r"cannot be imported here; give the function again as env_fn$") as caught:
        parse(task.name).make()
    assert "\n" not in str(caught.value)


def test_functions_of_scripts_and_inside_others_say_so(tmp_path):
    def local() -> gymnasium.Env:
        return CartPoleEnv()

    assert "<locals>" in GymTask.of(local).name
    script = tmp_path / "script.py"
    script.write_text(
        "from gtrxl.gym.task import GymTask\n"
        "def make(): ...\n"
        "print(GymTask.of(make).name)\n"
    )  # fmt: skip
    said = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "env:__main__:make"
    with pytest.raises(TaskError, match="__main__:make cannot be imported here; give the function again"):
        parse("env:__main__:make").make()


@pytest.mark.parametrize(("text", "said"), [
    ("env:", "a function is written env:package.module.function, got 'env:'"),
    ("env:make", "a function is written env:package.module.function, got 'env:make'"),
    ("env:my module.make", "a function is written env:package.module.function"),
    ("env:no_such_module.make", "the env_fn no_such_module:make cannot be imported: No module named 'no_such_module'"),
    (f"env:{__name__}.make_car", f"there is no make_car in {__name__}; did you mean make_cart?"),
    (f"env:{__name__}.hidden", "must be a function that makes a gymnasium.Env, got 3"),
])  # fmt: skip
def test_what_is_not_there_is_said_in_one_line(text, said):
    with pytest.raises(TaskError) as caught:
        parse(text).make()
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("text", "modules"), [
    ("gym:CartPole-v1", ()),
    ("gym:MiniGrid-MemoryS13-v0", ()),
    ("gym:minigrid:MiniGrid-MemoryS13-v0", ()),
    ("gym:gtrxl:gtrxl/TMaze-v0", ()),
    ("dmlab:rooms_watermaze", ()),
    ("dmlab30", ()),
    ("t-maze", ()),
    ("gym:their.tasks:Maze-v0:size=3", ("their.tasks",)),
    ("env:my.tasks.make", ("my.tasks:make",)),
    ("gym:env_fn/my.tasks.make", ("my.tasks:make",)),
    (
        "gym:CartPole-v1+env:my.tasks:make+gym:their.tasks:Maze-v0+env:my.tasks:other",
        ("my.tasks:make", "their.tasks", "my.tasks:other"),
    ),
    ("env:gtrxl.play.server:http.server.test", ("gtrxl.play.server:http.server.test",)),
    ("env:gymnasium.make", ("gymnasium:make",)),
    ("gym:gtrxl.__main__:X-v0", ("gtrxl.__main__",)),
    ("gym:gtrxl/TMaze-v0:task=my.tasks:Maze,corridor=3", ("my.tasks:Maze",)),
    ('gym:Some-v0:inner={"deep":[{"a":"my.tasks:Maze"}]}', ("my.tasks:Maze",)),
    ("dmlab:../../evil", ("dmlab:../../evil",)),
    ("dmlab:rooms_watermaze:cache=/elsewhere", ("dmlab:rooms_watermaze:cache=/elsewhere",)),
    ("dmlab:rooms_watermaze:cache=none", ()),
])  # fmt: skip
def test_what_only_a_name_knows_of_is_told_without_importing_it(text, modules):
    assert foreign(text) == modules
