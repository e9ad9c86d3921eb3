"""Sets of tasks by name: what they are made of, how they are spelt, and what cannot be played together."""

import pytest

from gtrxl.gym.dmlab.levels import LEVELS
from gtrxl.tasks.errors import TaskError
from gtrxl.tasks.first_person.level import Level
from gtrxl.tasks.making import make_task, spell
from gtrxl.tasks.scores import known_scores
from gtrxl.tasks.sets import MEMORY, REACTIVE, SETS, make_tasks, spell_tasks


def test_one_task_is_a_set_of_one():
    assert make_tasks("t-maze:corridor=20") == (make_task("t-maze:corridor=20"),)
    assert spell_tasks(make_tasks("t-maze:corridor=20")) == "t-maze:corridor=20"


def test_tasks_with_a_plus_between_them():
    text = "t-maze+t-maze:corridor=20+t-maze:corridor=30,patience=2"
    tasks = make_tasks(f" {text.replace('+', ' + ')} ")
    assert tasks == tuple(map(make_task, text.split("+")))
    assert spell_tasks(tasks) == text


@pytest.mark.parametrize("name", SETS)
def test_the_sets_of_levels_have_equal_spaces_and_are_spelt_by_their_names(name):
    tasks = make_tasks(name)
    assert len(tasks) == {"lab-memory": 8, "lab-reactive": 22, "lab12": 12, "lab30": 30}[name]
    assert spell_tasks(tasks) == name
    assert [spell(task).partition(":")[0] for task in tasks] == [text.partition(":")[0] for text in SETS[name]]
    assert len({str(task.action_space) for task in tasks}) == len({str(task.observation_space) for task in tasks}) == 1


def test_arguments_of_a_set_go_to_every_member():
    text = "lab-reactive:height=36,width=48"
    tasks = make_tasks(text)
    assert {(task.height, task.width) for task in tasks if isinstance(task, Level)} == {(36, 48)}
    assert spell_tasks(tasks) == text
    assert "reduced=0" in spell(tasks[3]), "what the set says of a member stays"
    assert spell_tasks(tasks[:3]) == "+".join(f"{name}:height=36,width=48" for name in REACTIVE[:3])


def test_a_set_and_a_task_can_be_put_together():
    tasks = make_tasks("lab-reactive+rooms_watermaze")
    assert len(tasks) == len(REACTIVE) + 1
    assert make_tasks(spell_tasks(tasks)) == tasks


def test_every_level_is_in_one_split_and_in_lab30():
    """In the split that the paper's appendix has it in; the first twelve in lab12 too."""
    levels = {name: level.memory for name, level in LEVELS.items()}
    for member in SETS["lab30"]:
        name = member.partition(":")[0]
        assert (member in MEMORY, member in REACTIVE) == ((memory := levels.get(name, levels.get(f"{name}_train"))), not memory)
    assert sorted(SETS["lab30"]) == sorted([*MEMORY, *REACTIVE])
    assert set(SETS["lab12"]) < set(SETS["lab30"])


def test_the_memory_split_is_the_paper_s():
    assert len(set(MEMORY)) == 8
    assert set(MEMORY).isdisjoint(name.partition(":")[0] for name in REACTIVE)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("t-maze+recall", "must be acted on alike, got a choice of 3 in t-maze and a choice of 4 in recall; train them apart"),
        ("t-maze+numpad-2x2", "must be acted on alike, got a choice of 3 in t-maze and 3 numbers in numpad-2x2; train"),
        (
            "rooms_watermaze+memory-maze:height=36",
            r"got a choice of 15 in rooms_watermaze and continuous \(8 numbers\) and discrete \(choices of 2\) in memory",
        ),
        (
            "rooms_watermaze+rooms_watermaze:height=36",
            r"must be seen alike, got image \(72 x 96 x 3 numbers\) and .* in rooms_watermaze and image \(36 x 96 x 3 numbers\)",
        ),
        ("t-maze+t-maze:corridor=10+t-maze", "tasks of one run must differ, got t-maze twice; name it once"),
        ("t-maze+", "there is no task ''; `gtrxl tasks` lists all"),
        ("lab-memry", "there is no task 'lab-memry'; did you mean lab-memory\\?"),
        ("lab-memory:colour=3", "takes .*height.*, got 'colour'"),
        ("lab-memory:", "after the colon a task takes name=number"),
    ],
)
def test_what_cannot_be_is_said_in_a_line(text, line):
    with pytest.raises(TaskError, match=line) as caught:
        make_tasks(text)
    assert "\n" not in str(caught.value)


def test_every_member_has_a_scale_and_the_size_of_a_picture_does_not_change_it():
    for task in make_tasks("lab30:height=32,width=48"):
        known = known_scores(task)
        assert known is not None
        assert known.random < known.best
    assert known_scores(make_task("memory-maze:height=24,width=32")) == known_scores(make_task("memory-maze"))
    assert known_scores(make_task("memory-maze:episode_steps=10")) is None, "other rules: it would have to be measured"
