"""Tasks that need memory, written for compiled loops: Numpad, Grid Numpad, a T-maze and delayed recall, behind one contract.

Importing this makes them known to Gymnasium, and costs no more than Gymnasium does.
"""

import importlib
from typing import TYPE_CHECKING, Any

from gtrxl.envs.registration import register

if TYPE_CHECKING:
    from gtrxl.envs.catalogue import TASKS, make_task, spell
    from gtrxl.envs.contract import Step, Task
    from gtrxl.envs.errors import TaskError
    from gtrxl.envs.grid_numpad import GridNumpad
    from gtrxl.envs.gymnasium_bridge import TaskEnv, TaskVectorEnv
    from gtrxl.envs.numpad import Numpad
    from gtrxl.envs.pictures import episode_gif, frame
    from gtrxl.envs.players import perfect_memory
    from gtrxl.envs.recall import Recall
    from gtrxl.envs.scores import Scores, reference_scores
    from gtrxl.envs.t_maze import TMaze

_HOMES = {
    "TASKS": "catalogue",
    "GridNumpad": "grid_numpad",
    "Numpad": "numpad",
    "Recall": "recall",
    "Scores": "scores",
    "Step": "contract",
    "TMaze": "t_maze",
    "Task": "contract",
    "TaskEnv": "gymnasium_bridge",
    "TaskError": "errors",
    "TaskVectorEnv": "gymnasium_bridge",
    "episode_gif": "pictures",
    "frame": "pictures",
    "make_task": "catalogue",
    "perfect_memory": "players",
    "reference_scores": "scores",
    "spell": "catalogue",
}

__all__ = [
    "TASKS",
    "GridNumpad",
    "Numpad",
    "Recall",
    "Scores",
    "Step",
    "TMaze",
    "Task",
    "TaskEnv",
    "TaskError",
    "TaskVectorEnv",
    "episode_gif",
    "frame",
    "make_task",
    "perfect_memory",
    "reference_scores",
    "register",
    "spell",
]

register()


def __getattr__(name: str) -> Any:
    """Public names are imported when they are first used, so that registering does not wait for JAX."""
    if name in _HOMES:
        return getattr(importlib.import_module(f"gtrxl.envs.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'gtrxl.envs' has no attribute {name!r}")
