"""Memory for reinforcement-learning agents: the Gated Transformer-XL and its rivals behind one contract, on JAX."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gtrxl import envs, learner, testing
    from gtrxl.cores import GRU, LSTM, Core, CoreError, Markov, Memory, Streams, Transformer, make_core, paper_core
    from gtrxl.envs import make_task
    from gtrxl.learner import PPO, VMPO, VTrace
    from gtrxl.runtime.agents import evaluate, load
    from gtrxl.runtime.config import Config, Net, defaults
    from gtrxl.runtime.export import export, load_export
    from gtrxl.runtime.runs import Run, read_run
    from gtrxl.runtime.train import resume, train
    from gtrxl.runtime.watching import watch

__version__ = "0.2.0"

_ROOMS = ("envs", "learner", "testing")
_HOMES = {
    **dict.fromkeys(
        ("GRU", "LSTM", "Core", "CoreError", "Markov", "Memory", "Streams", "Transformer", "make_core", "paper_core"), "cores"
    ),
    **dict.fromkeys(("PPO", "VMPO", "VTrace"), "learner"),
    "make_task": "envs",
    **dict.fromkeys(("Config", "Net", "defaults"), "runtime.config"),
    **dict.fromkeys(("export", "load_export"), "runtime.export"),
    **dict.fromkeys(("evaluate", "load"), "runtime.agents"),
    **dict.fromkeys(("Run", "read_run"), "runtime.runs"),
    **dict.fromkeys(("resume", "train"), "runtime.train"),
    "watch": "runtime.watching",
}
"""Public name -> where it is."""

__all__ = [
    "GRU", "LSTM", "PPO", "VMPO", "Config", "Core", "CoreError", "Markov", "Memory", "Net", "Run", "Streams", "Transformer",
    "VTrace", "defaults", "envs", "evaluate", "export", "learner", "load", "load_export", "make_core", "make_task", "paper_core",
    "read_run", "resume", "testing", "train", "watch",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Public names are imported when they are first used, so that what needs no JAX does not wait for it."""
    if name in _ROOMS:
        return importlib.import_module(f"gtrxl.{name}")
    if name in _HOMES:
        return getattr(importlib.import_module(f"gtrxl.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'gtrxl' has no attribute {name!r}")
