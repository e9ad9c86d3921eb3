"""Runs that take a second or two, and how two of them are compared: every row, every array of the last checkpoint."""

import contextlib
import hashlib
import itertools
import json
import logging
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from gtrxl.runs import metrics

NET = {"layers": 1, "width": 8, "heads": 2, "head_dim": 4, "mlp": 8, "memory": 4, "torso": 8, "hidden": 8}
TASK = "t-maze:corridor=3,patience=1"
CORES = ("none", "lstm", "gtrxl-gru")
REPORTS = 16
PERIOD = 2
"""Updates from one report, and checkpoint, to the next."""
STREAMS = UNROLL = 4
ACTING = {"streams": 4, "unroll": 8}
"""Of runs with actors."""
OWN_NAMES = {"tasks": "tasks-per-actor", "time_limit": "time-limit"}
"""Settings of a fleet whose option has another name."""


def settings(core: str, **changes: Any) -> dict[str, Any]:
    """A compiled run's, as `gtrxl.train` takes them."""
    return {
        "task": TASK, "core": core, "streams": STREAMS, "unroll": UNROLL, "reports": REPORTS, "checkpoint_every": 1, "devices": 1,
        "steps": STREAMS * UNROLL * PERIOD * REPORTS, "net": NET, "learner": {"target_period": PERIOD},
    } | changes  # fmt: skip


def actors_settings(task: str = "gym:CartPole-v1", *, reports: int = 10, actors: int = 2, **changes: Any) -> dict[str, Any]:
    """A run's with actors; their tasks are `ACTING["streams"]` together."""
    frames = ACTING["streams"] * ACTING["unroll"]
    fleet = {"actors": actors, "tasks": ACTING["streams"] // actors, **changes.pop("fleet", {})}
    return {
        "task": task, "core": "lstm", "algorithm": "vmpo", **ACTING, "reports": reports, "checkpoint_every": 1, "fleet": fleet,
        "steps": frames * PERIOD * reports, "net": NET, "learner": {"target_period": PERIOD},
    } | changes  # fmt: skip


def line(chosen: dict[str, Any]) -> list[str]:
    """The same settings as options of `gtrxl train`."""
    words = [str(chosen["task"])]
    for name, value in chosen.items():
        if name == "fleet":
            words += [f"--{OWN_NAMES.get(part, part)}={each}" for part, each in value.items()]
        elif isinstance(value, dict):
            words += [f"--{name}.{part.replace('_', '-')}={each}" for part, each in value.items()]
        elif name != "task":
            words.append(f"--{name.replace('_', '-')}={value}")
    return words


def rows(folder: Path) -> list[dict[str, Any]]:
    """The rows of a run, without what its clock said."""
    return [metrics.without_clock(row) for row in metrics.read(folder / "metrics.jsonl")]


def checkpoints(folder: Path) -> list[int]:
    """The steps of all checkpoints that have their name."""
    home = folder / "checkpoints"
    return sorted(int(entry.name) for entry in home.iterdir() if entry.name.isdecimal()) if home.is_dir() else []


def arrays(folder: Path, step: int | None = None) -> dict[str, np.ndarray]:
    """Every array of a checkpoint, the last if none is named, read without the package's own reader."""
    home = folder / "checkpoints" / str(checkpoints(folder)[-1] if step is None else step)
    if (home / "state.safetensors").exists():
        from safetensors.numpy import load_file

        return load_file(home / "state.safetensors")
    card = json.loads((home / "card.json").read_text())
    names = [name for name, of in card["arrays"].items() if np.prod(of["shape"], dtype=int)]
    return _by_orbax(home / "state", names)


def _by_orbax(home: Path, names: list[str]) -> dict[str, np.ndarray]:
    """As older checkpoints are written."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import orbax.checkpoint as ocp

        logging.getLogger("absl").setLevel(logging.CRITICAL)
        plain = dict.fromkeys(names, ocp.RestoreArgs(restore_type=np.ndarray))
        with contextlib.closing(ocp.PyTreeCheckpointer()) as reader:
            found = reader.restore(home.absolute(), item=dict.fromkeys(names, 0), restore_args=plain)
    return {name: np.asarray(found[name]) for name in names}


def fingerprint(found: dict[str, np.ndarray]) -> dict[str, str]:
    """Of every array: its bits."""
    return {name: f"{x.dtype}{x.shape} {hashlib.sha256(x.tobytes()).hexdigest()}" for name, x in found.items()}


def difference(folder: Path, reference: Path) -> str:
    """How a finished run differs from one that nobody touched; empty if it does not, to the bit."""
    mine, theirs = rows(folder), rows(reference)
    if mine != theirs:
        at = next((n for n, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), min(len(mine), len(theirs)))
        return f"row {at} of {len(mine)} differs from that of the reference, which has {len(theirs)}"
    # The digest is of all of the file, the clock included.
    ends = [{k: v for k, v in result(each).items() if k not in ("seconds", "digest")} for each in (folder, reference)]
    if ends[0] != ends[1]:
        return f"result.json differs: {ends[0]} where the reference has {ends[1]}"
    prints = [fingerprint(arrays(each)) for each in (folder, reference)]
    differ = [name for name in {**prints[0], **prints[1]} if prints[0].get(name) != prints[1].get(name)]
    return f"{len(differ)} arrays of the last checkpoint differ, {differ[0]} among them" if differ else ""


def hole(folder: Path, *, every: int = PERIOD, reports: int) -> str:
    """What is wrong with the rows and the result of a finished run whose numbers are not known; empty if nothing is."""
    found = rows(folder)
    updates = [row["updates"] for row in found]
    wanted = [every * (n + 1) for n in range(reports)]
    if updates != wanted:
        return f"rows of updates {updates[:8]}... where {wanted[:8]}... are due: {len(updates)} of {len(wanted)}"
    frames = ACTING["streams"] * ACTING["unroll"]
    if [row["frames"] for row in found] != [frames * each for each in updates]:
        return "frames do not go with updates"
    seconds = [row["seconds"] for row in metrics.read(folder / "metrics.jsonl")]
    if any(later <= before for before, later in itertools.pairwise(seconds)):
        return "the clock of the rows goes back"
    end = result(folder)
    if end["status"] != "finished" or end["updates"] != updates[-1]:
        return f"result.json says {end['status']} at update {end['updates']}"
    return ""


def left_over(folder: Path) -> str:
    """What a run that ended left behind and should not: unfinished files, a lock that is held; empty if nothing."""
    home = folder / "checkpoints"
    unfinished = [entry.name for entry in home.iterdir() if not entry.name.isdecimal()]
    unfinished += [entry.name for entry in folder.iterdir() if entry.name.endswith((".part", ".new"))]
    if unfinished:
        return f"{unfinished[0]} was left behind"
    import fcntl

    for file in folder.glob("*lock*"):
        with file.open("a") as opened:
            try:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return f"{file.name} is still held"
    return ""


def result(folder: Path) -> dict[str, Any]:
    """RUN/result.json."""
    return json.loads((folder / "result.json").read_text())
