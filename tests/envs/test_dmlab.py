"""The bridge to DeepMind Lab, against a stand-in with the real module's interface: what it is told, what comes of it, what it
must never be asked, and what is said where it is missing."""

import builtins
import multiprocessing
import os
import pickle
import sys
import threading
import weakref

import gymnasium
import numpy as np
import pytest

from gtrxl.envs import dmlab, dmlab_levels
from gtrxl.envs.dmlab import LabEnv, LabTask
from gtrxl.envs.errors import TaskError
from gtrxl.envs.first_person.actions import LAB_ACTIONS, MAPPING_ACTIONS
from gtrxl.envs.host import HostTask, is_host
from gtrxl.envs.host_sets import HostSet
from gtrxl.envs.level_cache import LevelCache, usual_folder
from tests.envs import fake_lab
from tests.envs.test_host import one_line

SMALL = "height=16,width=24"


def task(text: str) -> LabTask:
    made = HostTask.parse(text)
    assert isinstance(made, LabTask)
    return made


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """The stand-in, importable; no Lab is left open."""
    fake_lab.install(tmp_path, monkeypatch)
    monkeypatch.setattr(LabEnv, "_open", None)
    return monkeypatch


@pytest.fixture
def env(lab):
    made = task(f"dmlab:rooms_watermaze:{SMALL}").make()
    yield made
    made.close()


# Names


@pytest.mark.parametrize(("text", "name", "path"), [
    ("dmlab:rooms_watermaze", "dmlab:rooms_watermaze", "contributed/dmlab30/rooms_watermaze"),
    ("dmlab:contributed/dmlab30/rooms_watermaze", "dmlab:rooms_watermaze", "contributed/dmlab30/rooms_watermaze"),
    ("dmlab:rooms_collect_good_objects", "dmlab:rooms_collect_good_objects_train",
     "contributed/dmlab30/rooms_collect_good_objects_train"),
    (" dmlab:rooms_watermaze:height=36, width=96 ", "dmlab:rooms_watermaze:height=36", "contributed/dmlab30/rooms_watermaze"),
    ("dmlab:tests/empty_room_test", "dmlab:tests/empty_room_test", "tests/empty_room_test"),
])  # fmt: skip
def test_names_are_taken_apart_and_put_together(text, name, path):
    made = task(text)
    assert is_host(text)
    assert (made.name, dmlab_levels.path(made.id)) == (name, path)
    assert HostTask.parse(made.name) == made == pickle.loads(pickle.dumps(made))
    assert hash(HostTask.parse(made.name)) == hash(made)


@pytest.mark.parametrize(("text", "said"), [
    ("dmlab:", "needs a name"),
    ("dmlab:rooms_watermaze:heigth=36", "takes height, width"),
    ("dmlab:rooms_watermaze:height=4", "height must be at least 8, got 4"),
    ("dmlab:rooms_watermaze:height=tall", "height must be a whole number, got 'tall'"),
    ("dmlab:rooms_watermaze:renderer=gpu", "software or hardware"),
    ("dmlab:rooms_watermaze:test=2", "test must be 0 or 1"),
    ("dmlab:rooms_watermaze:cache=3", "cache must be text, got 3"),
    ("dmlab30:levels=3", "takes height, width"),
])  # fmt: skip
def test_a_wrong_name_is_one_line(text, said):
    with pytest.raises(TaskError, match=said) as caught:
        HostTask.parse(text)
    one_line(caught)


def test_the_sets_are_the_papers_split():
    everything, memory, reactive = (HostTask.parse(name) for name in ("dmlab30", "dmlab30-memory", "dmlab30-reactive"))
    names = [member.name for member in everything.tasks]
    assert (len(names), len(memory.tasks), len(reactive.tasks)) == (30, 8, 22)
    assert {member.id for member in memory.tasks} | {member.id for member in reactive.tasks} == set(dmlab_levels.LEVELS)
    assert "dmlab:explore_object_rewards_many" in [member.name for member in memory.tasks]
    assert "dmlab:psychlab_arbitrary_visuomotor_mapping:reduced=0" in names, "in a set all have the 15 actions"
    small = HostTask.parse(f"dmlab30:{SMALL}")
    assert small.name == f"dmlab30:{SMALL}"
    assert all(dict(member.arguments)["height"] == 16 for member in small.tasks)
    assert HostTask.parse(small.name) == small == pickle.loads(pickle.dumps(small))
    assert small.alone


def test_a_set_has_the_spaces_of_its_members(lab):
    assert HostTask.parse(f"dmlab30:{SMALL}").spaces() == task(f"dmlab:rooms_watermaze:{SMALL}").spaces()
    both = HostTask.parse(f"dmlab:rooms_watermaze:{SMALL}+dmlab:psychlab_arbitrary_visuomotor_mapping:{SMALL}")
    with pytest.raises(TaskError, match=r"a choice of 15 to act with in dmlab:rooms.* a choice of 5") as caught:
        both.spaces()
    one_line(caught)
    with pytest.raises(TaskError, match="each once"):
        HostTask.parse("gym:CartPole-v1+gym:CartPole-v1")
    with pytest.raises(TaskError, match="one task is made at a time"):
        both.make()


# What Lab is told


def test_what_a_level_is_told(lab):
    plain = {"height": "72", "width": "96"}
    scored = plain | {"allowHoldOutLevels": "true", "mixerSeed": "1611489005"}
    assert int(scored["mixerSeed"]) == dmlab.SCORING_SEED
    assert task("dmlab:rooms_watermaze").config == plain
    assert task("dmlab:rooms_watermaze").held_out().config == scored
    split = task("dmlab:rooms_collect_good_objects")
    assert (split.config, split.held_out().id) == (plain, "rooms_collect_good_objects_test")
    assert split.held_out().config == scored
    assert task("dmlab:psychlab_continuous_recognition:dataset=/data").config == plain | {"datasetPath": "/data"}
    assert task("dmlab:psychlab_arbitrary_visuomotor_mapping").config == plain | {"datasetPath": "dummy"}


