"""Doing an experiment: the runs that are left, then its rows.

OUT/SET/SCALE/runs/NAME/     one run's folder, as `gtrxl train` makes it
OUT/SET/SCALE/rows.jsonl     one row for each run that has begun: all that a report reads

Rows are made from the runs' folders, so that they can be made again at any time, and are written whole or not at all.
"""

import contextlib
import functools
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import equinox as eqx
import jax

from gtrxl.experiments.catalogue import SCALES
from gtrxl.experiments.errors import ExperimentError
from gtrxl.experiments.planning import Planned, experiment_of, plan
from gtrxl.experiments.sweeps import DONE, PLACED, sweep
from gtrxl.gym.dmlab.levels import split_of
from gtrxl.runs import settings as configs
from gtrxl.runs.errors import first_line
from gtrxl.runs.folder import read_config
from gtrxl.runs.metrics import check_whole, read, read_result
from gtrxl.runs.provenance import provenance
from gtrxl.runs.tasks import run_tasks
from gtrxl.training.building import make_agent

KEPT_POINTS = 100
"""Points of a run's curve that its row keeps."""
EVERY = 60.0
"""Seconds between two writings of the rows while runs are under way."""


def reproduce(
    experiment: str,
    scale: str = "quick",
    out: str | os.PathLike[str] = "results",
    *,
    engine: Literal["local", "ray"] = "local",
    jobs: int = 0,
    address: str | None = None,
    only: tuple[str, ...] = (),
    quiet: bool = False,
) -> Path:
    """Does what is left of an experiment's runs, and returns its file of rows. `only` takes runs whose names begin so."""
    runs = experiment_of(experiment).runs
    planned = [each for each in plan(runs, scale) if not only or each.name.startswith(only)]
    if not planned:
        raise ExperimentError(f"only must begin the name of a run, got {', '.join(only)}; `--list {experiment}` shows them")
    home = Path(out) / runs / scale
    folder = home / "runs"
    elsewhere = _done_elsewhere(home, planned)
    if elsewhere and not quiet:
        count = "1 run is" if len(elsewhere) == 1 else f"{len(elsewhere)} runs are"
        print(f"{count} done by their rows in {home / 'rows.jsonl'}, and left alone", file=sys.stderr)
    folder.mkdir(parents=True, exist_ok=True)
    left = {each.name: each.config for each in planned if each.name not in elsewhere}
    with _rows_now_and_then(home, runs, scale):
        sweep(left, folder, engine=engine, jobs=jobs, address=address, quiet=quiet)
    return collect(home, runs, scale, say=lambda line: print(line, file=sys.stderr))


def _done_elsewhere(home: Path, planned: list[Planned]) -> set[str]:
    """Runs with a row of their end and no folder here: they were made on another machine, or their folders are gone."""
    rows = {row["run"]: row for row in _read(home / "rows.jsonl") if row.get("status") in DONE}
    done = {each.name: each for each in planned if each.name in rows and not (home / "runs" / each.name).exists()}
    for name, each in done.items():
        here = json.loads(json.dumps(configs.as_dict(each.config)))
        if differs := _first_difference(here, rows[name].get("config") or {}):
            key, ours, theirs = differs
            raise ExperimentError(
                f"the row of {name} in {home / 'rows.jsonl'} must have the settings planned, got {key} {theirs!r} there and "
                f"{ours!r} here; take another --out"
            )
    return set(done)


def _first_difference(planned: dict[str, Any], made: dict[str, Any], within: str = "") -> tuple[str, Any, Any] | None:
    """The first setting that both have, with different values; a row may be older than a setting."""
    for key in planned.keys() & made.keys() - set(PLACED):
        ours, theirs = planned[key], made[key]
        if isinstance(ours, dict) and isinstance(theirs, dict):
            if deeper := _first_difference(ours, theirs, f"{within}{key}."):
                return deeper
        elif ours != theirs:
            return within + key, ours, theirs
    return None


@contextlib.contextmanager
def _rows_now_and_then(home: Path, runs: str, scale: str) -> Iterator[None]:
    """Rows follow the runs while they are under way, and once more when they end, however that is."""
    done = threading.Event()

    def follow() -> None:
        while not done.wait(EVERY):
            collect(home, runs, scale)

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        collect(home, runs, scale)


def collect(home: Path, runs: str, scale: str, *, say: Callable[[str], None] = lambda line: None) -> Path:
    """Writes the rows of all planned runs that have begun; a folder that cannot be read is said and left out."""
    if scale not in SCALES:
        raise ExperimentError(f"scale must be one of {', '.join(SCALES)}, got {scale!r}; quick takes minutes")
    rows = []
    for each in plan(runs, scale):
        try:
            row = _row(each, home / "runs" / each.name, runs, scale)
        except (OSError, ValueError, KeyError, TypeError) as error:
            say(f"left out: {home / 'runs' / each.name}: {first_line(error)}")
            continue
        if row is not None:
            rows.append(row)
    kept = home / "rows.jsonl"
    known = {row["run"] for row in rows}
    # Runs whose folders are elsewhere by now (rows are small and travel, folders are not) keep their rows.
    rows = [row for row in _read(kept) if row["run"] not in known] + rows
    rows.sort(key=lambda row: row["run"])
    whole = home / f"rows.jsonl.{os.getpid()}.part"
    whole.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    whole.replace(kept)
    return kept


