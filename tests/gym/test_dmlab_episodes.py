"""Episodes of DeepMind Lab, against a stand-in with the real module's interface: what is done, what comes of it, and what Lab
must never be asked."""

import multiprocessing
import os
import sys
import weakref

import gymnasium
import numpy as np
import pytest

from gtrxl.gym.by_name import parse
from gtrxl.gym.isolated import IsolatedEnv
from gtrxl.tasks.errors import TaskError
from gtrxl.tasks.first_person.actions import LAB_ACTIONS, MAPPING_ACTIONS
from tests.gym import fake_lab
from tests.gym.lab_tasks import SMALL, task
from tests.gym.test_task import one_line


@pytest.fixture
def env(lab):
    made = task(f"dmlab:rooms_watermaze:{SMALL}").make()
    yield made
    made.close()


def test_the_papers_actions_reach_lab_for_four_frames(env):
    env.reset(seed=0)
    given = [[*row, 0, 0] for row in LAB_ACTIONS.values()]
    for action in range(11):
        env.step(action)
    assert env.unwrapped._lab.reads == given[:11]
    assert env.unwrapped._lab.num_steps() == 44
    mapping = task("dmlab:psychlab_arbitrary_visuomotor_mapping")
    assert [row.tolist() for row in mapping.actions] == [[*row, 0, 0] for row in MAPPING_ACTIONS.values()]
    assert task("dmlab:psychlab_arbitrary_visuomotor_mapping:reduced=0").action_space.n == 15
    for row in mapping.actions:
        assert (row.dtype, row.flags.c_contiguous, row.base) == (np.intc, True, None)


def test_the_stand_in_misreads_a_view_as_the_real_one_does():
    """What the bridge is careful about is there to be careful about."""
    made = fake_lab.Lab("seekavoid_arena_01", ["INSTR"])
    made.reset(seed=1)
    table = np.arange(70, dtype=np.intc).reshape(10, 7)
    made.step(np.ascontiguousarray(table[:7, 0]))
    made.step(table[:7, 0])
    assert made.reads == [[0, 7, 14, 21, 28, 35, 42], [0, 1, 2, 3, 4, 5, 6]]
    with pytest.raises(ValueError, match="intc"):
        made.step(np.zeros(7, np.int64))
    with pytest.raises(ValueError, match="seed"):
        made.reset(seed=np.int64(3))


def test_an_episode_ends_with_the_picture_before_and_for_good(env):
    """12 steps of 4 frames; a step after that is our error, not Lab's."""
    observation, _ = env.reset(seed=3)
    assert env.observation_space.contains(observation)
    for number in range(1, 13):
        before = observation
        observation, reward, terminated, truncated, _ = env.step(0)
        assert (type(reward), reward, terminated, truncated) == (float, 4.0, number == 12, False)
        assert env.observation_space.contains(observation)
        assert np.array_equal(before["image"], observation["image"]) == terminated
    with pytest.raises(TaskError, match="call reset"):
        env.step(0)
    env.reset()
    env.step(1)


def test_seeds_are_python_ints_and_decide_the_episodes(lab):
    seeds = []

    class Watched(fake_lab.Lab):
        def reset(self, episode=-1, seed=None):
            seeds.append(seed)
            return super().reset(episode, seed)

    def played(seed):
        made = task(f"dmlab:language_select_described_object:{SMALL}").make()
        first = made.reset(seed=seed)[0]
        second = made.reset()[0]
        made.close()
        return [first["image"].tobytes(), second["image"].tobytes(), first["instruction"]]

    lab.setattr(sys.modules.get("deepmind_lab") or __import__("deepmind_lab"), "Lab", Watched)
    once, again, other = played(7), played(7), played(8)
    assert once == again != other
    assert once[2] == "collect the red ball"
    assert all(type(seed) is int and 0 <= seed < 2**31 for seed in seeds)
    assert len(set(seeds)) == 4


def test_a_closed_lab_is_never_asked_again(env):
    """The real one would end the process."""
    env.reset(seed=0)
    env.close()
    env.close()
    for call in (env.reset, lambda: env.step(0)):
        with pytest.raises(TaskError, match="closed"):
            call()


