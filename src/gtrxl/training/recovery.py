"""What a run goes on from: its settings, a checkpoint that can be read, and rows that fit to it."""

import contextlib
import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gtrxl.runs import settings
from gtrxl.runs.checkpoints import Checkpoints
from gtrxl.runs.config import Config
from gtrxl.runs.errors import DamagedError, RunError
from gtrxl.runs.folder import Run, Which, check_inside, checkpoints_of, read_config, read_run
from gtrxl.runs.metrics import Rows, read
from gtrxl.training.engine import Engine


def settings_of(folder: Path, *, steps: int | None, devices: int | None, trust: bool) -> Config[Any]:
    """The settings to go on with."""
    config = read_config(folder, trust=trust)
    if not trust:
        check_inside(folder)
        settings.ask_before_joining(config, str(folder / "config.json"))
    if devices is not None:
        config = dataclasses.replace(config, devices=devices)
    if steps is not None:
        if steps < config.steps:
            raise RunError(
                f"steps must be at least the {config.steps} that the run was made for, got {steps}; leave it out to finish it"
            )
        every = config.updates_per_report
        frames = config.frames_per_update * every
        config = dataclasses.replace(config, steps=steps, reports=max(1, math.ceil(steps / frames)))
        if config.updates_per_report != every:
            config = dataclasses.replace(config, reports=max(1, round(steps / frames)))
    return config


def finished(folder: Path, config: Config[Any], *, trust: bool) -> Run | None:
    """The run, if nothing is left to do of it: not even settings, a row or a result to be mended."""
    latest = checkpoints_of(folder, read_only=True).latest
    there = all((folder / name).exists() for name in ("config.json", "result.json"))
    if not there or latest is None or latest < config.last_update:
        return None
    with contextlib.suppress(RunError):
        return read_run(folder, trust=trust)
    return None


def restored(engine: Engine, keeping: Checkpoints, which: Which | int, say: Callable[[str], None]) -> Any:
    """The state of a checkpoint, after which there is no later one. In place of a damaged last one the one before is taken."""
    damaged: dict[int, DamagedError] = {}
    for step in reversed(keeping.steps()) if which == "last" else [keeping.find(which)]:
        try:
            state = engine.restore(keeping, step)
        except DamagedError as error:
            if which != "last":
                raise
            damaged[step] = error
            continue
        for other, why in damaged.items():
            kept = keeping.set_aside(other)
            say(f"{str(why).partition('; ')[0]}; it is kept as {kept.name}, and the run goes on from checkpoint {step}")
        keeping.forget_after(step)
        return state
    if not damaged:
        raise RunError(f"the run in {keeping.folder.parent} has no checkpoint any more; train another one with --config")
    said = str(next(iter(damaged.values()))).partition("; ")[0]
    raise RunError(f"a run goes on from a checkpoint, got none that can be read of {sorted(damaged)}: {said}; train another one")


def mend_rows(folder: Path, updates: int, say: Callable[[str], None]) -> None:
    """The rows until an update: what is later is done again, and what is damaged is dropped and said."""
    file = folder / "metrics.jsonl"
    rows = Rows(file)
    bad = rows.truncate_after(updates=updates)
    rows.close()
    if bad:
        lines = f"line{'s' * (len(bad) > 1)} {', '.join(map(str, bad[:5]))}{' and more' if len(bad) > 5 else ''}"
        say(f"{file} was damaged: {lines} moved to {file.name}.damaged, the other rows are kept")
    last = max((row.get("updates", 0) for row in read(file)), default=0)
    if last < updates:
        say(f"{file} has rows until update {last} only, and the checkpoint is of update {updates}: those between are lost")
