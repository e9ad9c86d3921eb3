"""Tasks of DeepMind Lab for tests, with small pictures."""

from gtrxl.envs.dmlab import LabTask
from gtrxl.envs.host import HostTask

SMALL = "height=16,width=24"


def task(text: str) -> LabTask:
    """The Lab task of a name."""
    made = HostTask.parse(text)
    assert isinstance(made, LabTask)
    return made
