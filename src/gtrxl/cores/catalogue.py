"""Cores by name, at any size and at the paper's own; and anyone's, by the place of its class or by the class itself."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar, overload

import jax
from jaxtyping import PRNGKeyArray

from gtrxl import names
from gtrxl.cores.contract import CALLS, Core
from gtrxl.cores.errors import CoreError
from gtrxl.cores.gates import GATES
from gtrxl.cores.linear.agalite import AGaLiTe
from gtrxl.cores.linear.deltanet import DeltaNet
from gtrxl.cores.linear.ffm import FFM
from gtrxl.cores.linear.gtrxl_lru import GatedLRU
from gtrxl.cores.linear.lru import LRU
from gtrxl.cores.linear.mamba2 import Mamba2
from gtrxl.cores.linear.mingru import MinGRU
from gtrxl.cores.linear.minlstm import MinLSTM
from gtrxl.cores.linear.mlstm import MLSTM
from gtrxl.cores.linear.s5 import S5
from gtrxl.cores.markov import Markov
from gtrxl.cores.merlin import Merlin, RLMem
from gtrxl.cores.recurrent import GRU, LSTM
from gtrxl.cores.transformer import Transformer

C = TypeVar("C")


class CoreEntry(NamedTuple):
    """A class or factory, the arguments that the name fixes, and one line about it."""

    kind: Callable[..., Any]
    fixed: Mapping[str, Any]
    about: str


CORES: dict[str, CoreEntry] = {
    "lstm": CoreEntry(LSTM, {}, "long short-term memory; skip=True gives the paper's skip connections"),
    "gru": CoreEntry(GRU, {}, "the gated recurrent unit, the plain recurrent network"),
    "trxl": CoreEntry(Transformer, {"gate": "none", "norm_inputs": False}, "Transformer-XL: norm after each residual sum"),
    "trxl-i": CoreEntry(Transformer, {"gate": "none"}, "TrXL with the norm moved to each submodule's input"),
    **{
        f"gtrxl-{name}": CoreEntry(Transformer, {"gate": name}, f"TrXL-I with {gate.about}")
        for name, gate in GATES.items()
        if gate.closes
    },
    "merlin": CoreEntry(Merlin, {}, "MERLIN: a memory written by what predicts, read by what acts"),
    "rl-mem": CoreEntry(RLMem, {}, "MERLIN's control: the same memory, written as reward teaches"),
    "lru": CoreEntry(LRU, {}, "linear recurrent unit: a complex diagonal recurrence"),
    "s5": CoreEntry(S5, {}, "simplified state space layer, begun from HiPPO"),
    "mingru": CoreEntry(MinGRU, {}, "minimal GRU: gates that see the input alone"),
    "minlstm": CoreEntry(MinLSTM, {}, "minimal LSTM: the same with two gates"),
    "mamba2": CoreEntry(Mamba2, {}, "Mamba-2: a selective state space with one decay for each head"),
    "mlstm": CoreEntry(MLSTM, {}, "the matrix LSTM of xLSTM: a matrix of values by keys"),
    "deltanet": CoreEntry(DeltaNet, {}, "Gated DeltaNet: a matrix in which one entry can be replaced"),
    "ffm": CoreEntry(FFM, {}, "fast and forgetful memory: fading traces at several frequencies"),
    "agalite": CoreEntry(AGaLiTe, {"gate": "gru"}, "GTrXL's block with approximate gated linear attention"),
    "gtrxl-lru": CoreEntry(GatedLRU, {"gate": "gru"}, "GTrXL's block and gates around an LRU in place of attention"),
    "none": CoreEntry(Markov, {}, "no memory: the Markov control"),
}
"""The cores of this package by name."""

_PAPER_TRANSFORMER = {"d_model": 512, "layers": 12, "heads": 8, "head_dim": 64, "mlp": 512, "memory": 512}
_THIN = {"d_model": 256, "layers": 12, "heads": 4, "head_dim": 64, "mlp": 512, "memory": 512}
PAPER_INPUT_SIZE = 256 + 64 + 1 + 15
"""Image 256, instruction 64, previous reward 1, previous action 15: what the paper's cores see on DMLab-30."""

PAPER_CORES: dict[str, tuple[str, dict[str, Any]]] = {
    "lstm": ("lstm", {"d_model": 256, "layers": 3, "skip": True}),
    **{name: (name, _PAPER_TRANSFORMER) for name, entry in CORES.items() if entry.kind is Transformer},
    "gtrxl-thin": ("gtrxl-gru", _THIN),
}
"""Name -> the core and the sizes of the paper's DMLab-30 models (Thin GTrXL has half the heads, and so half the width)."""

_MERLIN = {"d_model": 256, "layers": 2, "memory": 1350, "latent": 200, "reads": 3}
RIVAL_CORES: dict[str, tuple[str, dict[str, Any]]] = {
    "merlin": ("merlin", {**_MERLIN, "mlp": 400}),
    "rl-mem": ("rl-mem", _MERLIN),
}
"""The same of cores that the paper quotes, at the sizes of those who published them."""


