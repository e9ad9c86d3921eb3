"""The weights alone, as safetensors: what `gtrxl.load_export` makes an agent of again."""

from pathlib import Path
from typing import Any

import numpy as np

import gtrxl
from gtrxl.evaluation.restored import Restored, named


def write(restored: Restored, path: Path) -> dict[str, Any]:
    """Every array by its name."""
    from safetensors.numpy import save_file

    arrays = {name: np.array(array, order="C") for name, array in named(restored.agent).items()}
    save_file(arrays, path, metadata={"format": "numpy", "gtrxl": gtrxl.__version__})
    return {"arrays": {name: {"shape": list(array.shape), "dtype": str(array.dtype)} for name, array in arrays.items()}}
