"""Where a function lives that makes an environment: `package.module:function`.

A function that nobody else can import (of a script, inside another function, a lambda, a partial) has a place too, which says
so: it has `__main__` or a < in it.
"""

import contextlib
import functools
import importlib.util
import sys
import typing
from collections.abc import Callable
from typing import Any

import gymnasium

from gtrxl import names
from gtrxl.tasks.errors import TaskError

EnvFn = Callable[[], gymnasium.Env]


def place_of(env_fn: EnvFn) -> str:
    """The place of a function, in words that `found` takes back where that can be."""
    if not callable(env_fn):
        raise TaskError(
            f"env_fn must be a function that makes a gymnasium.Env, got {env_fn!r}; give the function, not its result"
        )
    name = getattr(env_fn, "__qualname__", None)
    module = getattr(env_fn, "__module__", None) or "unknown"
    if name is None:
        return f"{module}:<{type(env_fn).__name__}>"
    if "<" in name or module == "__main__" or _at(module, name) is env_fn:
        return f"{module}:{name}"
    return f"{module}:<{name}>"  # something else has taken its place since: a decorator, for instance


def spelled_out(text: str) -> str:
    """A place as a user writes it, `package.module.function` or with a colon before the function, always with the colon."""
    place = text.strip()
    if ":" not in place:
        module, dot, function = place.rpartition(".")
        place = f"{module}:{function}" if dot else place
    if not names.is_place(place) and can_be_imported(place):
        raise TaskError(
            f"a function is written env:package.module.function, got {'env:' + text.strip()!r}; see docs/your-task.md"
        )
    return place


def can_be_imported(place: str) -> bool:
    """Whether another process could find it."""
    module, _, name = place.partition(":")
    return module != "__main__" and "<" not in name


def found(place: str) -> EnvFn:
    """The function at a place."""
    if not can_be_imported(place):
        raise TaskError(
            f"this task is made by a function of a script or inside another one, {place} cannot be imported here; "
            "give the function again as env_fn"
        )
    try:
        function: Any = names.find(_with_module(place), what="the env_fn")
    except names.PlaceError as error:
        raise TaskError(str(error)) from error
    if callable(function):
        return typing.cast(EnvFn, function)
    raise TaskError(f"{place} must be a function that makes a gymnasium.Env, got {function!r}; name the function")


def _with_module(place: str) -> str:
    """The colon where the module ends: names of older runs have it only before the last word, `module.Class:make`."""
    parts = place.replace(":", ".").split(".")
    for end in range(place.partition(":")[0].count(".") + 1, 0, -1):
        with contextlib.suppress(ImportError, ValueError):
            if importlib.util.find_spec(".".join(parts[:end])) is not None:
                return ".".join(parts[:end]) + ":" + ".".join(parts[end:])
    return place


def _at(module: str, name: str) -> Any:
    return functools.reduce(lambda home, part: getattr(home, part, None), name.split("."), sys.modules.get(module))