def find_core(core: Any) -> CoreEntry:
    """What is known of a core: by its name in `CORES`, by a place `package.module:Class`, or the class or factory itself."""
    if isinstance(core, str):
        if core in CORES:
            return CORES[core]
        if not names.is_place(core):
            near = names.meant(core, CORES)
            known = f"the cores are {', '.join(CORES)}, and package.module:Class"
            raise CoreError(f"there is no core {core!r}{near}{' ' if near else '; '}{known}")
        try:
            core = names.find(core, what="the core")
        except names.PlaceError as error:
            raise CoreError(str(error)) from error
    if not callable(core) or hasattr(type(core), "initial_state"):
        raise CoreError(
            f"core must be a name, package.module:Class, a class or a factory, got a {type(core).__name__}; "
            "give the class, which is made by core(input_size, key=key, ...)"
        )
    return CoreEntry(core, {}, (inspect.getdoc(core) or "").partition("\n")[0])


def core_arguments(core: Any) -> frozenset[str]:
    """The names of the arguments that `make_core` takes for this core, without what its name fixes.

    >>> sorted(core_arguments("none"))
    ['d_model', 'dtype', 'layers']
    """
    entry = find_core(core)
    return frozenset(_arguments(entry))


@overload
def make_core(core: str, *, input_size: int, key: PRNGKeyArray, **arguments: Any) -> Core: ...


@overload
def make_core(core: Callable[..., C], *, input_size: int, key: PRNGKeyArray, **arguments: Any) -> C: ...


def make_core(core: Any, *, input_size: int, key: PRNGKeyArray, **arguments: Any) -> Any:
    """A core by name, by the place of its class (`package.module:Class`), or from a class or factory itself.

    It is made by `core(input_size, key=key, **arguments)`. Transformers take `d_model, layers, heads, head_dim, mlp, memory,
    gate_bias, init_variance, dtype`; `lstm` and `gru` take `d_model` (their width), `layers, skip, dtype`; `merlin` takes
    `d_model, layers, mlp, memory, latent, reads, noise, gamma, spread, dtype`, `rl-mem` those without `mlp`, `noise` and
    `spread`; `none` takes `d_model, layers, dtype`; the linear ones take these and sizes of their own (`core_arguments`).

    >>> core = make_core("gtrxl-gru", input_size=16, d_model=64, layers=2, heads=4, memory=32, key=jax.random.key(0))
    >>> core.output_size
    64
    """
    entry = find_core(core)
    name = core if isinstance(core, str) else getattr(core, "__qualname__", repr(core))
    known = _arguments(entry)
    for argument in arguments:
        if argument in entry.fixed:
            kind = getattr(entry.kind, "__qualname__", repr(entry.kind))
            raise CoreError(f"{argument} is what the name {name!r} fixes; leave it out, or build {kind} directly")
        if argument not in known and not _takes_any(entry):
            raise CoreError(f"{name} takes no {argument!r}; it takes {', '.join(known) or 'no arguments of its own'}")
    given = {**entry.fixed, **arguments}
    try:
        inspect.signature(entry.kind).bind(input_size, key=key, **given)
    except TypeError as error:
        raise CoreError(
            f"{name} must be made by {name}(input_size, key=key, ...), got {error}; "
            "give what is missing as a core argument, or a factory that does"
        ) from None
    made = entry.kind(input_size, key=key, **given)
    missing = [call for call in CALLS if not callable(getattr(made, call, None))]
    if missing:
        raise CoreError(
            f"{name} must give a core, got a {type(made).__name__} without {', '.join(missing)}; "
            "gtrxl.cores.contract says what a core has, gtrxl.testing.check_core checks it"
        )
    return made


def paper_core(name: str, *, input_size: int = PAPER_INPUT_SIZE, key: PRNGKeyArray | None = None, **changes: Any) -> Core:
    """A core at the paper's sizes, for DMLab-30's input unless `input_size` says otherwise; `changes` replace sizes.

    Names are those of `make_core` that the paper has, `gtrxl-thin`, and those of `RIVAL_CORES`.
    """
    known = PAPER_CORES | RIVAL_CORES
    if name not in known:
        raise CoreError(f"the paper has no core {name!r}; it has {', '.join(known)}")
    base, sizes = known[name]
    key = jax.random.key(0) if key is None else key
    return make_core(base, input_size=input_size, key=key, **{**sizes, **changes})


def _arguments(entry: CoreEntry) -> list[str]:
    """In the order in which they are written, without the input's width (the first), the key, and what is fixed."""
    _, *others = inspect.signature(entry.kind).parameters.values()
    named = [of.name for of in others if of.kind in (of.POSITIONAL_OR_KEYWORD, of.KEYWORD_ONLY)]
    return [name for name in named if name != "key" and name not in entry.fixed]


def _takes_any(entry: CoreEntry) -> bool:
    return any(of.kind is of.VAR_KEYWORD for of in inspect.signature(entry.kind).parameters.values())
