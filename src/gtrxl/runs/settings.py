"""Settings as data: changed by name, written to a file, read back."""

import contextlib
import dataclasses
import json
import reprlib
import stat
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from gtrxl import names
from gtrxl.algorithms import LEARNERS, Learner
from gtrxl.algorithms.catalogue import learner_class
from gtrxl.runs import sealed
from gtrxl.runs.config import PARTS, Config, FleetSettings, GymSettings, Net
from gtrxl.runs.errors import RunError, first_line
from gtrxl.runs.presets import defaults
from gtrxl.runs.tasks import foreign, give
from gtrxl.tasks.contract import Task

LARGEST = 2**24
"""Bytes of a file of settings that are read."""
LONGEST_NAME = 200
"""Letters of the name of somebody's code that are said."""
BEFORE: dict[str, dict[str, Any]] = {
    "": {"final_rate": 1.0, "prediction_weight": 1.0},
    "net": {"output_norm": False},
    "learner": {"adam_epsilon": 1e-8, "least_spread": 0.0, "max_surge": 0.0},
    "gym": {"noise_steps": 1, "widest_noise": 0.0},
    "fleet": {"ahead": 1},
}
"""By part, settings that older versions did not have, and what they did."""


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
    _check_file(path)
    data = sealed.read(path, remedy=remedy or "RUN/config.json of any run shows the form")
    return checked(data, where=str(path), algorithm=algorithm, trust=trust)


def _check_file(path: Path) -> None:
    """Raises for what cannot be read to its end: a pipe, a device, more than settings ever are."""
    with contextlib.suppress(OSError):  # said by who reads it
        found = path.stat()
        if stat.S_ISREG(found.st_mode) and found.st_size > LARGEST:
            raise RunError(
                f"{path} must have at most {LARGEST} bytes, got {found.st_size}; RUN/config.json of any run shows the form"
            )
        if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
            raise RunError(f"{path} must be a file, got a pipe or a device; RUN/config.json of any run shows the form")


def checked(data: Mapping[str, Any], *, where: str, algorithm: str | None = None, trust: bool = False) -> Config[Any]:
    """The settings that some data is, taken from a place that may be a stranger's; see `read`."""
    first = {name: data[name] for name in ("task", "core", "algorithm") if name in data}
    for name, value in first.items():
        if not isinstance(value, str):
            said = reprlib.repr(value)
            raise RunError(f"{name} in {where} must be str, got {said}; the default is {getattr(Config, name)!r}")
    usual = first.get("algorithm")
    first |= {} if algorithm is None else {"algorithm": algorithm}
    if not trust:
        _ask_for_trust(first, where)
    try:
        base = defaults(**first)
        if algorithm is not None and algorithm != (usual or base.tasks.defaults.algorithm):
            data = {name: value for name, value in data.items() if name != "learner"}
        data = {**data, "algorithm": base.algorithm}
        return change(base, _completed(data), where=where)
    except TypeError as error:  # a list where a number should be, and the like
        raise RunError(f"{where} must hold settings of the right kinds: {first_line(error)}; a new run's shows them") from error


def _completed(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Settings that a run of an older version wrote, with what was so then and is a setting now.

    Such a file has every other setting. A file that somebody wrote by hand, with a few, has today's defaults.
    """
    kinds = {"": Config, "net": Net, "learner": learner_class(data["algorithm"]), "gym": GymSettings, "fleet": FleetSettings}
    whole = dict(data)
    for part, before in BEFORE.items():
        there = whole.get(part) if part else data
        fields = {field.name for field in dataclasses.fields(kinds[part])}
        before = {name: value for name, value in before.items() if name in fields}
        others = fields - set(before)
        if isinstance(there, Mapping) and others <= set(there):
            whole = {**before, **whole} if not part else {**whole, part: {**before, **there}}
    return whole


def _ask_for_trust(named: Mapping[str, str], where: str) -> None:
    """Raises if these names would have us import what the user has not vouched for."""
    places = []
    for what in ("core", "algorithm"):
        name = named.get(what, "")
        if names.is_place(name) and not names.is_given(name):
            places.append(f"{what} {name}")
    places += [f"task {place}" for place in foreign(named.get("task", ""))]
    if places:
        said = ", ".join(" ".join(place.split())[:LONGEST_NAME] for place in places)
        raise RunError(
            f"{where} names code outside of gtrxl, which loading it would import and run: {said}; "
            "if you trust it, say so with --trust (trust=True), or give the thing itself"
        )


def ask_before_joining(config: Config[Any], where: str) -> None:
    """Raises if going on with these settings would join a Ray cluster that is not of this machine: who has that cluster decides
    what runs here. To only read a run it is not joined."""
    address = config.fleet.address
    host = (address or "auto").removeprefix("ray://").rpartition(":")[0]
    if host not in ("", "localhost", "127.0.0.1", "[::1]"):
        raise RunError(
            f"{where} names a Ray cluster, {address}, which going on with it would join and run code of; "
            "if you trust it, say so with --trust (trust=True)"
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
        if name in PARTS:
            if isinstance(value, dict):
                continue
            if not dataclasses.is_dataclass(value):
                said = reprlib.repr(value)
                raise RunError(f"{name} in {where} must be settings by name, got {said}; {{}} changes none of them")
        elif not _fits(value, hints[name]):
            said = reprlib.repr(value)
            raise RunError(
                f"{name} in {where} must be {_in_words(hints[name])}, got {said}; the default is {getattr(record, name)!r}"
            )
        elif hints[name] is float:
            value = float(value)
        typed[name] = tuple(value) if isinstance(value, list) else value  # JSON has no tuples
    return typed


_SIMPLE = (int, float, str, bool, types.NoneType)


def _fits(value: Any, wanted: Any) -> bool:
    """Whether a value is of a setting's kind, as far as we know the kind. A whole number will do for a float; no other for an
    int, True least of all."""
    kind, parts = typing.get_origin(wanted), typing.get_args(wanted)
    if wanted in _SIMPLE:
        if wanted is float and isinstance(value, int) and not isinstance(value, bool):
            return abs(value) <= 2**1000
        return isinstance(value, wanted) and (wanted is bool or not isinstance(value, bool))
    if kind is Literal:
        return any(value == part and type(value) is type(part) for part in parts)
    if kind in (typing.Union, types.UnionType):
        return any(_fits(value, part) for part in parts)
    if kind is tuple:
        return isinstance(value, list | tuple) and all(_fits(part, parts[0]) for part in value)
    return True


def _in_words(wanted: Any) -> str:
    kind, parts = typing.get_origin(wanted), typing.get_args(wanted)
    if kind is Literal:
        return f"one of {', '.join(map(str, parts))}"
    if kind in (typing.Union, types.UnionType):
        return " or ".join(map(_in_words, parts))
    if kind is tuple:
        return f"a list of {_in_words(parts[0])}"
    return "null" if wanted is types.NoneType else wanted.__name__
