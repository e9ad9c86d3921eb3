"""Any Gymnasium task by its name: one of Gymnasium's, one that a function makes, a level of DeepMind Lab, or several of them.

This module knows all kinds of them; none of them knows this module.
"""

import re
from typing import Any

from gtrxl.gym.dmlab.levels import LAB, SETS
from gtrxl.gym.dmlab.task import LabTask
from gtrxl.gym.sets import GymSet
from gtrxl.gym.spaces import Previous
from gtrxl.gym.task import ENV, PREFIX, GymTask
from gtrxl.tasks.errors import TaskError

_PREFIXES = (PREFIX, ENV, LAB)
_BETWEEN = re.compile(rf"\+(?=\s*(?:{'|'.join(_PREFIXES)}))")


def is_gym(text: str) -> bool:
    """Whether this names a task that lives on the CPU: one of Gymnasium's, of DeepMind Lab's, or several of them."""
    return text.strip().startswith(_PREFIXES) or _is_set(text)


def parse(text: str, *, mask_velocity: bool = False, previous: Previous = "action") -> GymTask:
    """`gym:ID`, `gym:ID:key=value,key=value` (JSON, or plain text), Gymnasium's own `gym:module:ID`, a function of your own
    `env:package.module.function`, `dmlab:LEVEL`, the name of a set, or several with + between."""
    if not is_gym(text):
        raise TaskError(f"a Gymnasium task is written gym:ID, got {text!r}; for example 'gym:CartPole-v1'")
    shown: dict[str, Any] = {"mask_velocity": mask_velocity, "previous": previous}
    parts = _BETWEEN.split(text.strip())
    if len(parts) > 1:
        return GymSet.together(tuple(parse(part, **shown) for part in parts), **shown)
    if _is_set(text):
        return GymSet.named(text, **shown)
    return (LabTask if text.strip().startswith(LAB) else GymTask).named(text, **shown)


def foreign(text: str) -> tuple[str, ...]:
    """What a task of this name would have us import or call and this process was not given: somebody else's code, which may do
    anything. Nothing is imported to find out. Empty for tasks that are not Gymnasium's."""
    return tuple(dict.fromkeys(place for task in parse(text).tasks for place in task.foreign)) if is_gym(text) else ()


def _is_set(text: str) -> bool:
    return text.partition(":")[0].strip() in SETS
