"""Who takes part: our cores, and the libraries others use, each fed the way it is meant to be fed.

Each module has a TITLE and two functions, `acting(size, streams)` and `learning(size, streams, steps)`, that give
contenders. One whose library is not installed fails to import; `load` says so and goes on without it.
"""

import contextlib
import importlib
import io
import os
import warnings
from collections.abc import Sequence
from typing import Literal, Protocol, cast

from costs import Size
from race import Contender


class Library(Protocol):
    """What a module in this package offers."""

    TITLE: str

    def acting(self, size: Size, streams: int) -> Sequence[Contender]:
        """Steps, with full memories."""
        ...

    def learning(self, size: Size, streams: int, steps: int) -> Sequence[Contender]:
        """Frames, forward and backward, from full memories."""
        ...


Rival = Literal["torch_twin", "rllib", "torch_lstm", "di_engine", "memorax_stack"]
RIVALS: dict[Rival, str] = {
    "torch_twin": "pip install torch",
    "rllib": 'pip install "ray[rllib]" torch',
    "torch_lstm": "pip install torch",
    "di_engine": "pip install DI-engine",
    "memorax_stack": "pip install memorax",
}
"""Module -> what brings its library."""


def load(names: Sequence[Rival]) -> tuple[list[Library], dict[str, str]]:
    """Of these rivals those that are here, and for each that is not, why and what would bring it."""
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # read when torch is imported; see torch_threads
    present: list[Library] = []
    missing: dict[str, str] = {}
    for name in names:
        try:
            with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):  # what they say about their own age
                warnings.simplefilter("ignore")
                module = importlib.import_module(f"contenders.{name}")
        # Not ImportError alone: an old library among new ones fails in its own ways, and the rest must go on.
        except Exception as error:
            missing[name] = f"{type(error).__name__}: {error} ({RIVALS[name]})"
        else:
            present.append(cast(Library, module))
    return present, missing
