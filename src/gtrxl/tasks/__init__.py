"""Tasks that need memory, written for compiled loops: Numpad, Grid Numpad, a T-maze and delayed recall, behind one contract."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gtrxl.tasks.catalogue import TASKS
    from gtrxl.tasks.contract import Step, Task
    from gtrxl.tasks.drawing.pictures import episode_gif, frame
    from gtrxl.tasks.errors import TaskError
    from gtrxl.tasks.making import make_task, spell
    from gtrxl.tasks.numpad.grid import GridNumpad
    from gtrxl.tasks.numpad.numpad import Numpad
    from gtrxl.tasks.players.scripted import perfect_memory
    from gtrxl.tasks.recall import Recall
    from gtrxl.tasks.scores import Scores, reference_scores
    from gtrxl.tasks.t_maze import TMaze

_HOMES = {
    "TASKS": "catalogue",
    "GridNumpad": "numpad.grid",
    "Numpad": "numpad.numpad",
    "Recall": "recall",
    "Scores": "scores",
    "Step": "contract",
    "TMaze": "t_maze",
    "Task": "contract",
    "TaskError": "errors",
    "episode_gif": "drawing.pictures",
    "frame": "drawing.pictures",
    "make_task": "making",
    "perfect_memory": "players.scripted",
    "reference_scores": "scores",
    "spell": "making",
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
    "TaskError",
    "episode_gif",
    "frame",
    "make_task",
    "perfect_memory",
    "reference_scores",
    "spell",
]


def __getattr__(name: str) -> Any:
    """Public names are imported when they are first used, so that the names of the tasks do not wait for JAX."""
    if name in _HOMES:
        return getattr(importlib.import_module(f"gtrxl.tasks.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'gtrxl.tasks' has no attribute {name!r}")
