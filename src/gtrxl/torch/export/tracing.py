"""A step as a graph of PyTorch's operators, and those that ONNX lacks written in others."""

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from gtrxl.torch.export.step import STREAMS, Step


def traced(step: Step) -> torch.export.ExportedProgram:
    """The step as a graph, for any number of streams. Where this package lies on this machine is not told."""
    streams = torch.export.Dim(STREAMS, min=1)
    shapes = tuple({axis: streams for axis, size in enumerate(port.shape) if size == STREAMS} for port in step.inputs())
    with torch.no_grad():
        program = torch.export.export(step, step.example(), dynamic_shapes={"tensors": shapes}, strict=False)
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)
    return program


def running_maximum(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """`torch.cummax`, in as many turns as its length can be doubled. Cores ask for it to find numbers that are not finite, among
    the steps that they see."""
    size, turn = x.shape[dim], 1
    best, at = x, torch.arange(size, device=x.device).reshape([-1 if axis == dim % x.ndim else 1 for axis in range(x.ndim)])
    at = at.expand(x.shape)
    while turn < size:
        earlier, there = best.narrow(dim, 0, size - turn), at.narrow(dim, 0, size - turn)
        here, own = best.narrow(dim, turn, size - turn), at.narrow(dim, turn, size - turn)
        newer = here >= earlier  # of equal ones the last, as PyTorch has it
        best = torch.cat([best.narrow(dim, 0, turn), torch.where(newer, here, earlier)], dim)
        at = torch.cat([at.narrow(dim, 0, turn), torch.where(newer, own, there)], dim)
        turn *= 2
    return best, at.contiguous()


DECOMPOSED: dict[Any, Callable[..., Any]] = {torch.ops.aten.cummax.default: running_maximum}
"""Operators that ONNX lacks -> the same in those that it has."""


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
