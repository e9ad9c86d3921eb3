"""The tasks as Gymnasium environments: its own checker, one against many, seeds, ends, errors."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

import gtrxl.envs
from gtrxl.envs import TaskEnv, TaskError, TaskVectorEnv, TMaze
from gtrxl.envs.registration import NAMES, register

each_name = pytest.mark.parametrize("name", NAMES)
SHORT: dict[str, dict[str, Any]] = {
    "gtrxl/GridNumpad-v0": {"size": 3, "episode_steps": 7},
    "gtrxl/Numpad-v0": {"episode_steps": 5},
    "gtrxl/TMaze-v0": {"corridor": 3, "patience": 4},
    "gtrxl/Recall-v0": {"items": 2, "ask": 1, "delay": 1},
}


@each_name
def test_gymnasiums_checker_has_nothing_to_say(name):
    """Its warnings are errors here."""
    env = gymnasium.make(name, render_mode="rgb_array", **SHORT[name])
    check_env(env.unwrapped)
    env.close()


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
    assert numpad.task == gtrxl.envs.Numpad(size=3)
    assert numpad.observation_space == numpad.task.observation_space
    maze: Any = gymnasium.make("gtrxl.envs:gtrxl/TMaze-v0", corridor=9).unwrapped
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
    ],
)
def test_mistakes_are_named(mistake, message):
    with pytest.raises(TaskError, match=message) as caught:
        mistake()
    assert "\n" not in str(caught.value)


def started(env):
    env.reset(seed=0)
    return env


def test_registering_again_changes_nothing():
    before = {name: gymnasium.spec(name) for name in NAMES}
    register()
    assert {name: gymnasium.spec(name) for name in NAMES} == before
