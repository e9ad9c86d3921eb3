"""The models that the paper compares, by its names: a core, and how it differs from the sizes that an experiment gives to all."""

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class Model:
    """A core under the paper's name for it."""

    label: str
    core: str
    net: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Settings of `Net` that are this model's own."""
    learner: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Settings of the learner that are this model's own: what a search found for it."""
    steps: float = 1.0
    """Frames it is given, as a multiple of the others'."""
    key: str = ""
    """What its runs are called; the core's name if left out."""

    @property
    def name(self) -> str:
        """The beginning of the names of its runs."""
        return self.key or self.core

    def but(self, **changes: Any) -> "Model":
        """The same with some fields replaced."""
        return dataclasses.replace(self, **changes)


LSTM = Model("LSTM", "lstm")
TRXL = Model("TrXL", "trxl")
TRXL_I = Model("TrXL-I", "trxl-i")
GRU = Model("GTrXL (GRU)", "gtrxl-gru")
INPUT = Model("GTrXL (Input)", "gtrxl-input")
OUTPUT = Model("GTrXL (Output)", "gtrxl-output")
HIGHWAY = Model("GTrXL (Highway)", "gtrxl-highway")
SIGTANH = Model("GTrXL (SigTanh)", "gtrxl-sigtanh")
NONE = Model("no memory", "none")
MERLIN = Model("MERLIN", "merlin", net={"layers": 2, "width": 64, "mlp": 64, "memory": 128}, steps=2.0)
"""The paper quotes it at ten times the frames of its own; on a laptop it is given twice."""
PAPER_MERLIN = Model("MERLIN", "merlin", steps=10.0)

ABLATION = (LSTM, TRXL, TRXL_I, GRU, INPUT, OUTPUT, HIGHWAY, SIGTANH)
"""The paper's ablation table, in its order."""
SENSITIVITY = (LSTM, TRXL, TRXL_I, GRU, OUTPUT)
"""The paper's sensitivity figure."""
