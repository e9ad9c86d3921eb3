"""The contract as a check of PyTorch modules: `check_core(module)` runs every promise of `gtrxl.torch.cores.contract`.

    from gtrxl.torch import check_core

    def test_my_core():
        check_core(MyCore(...))

A core is any object with `initial_state(batch)`, `step` and `unroll`, the streams first in all that they take and give. Promises,
words and reports are those of `gtrxl.testing.check_core`; use a small core.
"""

from gtrxl.torch.testing.checks import check_core

__all__ = ["check_core"]
