"""Cores by the names of `gtrxl.make_core`, as PyTorch modules."""

import inspect
from typing import Any

from gtrxl import cores as jax_cores
from gtrxl import names
from gtrxl.cores.catalogue import RIVAL_CORES
from gtrxl.cores.errors import CoreError
from gtrxl.cores.linear import agalite, deltanet, ffm, gtrxl_lru, lru, mamba2, mingru, minlstm, mlstm, s5
from gtrxl.torch.cores.contract import Core
from gtrxl.torch.cores.linear.agalite import AGaLiTe
from gtrxl.torch.cores.linear.deltanet import DeltaNet
from gtrxl.torch.cores.linear.ffm import FFM
from gtrxl.torch.cores.linear.gtrxl_lru import GatedLRU
from gtrxl.torch.cores.linear.lru import LRU
from gtrxl.torch.cores.linear.mamba2 import Mamba2
from gtrxl.torch.cores.linear.minimal import MinGRU, MinLSTM
from gtrxl.torch.cores.linear.mlstm import MLSTM
from gtrxl.torch.cores.linear.s5 import S5
from gtrxl.torch.cores.markov import Markov
from gtrxl.torch.cores.merlin.core import Merlin
from gtrxl.torch.cores.merlin.rl_mem import RLMem
from gtrxl.torch.cores.recurrent import GRU, LSTM
from gtrxl.torch.cores.transformer import Transformer

TWINS: dict[Any, Any] = {
    jax_cores.Transformer: Transformer,
    jax_cores.LSTM: LSTM,
    jax_cores.GRU: GRU,
    jax_cores.Merlin: Merlin,
    jax_cores.RLMem: RLMem,
    lru.LRU: LRU,
    s5.S5: S5,
    mingru.MinGRU: MinGRU,
    minlstm.MinLSTM: MinLSTM,
    mamba2.Mamba2: Mamba2,
    mlstm.MLSTM: MLSTM,
    deltanet.DeltaNet: DeltaNet,
    ffm.FFM: FFM,
    agalite.AGaLiTe: AGaLiTe,
    gtrxl_lru.GatedLRU: GatedLRU,
    jax_cores.Markov: Markov,
}
"""Class in JAX -> its twin, whose `sizes` say how a core like a given one is made. Names are those of `gtrxl.cores.CORES`."""


def make_core(core: str, *, input_size: int, device: Any = None, **arguments: Any) -> Core:
    """A core by its name, with the arguments and defaults that `gtrxl.make_core` has for it, on a device.

    Its parameters are drawn from torch's generator: `torch.manual_seed` makes them the same again.
    """
    if core not in jax_cores.CORES:
        near = names.meant(core, jax_cores.CORES)
        raise CoreError(f"there is no core {core!r}{near}{' ' if near else '; '}the cores are {', '.join(jax_cores.CORES)}")
    entry = jax_cores.CORES[core]
    if entry.kind not in TWINS:
        there = ", ".join(name for name, other in jax_cores.CORES.items() if other.kind in TWINS)
        raise CoreError(f"{core} has no form in PyTorch; those that have one are {there}")
    kind = TWINS[entry.kind]
    _, *others = inspect.signature(kind).parameters
    known = [name for name in others if name != "device" and name not in entry.fixed]
    for argument in arguments:
        if argument in entry.fixed:
            raise CoreError(f"{argument} is what the name {core!r} fixes; leave it out, or build {kind.__name__} directly")
        if argument not in known:
            raise CoreError(f"{core} takes no {argument!r}; it takes {', '.join(known)}")
    return kind(input_size, device=device, **entry.fixed, **arguments)


def paper_core(name: str, *, input_size: int = jax_cores.PAPER_INPUT_SIZE, device: Any = None, **changes: Any) -> Core:
    """A core at the paper's sizes, as `gtrxl.paper_core` has them."""
    known = jax_cores.PAPER_CORES | RIVAL_CORES
    if name not in known:
        raise CoreError(f"the paper has no core {name!r}; it has {', '.join(known)}")
    base, sizes = known[name]
    return make_core(base, input_size=input_size, device=device, **{**sizes, **changes})
