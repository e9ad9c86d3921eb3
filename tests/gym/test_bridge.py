"""The tasks as Gymnasium environments: its own checker, one against many, seeds, ends, errors."""

import subprocess
import sys
from typing import Any

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from jaxtyping import Array, UInt8

import gtrxl.tasks
from gtrxl.gym.bridge import TaskEnv, TaskVectorEnv
from gtrxl.gym.registration import LEVELS, NAMES, register, registered_name
from gtrxl.tasks import TASKS, TaskError, TMaze
from gtrxl.tasks.first_person import level as level_module
from gtrxl.tasks.first_person.scene import Body, Scene

SHORT: dict[str, dict[str, Any]] = {
    "gtrxl/GridNumpad-v0": {"size": 3, "episode_steps": 7},
    "gtrxl/Numpad-v0": {"episode_steps": 5},
    "gtrxl/TMaze-v0": {"corridor": 3, "patience": 4},
    "gtrxl/Recall-v0": {"items": 2, "ask": 1, "delay": 1},
}
each_name = pytest.mark.parametrize("name", SHORT)
SMALL: dict[str, Any] = {"height": 8, "width": 16, "episode_steps": 4}


@each_name
def test_gymnasiums_checker_has_nothing_to_say(name):
    """Its warnings are errors here."""
    env = gymnasium.make(name, render_mode="rgb_array", **SHORT[name])
    check_env(env.unwrapped)
    env.close()


KINDS = [name for name in LEVELS if not name.endswith(("_large", "_many")) and name != "explore_goal_locations_small"]
"""A level of each kind: the others are larger ones of the same, or the same without doors."""


QUICK = ("memory-maze", "language_select_described_object")


@pytest.mark.parametrize("level", [each if each in QUICK else pytest.param(each, marks=pytest.mark.slow) for each in KINDS])
def test_gymnasiums_checker_has_nothing_to_say_about_a_level(level, monkeypatch):
    """Dicts of pictures, words and numbers come out, and Memory Maze takes a dict. Compiling the renderer thirteen times takes
    too long: all but Memory Maze show flat pictures that tell where the body is."""
    monkeypatch.setattr(level_module, "VIEW", (8, 16))

    def flat(scene: Scene, body: Body, *, height: int, width: int) -> UInt8[Array, "H W 3"]:
        return jnp.full((height, width, 3), (20 * body.place.sum() + body.heading).astype(jnp.uint8))

    if level != "memory-maze":
        monkeypatch.setattr(level_module, "render", flat)
    env = gymnasium.make(registered_name(level), render_mode="rgb_array", **SMALL)
    check_env(env.unwrapped)
    env.close()


def test_every_first_person_task_is_registered():
    names = [name for name, entry in TASKS.items() if entry.first_person]
    assert sorted(names) == sorted(LEVELS)
    for name in LEVELS:
        env: Any = gymnasium.make(registered_name(name), height=24, width=32).unwrapped
        assert env.task == gtrxl.tasks.make_task(f"{name}:height=24,width=32")
        assert env.observation_space["image"].shape == (24, 32, 3)
    assert {name for name in NAMES if "RoomsWatermaze" in name or "MemoryMaze" in name} == {
        "gtrxl/MemoryMaze-v0",
        "gtrxl/RoomsWatermaze-v0",
    }


@pytest.mark.slow
def test_many_mazes_play_what_each_would_alone():
    """Actions and observations are dicts; episodes end and begin in between."""
    envs = gymnasium.make_vec("gtrxl/MemoryMaze-v0", num_envs=2, **SMALL)
    alone = [gymnasium.make("gtrxl/MemoryMaze-v0", **SMALL) for _ in range(2)]
    observations, _ = envs.reset(seed=3)
    singles = [env.reset(seed=3 + i)[0] for i, env in enumerate(alone)]
    envs.action_space.seed(0)
    for step in range(7):
        assert envs.observation_space.contains(observations)
        for i, single in enumerate(singles):
            np.testing.assert_array_equal(observations["image"][i], single["image"])
            np.testing.assert_allclose(observations["vector"][i], single["vector"], atol=1e-6)
        actions = envs.action_space.sample()
        observations, _, _, truncated, _ = envs.step(actions)
        assert truncated.all() == (step == 3)
        taken = [{name: part[i] for name, part in actions.items()} for i in range(2)]
        singles = [(env.reset() if step == 4 else env.step(action))[0] for env, action in zip(alone, taken, strict=True)]


