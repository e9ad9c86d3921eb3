"""Agents that are no run's: an exported pair of files, by its path, by a name in the zoo, or of a repository at Hugging Face.

agent.safetensors      with agent.json beside it
zoo:grid-numpad-3x3    of the package
hf:owner/name          downloaded, and kept in Hugging Face's cache
"""

import dataclasses
import os
import reprlib
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

import gtrxl
from gtrxl.evaluation.restored import Restored, name_of, named
from gtrxl.evaluation.sharing import hub
from gtrxl.runs import sealed, settings
from gtrxl.runs.config import Config
from gtrxl.runs.errors import RunError, first_line
from gtrxl.training.building import make_agent
from gtrxl.training.session import EnvFn, know, tasks_of
from gtrxl.zoo import shelf


def file_of(source: str | os.PathLike[str]) -> Path | None:
    """The exported weights that are meant; None if it is a run's folder that is."""
    said = os.fspath(source)
    if said.startswith(shelf.PREFIX):
        return shelf.path_of(said.removeprefix(shelf.PREFIX))
    if said.startswith(hub.PREFIX):
        return hub.download(said.removeprefix(hub.PREFIX))
    return Path(said) if said.endswith(".safetensors") else None


def place_for(source: str | os.PathLike[str], file: str) -> Path:
    """Where a file that is made of an agent goes if nobody says: into the run's folder, beside the exported weights, or into the
    current folder under the name of the agent."""
    said = os.fspath(source)
    if said.startswith((shelf.PREFIX, hub.PREFIX)):
        return Path(said.rpartition(":")[2].rpartition("/")[2] + Path(file).suffix)
    return Path(said).with_suffix(Path(file).suffix) if said.endswith(".safetensors") else Path(said) / file


def card_of(path: Path) -> dict[str, Any]:
    """What the card beside exported weights says; it has settings for sure."""
    try:
        card = sealed.parse(sealed.content_of(path.with_suffix(".json")))
    except OSError as error:
        raise RunError(f"cannot read {_pair(path)}: {error.strerror or error}; `gtrxl export RUN` makes both") from error
    except (ValueError, RecursionError) as error:
        raise RunError(f"cannot read {_pair(path)}: {first_line(error)}; `gtrxl export RUN` makes both") from error
    data = card.get("config") if isinstance(card, dict) else None
    if not isinstance(data, dict) or not {"task", "core", "algorithm"} <= set(data):
        raise RunError(f"cannot read {_pair(path)}: the card has no settings under `config`; `gtrxl export RUN` makes both")
    return card


def config_of(path: Path, card: dict[str, Any], *, trust: bool = False) -> Config[Any]:
    """The settings of a card, for one device."""
    try:
        checked = settings.checked(card["config"], where=str(path.with_suffix(".json")), trust=trust)
    except RunError as error:
        raise RunError(f"{error}{_written_by(card)}") from error
    return dataclasses.replace(checked, devices=1)


def read(path: Path, *, env_fn: EnvFn | None = None, trust: bool = False, **given: Any) -> Restored:
    """The agent of exported weights and their card."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    card = card_of(path)
    try:
        arrays = load_file(path)
    except OSError as error:
        raise RunError(f"cannot read {_pair(path)}: {error.strerror or error}; `gtrxl export RUN` makes both") from error
    except (SafetensorError, ValueError) as error:
        raise RunError(f"cannot read {_pair(path)}: {first_line(error)}; `gtrxl export RUN` makes both") from error
    know(env_fn, given)
    config = config_of(path, card, trust=trust)
    tasks = tasks_of(config, env_fn)
    like = eqx.filter_eval_shape(lambda: make_agent(config, tasks.shown, jax.random.key(0), values=len(tasks)))
    wanted = {name: tuple(leaf.shape) for name, leaf in named(like).items()}
    found = {name: array.shape for name, array in arrays.items()}
    others = sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))
    if others:
        told = ", ".join(_told(name, wanted.get(name), found.get(name)) for name in others[:2])
        more = f" and {len(others) - 2} more" if len(others) > 2 else ""
        raise RunError(
            f"{path} must hold the arrays of its card's settings, core {config.core} on {config.task}, got others: "
            f"{told}{more}{_written_by(card)}"
        )

    def filled(where: Any, leaf: Any) -> Any:
        return jnp.asarray(arrays[name_of(where)], leaf.dtype) if name_of(where) in arrays else leaf

    update = card.get("update")
    return Restored(config, tasks, jax.tree_util.tree_map_with_path(filled, like), update if type(update) is int else 0)


def _told(name: str, wanted: tuple[int, ...] | None, found: tuple[int, ...] | None) -> str:
    """How an array differs."""
    if wanted is None:
        return f"{name} must not be there"
    return f"{name} must be {list(wanted)}, got {'none' if found is None else list(found)}"


def _written_by(card: dict[str, Any]) -> str:
    """A remark, where it was another version."""
    version = card.get("version")
    return (
        "" if version == gtrxl.__version__ else f" (it was written by gtrxl {reprlib.repr(version)}, this is {gtrxl.__version__})"
    )


def _pair(path: Path) -> str:
    return f"{path} and its card {path.with_suffix('.json').name}"
