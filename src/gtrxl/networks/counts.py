"""How many parameters each part of the paper's agents has, beside the paper's own table.

Counted on shapes alone: no array is made.
"""

import dataclasses
import math
from typing import Any

import equinox as eqx
import jax

from gtrxl.networks.paper import PaperAgent


@dataclasses.dataclass(frozen=True)
class PaperModel:
    """One row of the paper's table `tab:paramcontrol`: mean human-normalised score on DMLab-30 and parameters."""

    name: str
    label: str
    score: float
    score_error: float | None
    millions: float | None
    """None where the paper does not say."""


PAPER_MODELS = (
    PaperModel("lstm", "LSTM", 99.3, 1.0, 9.25),
    PaperModel("trxl", "TrXL", 5.0, 0.2, 28.6),
    PaperModel("trxl-i", "TrXL-I", 107.0, 1.2, 28.6),
    PaperModel("gtrxl-thin", "Thin GTrXL (GRU)", 111.5, 0.6, 22.4),
    PaperModel("gtrxl-gru", "GTrXL (GRU)", 117.6, 0.3, 66.4),
    PaperModel("gtrxl-input", "GTrXL (Input)", 51.2, 13.2, 34.9),
    PaperModel("gtrxl-output", "GTrXL (Output)", 112.8, 0.8, 34.9),
    PaperModel("gtrxl-highway", "GTrXL (Highway)", 90.9, 12.9, 34.9),
    PaperModel("gtrxl-sigtanh", "GTrXL (SigTanh)", 101.0, 1.3, 41.2),
)

RIVALS = (PaperModel("merlin", "MERLIN", 115.2, None, None),)
"""Quoted by the paper from elsewhere, with no count: ours is at the sizes that are known of it (`RIVAL_CORES`)."""

PARTS = ("vision", "language", "core", "policy", "value", "pixel_control")


@dataclasses.dataclass(frozen=True)
class Count:
    """One of the paper's agents, counted: `parts` in the order of `PARTS`."""

    paper: PaperModel
    parts: dict[str, int]

    @property
    def total(self) -> int:
        """All parameters of the agent."""
        return sum(self.parts.values())

    @property
    def difference(self) -> float | None:
        """By how many percent ours differs from the paper's number, if it has one."""
        return None if self.paper.millions is None else 100 * (self.total / (self.paper.millions * 1e6) - 1)


def parameters(module: Any) -> int:
    """How many numbers the arrays of a module hold, or those of its shapes (`eqx.filter_eval_shape`)."""
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(module) if hasattr(leaf, "shape"))


def count(model: PaperModel) -> Count:
    """The paper's agent of that name, counted part by part."""
    agent = eqx.filter_eval_shape(lambda: PaperAgent(model.name, key=jax.random.key(0)))
    return Count(paper=model, parts={part: parameters(getattr(agent, part)) for part in PARTS})


def count_paper_models() -> tuple[Count, ...]:
    """All nine, in the order of the paper's table, and what it quotes."""
    return tuple(count(model) for model in (*PAPER_MODELS, *RIVALS))
