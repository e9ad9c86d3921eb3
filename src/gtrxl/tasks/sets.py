"""Several tasks in one run, by name: the sets of first-person levels, or any tasks with a plus between them.

    make_tasks("lab-memory:height=36,width=48")     every level of the set, with these arguments
    make_tasks("t-maze+t-maze:corridor=20")         two tasks
    make_tasks("t-maze")                            one
    make_tasks("my.tasks:Echo+my.tasks:Echo:delay=4")   two of yours

Tasks that are played together must show and take the same: one agent plays them all, and nobody tells it which is which.
"""

import dataclasses

import gymnasium

from gtrxl.tasks.catalogue import ABOUT, SETS
from gtrxl.tasks.contract import Task
from gtrxl.tasks.errors import TaskError
from gtrxl.tasks.making import make_task, spell, split

__all__ = ["ABOUT", "MEMORY", "REACTIVE", "SETS", "VARIANTS", "alike", "in_words", "make_tasks", "spell_tasks"]

MEMORY, REACTIVE = SETS["lab-memory"], SETS["lab-reactive"]
"""The paper's memory split of DMLab-30, all of it; the levels of its reactive split that there are."""
VARIANTS = tuple(dict.fromkeys(text for texts in SETS.values() for text in texts if ":" in text))
"""Members of sets that are not just a name of the catalogue."""


def make_tasks(text: str) -> tuple[Task, ...]:
    """The tasks of a name, of a set's name, or of several with a plus between them. Arguments after a set's colon go to every
    member."""
    return alike(tuple(task for part in text.split("+") for task in _members(part)))


def alike(tasks: tuple[Task, ...]) -> tuple[Task, ...]:
    """The same tasks, once it is clear that one agent can play all of them."""
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
    name, colon, rest = split(text)
    if name not in SETS:
        return [make_task(text)]
    return [make_task(member + (("," if ":" in member else ":") + rest if colon else "")) for member in SETS[name]]


def _beside(tasks: tuple[Task, ...], texts: tuple[str, ...]) -> dict[str, int] | None:
    """The arguments that make these tasks of a set, if the same ones do for all."""
    found: dict[str, int] | None = None
    for task, text in zip(tasks, texts, strict=True):
        usual = make_task(text)
        if type(usual) is not type(task):
            return None
        fields = [field.name for field in dataclasses.fields(usual) if field.init]  # pyright: ignore[reportArgumentType]
        mine = {name: getattr(task, name) for name in fields if getattr(task, name) != getattr(usual, name)}
        if found is not None and mine != found:
            return None
        found = mine
    return found
