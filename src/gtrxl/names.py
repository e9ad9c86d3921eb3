"""Things by name: ours by a short name, anyone's by the place it is at, `package.module:Name`.

A class that was given to this process directly keeps its place as its name, and is found by it without an import.
"""

import difflib
import functools
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_given: dict[str, Any] = {}
"""What was handed to this process as an object, or was imported on the user's word, by its place."""


class PlaceError(ValueError):
    """A name that leads nowhere."""


def is_place(text: str) -> bool:
    """Whether this is written like a place: `package.module:Name`."""
    return re.fullmatch(r"[^\W\d][\w.]*:[^\W\d][\w.]*", text.strip()) is not None


def place_of(thing: Any) -> str:
    """The place of a class or function, under which `find` gives it back in this process."""
    name = getattr(thing, "__qualname__", None)
    if name is None:
        raise PlaceError(f"a class or a function has a place, got {thing!r}; give the class, not an instance")
    place = f"{thing.__module__}:{name}"
    _given[place] = thing
    return place


def is_given(place: str) -> bool:
    """Whether this process was handed the thing itself, or has found it on the user's word."""
    return place in _given


def find(place: str, *, what: str) -> Any:
    """The thing at a place; `what` says what it should be, for the error."""
    place = place.strip()
    if place in _given:
        return _given[place]
    module, _, name = place.partition(":")
    if module == "__main__" or "<" in name:
        raise PlaceError(
            f"{what} {place} lives in a script or inside a function and cannot be imported; "
            "give the class itself again, or move it to a module"
        )
    try:
        home = importlib.import_module(module)
    except ImportError as error:
        raise PlaceError(
            f"{what} {place} cannot be imported: {' '.join(str(error).split())}; "
            "is its folder on the path? --from . adds the current one"
        ) from error
    try:
        found = functools.reduce(getattr, name.split("."), home)
    except AttributeError:
        raise PlaceError(
            f"there is no {name} in {module}{meant(name, vars(home)) or ';'} {what} is written package.module:Name"
        ) from None
    _given[place] = found  # on somebody's word: it needs no other one in this process
    return found


def is_here(module: str) -> bool:
    """Whether a module would be imported from the working directory, where anybody's files may lie, whatever its name says.
    Nothing is imported to find out."""
    top = module.partition(".")[0]
    try:
        spec = None if top in sys.modules else importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return False
    if spec is None:
        return False
    places = [*(spec.submodule_search_locations or ()), *([] if spec.origin is None else [spec.origin])]
    here = Path.cwd().resolve()
    return any(Path(place).resolve().parent == here for place in places)


def meant(name: str, known: Iterable[str]) -> str:
    """`; did you mean t-maze?` where a known name is near, else nothing."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else ""


def search_in(folder: str) -> None:
    """From here on modules are looked for in this folder too, also by processes that are started from here."""
    if folder not in sys.path:
        sys.path.insert(0, folder)
    known = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]
    if folder not in known:
        os.environ["PYTHONPATH"] = os.pathsep.join([folder, *known])
