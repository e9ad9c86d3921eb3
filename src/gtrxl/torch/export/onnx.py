"""`gtrxl export --format onnx`: one step as an ONNX graph, for onnxruntime in Python, C++, Java, Rust, or in a browser."""

import importlib
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch

import gtrxl
from gtrxl.evaluation.restored import Restored
from gtrxl.runs.errors import RunError
from gtrxl.torch.export.card import card_of
from gtrxl.torch.export.program import step_of
from gtrxl.torch.export.step import STREAMS, Step
from gtrxl.torch.export.tracing import DECOMPOSED, quietly, traced


def write(restored: Restored, path: Path) -> dict[str, Any]:
    """Writes the graph, and says what it takes and gives."""
    for needed in ("onnx", "onnxscript"):
        try:
            importlib.import_module(needed)
        except ModuleNotFoundError as error:
            raise RunError(f".onnx files need {needed}, which is not installed; pip install 'gtrxl[onnx]'") from error
    step = step_of(restored)
    card = card_of(step, restored, format="onnx", read_with="onnxruntime.InferenceSession(file).run(None, inputs)")
    model = graph(step)
    told = {"gtrxl": gtrxl.__version__, "task": restored.config.task, "core": restored.config.core}
    for name, value in {**told, "card": json.dumps(card)}.items():
        model.metadata_props.add(key=name, value=value)
    path.write_bytes(model.SerializeToString())
    return card


def graph(step: Step) -> Any:
    """The step in ONNX's operators (a `ModelProto`), with its own names at the doors."""
    inputs, outputs = ([port.name for port in ports] for ports in (step.inputs(), step.outputs()))
    with quietly():
        program = traced(step).run_decompositions(DECOMPOSED)
        made = torch.onnx.export(
            program, input_names=inputs, output_names=outputs, dynamo=True, external_data=False, verbose=False
        )
    assert made is not None
    model = made.model_proto
    model.graph.doc_string = ""
    for part in (*model.graph.node, *model.graph.value_info, *model.graph.input, *model.graph.output, *model.graph.initializer):
        del part.metadata_props[:]  # where each came from, on this machine
        part.doc_string = ""
    streams = next(size.dim_param for size in _open(model.graph.input))  # no other size is left open
    for size in _open((*model.graph.input, *model.graph.output, *model.graph.value_info)):
        size.dim_param = re.sub(rf"\b{streams}\b", STREAMS, size.dim_param)  # or so many times as many: 16*B words
    return model


def _open(values: Iterable[Any]) -> Iterator[Any]:
    """The sizes that have a name and no number."""
    return (size for value in values for size in value.type.tensor_type.shape.dim if size.dim_param)
