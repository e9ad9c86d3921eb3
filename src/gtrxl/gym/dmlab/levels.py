"""DMLab-30: the thirty levels by name, which of them need memory, their human and random scores.

The scores are those of google-deepmind/scalable_agent, dmlab30.py at 6c0c8a7; the split is the paper's.
"""

import dataclasses
import types
from collections.abc import Mapping
from typing import Literal

from gtrxl import names
from gtrxl.tasks.catalogue import SETS as OURS
from gtrxl.tasks.errors import TaskError
from gtrxl.tasks.scale import of_100

LAB = "dmlab:"
"""How the name of a task begins that is a level of DeepMind Lab."""
FOLDER = "contributed/dmlab30/"
"""Where DeepMind Lab keeps the thirty."""


@dataclasses.dataclass(frozen=True)
class LabLevel:
    """One of the thirty."""

    name: str
    """The level that is trained on."""
    human: float
    random: float
    memory: bool = False
    """In the paper's memory split; the others are its reactive split."""

    @property
    def test(self) -> str:
        """The level that is scored: another one where training has a level of its own."""
        return self.name.removesuffix("_train") + "_test" if self.name.endswith("_train") else self.name

    def normalised(self, score: float) -> float:
        """0 at the random policy, 100 at a human."""
        return of_100(score, random=self.random, best=self.human)


_ALL = (
    LabLevel("rooms_collect_good_objects_train", 10.0, 0.073),
    LabLevel("rooms_exploit_deferred_effects_train", 85.65, 8.501),
    LabLevel("rooms_select_nonmatching_object", 65.9, 0.312, memory=True),
    LabLevel("rooms_watermaze", 54.0, 4.065, memory=True),
    LabLevel("rooms_keys_doors_puzzle", 53.8, 4.135),
    LabLevel("language_select_described_object", 389.5, -0.07),
    LabLevel("language_select_located_object", 280.7, 1.929),
    LabLevel("language_execute_random_task", 254.05, -5.913),
    LabLevel("language_answer_quantitative_question", 184.5, -0.33),
    LabLevel("lasertag_one_opponent_small", 12.65, -0.224),
    LabLevel("lasertag_three_opponents_small", 18.55, -0.214),
    LabLevel("lasertag_one_opponent_large", 18.6, -0.083),
    LabLevel("lasertag_three_opponents_large", 31.5, -0.102),
    LabLevel("natlab_fixed_large_map", 36.9, 2.173),
    LabLevel("natlab_varying_map_regrowth", 24.45, 2.989),
    LabLevel("natlab_varying_map_randomized", 42.35, 7.346),
    LabLevel("skymaze_irreversible_path_hard", 100.0, 0.1),
    LabLevel("skymaze_irreversible_path_varied", 100.0, 14.4),
    LabLevel("psychlab_arbitrary_visuomotor_mapping", 58.75, 0.163),
    LabLevel("psychlab_continuous_recognition", 58.3, 0.224),
    LabLevel("psychlab_sequential_comparison", 39.5, 0.129),
    LabLevel("psychlab_visual_search", 78.5, 0.085),
    LabLevel("explore_object_locations_small", 74.45, 3.575),
    LabLevel("explore_object_locations_large", 65.65, 4.673),
    LabLevel("explore_obstructed_goals_small", 206.0, 6.76, memory=True),
    LabLevel("explore_obstructed_goals_large", 119.5, 2.61, memory=True),
    LabLevel("explore_goal_locations_small", 267.5, 7.66, memory=True),
    LabLevel("explore_goal_locations_large", 194.5, 3.14, memory=True),
    LabLevel("explore_object_rewards_few", 77.7, 2.073, memory=True),
    LabLevel("explore_object_rewards_many", 106.7, 2.438, memory=True),
)

LEVELS: Mapping[str, LabLevel] = types.MappingProxyType({level.name: level for level in _ALL})
"""The thirty, by the name of the level that is trained on."""

SETS: Mapping[str, tuple[str, ...]] = types.MappingProxyType(
    {
        "dmlab30": tuple(LEVELS),
        "dmlab30-memory": tuple(name for name, level in LEVELS.items() if level.memory),
        "dmlab30-reactive": tuple(name for name, level in LEVELS.items() if not level.memory),
    }
)
"""Levels that are learned together, by the name of the set."""
ABOUT: Mapping[str, str] = types.MappingProxyType(
    {
        "dmlab30": "DeepMind Lab's own thirty levels, where its module is installed (docs/dmlab.md)",
        "dmlab30-memory": "those that need memory",
        "dmlab30-reactive": "the others",
    }
)
"""What each set is, in a line."""

MAPPING = "psychlab_arbitrary_visuomotor_mapping"
"""The level with a reduced action set of its own."""
WANT_DATA = (MAPPING, "psychlab_continuous_recognition")
"""The levels that show pictures of a dataset."""

OTHERS = (
    *("lt_chasm", "lt_hallway_slope", "lt_horseshoe_color", "lt_space_bounce_hard"),
    *(f"nav_maze_{kind}_0{number}" for kind in ("random_goal", "static") for number in (1, 2, 3)),
    *("seekavoid_arena_01", "stairway_to_melon"),
)
"""Levels that Lab keeps beside its folders; any other is named with its folder."""

EMBEDDED = tuple(member.partition(":")[0] for member in OURS["lab30"])
"""The levels that this package re-creates in a world of its own."""


def short(level: str) -> str:
    """One name for a level: those of the thirty without their folder, and where training has a level of its own, that one."""
    name = level.removeprefix(FOLDER)
    return f"{name}_train" if f"{name}_train" in LEVELS else name if _is_ours(name) else level


def path(name: str) -> str:
    """What DeepMind Lab calls it."""
    return FOLDER + name if _is_ours(name) else name


def level_of(name: str) -> LabLevel | None:
    """The level that this name trains on or is scored on; None if it is not of the thirty."""
    return LEVELS.get(name) or LEVELS.get(name.removesuffix("_test") + "_train")


def check(name: str) -> None:
    """Raises for a name that no Lab can know. A path is taken at its word, unless it leads to where the thirty are."""
    inside = name.removeprefix(FOLDER)
    if level_of(inside) is not None or name in OTHERS or ("/" in name.replace("\\", "/") and name == inside):
        return
    known = [*LEVELS, *(level.test for level in _ALL), *OTHERS]
    raise TaskError(
        f"a level must be one of DMLab-30's or named with its folder, got {LAB}{name}{names.meant(inside, known) or ';'} "
        f"the thirty are in docs/dmlab.md, another level of your Lab is {LAB}FOLDER/NAME"
    )


def split_of(task: str) -> Literal["memory", "reactive"] | None:
    """The paper's split of the level that a task plays, in DeepMind Lab or in this package; None for other tasks."""
    level = level_of(task.removeprefix(LAB).partition(":")[0])
    return None if level is None else "memory" if level.memory else "reactive"


def instead(name: str) -> str:
    """The task of this package that comes nearest to a level or a set of them."""
    level = level_of(name)
    plain = name.removesuffix("_train").removesuffix("_test")
    if plain in EMBEDDED:
        return plain
    if name in SETS:
        return {"dmlab30": "lab30"}.get(name, name.replace("dmlab30", "lab"))
    return "lab-memory" if level is None or level.memory else "lab-reactive"


def _is_ours(name: str) -> bool:
    return level_of(name) is not None