@each_name
def test_many_play_what_each_would_alone(name):
    """Over several episodes: the step after an end begins the next one and ignores its action (NEXT_STEP)."""
    envs = gymnasium.make_vec(name, num_envs=3, **SHORT[name])
    assert isinstance(envs, TaskVectorEnv)
    assert envs.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP
    alone = [gymnasium.make(name, **SHORT[name]) for _ in range(3)]
    observations, _ = envs.reset(seed=11)
    np.testing.assert_allclose(observations, [env.reset(seed=11 + i)[0] for i, env in enumerate(alone)], atol=1e-6)
    envs.action_space.seed(0)
    ended, ends = np.zeros(3, bool), 0
    for _ in range(20):
        actions = envs.action_space.sample()
        observations, rewards, terminated, truncated, _ = envs.step(actions)
        assert envs.observation_space.contains(observations)
        for i, env in enumerate(alone):
            single = (env.reset()[0], 0.0, False, False) if ended[i] else env.step(actions[i])[:4]
            np.testing.assert_allclose(observations[i], single[0], atol=1e-5)
            assert (rewards[i], terminated[i], truncated[i]) == single[1:]
        ended = terminated | truncated
        ends += ended.sum()
    assert ends >= 6


def test_seeds_decide_all_later_episodes():
    def episodes(seed: int) -> list[list[float]]:
        env = gymnasium.make("gtrxl/GridNumpad-v0", **SHORT["gtrxl/GridNumpad-v0"])
        return [env.reset(seed=seed if i == 0 else None)[0].tolist() for i in range(6)]

    assert episodes(3) == episodes(3)
    assert episodes(3) != episodes(4)
    assert len({tuple(observation) for observation in episodes(3)}) > 1


def test_a_list_seeds_each_environment_by_itself():
    envs = TaskVectorEnv("grid-numpad:size=3,episode_steps=7", 3)
    first, _ = envs.reset(seed=[5, 9, 5])
    np.testing.assert_array_equal(first[0], first[2])
    again, _ = envs.reset(seed=[None, 9, 6])
    np.testing.assert_array_equal(again[1], first[1])
    with pytest.raises(TaskError, match="one entry for each of 3 environments, got 2"):
        envs.reset(seed=[1, 2])


def test_unseeded_environments_differ():
    observations, _ = TaskVectorEnv("grid-numpad:size=3", 32).reset()
    assert len(np.unique(observations, axis=0)) > 4


def test_arguments_reach_the_task():
    numpad: Any = gymnasium.make("gtrxl/Numpad-v0", size=3).unwrapped
    assert numpad.task == gtrxl.tasks.Numpad(size=3)
    assert numpad.observation_space == numpad.task.observation_space
    maze: Any = gymnasium.make("gtrxl:gtrxl/TMaze-v0", corridor=9).unwrapped
    assert maze.task == TMaze(corridor=9)


def test_pictures_come_when_asked_for():
    env = TaskEnv(TMaze(corridor=2), render_mode="rgb_array")
    assert env.render() is None, "there is nothing to draw before reset"
    env.reset(seed=0)
    picture = env.render()
    assert picture is not None
    assert picture.dtype == np.uint8
    assert picture.ndim == 3
    envs = TaskVectorEnv(TMaze(corridor=2), 2, render_mode="rgb_array")
    envs.reset(seed=0)
    drawn = envs.render()
    assert drawn is not None
    assert len(drawn) == 2
    np.testing.assert_array_equal(drawn[0], picture)
    assert TaskEnv(TMaze()).render() is None