def test_a_process_holds_one_lab(env, lab):
    with pytest.raises(TaskError, match="one DeepMind Lab") as caught:
        task("dmlab:rooms_watermaze").make()
    one_line(caught)
    env.close()
    second = task("dmlab:rooms_watermaze").make()
    gone = weakref.ref(second.unwrapped)
    del second
    assert gone() is None, "one that was dropped does not count"
    task("dmlab:rooms_watermaze").make().close()


def test_gymnasium_finds_nothing_wrong(lab):
    """Its checker makes no second Lab."""
    from gymnasium.utils.env_checker import check_reset_return_type, data_equivalence

    made = task(f"dmlab:rooms_watermaze:{SMALL}").make(render_mode="rgb_array")
    check_reset_return_type(made)
    seen, _ = made.reset(seed=1)
    assert data_equivalence(made.render(), seen["image"])
    assert isinstance(made.action_space, gymnasium.spaces.Discrete)
    made.close()


def test_what_an_agent_is_shown(lab):
    """Picture, words, the action before and what it brought."""
    spec = task(f"dmlab:rooms_watermaze:{SMALL}").spaces().lens.spec
    assert (spec.vector, spec.images, [words for _, words in spec.texts]) == (16, (("image:image", (16, 24, 3)),), [32])
    assert spec.measured == ((15, 16),)
    with pytest.raises(TaskError, match="previous action and reward"):
        parse("dmlab:rooms_watermaze", previous="none")


def test_what_lab_logs_never_reaches_our_stdout(lab, capfd):
    """Told to be quiet it is; where it is not, its process has no way to our stdout, which may be read by a program."""
    made = task(f"dmlab:rooms_watermaze:{SMALL}").make()
    made.close()
    assert capfd.readouterr() == ("", "")
    lab.setenv("FAKE_LAB_LOUD", "1")
    apart = IsolatedEnv(task(f"dmlab:rooms_watermaze:{SMALL}"), render_mode="rgb_array")
    seen, _ = apart.reset(seed=0)
    assert np.array_equal(apart.render(), seen["image"])
    apart.close()
    out, log = capfd.readouterr()
    assert (out, log.count("Initialize Lab")) == ("", 42)


def test_whatever_is_said_is_of_the_space(lab):
    """Questions have spaces and a question mark."""
    for level, said in {**fake_lab.SAID, "language_select_described_object": "collect the red ball"}.items():
        made = task(f"dmlab:{level}:{SMALL}").make()
        seen, _ = made.reset(seed=0)
        assert seen["instruction"] == said
        assert made.observation_space.contains(seen)
        made.close()


def test_pictures_that_are_not_there_are_missed_before_lab_is_made(lab, tmp_path):
    """The stand-in ends the process at the first picture, as the real one does."""
    folder = tmp_path / "pictures"
    wrong = task(f"dmlab:psychlab_continuous_recognition:{SMALL},dataset={folder}")
    for missing, count in (("0001.png", 2400), ("1200.png", 1)):
        for call in (wrong.make, wrong.spaces):
            with pytest.raises(TaskError, match=rf"without {missing} \({count} are missing\); data/brady_konkle") as caught:
                call()
            one_line(caught)
        folder.mkdir(exist_ok=True)
        for number in range(1, 2401):
            if number != 1200:
                (folder / f"{number:04d}.png").touch()
    (folder / "1200.png").touch()
    made = wrong.make()
    made.reset(seed=0)
    made.close()
    task(f"dmlab:rooms_watermaze:{SMALL},dataset={tmp_path / 'nowhere'}").make().close()


def _crash(folder: str) -> None:
    sys.path.insert(0, folder)
    made = task("dmlab:tests/missing_map").make()
    made.reset(seed=0)
    os._exit(0)


def test_the_stand_in_ends_its_process_as_the_real_one_does(lab, tmp_path):
    process = multiprocessing.get_context("spawn").Process(target=_crash, args=(str(tmp_path / "fake"),))
    process.start()
    process.join(60)
    assert process.exitcode == 1
