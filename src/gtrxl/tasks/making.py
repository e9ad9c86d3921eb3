"""Tasks by name, and back: `make_task("grid-numpad:size=3,episode_steps=100")`, `spell(task)`.

A task of yours goes by the place of its class, `make_task("package.module:Echo:delay=3")`.
"""

import dataclasses
import importlib
import inspect
import reprlib
from collections.abc import Mapping
from typing import Any

from gtrxl.names import PlaceError, find, is_given, is_place, meant, place_of
from gtrxl.tasks.catalogue import ALIASES, SETS, TASKS, TaskEntry
from gtrxl.tasks.contract import Task
from gtrxl.tasks.errors import TaskError


def make_task(text: str, **arguments: int | None) -> Task:
    """The task of that name or place. Arguments after a colon or given by keyword replace the usual: `t-maze:corridor=100`."""
    name, colon, rest = split(text)
    kind, usual = _kind(name)
    fields = {field.name: field for field in dataclasses.fields(kind) if field.init}  # pyright: ignore[reportArgumentType]
    if colon and not rest.strip():
        raise TaskError(f"after the colon a task takes name=number, got {text!r}; leave the colon out for the usual task")
    given: dict[str, int | None] = {**usual}
    for part in rest.split(",") if rest else ():
        argument, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise TaskError(f"a task takes name=number with commas between, got {part!r}; for example {_example(name, kind)!r}")
        _check(name, argument, kind, fields)
        try:
            given[argument] = int(value)
        except ValueError:
            said = reprlib.repr(value)  # it may be one of thousands of digits
            raise TaskError(f"{argument} must be a whole number, got {said}; for example {_example(name, kind)!r}") from None
    for argument, value in arguments.items():
        _check(name, argument, kind, fields)
        given[argument] = value
    for field in fields.values():
        if field.name not in given and _default(field) is dataclasses.MISSING:
            raise TaskError(f"{name} needs {field.name}, got none; for example {name}:{field.name}=3")
    return kind(**given)


def spell(task: Task) -> str:
    """The shortest text that makes an equal task: a name alone where the catalogue has one, the class's place for others."""
    if (name := task.own_name()) is not None:
        return name
    kind = type(task)
    ours = [(name, entry) for name, entry in TASKS.items() if (entry.home, entry.kind) == (kind.__module__, kind.__name__)]
    if ours:
        told = [(name, _beside(task, entry.arguments)) for name, entry in ours]
        name, arguments = min(told, key=lambda pair: len(pair[1]))
    else:
        _check_record(kind)
        name, arguments = place_of(kind), _beside(task, {})
    return name + (":" + ",".join(f"{key}={value}" for key, value in arguments.items()) if arguments else "")


def about(task: Task) -> str:
    """What a task is, in a line: the catalogue's, or the first of its class's description."""
    entry = TASKS.get(spell(task).partition(":")[0])
    if entry is not None:
        return entry.about
    said = inspect.cleandoc(type(task).__doc__ or "").splitlines()
    # A dataclass without a description gets its signature.
    return said[0] if said and not said[0].startswith(f"{type(task).__name__}(") else ""


def split(text: str) -> tuple[str, str, str]:
    """A task's name or place, the colon after it if there is one, and its arguments."""
    name, colon, rest = text.strip().partition(":")
    if colon and name not in TASKS and name not in ALIASES and name not in SETS:
        kind, later, arguments = rest.partition(":")
        place = f"{name.strip()}:{kind.strip()}"
        if is_place(place) or is_given(place):
            return place, later, arguments
    return name, colon, rest


def _kind(name: str) -> tuple[type[Task], Mapping[str, int]]:
    """The class behind a name or a place, and what the name fixes."""
    entry = TASKS.get(ALIASES.get(name, name))
    if entry is not None:
        return _load(entry), entry.arguments
    if name in SETS:
        raise TaskError(f"here one task is meant, got the set {name}; its tasks are {', '.join(SETS[name])}")
    if ":" not in name:
        near = meant(name, (*TASKS, *ALIASES, *SETS))
        raise TaskError(f"there is no task {name!r}{near or ';'} `gtrxl tasks` lists all; yours is written package.module:Class")
    try:
        kind = find(name, what="the task")
    except PlaceError as error:
        raise TaskError(str(error)) from error
    if not (isinstance(kind, type) and issubclass(kind, Task)):
        raise TaskError(f"a task is a class that derives from gtrxl.Task, got {kind!r} at {name}; derive yours from it")
    if inspect.isabstract(kind):
        missing = ", ".join(sorted(kind.__abstractmethods__))
        raise TaskError(f"a task has spaces, reset and step, got {name} without {missing}; write them")
    _check_record(kind)
    return kind, {}


def _load(entry: TaskEntry) -> type[Task]:
    return getattr(importlib.import_module(entry.home), entry.kind)


def _check_record(kind: type[Task]) -> None:
    parameters = getattr(kind, "__dataclass_params__", None)
    if parameters is None or not parameters.frozen:
        raise TaskError(
            f"a task is a frozen record of whole numbers, got the class {kind.__name__}; "
            "write @dataclasses.dataclass(frozen=True) above it"
        )


def _beside(task: Task, usual: Mapping[str, int]) -> dict[str, int]:
    """The fields of a task that are neither what a name fixes nor the class's default."""
    told = {}
    for field in dataclasses.fields(task):  # pyright: ignore[reportArgumentType]
        value = getattr(task, field.name)
        if not field.init or value == usual.get(field.name, _default(field)):
            continue
        if not isinstance(value, int):
            raise TaskError(
                f"a task is a frozen record of whole numbers, got {field.name}={value!r} in {type(task).__name__}; "
                "say it by a whole number, for example a choice by its place in a list"
            )
        told[field.name] = int(value)
    return told


def _default(field: "dataclasses.Field[Any]") -> Any:
    return field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default


def _check(name: str, argument: str, kind: type[Task], fields: Mapping[str, Any]) -> None:
    if not fields:
        raise TaskError(f"{name} takes no arguments, got {argument!r}; leave it out")
    if argument not in fields:
        near = meant(argument, fields)
        raise TaskError(
            f"{name} takes {', '.join(sorted(fields))}, got {argument!r}{near or ';'} for example {_example(name, kind)!r}"
        )


def _example(name: str, kind: type[Task]) -> str:
    """A task with its first argument."""
    first = next((field for field in dataclasses.fields(kind) if field.init), None)  # pyright: ignore[reportArgumentType]
    if first is None:
        return name
    usual = _default(first)
    return f"{name}:{first.name}={usual if isinstance(usual, int) else 3}"
