"""`check_core` for modules: the checks of `gtrxl.testing`, by a probe that runs PyTorch."""

from typing import Any

import numpy as np

from gtrxl.testing.checks import examined
from gtrxl.testing.promises import Report
from gtrxl.torch.testing.probe import TorchProbe


def check_core(
    core: Any,
    *,
    input_size: int | None = None,
    steps: int | None = None,
    seed: int = 0,
    tolerance: float | None = None,
    memoryless: bool = False,
) -> Report:
    """Run the contract on a module: a `Report` of every check when all promises hold, else a `ContractViolation`.

    The arguments are those of `gtrxl.testing.check_core`, with a `seed` in place of a key.
    """
    random = np.random.default_rng(seed)
    return examined(core, TorchProbe, random, input_size=input_size, steps=steps, tolerance=tolerance, memoryless=memoryless)
