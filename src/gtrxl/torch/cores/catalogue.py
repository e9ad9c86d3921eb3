"""Cores by the names of `gtrxl.make_core`, as PyTorch modules."""

import inspect
from collections.abc import Callable
from typing import Any

from gtrxl import cores as jax_cores
from gtrxl import names
from gtrxl.cores.errors import CoreError
from gtrxl.torch.cores.contract import Core
from gtrxl.torch.cores.markov import Markov
from gtrxl.torch.cores.recurrent import GRU, LSTM
from gtrxl.torch.cores.transformer import Transformer

TWINS: dict[Any, Callable[..., Core]] = {
    jax_cores.Transformer: Transformer,
    jax_cores.LSTM: LSTM,
    jax_cores.GRU: GRU,
    jax_cores.Markov: Markov,
}
"""Class in JAX -> its twin. Names, and what they fix, are those of `gtrxl.cores.CORES`."""


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
    if name not in jax_cores.PAPER_CORES:
        raise CoreError(f"the paper has no core {name!r}; it has {', '.join(jax_cores.PAPER_CORES)}")
    base, sizes = jax_cores.PAPER_CORES[name]
    return make_core(base, input_size=input_size, device=device, **{**sizes, **changes})
