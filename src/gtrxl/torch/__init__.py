"""The cores as PyTorch modules: the same parameters under the same names, the same outputs, gradients and states.

    import gtrxl.torch

    core = gtrxl.torch.make_core("gtrxl-gru", input_size=16, d_model=64, layers=2, heads=4, memory=32)
    state = core.initial_state(8)                            # of 8 streams
    ys, state = core.unroll(xs, state, resets=resets)        # xs [8, T, 16], resets [8, T] bool

Needs PyTorch: `pip install 'gtrxl[torch]'`.
"""

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ModuleNotFoundError(
        "gtrxl.torch needs PyTorch, which is not installed; pip install 'gtrxl[torch]'", name="torch"
    ) from None

import importlib
from typing import TYPE_CHECKING, Any

from gtrxl.torch.cores.catalogue import make_core, paper_core
from gtrxl.torch.cores.contract import Core, State
from gtrxl.torch.cores.gates import Gate
from gtrxl.torch.cores.markov import Markov, NoState
from gtrxl.torch.cores.memory import Memory, PreparedMemory
from gtrxl.torch.cores.recurrent import GRU, LSTM, GRUState, LSTMState
from gtrxl.torch.cores.transformer import Transformer
from gtrxl.torch.testing import check_core
from gtrxl.torch.weights import core_weights, from_jax, load_core, state_from_jax, state_to_jax, to_jax

if TYPE_CHECKING:
    from gtrxl.torch.agents.loading import load

__all__ = [
    "GRU", "LSTM", "Core", "GRUState", "Gate", "LSTMState", "Markov", "Memory", "NoState", "PreparedMemory", "State",
    "Transformer", "check_core", "core_weights", "from_jax", "load", "load_core", "make_core", "paper_core", "state_from_jax",
    "state_to_jax", "to_jax",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Trained agents are imported when they are first used: who uses a core alone need not wait for them."""
    if name == "load":
        return importlib.import_module("gtrxl.torch.agents.loading").load
    raise AttributeError(f"module 'gtrxl.torch' has no attribute {name!r}")
