"""The names under which Gymnasium knows the tasks. Needs no JAX: the tasks themselves are imported when one is made.

    import gymnasium, gtrxl                                        # importing registers
    env = gymnasium.make("gtrxl/Numpad-v0", size=3)
    envs = gymnasium.make_vec("gtrxl/GridNumpad-v0", num_envs=1024)
    env = gymnasium.make("gtrxl:gtrxl/TMaze-v0")                   # the same without the import
    env = gymnasium.make("gtrxl/RoomsWatermaze-v0", render_mode="rgb_array", height=24, width=32)

Gymnasium looks for no plugins since 1.0: a package that nobody imports or names before a colon is not found, whatever entry
points it declares.
"""

import gymnasium

from gtrxl.tasks.catalogue import TASKS


def registered_name(task: str) -> str:
    """Gymnasium's name of a task of the catalogue: `gtrxl/RoomsWatermaze-v0`."""
    words = task.replace("-", "_").split("_")
    return f"gtrxl/{''.join(word.capitalize() for word in words)}-v0"


def _by_kind() -> list[str]:
    """The tasks of the catalogue that have an id, those of one class together."""
    kinds = list(dict.fromkeys(entry.kind for entry in TASKS.values()))
    return sorted((name for name, entry in TASKS.items() if entry.gym), key=lambda name: kinds.index(TASKS[name].kind))


LEVELS = tuple(name for name in _by_kind() if TASKS[name].first_person)
"""The first-person tasks of the catalogue."""
NAMES = {registered_name(task): task for name in _by_kind() if (task := TASKS[name].gym)}
"""Gymnasium's name -> the catalogue's. A task's arguments go with `make`: `size=3`, `corridor=100`."""


def register() -> None:
    """Makes the tasks known to Gymnasium; doing it again changes nothing."""
    for name, task in NAMES.items():
        if name not in gymnasium.registry:
            gymnasium.register(
                name,
                entry_point="gtrxl.gym.bridge:TaskEnv",
                vector_entry_point="gtrxl.gym.bridge:TaskVectorEnv",
                kwargs={"task": task},
            )
