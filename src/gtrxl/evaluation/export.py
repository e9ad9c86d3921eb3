"""A trained agent as files that others can read: weights as safetensors, and a small JSON card beside them."""

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import gtrxl
from gtrxl.evaluation.loading import agents_of, restore_agent
from gtrxl.evaluation.trained_agent import TrainedAgent
from gtrxl.networks.agent import Agent
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
    which: Which | int = "best",
    env_fn: EnvFn | None = None,
    trust: bool = False,
    **given: Any,
) -> tuple[Path, Path]:
    """Writes NAME.safetensors and NAME.json, and returns where; `to` is the first of them, RUN/agent.safetensors if left out."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    path = Path(run) / "agent.safetensors" if to is None else Path(to)
    if path.suffix != ".safetensors":
        raise RunError(f"the file to export to must end in .safetensors, got {path}; its card is written beside it")
    if to is None and not trust:
        check_inside(Path(run), *(path.with_suffix(suffix).name for suffix in (".safetensors", ".part", ".json")))
    config, tasks, agent, update = restore_agent(run, which, env_fn=env_fn, trust=trust, **given)
    lines = tasks.scales.lines
    arrays = {name: np.array(array, order="C") for name, array in named(agent).items()}
    card = {
        "what": f"{config.core} agent for {config.task}, trained by {config.algorithm} with gtrxl",
        "version": gtrxl.__version__,
        "update": update,
        "frames": update * config.streams * config.unroll,
        "return_late_in_training": _late_return(Path(run)),
        "random": lines.get("random"),
        "best": lines.get("perfect memory", lines.get("human")),
        "parameters": int(sum(array.size for array in arrays.values())),
        "arrays": {name: {"shape": list(array.shape), "dtype": str(array.dtype)} for name, array in arrays.items()},
        "config": settings.as_dict(config),
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        save_file(arrays, part, metadata={"format": "numpy", "gtrxl": gtrxl.__version__})
        part.replace(path)
        path.with_suffix(".json").write_text(json.dumps(card, indent=2) + "\n")
    except (OSError, SafetensorError) as error:
        raise RunError(f"cannot export to {path}: {first_line(error)}; choose another file with --to") from error
    return path, path.with_suffix(".json")


def load_export(path: str | os.PathLike[str], *, env_fn: EnvFn | None = None, trust: bool = False, **given: Any) -> TrainedAgent:
    """The agent of an exported pair of files. The rest is as in `load`."""
    from safetensors import SafetensorError
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
        return jnp.asarray(arrays[_name(where)]) if _name(where) in arrays else leaf

    agent = jax.tree_util.tree_map_with_path(filled, like)
    return agents_of(agent, config, tasks)[0]


def _late_return(run: Path) -> float | None:
    """None as well where the rows are damaged, which is said: the weights are none the worse for it."""
    try:
        return late(read_rows(run, read_result(run)))
    except RunError as error:
        say(str(error))
        return None


def named(agent: Agent) -> dict[str, Any]:
    """The agent's arrays by where they are: `core.blocks.attention.w_qkv`."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(agent)
    return {_name(where): leaf for where, leaf in leaves if hasattr(leaf, "shape")}


def _name(where: Any) -> str:
    return jax.tree_util.keystr(where, simple=True, separator=".")
