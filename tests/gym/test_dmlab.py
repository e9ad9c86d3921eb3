"""The bridge to DeepMind Lab: names, sets, what Lab is told, and what is said where it is missing or cannot be used."""

import builtins
import pickle
import sys

import pytest

import gtrxl
from gtrxl.gym.by_name import is_gym, parse
from gtrxl.gym.dmlab import levels as dmlab_levels
from gtrxl.gym.dmlab import task as dmlab
from gtrxl.gym.sets import GymSet
from gtrxl.tasks.errors import TaskError
from tests.gym.lab_tasks import SMALL, task
from tests.gym.test_task import one_line

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
    assert is_gym(text)
    assert (made.name, dmlab_levels.path(made.id)) == (name, path)
    assert parse(made.name) == made == pickle.loads(pickle.dumps(made))
    assert hash(parse(made.name)) == hash(made)


@pytest.mark.parametrize(("text", "said"), [
    ("dmlab:", "needs a name"),
    ("dmlab:rooms_watermaze:heigth=36", "takes height, width"),
    ("dmlab:rooms_watermaze:height=4", "height must be from 8 to 4096, got 4"),
    ("dmlab:rooms_watermaze:height=50", "height must be a multiple of 4 in DeepMind Lab, got 50; take 52"),
    ("dmlab30:width=30", "width must be a multiple of 4 in DeepMind Lab, got 30; take 32"),
    ("dmlab:room_watermaze", "got dmlab:room_watermaze; did you mean rooms_watermaze?"),
    ("dmlab:contributed/dmlab30/rooms_watermaze_test", "did you mean rooms_watermaze?"),
    ("dmlab:rooms_collect_good_objects_tests", "did you mean rooms_collect_good_objects_test?"),
    ("dmlab:unheard_of", "one of DMLab-30's or named with its folder, got dmlab:unheard_of; the thirty"),
    ("dmlab:rooms_watermaze:height=tall", "height must be a whole number, got 'tall'"),
    ("dmlab:rooms_watermaze:renderer=gpu", "software or hardware"),
    ("dmlab:rooms_watermaze:test=2", "test must be 0 or 1"),
    ("dmlab:rooms_watermaze:cache=3", "cache must be text, got 3"),
    ("dmlab30:levels=3", "takes height, width"),
])  # fmt: skip
def test_a_wrong_name_is_one_line(text, said):
    with pytest.raises(TaskError, match=said) as caught:
        parse(text)
    one_line(caught)


def test_the_sets_are_the_papers_split():
    everything, memory, reactive = (parse(name) for name in ("dmlab30", "dmlab30-memory", "dmlab30-reactive"))
    names = [member.name for member in everything.tasks]
    assert (len(names), len(memory.tasks), len(reactive.tasks)) == (30, 8, 22)
    assert {member.id for member in memory.tasks} | {member.id for member in reactive.tasks} == set(dmlab_levels.LEVELS)
    assert "dmlab:explore_object_rewards_many" in [member.name for member in memory.tasks]
    assert "dmlab:psychlab_arbitrary_visuomotor_mapping:reduced=0" in names, "in a set all have the 15 actions"
    small = parse(f"dmlab30:{SMALL}")
    assert small.name == f"dmlab30:{SMALL}"
    assert all(dict(member.arguments)["height"] == 16 for member in small.tasks)
    assert parse(small.name) == small == pickle.loads(pickle.dumps(small))
    assert small.alone


def test_a_set_has_the_spaces_of_its_members(lab):
    assert parse(f"dmlab30:{SMALL}").spaces() == task(f"dmlab:rooms_watermaze:{SMALL}").spaces()
    both = parse(f"dmlab:rooms_watermaze:{SMALL}+dmlab:psychlab_arbitrary_visuomotor_mapping:{SMALL}")
    with pytest.raises(TaskError, match=r"a choice of 15 to act with in dmlab:rooms.* a choice of 5") as caught:
        both.spaces()
    one_line(caught)
    with pytest.raises(TaskError, match="each once"):
        parse("gym:CartPole-v1+gym:CartPole-v1")
    with pytest.raises(TaskError, match="one task is made at a time"):
        both.make()


# What Lab is told


def test_what_a_level_is_told(lab):
    plain = {"height": "72", "width": "96", "logLevel": "WARN"}
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
    everything = parse(f"dmlab30:{SMALL}")
    assert isinstance(everything, GymSet)
    for member in [*everything.tasks, *everything.held_out().tasks]:
        made = member.make()
        made.reset(seed=0)
        made.close()


def test_what_is_scored_has_its_own_name():
    assert task("dmlab:rooms_collect_good_objects:height=36").scored == "dmlab:rooms_collect_good_objects_test:height=36"
    assert task("dmlab:rooms_watermaze").scored == "dmlab:rooms_watermaze"
    assert parse("gym:CartPole-v1").scored == "gym:CartPole-v1"


# What goes wrong


@pytest.mark.parametrize(("text", "instead"), [
    ("dmlab:rooms_watermaze", "`gtrxl train rooms_watermaze`"),
    ("dmlab:rooms_collect_good_objects", "`gtrxl train rooms_collect_good_objects`"),
    ("dmlab:natlab_fixed_large_map", "`gtrxl train natlab_fixed_large_map`"),
    ("dmlab30", "`gtrxl train lab30`"),
    ("dmlab:psychlab_visual_search", "`gtrxl train psychlab_visual_search`"),
    ("dmlab30-memory", "`gtrxl train lab-memory`"),
])  # fmt: skip
def test_without_lab_one_line_says_how_to_get_it_and_what_to_use_instead(text, instead, monkeypatch):
    monkeypatch.setitem(sys.modules, "deepmind_lab", None)

    def missing(name, *rest):
        raise ModuleNotFoundError("No module named 'deepmind_lab'", name="deepmind_lab")

    monkeypatch.setattr(dmlab.importlib, "import_module", missing)
    with pytest.raises(TaskError, match=instead) as caught:
        parse(text).spaces()
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
    """Of a folder that only Lab knows."""
    with pytest.raises(TaskError, match=r"dmlab:mine/watermaze cannot be made: RuntimeError: Failed to find level") as caught:
        task("dmlab:mine/watermaze").make()
    one_line(caught)


def test_a_misspelt_level_leaves_no_folder(lab, tmp_path):
    with pytest.raises(TaskError, match="did you mean rooms_watermaze"):
        gtrxl.train(task="dmlab:room_watermaze", run=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", [*dmlab_levels.LEVELS, "rooms_collect_good_objects_test", "rooms_exploit_deferred_effects_test",
                                  "rooms_exploit_deferred_effects", "seekavoid_arena_01", "nav_maze_static_02"])  # fmt: skip
def test_levels_there_are_may_be_named(name):
    assert task(f"dmlab:{name}").id.startswith(name)
