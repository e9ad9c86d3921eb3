"""Memory for reinforcement-learning agents: the Gated Transformer-XL and its rivals behind one contract, on JAX."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gtrxl import testing
    from gtrxl.cores import GRU, LSTM, Core, CoreError, Markov, Memory, Streams, Transformer, make_core, paper_core

__version__ = "0.1.0"

__all__ = [
    "GRU",
    "LSTM",
    "Core",
    "CoreError",
    "Markov",
    "Memory",
    "Streams",
    "Transformer",
    "make_core",
    "paper_core",
    "testing",
]


def __getattr__(name: str) -> Any:
    """Public names are imported when they are first used, so that what needs no JAX does not wait for it."""
    if name == "testing":
        return importlib.import_module("gtrxl.testing")
    if name in __all__:
        return getattr(importlib.import_module("gtrxl.cores"), name)
    raise AttributeError(f"module 'gtrxl' has no attribute {name!r}")
