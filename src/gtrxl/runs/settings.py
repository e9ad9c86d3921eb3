"""Settings as data: changed by name, written to a file, read back."""

import dataclasses
import json
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gtrxl import names
from gtrxl.algorithms import LEARNERS, Learner
from gtrxl.runs import sealed
from gtrxl.runs.config import PARTS, Config
from gtrxl.runs.errors import RunError, first_line
from gtrxl.runs.presets import defaults
from gtrxl.runs.tasks import foreign, give
from gtrxl.tasks.contract import Task


def as_dict(config: Config[Any]) -> dict[str, Any]:
    """The settings as plain data, in the order of their fields."""
    return dataclasses.asdict(config)


def write(config: Config[Any], path: Path) -> None:
    """A readable file that `read` takes back; there is the whole of it or what was there before."""
    sealed.write(path, as_dict(config))


def read(path: Path, *, algorithm: str | None = None, trust: bool = False, remedy: str = "") -> Config[Any]:
    """The settings of a file that `write` made, or that was written by hand: what it leaves out has its default.

    With another `algorithm` than the file's, the learner's settings are that algorithm's defaults and all others the file's. A
    file is data: code that it names outside of this package is imported only with `trust`, or if this process was given it.
    A file that was changed since `write` made it is refused, unless its digest was removed: that says that it was on purpose.
    """
    path = Path(path)
    if not path.exists():
        raise RunError(f"there is no file {path}; a run keeps its settings in RUN/config.json")
    data = sealed.read(path, remedy=remedy or "RUN/config.json of any run shows the form")
    if algorithm is not None and algorithm != data.get("algorithm", Config.algorithm):
        data = {name: value for name, value in data.items() if name != "learner"} | {"algorithm": algorithm}
    return checked(data, where=str(path), trust=trust)


def checked(data: Mapping[str, Any], *, where: str, trust: bool = False) -> Config[Any]:
    """The settings that some data is, taken from a place that may be a stranger's; see `read`."""
    first = {name: data[name] for name in ("task", "core", "algorithm") if name in data}
    for name, value in first.items():
        if not isinstance(value, str):
            raise RunError(f"{name} in {where} must be str, got {value!r}; the default is {getattr(Config, name)!r}")
    if not trust:
        _ask_for_trust(first, where)
    try:
        return change(defaults(**first), data, where=where)
    except TypeError as error:  # a list where a number should be, and the like
        raise RunError(f"{where} must hold settings of the right kinds: {first_line(error)}; a new run's shows them") from error


def _ask_for_trust(named: Mapping[str, str], where: str) -> None:
    """Raises if these names would have us import what the user has not vouched for."""
    places = []
    for what in ("core", "algorithm"):
        name = named.get(what, "")
        if names.is_place(name) and not names.is_given(name):
            places.append(f"{what} {name}")
    places += [f"task {place}" for place in foreign(named.get("task", ""))]
    if places:
        raise RunError(
            f"{where} names code outside of gtrxl, which loading it would import and run: {', '.join(places)}; "
            "if you trust it, say so with --trust (trust=True), or give the thing itself"
        )


def named(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Changes with a name for everything: a core, a task or an algorithm may be given as the thing itself."""
    changes = dict(changes)
    core, task, algorithm = (changes.get(what) for what in ("core", "task", "algorithm"))
    if core is not None and not isinstance(core, str):
        changes["core"] = _place("core", core)
    if isinstance(changes.get("core_args"), Mapping):
        changes["core_args"] = tuple(f"{key}={json.dumps(value)}" for key, value in changes["core_args"].items())
    if isinstance(task, Task):
        changes["task"] = give(task)
    if isinstance(algorithm, Learner):
        changes |= {"algorithm": learner_name(type(algorithm)), "learner": algorithm}
    elif algorithm is not None and not isinstance(algorithm, str):
        changes["algorithm"] = learner_name(algorithm)
    return changes


def learner_name(kind: Any) -> str:
    """Ours by its short name, anyone's by its place."""
    return next((name for name, known in LEARNERS.items() if known is kind), None) or _place("algorithm", kind)


def _place(what: str, thing: Any) -> str:
    try:
        return names.place_of(thing)
    except names.PlaceError as error:
        raise RunError(f"{what}: {error}") from error


def change(config: Config[Any], changes: Mapping[str, Any], *, where: str = "the settings") -> Config[Any]:
    """The settings with some replaced; `net`, `learner`, `gym` and `fleet` may be given as dicts of what to replace in them."""
    replaced = _typed(config, changes, where)
    for part in PARTS:
        if isinstance(changes.get(part), dict):
            current = getattr(config, part)
            replaced[part] = dataclasses.replace(current, **_typed(current, changes[part], f"{part} in {where}"))
    return dataclasses.replace(config, **replaced)


def _typed(record: Any, changes: Mapping[str, Any], where: str) -> dict[str, Any]:
    fields = {field.name: field for field in dataclasses.fields(record)}
    hints = typing.get_type_hints(type(record))
    typed: dict[str, Any] = {}
    for name, value in changes.items():
        if name not in fields:
            near = names.meant(name, fields)
            raise RunError(f"{where} must name settings there are, got {name!r}{near or ';'} there are {', '.join(fields)}")
        wanted = hints[name]
        if name in PARTS:
            if isinstance(value, dict):
                continue
            if not dataclasses.is_dataclass(value):
                raise RunError(f"{name} in {where} must be settings by name, got {value!r}; {{}} changes none of them")
        if wanted is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        simple = {int: int, float: float, str: str, bool: bool}.get(wanted)
        if simple is not None and (not isinstance(value, simple) or (isinstance(value, bool) and simple is not bool)):
            raise RunError(
                f"{name} in {where} must be {simple.__name__}, got {value!r}; the default is {getattr(record, name)!r}"
            )
        typed[name] = tuple(value) if isinstance(value, list) else value  # JSON has no tuples
    return typed