def test_what_is_returned_is_the_users_own():
    env = TaskEnv(TMaze(corridor=2))
    observation, _ = env.reset(seed=0)
    observation[:] = 7
    assert env.step(0)[0].max() == 1


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (lambda: gymnasium.make("gtrxl/TMaze-v0", length=3), "t-maze takes corridor, patience, got 'length'"),
        (lambda: TaskEnv("t-maze", render_mode="human"), "render_mode must be None or 'rgb_array', got 'human'"),
        (lambda: TaskEnv(TMaze(), corridor=3), "takes no arguments, got corridor"),
        (lambda: TaskEnv("t-maze").step(0), "call reset"),
        (lambda: started(TaskEnv("t-maze")).step(3), "action must be a whole number from 0 to 2, got 3"),
        (lambda: started(TaskEnv("numpad")).step(np.zeros(2)), r"action must have shape \(3,\), got \(2,\)"),
        (lambda: TaskVectorEnv("t-maze", 0), "num_envs must be at least 1, got 0"),
        (lambda: TaskVectorEnv("t-maze", 2).step(np.zeros(2)), "call reset"),
        (lambda: started(TaskVectorEnv("t-maze", 2)).step(np.zeros(3, int)), r"actions must have shape \(2,\), got \(3,\)"),
        (lambda: started(TaskVectorEnv("t-maze", 2)).step(np.array([0, 5])), "whole numbers from 0 to 2, got 5"),
        (lambda: maze().step(0), "action must be a dict of continuous, discrete, got 0"),
        (lambda: maze().step({"continuous": np.zeros(8)}), r"a dict of continuous, discrete, got \['continuous'\]"),
        (lambda: maze().step(act(7, [0])), r"continuous must have shape \(8,\), got \(7,\)"),
        (lambda: maze().step(act(8, [2])), "discrete must be whole numbers from 0 to 1, got 2"),
    ],
)
def test_mistakes_are_named(mistake, message):
    with pytest.raises(TaskError, match=message) as caught:
        mistake()
    assert "\n" not in str(caught.value)


def maze():
    return started(TaskEnv("memory-maze", **SMALL))


def act(numbers: int, choices: list[int]) -> dict[str, np.ndarray]:
    return {"continuous": np.zeros(numbers), "discrete": np.array(choices)}


def started(env):
    env.reset(seed=0)
    return env


def test_registering_again_changes_nothing():
    before = {name: gymnasium.spec(name) for name in NAMES}
    register()
    assert {name: gymnasium.spec(name) for name in NAMES} == before


IDS = [
    "GridNumpad",
    "Numpad",
    "TMaze",
    "Recall",
    "PassiveTMaze",
    "RepeatPrevious",
    "RepeatFirst",
    "Autoencode",
    "CountRecall",
    "HigherLower",
    "MinigridMemory",
    "NoisyCartPole",
    "MemoryMaze",
    "RoomsSelectNonmatchingObject",
    "RoomsWatermaze",
    "ExploreObstructedGoalsSmall",
    "ExploreObstructedGoalsLarge",
    "ExploreGoalLocationsSmall",
    "ExploreGoalLocationsLarge",
    "ExploreObjectRewardsFew",
    "ExploreObjectRewardsMany",
    "RoomsCollectGoodObjects",
    "ExploreObjectLocationsSmall",
    "ExploreObjectLocationsLarge",
    "LanguageSelectDescribedObject",
    "PsychlabArbitraryVisuomotorMapping",
    "PsychlabContinuousRecognition",
    "PsychlabSequentialComparison",
    "PsychlabVisualSearch",
    "RoomsExploitDeferredEffects",
    "RoomsKeysDoorsPuzzle",
    "LanguageSelectLocatedObject",
    "LanguageExecuteRandomTask",
    "LanguageAnswerQuantitativeQuestion",
    "SkymazeIrreversiblePathHard",
    "SkymazeIrreversiblePathVaried",
    "LasertagOneOpponentSmall",
    "LasertagThreeOpponentsSmall",
    "LasertagOneOpponentLarge",
    "LasertagThreeOpponentsLarge",
    "NatlabFixedLargeMap",
    "NatlabVaryingMapRegrowth",
    "NatlabVaryingMapRandomized",
]


def test_the_ids_are_derived_from_the_catalogue_and_stay():
    """Users have them in their code: one that is gone or has another name is noticed here."""
    assert list(NAMES) == [f"gtrxl/{name}-v0" for name in IDS]
    assert {name: gymnasium.spec(name).kwargs["task"] for name in NAMES} == NAMES


@pytest.mark.parametrize("line", ["import gtrxl; gymnasium.make('gtrxl/Numpad-v0')", "gymnasium.make('gtrxl:gtrxl/Numpad-v0')"])
def test_an_import_or_a_name_before_the_colon_is_enough(line):
    subprocess.run([sys.executable, "-W", "error", "-c", f"import gymnasium; {line}.reset(seed=0)"], check=True)
