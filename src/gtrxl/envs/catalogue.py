"""Tasks by name, and back: `make_task("grid-numpad:size=3,episode_steps=100")`, `spell(task)`."""

import dataclasses
import importlib
import types
from collections.abc import Mapping
from typing import NamedTuple

from gtrxl.envs.contract import Task
from gtrxl.envs.errors import TaskError


class Entry(NamedTuple):
    """A task of the catalogue: where its class is, the arguments that this name fixes, and what it is about."""

    module: str
    kind: str
    arguments: Mapping[str, int]
    about: str

    def load(self) -> type[Task]:
        """The class."""
        return getattr(importlib.import_module(f"gtrxl.envs.{self.module}"), self.kind)


def _grid(about: str, **arguments: int) -> Entry:
    return Entry("grid_numpad", "GridNumpad", types.MappingProxyType(arguments), about)


def _sphere(about: str, **arguments: int) -> Entry:
    return Entry("numpad", "Numpad", types.MappingProxyType(arguments), about)


def _first_person(module: str, kind: str, about: str, **arguments: int) -> Entry:
    return Entry(f"first_person.{module}", kind, types.MappingProxyType(arguments), about)


_NOTHING: Mapping[str, int] = types.MappingProxyType({})

TASKS: Mapping[str, Entry] = types.MappingProxyType(
    {
        "grid-numpad": _grid("find and repeat a hidden path over 2 x 2 pads, a move a step", size=2, episode_steps=50),
        "grid-numpad-3x3": _grid("the same over 3 x 3 pads, 100 steps", size=3, episode_steps=100),
        "grid-numpad-4x4": _grid("the same over 4 x 4 pads, 200 steps", size=4, episode_steps=200),
        "numpad-2x2": _sphere("the paper's: a sphere that rolls and jumps over 2 x 2 pads, 500 steps", size=2),
        "numpad-3x3": _sphere("the same over 3 x 3 pads", size=3),
        "numpad-4x4": _sphere("the same over 4 x 4 pads", size=4),
        "t-maze": Entry("t_maze", "TMaze", _NOTHING, "keep one sign along a corridor, then turn as it said"),
        "recall": Entry("recall", "Recall", _NOTHING, "keep several cards for a while, then name those asked for"),
        "memory-maze": _first_person(
            "memory_maze", "MemoryMaze", "the paper's: find back to an apple among blocks, by landmarks"
        ),
        "explore_goal_locations_small": _first_person("explore", "GoalLocations", "find back to a flag in a maze with 4 rooms"),
        "explore_goal_locations_large": _first_person(
            "explore", "GoalLocations", "the same in a larger maze with 9 rooms", size=17, episode_steps=1800
        ),
        "explore_obstructed_goals_small": _first_person(
            "explore", "ObstructedGoals", "the same with 4 rooms, and doors that open or close each time"
        ),
        "explore_obstructed_goals_large": _first_person(
            "explore", "ObstructedGoals", "the same in a larger maze with 9 rooms", size=17, episode_steps=1800
        ),
        "explore_object_locations_small": _first_person("explore", "ObjectLocations", "gather apples in a maze, again and again"),
        "explore_object_rewards_few": _first_person(
            "object_rewards", "ObjectRewards", "find out which of 4 categories pay, and take them"
        ),
        "explore_object_rewards_many": _first_person(
            "object_rewards", "ObjectRewards", "the same with 8 categories", objects=16, categories=8, episode_steps=1800
        ),
        "rooms_select_nonmatching_object": _first_person(
            "nonmatching", "SelectNonmatching", "see an object in one room, take the other one in the next"
        ),
        "rooms_watermaze": _first_person("watermaze", "Watermaze", "find a hidden platform in a round pool, and find it again"),
        "rooms_collect_good_objects": _first_person(
            "collect", "CollectGood", "take what is good, leave what is bad, in any room"
        ),
        "language_select_described_object": _first_person("described", "DescribedObject", "take what the instruction names"),
        "psychlab_arbitrary_visuomotor_mapping": _first_person(
            "psychlab", "VisuomotorMapping", "learn which of four buttons belongs to which image"
        ),
    }
)
"""Every task there is a name for."""

ALIASES: Mapping[str, str] = types.MappingProxyType({"grid-numpad-2x2": "grid-numpad", "numpad": "numpad-2x2"})
"""Second names."""


def make_task(text: str, **arguments: int | None) -> Task:
    """The task of that name. Arguments after a colon or given by keyword replace the catalogue's: `t-maze:corridor=100`."""
    name, colon, rest = text.strip().partition(":")
    entry = TASKS.get(ALIASES.get(name, name))
    if entry is None:
        raise TaskError(f"task must be one of {', '.join(TASKS)}, got {name!r}; try 'grid-numpad'")
    if colon and not rest.strip():
        raise TaskError(f"after the colon a task takes name=number, got {text!r}; leave the colon out for the usual task")
    kind = entry.load()
    known = {field.name for field in dataclasses.fields(kind) if field.init}  # pyright: ignore[reportArgumentType]
    given: dict[str, int | None] = {**entry.arguments}
    for part in rest.split(",") if rest else ():
        argument, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise TaskError(f"a task takes name=number with commas between, got {part!r}; for example {_example(name)!r}")
        _check(name, argument, known)
        try:
            given[argument] = int(value)
        except ValueError:
            raise TaskError(f"{argument} must be a whole number, got {value!r}; for example {_example(name)!r}") from None
    for argument, value in arguments.items():
        _check(name, argument, known)
        given[argument] = value
    return kind(**given)


def spell(task: Task) -> str:
    """The shortest text that makes an equal task: a name alone where the catalogue has one."""
    named = [(name, entry) for name, entry in TASKS.items() if entry.kind == type(task).__name__]
    if not named:
        raise TaskError(f"task must be of the catalogue, got {task!r}; its kinds are {_kinds()}")
    fields = [field.name for field in dataclasses.fields(task) if field.init]  # pyright: ignore[reportArgumentType]

    def beside(entry: Entry) -> dict[str, int]:
        usual = entry.load()(**entry.arguments)
        return {field: getattr(task, field) for field in fields if getattr(task, field) != getattr(usual, field)}

    name, arguments = min(((name, beside(entry)) for name, entry in named), key=lambda pair: len(pair[1]))
    return name + (":" + ",".join(f"{key}={value}" for key, value in arguments.items()) if arguments else "")


def _check(name: str, argument: str, known: set[str]) -> None:
    if argument not in known:
        raise TaskError(f"{name} takes {', '.join(sorted(known))}, got {argument!r}; for example {_example(name)!r}")


def _example(name: str) -> str:
    module = TASKS[ALIASES.get(name, name)].module
    if module.startswith("first_person."):
        return f"{name}:height=36,width=48"
    return f"{name}:" + {"t_maze": "corridor=100", "recall": "items=6,ask=3"}.get(module, "sequence=4,episode_steps=200")


def _kinds() -> str:
    return ", ".join(dict.fromkeys(entry.kind for entry in TASKS.values()))
