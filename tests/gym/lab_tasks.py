"""Tasks of DeepMind Lab for tests, with small pictures."""

from gtrxl.gym.by_name import parse
from gtrxl.gym.dmlab.task import LabTask

SMALL = "height=16,width=24"


def task(text: str) -> LabTask:
    """The Lab task of a name."""
    made = parse(text)
    assert isinstance(made, LabTask)
    return made
