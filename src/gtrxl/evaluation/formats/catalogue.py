"""What `gtrxl export` can write: format -> its file's ending, and the function that writes it. Needs no JAX.

To add one, write its function in a module and name its place here. A format's module is imported when it is first asked for, so
that one which needs PyTorch costs nobody else anything. The function is called with the agent and the path to write to, and
returns what the card says besides what every card does:

    def write(restored: Restored, path: Path) -> dict[str, Any]

Whatever it writes to that path gets its name by a rename, when all of it is there.
"""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from gtrxl import names
from gtrxl.runs.errors import RunError


class Format(NamedTuple):
    """A kind of file."""

    suffix: str
    writer: str
    """The place of its function, `package.module:name`."""
    extra: str | None = None
    """What to install for it: the name of an extra of this package."""
    needs: str | None = None
    """The module that the extra brings, without which it cannot be written."""

    def load(self) -> Callable[..., dict[str, Any]]:
        """Its function."""
        if self.needs is not None and importlib.util.find_spec(self.needs) is None:
            raise RunError(f"{self.suffix} files need {self.needs}, which is not installed; pip install 'gtrxl[{self.extra}]'")
        return names.find(self.writer, what="the writer")

    def card(self, path: Path) -> Path:
        """The card beside a file. Weights and their card are a pair of one name; other formats may lie beside that pair."""
        return path.with_suffix(".json") if self.suffix == ".safetensors" else path.with_name(f"{path.name}.json")


FORMATS = {
    "safetensors": Format(".safetensors", "gtrxl.evaluation.formats.weights:write"),
    "stablehlo": Format(".stablehlo", "gtrxl.evaluation.formats.stablehlo:write", extra="stablehlo", needs="flatbuffers"),
    "torch": Format(".pt2", "gtrxl.torch.export.program:write", extra="torch", needs="torch"),
    "onnx": Format(".onnx", "gtrxl.torch.export.onnx:write", extra="onnx", needs="torch"),
}
"""Name -> format. The first is the one that is written if none is named."""


def format_of(name: str) -> Format:
    """By its name."""
    if name not in FORMATS:
        known = ", ".join(FORMATS)
        raise RunError(f"format must be one of {known}, got {name!r}{names.meant(name, FORMATS) or '; choose one of these'}")
    return FORMATS[name]