def _read(file: Path) -> list[dict[str, Any]]:
    if not file.exists():
        return []
    rows = []
    for line in file.read_text(encoding="utf-8", errors="replace").split("\n"):
        with contextlib.suppress(ValueError, RecursionError):
            row = json.loads(line)
            if isinstance(row, dict) and isinstance(row.get("run"), str):
                rows.append(row)
    return rows


def _row(planned: Planned, folder: Path, runs: str, scale: str) -> dict[str, Any] | None:
    if not (folder / "metrics.jsonl").exists() or not (folder / "config.json").exists():
        return None
    result = read_result(folder)  # before the rows, which may become more
    rows = read(folder / "metrics.jsonl")
    check_whole(folder, rows, result)
    # The folder's own settings: the plan may have changed since, and what was not run must not be said.
    config, last = read_config(folder), rows[-1] if rows else {}
    made = provenance(folder)
    return {
        "set": runs,
        "scale": scale,
        "run": planned.name,
        "model": planned.model.label,
        "core": config.core,
        "task": config.task,
        "goal": planned.goal.label or config.task,
        "dial": planned.goal.dial,
        "draw": planned.draw.number,
        "seed": config.seed,
        "bounds": {name: getattr(config.learner, name) for name in planned.draw.bounds},
        "status": result.get("status", "under way"),
        "diverged_at_frames": _frames(config, result.get("diverged_at_update")),
        "steadiness": result.get("steadiness"),
        "planned_frames": config.steps,
        "frames": last.get("frames", 0),
        "seconds": round(last.get("seconds", 0.0), 1),
        "frames_per_second": _middle(rows),
        "curve": _curve(rows),
        "splits": _splits(rows),
        "scores": _scores(config.task),
        "config": configs.as_dict(config),
        **_sizes(config),
        **made,
    }


def _frames(config: configs.Config[Any], update: int | None) -> int | None:
    return None if update is None else update * config.streams * config.unroll


def _curve(rows: list[dict[str, Any]]) -> list[list[int | float]]:
    """[frames, mean return, episodes] of neighbouring reports put together."""
    every = max(1, -(-len(rows) // KEPT_POINTS))
    points = []
    for first in range(0, len(rows), every):
        part = [row for row in rows[first : first + every] if row["return_mean"] is not None]
        episodes = sum(row["episodes"] for row in part)
        if episodes:
            mean = sum(row["return_mean"] * row["episodes"] for row in part) / episodes
            points.append([part[-1]["frames"], round(mean, 4), episodes])
    return points


def _splits(rows: list[dict[str, Any]]) -> dict[str, list[list[int | float]]]:
    """Of a run on several levels of DMLab-30, a curve for those that need memory and one for the others: points as in `curve`,
    with the mean over the levels of their latest score. Begins when each of them has one; empty for other runs."""
    levels = {name: split_of(name) for row in rows[:1] for name in row.get("tasks") or ()}
    found: dict[str, list[dict[str, Any]]] = {}
    latest: dict[str, float] = {}
    for row in rows:
        tasks = row.get("tasks") or {}
        latest |= {name: of["normalised"] for name, of in tasks.items() if of["normalised"] is not None}
        for split in dict.fromkeys(levels.values()):
            mine = [name for name, of in levels.items() if of == split]
            mean = sum(latest[name] for name in mine) / len(mine) if all(name in latest for name in mine) else None
            point = {"frames": row["frames"], "return_mean": mean, "episodes": sum(tasks[name]["episodes"] for name in mine)}
            found.setdefault(split or "", []).append(point)
    return {split: _curve(points) for split, points in found.items()} if len(found) > 1 and "" not in found else {}


def _middle(rows: list[dict[str, Any]]) -> float | None:
    speeds = sorted(row["frames_per_second"] for row in rows if row.get("frames_per_second"))
    return round(speeds[len(speeds) // 2], 1) if speeds else None


@functools.cache
def _scores(task: str) -> dict[str, float] | None:
    """The reference scores of a compiled task: random, without memory, with a perfect one; of a set, its scale's ends."""
    tasks = run_tasks(task)
    lines = tasks.scales.lines if tasks.compiled else {}
    return {name: round(score, 4) for name, score in lines.items()} or None


_SIZES: dict[str, dict[str, int]] = {}


def _sizes(config: configs.Config[Any]) -> dict[str, int | None]:
    """How many parameters the agent has, and the bytes of its memory for one stream; None for tasks outside."""
    tasks = config.tasks
    if not tasks.compiled:
        return {"parameters": None, "state_bytes": None}
    wanted = json.dumps([config.task, config.core, config.core_args, configs.as_dict(config)["net"]])
    if wanted not in _SIZES:
        agent = eqx.filter_eval_shape(lambda: make_agent(config, tasks.shown, jax.random.key(0), values=len(tasks)))
        state = eqx.filter_eval_shape(lambda: agent.core.initial_state())
        leaves = jax.tree.leaves(eqx.filter(agent, lambda leaf: hasattr(leaf, "shape")))
        _SIZES[wanted] = {
            "parameters": sum(leaf.size for leaf in leaves),
            "state_bytes": sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state)),
        }
    return dict(_SIZES[wanted])
