"""A trained agent as files that others can read: weights, or a program, and a small JSON card beside it."""

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from safetensors import SafetensorError

import gtrxl
from gtrxl.evaluation.formats.catalogue import format_of
from gtrxl.evaluation.loading import agents_of, restore_agent
from gtrxl.evaluation.restored import Restored, name_of, named
from gtrxl.evaluation.trained_agent import TrainedAgent
from gtrxl.runs import sealed, settings
from gtrxl.runs.errors import RunError, first_line, say
from gtrxl.runs.folder import Which, check_inside, read_rows
from gtrxl.runs.metrics import read_result
from gtrxl.runs.scores import late
from gtrxl.training.building import make_agent
from gtrxl.training.session import EnvFn, know, tasks_of


def export(
    run: str | os.PathLike[str],
    to: str | os.PathLike[str] | None = None,
    *,
    format: str = "safetensors",
    which: Which | int = "best",
    env_fn: EnvFn | None = None,
    trust: bool = False,
    **given: Any,
) -> tuple[Path, Path]:
    """Writes a file of a format (`FORMATS`) and its card, and returns where; `to` is the first of them, RUN/agent.safetensors if
    left out."""
    chosen = format_of(format)
    path = Path(run) / f"agent{chosen.suffix}" if to is None else Path(to)
    if path.suffix != chosen.suffix:
        raise RunError(f"the file to export to must end in {chosen.suffix}, got {path}; its card is written beside it")
    part, told = path.with_suffix(".part"), chosen.card(path)
    if to is None and not trust:
        check_inside(Path(run), path.name, part.name, told.name)
    write = chosen.load()
    restored = restore_agent(run, which, env_fn=env_fn, trust=trust, **given)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        card = {**_card(restored, Path(run)), **write(restored, part)}
        card["config"] = card.pop("config")  # last: it is long
        part.replace(path)
        part.write_text(json.dumps(card, indent=2) + "\n")
        part.replace(told)
    except (OSError, SafetensorError) as error:
        raise RunError(f"cannot export to {path}: {first_line(error)}; choose another file with --to") from error
    return path, told


def _card(restored: Restored, run: Path) -> dict[str, Any]:
    """What every card says."""
    config, tasks, agent, update = restored
    lines = tasks.scales.lines
    return {
        "what": f"{config.core} agent for {config.task}, trained by {config.algorithm} with gtrxl",
        "version": gtrxl.__version__,
        "update": update,
        "frames": update * config.streams * config.unroll,
        "return_late_in_training": _late_return(run),
        "random": lines.get("random"),
        "best": lines.get("perfect memory", lines.get("human")),
        "parameters": int(sum(array.size for array in named(agent).values())),
        "config": settings.as_dict(config),
    }


def load_export(path: str | os.PathLike[str], *, env_fn: EnvFn | None = None, trust: bool = False, **given: Any) -> TrainedAgent:
    """The agent of an exported pair of files. The rest is as in `load`."""
    from safetensors.numpy import load_file

    path = Path(path)
    pair = f"{path} and its card {path.with_suffix('.json').name}"
    try:
        card = sealed.parse(sealed.content_of(path.with_suffix(".json")))
        arrays = load_file(path)
    except OSError as error:
        raise RunError(f"cannot read {pair}: {error.strerror or error}; `gtrxl export RUN` makes both") from error
    except (SafetensorError, ValueError, RecursionError) as error:
        raise RunError(f"cannot read {pair}: {first_line(error)}; `gtrxl export RUN` makes both") from error
    data = card.get("config") if isinstance(card, dict) else None
    if not isinstance(data, dict) or not {"task", "core", "algorithm"} <= set(data):
        raise RunError(f"cannot read {pair}: the card has no settings under `config`; `gtrxl export RUN` makes both")
    know(env_fn, given)
    config = dataclasses.replace(settings.checked(data, where=str(path.with_suffix(".json")), trust=trust), devices=1)
    tasks = tasks_of(config, env_fn)
    like = eqx.filter_eval_shape(lambda: make_agent(config, tasks.shown, jax.random.key(0), values=len(tasks)))
    wanted = {name: tuple(leaf.shape) for name, leaf in named(like).items()}
    found = {name: array.shape for name, array in arrays.items()}
    others = sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))
    if others:
        raise RunError(f"{path} must hold the arrays of its card's settings, got others: {', '.join(others[:3])}")

    def filled(where: Any, leaf: Any) -> Any:
        return jnp.asarray(arrays[name_of(where)]) if name_of(where) in arrays else leaf

    agent = jax.tree_util.tree_map_with_path(filled, like)
    return agents_of(agent, config, tasks)[0]


def _late_return(run: Path) -> float | None:
    """None as well where the rows are damaged, which is said: the weights are none the worse for it."""
    try:
        return late(read_rows(run, read_result(run)))
    except RunError as error:
        say(str(error))
        return None
