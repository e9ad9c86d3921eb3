"""The packages that have environments in JAX under names, imported when they are first needed."""

import dataclasses
import functools
import importlib
import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any, NamedTuple

import jax

from gtrxl import names
from gtrxl.gym.errors import in_one_line
from gtrxl.gym.jax_tasks.env import GymnaxEnv, JaxEnv, NavixEnv, checked
from gtrxl.gym.spelling import taken_apart
from gtrxl.tasks.errors import TaskError

PREFIX = "jax:"
EXAMPLE = "jax:gymnax/MemoryChain-bsuite"


class Source(NamedTuple):
    """A package with environments in JAX."""

    ids: Callable[[], Iterable[str]]
    """All that it has."""
    make: Callable[[str, dict[str, Any], str], JaxEnv]
    """Of an id, with arguments; the last is the task's name, for errors."""


def _package(name: str, *, install: str = "pip install 'gtrxl[jax-tasks]'") -> ModuleType:
    """A package, imported when it is first needed."""
    top = name.partition(".")[0]
    try:
        with warnings.catch_warnings():  # what a package's own imports are warned of is not for our users
            warnings.simplefilter("ignore")
            importlib.import_module(top)
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name == top:
            raise TaskError(f"jax:{top}/... needs the package {top}, got none installed; {install}") from None
        raise TaskError(f"jax:{top}/... needs the package {error.name} too, got none installed; {install}") from error
    except Exception as error:
        raise TaskError(
            f"{name} cannot be imported: {type(error).__name__}: {in_one_line(error)}; {install} --upgrade"
        ) from error


def _gymnax(id: str, arguments: dict[str, Any], name: str) -> JaxEnv:
    gymnax = _package("gymnax")
    usual, params = gymnax.make(id)
    fields = {field.name for field in dataclasses.fields(params)}
    takes = set(inspect.signature(type(usual)).parameters)
    _check_arguments(name, arguments, {*fields, *takes})
    env, params = gymnax.make(id, **{key: value for key, value in arguments.items() if key not in fields})
    params = params.replace(**{key: value for key, value in arguments.items() if key in fields})
    return GymnaxEnv(env, params, name=name)


NAVIX_FIXED = {"height", "width", "observation_space", "action_space", "reward_space", "transitions_fn", "action_set"}
"""What the id of an environment of navix decides."""


def _navix(id: str, arguments: dict[str, Any], name: str) -> JaxEnv:
    navix = _package("navix")
    usual = navix.make(id)
    fields = {field.name for field in dataclasses.fields(usual)} - NAVIX_FIXED
    _check_arguments(name, arguments, fields)
    homes = {"observation_fn": navix.observations, "reward_fn": navix.rewards, "termination_fn": navix.terminations}
    told = {key: _function(value, homes[key], key) if key in homes else value for key, value in arguments.items()}
    made = {key: told.pop(key) for key in tuple(told) if key in ("max_steps", *homes)}
    return NavixEnv(navix.make(id, **made).replace(**told), name=name)


def _craftax(id: str, arguments: dict[str, Any], name: str) -> JaxEnv:
    makers = _package("craftax.craftax_env", install="pip install craftax")
    env = makers.make_craftax_env_from_name(id, auto_reset=False)
    params = env.default_params
    _check_arguments(name, arguments, {field.name for field in dataclasses.fields(params)})
    return GymnaxEnv(env, params.replace(**arguments), name=name)


def _pobax(id: str, arguments: dict[str, Any], name: str) -> JaxEnv:
    raise TaskError(
        f"pobax has no environments for one stream by name, got {name}; make one and give it to gtrxl.gym.jax_tasks.from_gymnax"
    )


SOURCES: Mapping[str, Source] = {
    "gymnax": Source(lambda: _package("gymnax").registered_envs, _gymnax),
    "navix": Source(lambda: _package("navix").registry(), _navix),
    "craftax": Source(
        lambda: ("Craftax-Symbolic-v1", "Craftax-Pixels-v1", "Craftax-Classic-Symbolic-v1", "Craftax-Classic-Pixels-v1"), _craftax
    ),
    "pobax": Source(lambda: (), _pobax),
}
"""The packages whose environments have names."""


@functools.lru_cache(maxsize=256)
def made(package: str, id: str, arguments: str) -> JaxEnv:
    """The same environment for the same name, so that programs that were compiled for it are found again."""
    name = f"{PREFIX}{package}/{id}{arguments}"
    told = dict(taken_apart(name, PREFIX, example=EXAMPLE)[1])
    try:
        # It may be asked for while a program is traced: what an environment keeps must not be part of that.
        with warnings.catch_warnings(), jax.ensure_compile_time_eval(), jax.numpy_rank_promotion("allow"):
            warnings.simplefilter("ignore")
            _check_id(package, id)
            return checked(SOURCES[package].make(id, told, name), name=name)
    except TaskError:
        raise
    except Exception as error:
        raise TaskError(f"{name} cannot be made: {type(error).__name__}: {in_one_line(error)}; check its arguments") from error


def _check_id(package: str, id: str) -> None:
    known = list(SOURCES[package].ids())
    if known and id not in known:
        others = f"; it has {', '.join(known[:5])} and {max(len(known) - 5, 0)} others"
        raise TaskError(f"{package} has no task {id}{names.meant(id, known) or others}")


def _check_arguments(name: str, arguments: Mapping[str, Any], known: set[str]) -> None:
    for key in arguments:
        if key not in known:
            raise TaskError(f"{name} takes {', '.join(sorted(known))}, got {key!r}{names.meant(key, known)}")


def _function(value: Any, home: ModuleType, key: str) -> Any:
    """One of navix's own functions, by its name."""
    known = [name for name, each in vars(home).items() if inspect.isfunction(each) and _is_of_a_state(each)]
    if value not in known:
        raise TaskError(f"{key} must be one of {', '.join(known)}, got {value!r}{names.meant(str(value), known)}")
    return getattr(home, value)


def _is_of_a_state(function: Callable[..., Any]) -> bool:
    return "state" in next(iter(inspect.signature(function).parameters), "")
