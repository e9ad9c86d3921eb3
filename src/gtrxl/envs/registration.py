"""The names under which Gymnasium knows the tasks. Needs no JAX: the tasks themselves are imported when one is made.

import gymnasium, gtrxl.envs                                   # importing registers
env = gymnasium.make("gtrxl/Numpad-v0", size=3)
envs = gymnasium.make_vec("gtrxl/GridNumpad-v0", num_envs=1024)
env = gymnasium.make("gtrxl.envs:gtrxl/TMaze-v0")              # the same without the import
"""

import gymnasium

NAMES = {
    "gtrxl/GridNumpad-v0": "grid-numpad",
    "gtrxl/Numpad-v0": "numpad",
    "gtrxl/TMaze-v0": "t-maze",
    "gtrxl/Recall-v0": "recall",
}
"""Gymnasium's name -> the catalogue's. A task's arguments go with `make`: `size=3`, `corridor=100`."""


def register() -> None:
    """Makes the tasks known to Gymnasium; doing it again changes nothing."""
    for name, task in NAMES.items():
        if name not in gymnasium.registry:
            gymnasium.register(
                name,
                entry_point="gtrxl.envs.gymnasium_bridge:TaskEnv",
                vector_entry_point="gtrxl.envs.gymnasium_bridge:TaskVectorEnv",
                kwargs={"task": task},
            )
