"""Memory for reinforcement-learning agents: the Gated Transformer-XL and its rivals behind one contract, on JAX."""

import importlib
from typing import TYPE_CHECKING, Any

from gtrxl.gym.registration import register

if TYPE_CHECKING:
    from gtrxl import algorithms, tasks, testing
    from gtrxl.algorithms import PPO, VMPO, Learner, VTrace
    from gtrxl.cores import GRU, LSTM, Core, CoreError, Markov, Memory, Streams, Transformer, make_core, paper_core
    from gtrxl.cores.gates import Gate
    from gtrxl.evaluation.evaluate import evaluate
    from gtrxl.evaluation.export import export, load_export
    from gtrxl.evaluation.loading import load
    from gtrxl.evaluation.sharing.push import push
    from gtrxl.evaluation.watch import watch
    from gtrxl.runs.config import Config, Net
    from gtrxl.runs.folder import Run, read_run
    from gtrxl.runs.presets import defaults
    from gtrxl.tasks.contract import Step, Task
    from gtrxl.tasks.making import make_task
    from gtrxl.training.session import resume, train

__version__ = "0.4.0.dev0"

_ROOMS = ("algorithms", "tasks", "testing")
_HOMES = {
    **dict.fromkeys(
        ("GRU", "LSTM", "Core", "CoreError", "Markov", "Memory", "Streams", "Transformer", "make_core", "paper_core"), "cores"
    ),
    "Gate": "cores.gates",
    **dict.fromkeys(("PPO", "VMPO", "Learner", "VTrace"), "algorithms"),
    **dict.fromkeys(("Step", "Task"), "tasks.contract"),
    "make_task": "tasks.making",
    **dict.fromkeys(("Config", "Net"), "runs.config"),
    "defaults": "runs.presets",
    **dict.fromkeys(("Run", "read_run"), "runs.folder"),
    **dict.fromkeys(("resume", "train"), "training.session"),
    "load": "evaluation.loading",
    "evaluate": "evaluation.evaluate",
    "watch": "evaluation.watch",
    **dict.fromkeys(("export", "load_export"), "evaluation.export"),
    "push": "evaluation.sharing.push",
}
"""Public name -> where it is."""

__all__ = [
    "GRU", "LSTM", "PPO", "VMPO", "Config", "Core", "CoreError", "Gate", "Learner", "Markov", "Memory", "Net", "Run", "Step",
    "Streams", "Task", "Transformer", "VTrace", "algorithms", "defaults", "evaluate", "export", "load", "load_export",
    "make_core", "make_task", "paper_core", "push", "read_run", "resume", "tasks", "testing", "train", "watch",
]  # fmt: skip

register()


def __getattr__(name: str) -> Any:
    """Public names are imported when they are first used, so that what needs no JAX does not wait for it."""
    if name in _ROOMS or name == "torch":  # an extra; not in `__all__`, which a plain install must be able to import
        return importlib.import_module(f"gtrxl.{name}")
    if name in _HOMES:
        return getattr(importlib.import_module(f"gtrxl.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'gtrxl' has no attribute {name!r}")
