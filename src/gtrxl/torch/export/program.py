"""`gtrxl export --format torch`: one step as a program of `torch.export`, which runs where PyTorch is, without this package.

step = torch.export.load("agent.pt2").module()
logits, action, value, *state = step(observation, reset, *state)
"""

import io
from pathlib import Path
from typing import Any

import torch

from gtrxl.evaluation.restored import Restored
from gtrxl.torch.agents.building import seen_by, twin
from gtrxl.torch.export.card import card_of
from gtrxl.torch.export.step import Step
from gtrxl.torch.export.tracing import quietly, traced


def write(restored: Restored, path: Path) -> dict[str, Any]:
    """Writes the program, and says what it takes and gives."""
    step = step_of(restored)
    held = io.BytesIO()  # PyTorch has its own mind about what a file may be called
    with quietly():
        torch.export.save(traced(step), held)
    path.write_bytes(held.getvalue())
    return card_of(step, restored, format="torch", read_with="torch.export.load(file).module()(*inputs)")


def step_of(restored: Restored) -> Step:
    """The agent's step. It computes in float32, also where it was trained in bfloat16: not every runtime has that."""
    module = twin(restored.agent)
    module.core.dtype = "float32"
    module.core.settle()
    return Step(module.requires_grad_(False), seen_by(restored.agent))
