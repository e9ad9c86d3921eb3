"""`gtrxl export --format torch`: one step as a program of `torch.export`, which runs where PyTorch is, without this package.

step = torch.export.load("agent.pt2").module()
logits, action, value, *state = step(observation, reset, *state)
"""

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from gtrxl.evaluation.restored import Restored
from gtrxl.torch.agents.building import seen_by, twin
from gtrxl.torch.export.card import card_of
from gtrxl.torch.export.step import STREAMS, Step


def write(restored: Restored, path: Path) -> dict[str, Any]:
    """Writes the program, and says what it takes and gives."""
    step = step_of(restored)
    held = io.BytesIO()  # PyTorch has its own mind about what a file may be called
    with quietly():
        torch.export.save(traced(step), held)
    path.write_bytes(held.getvalue())
    return card_of(step, restored)


def step_of(restored: Restored) -> Step:
    """The agent's step. It computes in float32, also where it was trained in bfloat16: not every runtime has that."""
    module = twin(restored.agent)
    module.core.dtype = "float32"
    return Step(module.requires_grad_(False), seen_by(restored.agent))


def traced(step: Step) -> torch.export.ExportedProgram:
    """The step as a graph, for any number of streams. Where this package lies on this machine is not told."""
    streams = torch.export.Dim(STREAMS, min=1)
    shapes = tuple({axis: streams for axis, size in enumerate(port.shape) if size == STREAMS} for port in step.inputs())
    with torch.no_grad():
        program = torch.export.export(step, step.example(), dynamic_shapes={"tensors": shapes}, strict=False)
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)
    return program


@contextmanager
def quietly() -> Iterator[None]:
    """What PyTorch's exporters say is about their own insides: nobody who exports an agent can do anything about it."""
    before = logging.root.manager.disable
    logging.disable(max(before, logging.WARNING))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
