"""Settings that are known to work, by task, core and algorithm: `small` learns on a CPU, `paper` has the paper's sizes.

What is particular to a task it says itself (`Task.defaults`); docs/learning.md has the runs behind it.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

from gtrxl.algorithms import PPO, VMPO
from gtrxl.algorithms.catalogue import learner_class
from gtrxl.cores.catalogue import core_arguments
from gtrxl.runs.config import Config, FleetSettings, GymSettings, Net
from gtrxl.runs.errors import RunError
from gtrxl.runs.tasks import RunTasks, run_tasks

_SMALL, _SMALL_RECURRENT = Net(), Net(layers=1, width=128)
_PAPER = Net(
    layers=12,
    width=512,
    heads=8,
    head_dim=64,
    mlp=512,
    memory=512,
    # The paper is silent about it: the default of the library that its authors use, with which TrXL fails as theirs did.
    init_variance=1.0,
    torso=256,
    channels="paper",
    output_norm=False,
    hidden=256,
)
_PAPER_RECURRENT = Net(layers=3, width=256, skip=True, torso=256, channels="paper", output_norm=False, hidden=256)
_PAPER_MERLIN = Net(layers=2, width=256, mlp=400, memory=1350, torso=500, channels="paper", output_norm=False, hidden=200)
_PAPER_NETS: dict[str, tuple[Net, tuple[str, ...]]] = dict.fromkeys(
    ("merlin", "rl-mem"), (_PAPER_MERLIN, ("latent=200", "reads=3"))
)
"""Cores with sizes of their own, those of their authors, and what they are made with besides."""
_PAPER_BUDGETS: dict[str, dict[str, Any]] = {
    "numpad": {"steps": 150_000_000},
    "memory_maze": {"steps": 2_000_000_000},
    "dmlab30": {"steps": 10_000_000_000, "pixel_control": 2e-3},
}
"""Frames, and what else belongs to each of the paper's environments; what it did not train is taken as Numpad."""
SLOW_CALLS = 900.0
"""Seconds for one call of DeepMind Lab: its mazes take a minute to compile, and many are compiled at once."""


def defaults(
    *,
    task: str = "grid-numpad",
    core: str = "gtrxl-gru",
    algorithm: str | None = None,
    preset: str = "small",
    streams: int | None = None,
) -> Config[Any]:
    """What is known to work for a task and a core; the preset `paper` has the paper's sizes and settings. Without an algorithm it
    is the one that the task is known to be learned with, or the paper's. With so many `streams`, minibatches that divide them."""
    if preset not in PRESETS:
        raise RunError(f"preset must be one of {', '.join(PRESETS)}, got {preset!r}; small learns on a laptop")
    learned = run_tasks(task)
    if algorithm is None:
        algorithm = Config.algorithm if preset == "paper" else learned.defaults.algorithm
    config = PRESETS[preset](learned, {"task": task, "core": core, "algorithm": algorithm})
    if isinstance(streams, int) and streams > 0:
        learner = dataclasses.replace(config.learner, minibatches=math.gcd(config.learner.minibatches, streams))
        config = dataclasses.replace(config, streams=streams, learner=learner)
    if learned.alone:
        config = dataclasses.replace(config, fleet=dataclasses.replace(config.fleet, time_limit=SLOW_CALLS))
    return config


def _small(learned: RunTasks, chosen: dict[str, str]) -> Config[Any]:
    """Found to learn on a CPU."""
    known, kind = learned.defaults, learner_class(chosen["algorithm"])
    window = looks_back(chosen["core"])
    own: dict[str, Any] = {"learner": {**known.vmpo, **({} if window else known.recurrent)}} if issubclass(kind, VMPO) else {}
    own = dict(known.with_ppo) if issubclass(kind, PPO) else own
    learner = kind(**own.pop("learner", {}))
    net = _SMALL if _has_blocks(chosen["core"]) else _SMALL_RECURRENT
    records: dict[str, Any] = {"gym": GymSettings(**own.pop("gym", {})), "fleet": FleetSettings(**own.pop("fleet", {}))}
    sizes: dict[str, Any] = {"streams": Config.streams, **known.sizes, **own}
    sizes["streams"] = _fitting(sizes["streams"], learned, learner.minibatches)
    if known.recurrent_unroll is not None and not window:
        sizes["unroll"] = known.recurrent_unroll
    return Config(
        **chosen,
        **sizes,
        **records,
        net=dataclasses.replace(net, memory=known.memory),
        learner=learner,
    )


def _paper(learned: RunTasks, chosen: dict[str, str]) -> Config[Any]:
    """The paper's sizes and settings for Numpad, Memory Maze and DMLab-30. Of several tasks it has more streams than the paper's
    128, so that each has as many as the others: 180 for DMLab-30."""
    environment, kind = learned.defaults.paper, learner_class(chosen["algorithm"])
    recurrent = not looks_back(chosen["core"])
    usual = _PAPER if _has_blocks(chosen["core"]) else _PAPER_RECURRENT
    net, arguments = _PAPER_NETS.get(chosen["core"], (usual, ()))
    learner = kind.paper(environment, recurrent=recurrent) if issubclass(kind, VMPO) else kind()
    return Config(
        **chosen,
        core_args=arguments,
        net=net,
        learner=learner,
        streams=_fitting(128, learned, learner.minibatches),
        unroll=95,
        discount=0.99,
        final_rate=1.0,
        **_PAPER_BUDGETS[environment],
    )


PRESETS: dict[str, Callable[[RunTasks, dict[str, str]], Config[Any]]] = {"small": _small, "paper": _paper}


def looks_back(core: str) -> bool:
    """Whether a core keeps steps one by one (a window, rows): then it learns with the transformers' settings."""
    return "memory" in core_arguments(core)


def _has_blocks(core: str) -> bool:
    """Whether a core is made of the transformers' blocks, whatever it remembers by: then it has their sizes."""
    return looks_back(core) or "mlp" in core_arguments(core)


def _fitting(streams: int, learned: RunTasks, minibatches: int) -> int:
    """The least number of streams that is not smaller and that the tasks of a run and the minibatches divide."""
    if len(learned) == 1:
        return streams
    # Twice the tasks: then two devices have all of them, too.
    share = math.lcm(2 * len(learned), minibatches)
    return share * math.ceil(streams / share)