def test_every_level_can_be_made_to_train_and_to_score(lab):
    """The stand-in refuses what the real one refuses: unknown levels and settings, test levels that are not allowed."""
    everything = HostTask.parse(f"dmlab30:{SMALL}")
    assert isinstance(everything, HostSet)
    for member in [*everything.tasks, *everything.held_out().tasks]:
        made = member.make()
        made.reset(seed=0)
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


# Episodes


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
        HostTask.parse("dmlab:rooms_watermaze", previous="none")


# The cache


def test_maps_are_compiled_once(lab, tmp_path):
    """Four maps, each compiled at most once; another Lab finds them all."""
    made = task(f"dmlab:explore_goal_locations_small:{SMALL}").make()
    for seed in range(24):
        made.reset(seed=seed)
    made.close()
    kept = list(usual_folder().glob("*.pk3"))
    assert len(kept) == 4
    assert usual_folder() == tmp_path / "cache" / "gtrxl" / "dmlab"
    lab.setattr(LevelCache, "write", lambda *_: pytest.fail("compiled again"))
    made = task(f"dmlab:explore_goal_locations_small:{SMALL}").make()
    for seed in range(24):
        made.reset(seed=seed)
    made.close()


def test_a_cache_elsewhere_or_none(lab, tmp_path):
    for cache, kept in ((tmp_path / "maps", 1), ("none", 0)):
        made = task(f"dmlab:explore_goal_locations_small:{SMALL},cache={cache}").make()
        made.reset(seed=0)
        made.close()
        assert len(list((tmp_path / "maps").glob("*.pk3"))) == 1
        assert len(list(usual_folder().glob("*"))) == 0, kept


def test_a_cache_that_cannot_be_used_is_no_cache(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "map").write_text("walls")
    broken = LevelCache(tmp_path / "file")
    broken.write("key", str(tmp_path / "map"))
    assert not broken.fetch("key", str(tmp_path / "got"))
    assert not LevelCache(tmp_path / "cache").fetch("../../map", str(tmp_path / "got"))
    assert not (tmp_path / "got").exists()


def test_many_write_one_map_and_nobody_reads_half_of_it(tmp_path):
    big = {letter: (letter * 200_000).encode() for letter in "ab"}
    for letter, walls in big.items():
        (tmp_path / letter).write_bytes(walls)
    cache, wrong = LevelCache(tmp_path / "cache"), []
    cache.write("key", str(tmp_path / "a"))

    def write(letter: str) -> None:
        for _ in range(50):
            cache.write("key", str(tmp_path / letter))

    def read(number: int) -> None:
        to = tmp_path / f"got-{number}"
        for _ in range(50):
            if not cache.fetch("key", str(to)) or to.read_bytes() not in big.values():
                wrong.append(number)

    threads = [threading.Thread(target=write, args=(letter,)) for letter in big]
    threads += [threading.Thread(target=read, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(list((tmp_path / "cache").iterdir())) == 1, "nothing is left lying about"


# What goes wrong


@pytest.mark.parametrize(("text", "instead"), [
    ("dmlab:rooms_watermaze", "`gtrxl train rooms_watermaze`"),
    ("dmlab:rooms_collect_good_objects", "`gtrxl train rooms_collect_good_objects`"),
    ("dmlab:natlab_fixed_large_map", "`gtrxl train lab-reactive`"),
    ("dmlab30", "`gtrxl train lab12`"),
    ("dmlab30-memory", "`gtrxl train lab-memory`"),
])  # fmt: skip
def test_without_lab_one_line_says_how_to_get_it_and_what_to_use_instead(text, instead, monkeypatch):
    monkeypatch.setitem(sys.modules, "deepmind_lab", None)

    def missing(name, *rest):
        raise ModuleNotFoundError("No module named 'deepmind_lab'", name="deepmind_lab")

    monkeypatch.setattr(dmlab.importlib, "import_module", missing)
    with pytest.raises(TaskError, match=instead) as caught:
        HostTask.parse(text).spaces()
    said = one_line(caught)
    assert said.startswith(f"{text}")
    for part in ("no module deepmind_lab", "bazel", "Python 3.11"):
        assert part in said


def test_a_lab_for_another_python_is_one_line(tmp_path, monkeypatch):
    """The real one imports `imp`."""
    (tmp_path / "deepmind_lab.py").write_text("import imp\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "deepmind_lab", raising=False)
    real = builtins.__import__

    def gone(name, *rest):
        if name == "imp":
            raise ModuleNotFoundError("No module named 'imp'", name="imp")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", gone)
    with pytest.raises(TaskError, match=r"imp, gone since 3\.12; use Python 3\.11") as caught:
        task("dmlab:rooms_watermaze").spaces()
    one_line(caught)


def test_a_level_there_is_not_is_one_line(lab):
    with pytest.raises(TaskError, match=r"dmlab:room_watermaze cannot be made: RuntimeError: Failed to find level") as caught:
        task("dmlab:room_watermaze").make()
    one_line(caught)


def _crash(folder: str) -> None:
    sys.path.insert(0, folder)
    made = task("dmlab:missing_map").make()
    made.reset(seed=0)
    os._exit(0)


def test_the_stand_in_ends_its_process_as_the_real_one_does(lab, tmp_path):
    process = multiprocessing.get_context("spawn").Process(target=_crash, args=(str(tmp_path / "fake"),))
    process.start()
    process.join(60)
    assert process.exitcode == 1
