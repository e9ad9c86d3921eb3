"""The contracts as checks: `check_core(core)` runs every promise of `gtrxl.cores.contract` on anyone's core.

B streams, T steps, D_in input width, D_out output width.

    from gtrxl.testing import check_core

    def test_my_core():
        check_core(MyCore(...))

A core is any object with `initial_state, step, unroll`; one without an `input_size` is checked with `check_core(core,
input_size=...)`. What passes can be trained. If it also has `memory` and `layers`, the window is checked: nothing further back
than `layers * memory` steps is seen, that step is.
What fails is told in words, all of it at once, in one `ContractViolation`. Use a small core: a few seconds each.

`check_task(task)` does the same for a compiled task and the promises of `gtrxl.tasks.contract`.
"""

from gtrxl.testing.checks import TOLERANCE, TOLERANCE_BFLOAT16, check_core
from gtrxl.testing.promises import PROMISES, Check, ContractViolation, Report
from gtrxl.testing.tasks import TaskViolation, check_task

__all__ = [
    "PROMISES",
    "TOLERANCE",
    "TOLERANCE_BFLOAT16",
    "Check",
    "ContractViolation",
    "Report",
    "TaskViolation",
    "check_core",
    "check_task",
]
