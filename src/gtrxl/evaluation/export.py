"""A trained agent as files that others can read: weights, or a program, and a small JSON card beside it."""

import json
import os
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

import gtrxl
from gtrxl.evaluation import exported
from gtrxl.evaluation.formats.catalogue import format_of
from gtrxl.evaluation.loading import agents_of, restore_agent
from gtrxl.evaluation.restored import Restored, named
from gtrxl.evaluation.trained_agent import TrainedAgent
from gtrxl.runs import settings
from gtrxl.runs.errors import RunError, first_line, say
from gtrxl.runs.folder import Which, check_inside, read_rows
from gtrxl.runs.metrics import read_result
from gtrxl.runs.scores import late
from gtrxl.training.session import EnvFn


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
    left out. `run` and the rest are as in `load`."""
    chosen = format_of(format)
    source = exported.file_of(run)
    path = exported.place_for(run, f"agent{chosen.suffix}") if to is None else Path(to)
    if path.suffix != chosen.suffix:
        raise RunError(f"the file to export to must end in {chosen.suffix}, got {path}; its card is written beside it")
    part, told = path.with_suffix(".part"), chosen.card(path)
    if to is None and source is None and not trust:
        check_inside(Path(run), path.name, part.name, told.name)
    write = chosen.load()
    restored = restore_agent(run, which, env_fn=env_fn, trust=trust, **given)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        card = {**_card(restored, _late_return(Path(run), source)), **write(restored, part)}
        card["config"] = card.pop("config")  # last: it is long
        part.replace(path)
        part.write_text(json.dumps(card, indent=2) + "\n", "utf-8")
        part.replace(told)
    except (OSError, SafetensorError) as error:
        raise RunError(f"cannot export to {path}: {first_line(error)}; choose another file with --to") from error
    return path, told


def _card(restored: Restored, late_return: float | None) -> dict[str, Any]:
    """What every card says."""
    config, tasks, agent, update = restored
    lines = tasks.scales.lines
    return {
        "what": f"{config.core} agent for {config.task}, trained by {config.algorithm} with gtrxl",
        "version": gtrxl.__version__,
        "update": update,
        "frames": update * config.streams * config.unroll,
        "return_late_in_training": late_return,
        "random": lines.get("random"),
        "best": lines.get("perfect memory", lines.get("human")),
        "parameters": int(sum(array.size for array in named(agent).values())),
        "config": settings.as_dict(config),
    }


def load_export(path: str | os.PathLike[str], *, env_fn: EnvFn | None = None, trust: bool = False, **given: Any) -> TrainedAgent:
    """The agent of an exported pair of files. The rest is as in `load`."""
    found = exported.read(Path(path), env_fn=env_fn, trust=trust, **given)
    return agents_of(found.agent, found.config, found.tasks)[0]


def _late_return(run: Path, source: Path | None) -> float | None:
    """None as well where the rows are damaged, which is said: the weights are none the worse for it."""
    if source is not None:
        return exported.card_of(source).get("return_late_in_training")
    try:
        return late(read_rows(run, read_result(run)))
    except RunError as error:
        say(str(error))
        return None
