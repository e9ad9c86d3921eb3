"""Cores by name, at any size and at the paper's own."""

import inspect
from typing import Any

import jax
from jaxtyping import PRNGKeyArray

from gtrxl.cores.contract import Core
from gtrxl.cores.errors import CoreError
from gtrxl.cores.markov import Markov
from gtrxl.cores.recurrent import GRU, LSTM
from gtrxl.cores.transformer import Transformer

CORES: dict[str, tuple[type[Core], dict[str, Any], str]] = {
    "lstm": (LSTM, {}, "long short-term memory; skip=True gives the paper's skip connections"),
    "gru": (GRU, {}, "the gated recurrent unit, the plain recurrent network"),
    "trxl": (Transformer, {"gate": "none", "norm_inputs": False}, "Transformer-XL: norm after each residual sum"),
    "trxl-i": (Transformer, {"gate": "none"}, "TrXL with the norm moved to each submodule's input"),
    "gtrxl-input": (Transformer, {"gate": "input"}, "TrXL-I with the stream gated"),
    "gtrxl-output": (Transformer, {"gate": "output"}, "TrXL-I with each submodule's output gated"),
    "gtrxl-highway": (Transformer, {"gate": "highway"}, "TrXL-I with highway gates"),
    "gtrxl-sigtanh": (Transformer, {"gate": "sigtanh"}, "TrXL-I with sigmoid-tanh gates"),
    "gtrxl-gru": (Transformer, {"gate": "gru"}, "TrXL-I with GRU gates: the paper's best"),
    "none": (Markov, {}, "no memory: the Markov control"),
}
"""Name -> class, what the name fixes, and one line about it."""

_PAPER_TRANSFORMER = {"d_model": 512, "layers": 12, "heads": 8, "head_dim": 64, "mlp": 512, "memory": 512}
_THIN = {"d_model": 256, "layers": 12, "heads": 4, "head_dim": 64, "mlp": 512, "memory": 512}
PAPER_INPUT_SIZE = 256 + 64 + 1 + 15
"""Image 256, instruction 64, previous reward 1, previous action 15: what the paper's cores see on DMLab-30."""

PAPER_CORES: dict[str, tuple[str, dict[str, Any]]] = {
    "lstm": ("lstm", {"d_model": 256, "layers": 3, "skip": True}),
    **{name: (name, _PAPER_TRANSFORMER) for name, (cls, _, _) in CORES.items() if cls is Transformer},
    "gtrxl-thin": ("gtrxl-gru", _THIN),
}
"""Name -> the core and the sizes of the paper's DMLab-30 models (Thin GTrXL has half the heads, and so half the width)."""


def make_core(name: str, *, input_size: int, key: PRNGKeyArray, **sizes: Any) -> Core:
    """A core by name.

    Transformers take `d_model, layers, heads, head_dim, mlp, memory, gate_bias, init_variance, dtype`; `lstm` and `gru` take
    `d_model` (their width), `layers, skip, dtype`; `none` takes `d_model, layers, dtype`.

    >>> core = make_core("gtrxl-gru", input_size=16, d_model=64, layers=2, heads=4, memory=32, key=jax.random.key(0))
    >>> core.output_size
    64
    """
    if name not in CORES:
        raise CoreError(f"there is no core {name!r}; the cores are {', '.join(CORES)}")
    cls, fixed, _ = CORES[name]
    for argument in sizes:
        if argument in fixed:
            raise CoreError(f"{argument} is what the name {name!r} fixes; leave it out, or build {cls.__name__} directly")
        if argument not in _arguments(cls):
            raise CoreError(f"{name} takes no {argument!r}; it takes {', '.join(a for a in _arguments(cls) if a not in fixed)}")
    return cls(input_size, key=key, **fixed, **sizes)  # pyright: ignore[reportCallIssue]


def paper_core(name: str, *, input_size: int = PAPER_INPUT_SIZE, key: PRNGKeyArray | None = None, **changes: Any) -> Core:
    """A core at the paper's sizes, for DMLab-30's input unless `input_size` says otherwise; `changes` replace sizes.

    Names are those of `make_core` that the paper has, and `gtrxl-thin`.
    """
    if name not in PAPER_CORES:
        raise CoreError(f"the paper has no core {name!r}; it has {', '.join(PAPER_CORES)}")
    base, sizes = PAPER_CORES[name]
    key = jax.random.key(0) if key is None else key
    return make_core(base, input_size=input_size, key=key, **{**sizes, **changes})


def _arguments(cls: type[Core]) -> list[str]:
    return [name for name in inspect.signature(cls).parameters if name not in ("input_size", "key")]
