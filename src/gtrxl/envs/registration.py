"""The names under which Gymnasium knows the tasks. Needs no JAX: the tasks themselves are imported when one is made.

import gymnasium, gtrxl.envs                                   # importing registers
env = gymnasium.make("gtrxl/Numpad-v0", size=3)
envs = gymnasium.make_vec("gtrxl/GridNumpad-v0", num_envs=1024)
env = gymnasium.make("gtrxl.envs:gtrxl/TMaze-v0")              # the same without the import
env = gymnasium.make("gtrxl/RoomsWatermaze-v0", render_mode="rgb_array", height=24, width=32)
"""

import gymnasium

LEVELS = (
    "memory-maze",
    "rooms_select_nonmatching_object",
    "rooms_watermaze",
    "explore_obstructed_goals_small",
    "explore_obstructed_goals_large",
    "explore_goal_locations_small",
    "explore_goal_locations_large",
    "explore_object_rewards_few",
    "explore_object_rewards_many",
    "rooms_collect_good_objects",
    "explore_object_locations_small",
    "language_select_described_object",
    "psychlab_arbitrary_visuomotor_mapping",
)
"""The first-person tasks of the catalogue. It is not asked here: its tasks need JAX."""


def registered_name(task: str) -> str:
    """Gymnasium's name of a task of the catalogue: `gtrxl/RoomsWatermaze-v0`."""
    words = task.replace("-", "_").split("_")
    return f"gtrxl/{''.join(word.capitalize() for word in words)}-v0"


NAMES = {
    "gtrxl/GridNumpad-v0": "grid-numpad",
    "gtrxl/Numpad-v0": "numpad",
    "gtrxl/TMaze-v0": "t-maze",
    "gtrxl/Recall-v0": "recall",
    **{registered_name(task): task for task in LEVELS},
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
