"""Several tasks in one run, by name: the sets of first-person levels, or any tasks with a plus between them.

    make_tasks("lab-memory:height=36,width=48")     every level of the set, with these arguments
    make_tasks("t-maze+t-maze:corridor=20")         two tasks
    make_tasks("t-maze")                            one

Tasks that are played together must show and take the same: one agent plays them all, and nobody tells it which is which.
"""

import dataclasses
import types
from collections.abc import Mapping

import gymnasium

from gtrxl.envs.catalogue import TASKS, make_task, spell
from gtrxl.envs.contract import Task
from gtrxl.envs.errors import TaskError

MEMORY = (
    "rooms_select_nonmatching_object",
    "rooms_watermaze",
    "explore_obstructed_goals_small",
    "explore_goal_locations_small",
    "explore_object_rewards_few",
    "explore_obstructed_goals_large",
    "explore_goal_locations_large",
    "explore_object_rewards_many",
)
"""The paper's memory split of DMLab-30, all of it."""
REACTIVE = (
    "rooms_collect_good_objects",
    "explore_object_locations_small",
    "language_select_described_object",
    "psychlab_arbitrary_visuomotor_mapping:reduced=0",  # alone it has five actions; here it must take what the others take
)
"""The levels of its reactive split that there are."""

SETS: Mapping[str, tuple[str, ...]] = types.MappingProxyType(
    {"lab-memory": MEMORY, "lab-reactive": REACTIVE, "lab12": (*MEMORY, *REACTIVE)}
)
"""The sets that have a name."""
ABOUT: Mapping[str, str] = types.MappingProxyType(
    {
        "lab-memory": "the paper's memory split of DMLab-30: the eight levels that need memory, re-created here",
        "lab-reactive": "four levels of its reactive split, re-created here",
        "lab12": "both at once",
    }
)
"""What each is, in a line."""
VARIANTS = tuple(dict.fromkeys(text for texts in SETS.values() for text in texts if ":" in text))
"""Their members that are not just a name of the catalogue."""


def make_tasks(text: str) -> tuple[Task, ...]:
    """The tasks of a name, of a set's name, or of several with a plus between them. Arguments after a set's colon go to every
    member."""
    tasks = tuple(task for part in text.split("+") for task in _members(part))
    first = tasks[0]
    for task in tasks[1:]:
        for kind, what in (("action_space", "acted on"), ("observation_space", "seen")):
            ours, theirs = getattr(first, kind), getattr(task, kind)
            if ours != theirs:
                raise TaskError(
                    f"tasks of one run must be {what} alike, got {in_words(ours)} in {spell(first)} and {in_words(theirs)} in "
                    f"{spell(task)}; train them apart"
                )
    if len(set(tasks)) < len(tasks):
        twice = next(task for place, task in enumerate(tasks) if task in tasks[:place])
        raise TaskError(f"tasks of one run must differ, got {spell(twice)} twice; name it once")
    return tasks


def spell_tasks(tasks: tuple[Task, ...]) -> str:
    """The shortest text that makes equal tasks: a set's name where there is one."""
    if len(tasks) > 1:
        for name, texts in SETS.items():
            if len(texts) == len(tasks) and (beside := _beside(tasks, texts)) is not None:
                return name + (":" + ",".join(f"{key}={value}" for key, value in beside.items()) if beside else "")
    return "+".join(map(spell, tasks))


def in_words(space: gymnasium.Space) -> str:
    """A space in a few words, for messages."""
    match space:
        case gymnasium.spaces.Dict():
            return " and ".join(f"{name} ({in_words(part)})" for name, part in space.items())
        case gymnasium.spaces.Discrete():
            return f"a choice of {space.n}"
        case gymnasium.spaces.MultiDiscrete():
            return f"choices of {', '.join(map(str, space.nvec.ravel().tolist()))}"
        case _:
            return f"{' x '.join(map(str, space.shape or ()))} numbers"


def _members(text: str) -> list[Task]:
    name, colon, rest = text.strip().partition(":")
    if name not in SETS:
        return [_make(text)]
    members = []
    for member in SETS[name]:
        extra = ("," if ":" in member else ":") + rest if colon else ""
        members.append(make_task(member + extra))
    return members


def _make(text: str) -> Task:
    try:
        return make_task(text)
    except TaskError as error:
        if not str(error).startswith("task must be one of"):
            raise
        raise TaskError(f"{error}; sets of tasks are {', '.join(SETS)}") from None


def _beside(tasks: tuple[Task, ...], texts: tuple[str, ...]) -> dict[str, int] | None:
    """The arguments that make these tasks of a set, if the same ones do for all."""
    found: dict[str, int] | None = None
    for task, text in zip(tasks, texts, strict=True):
        if text.partition(":")[0] not in TASKS:
            return None
        usual = make_task(text)
        if type(usual) is not type(task):
            return None
        fields = [field.name for field in dataclasses.fields(usual) if field.init]  # pyright: ignore[reportArgumentType]
        mine = {name: getattr(task, name) for name in fields if getattr(task, name) != getattr(usual, name)}
        if found is not None and mine != found:
            return None
        found = mine
    return found
