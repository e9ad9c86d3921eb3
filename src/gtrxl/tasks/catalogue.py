"""Every task and every set of tasks that has a name. This is the only place where one is entered: the sets, the ids that
Gymnasium knows and what `gtrxl tasks` prints are derived from here. Needs no JAX: a task's module is imported when one is made.

To add a level, write its file and one line here.
"""

import types
from collections.abc import Mapping
from typing import NamedTuple

_NOTHING: Mapping[str, int] = types.MappingProxyType({})


class TaskEntry(NamedTuple):
    """A task of the catalogue."""

    module: str
    """Where its class is, in `gtrxl.tasks`."""
    kind: str
    """The class."""
    about: str
    """What it is, in a line."""
    arguments: Mapping[str, int] = _NOTHING
    """What this name fixes."""
    also: str | None = None
    """A second name."""
    gym: str | None = None
    """The name that its id in Gymnasium is made of; None for those that are another id with an argument."""
    sets: tuple[str, ...] = ()
    """The sets that it belongs to, in the order of this catalogue."""
    in_sets: Mapping[str, int] = _NOTHING
    """What is fixed besides there: all tasks of a set must take the same actions."""

    @property
    def first_person(self) -> bool:
        """Whether it is a level that is seen through the agent's eyes."""
        return self.module.startswith("first_person.")

    @property
    def home(self) -> str:
        """Its module's full name."""
        return f"gtrxl.tasks.{self.module}"


def _fixed(arguments: dict[str, int]) -> Mapping[str, int]:
    return types.MappingProxyType(arguments)


def _grid(about: str, *, also: str | None = None, gym: str | None = None, **arguments: int) -> TaskEntry:
    return TaskEntry("numpad.grid", "GridNumpad", about, _fixed(arguments), also=also, gym=gym)


def _sphere(about: str, *, also: str | None = None, gym: str | None = None, **arguments: int) -> TaskEntry:
    return TaskEntry("numpad.numpad", "Numpad", about, _fixed(arguments), also=also, gym=gym)


def _level(
    place: str, about: str, *, sets: tuple[str, ...], in_sets: Mapping[str, int] = _NOTHING, **arguments: int
) -> TaskEntry:
    module, kind = place.split(":")
    return TaskEntry(f"first_person.levels.{module}", kind, about, _fixed(arguments), sets=sets, in_sets=in_sets)


_MEMORY, _REACTIVE = ("lab-memory", "lab12", "lab30"), ("lab-reactive", "lab12", "lab30")
_LATER = ("lab-reactive", "lab30")
"""Levels of the reactive split that lab12 was without."""

_TASKS = {
    "grid-numpad": _grid(
        "find and repeat a hidden path over 2 x 2 pads, a move a step",
        also="grid-numpad-2x2",
        gym="grid-numpad",
        size=2,
        episode_steps=50,
    ),
    "grid-numpad-3x3": _grid("the same over 3 x 3 pads, 100 steps", size=3, episode_steps=100),
    "grid-numpad-4x4": _grid("the same over 4 x 4 pads, 200 steps", size=4, episode_steps=200),
    "numpad-2x2": _sphere(
        "the paper's: a sphere that rolls and jumps over 2 x 2 pads, 500 steps", also="numpad", gym="numpad", size=2
    ),
    "numpad-3x3": _sphere("the same over 3 x 3 pads", size=3),
    "numpad-4x4": _sphere("the same over 4 x 4 pads", size=4),
    "t-maze": TaskEntry("t_maze", "TMaze", "keep one sign along a corridor, then turn as it said", gym="t-maze"),
    "recall": TaskEntry("recall", "Recall", "keep several cards for a while, then name those asked for", gym="recall"),
    "passive-t-maze": TaskEntry(
        "others.passive_t_maze", "PassiveTMaze", "the T-maze of Ni et al.: walk on without delay, then turn", gym="passive-t-maze"
    ),
    "repeat-previous": TaskEntry(
        "others.repeat", "RepeatPrevious", "POPGym's: name the suit of k - 1 cards ago, at every step", gym="repeat-previous"
    ),
    "repeat-first": TaskEntry("others.repeat", "RepeatFirst", "POPGym's: name the suit of the first card", gym="repeat-first"),
    "autoencode": TaskEntry("others.autoencode", "Autoencode", "POPGym's: watch a deck, name it backwards", gym="autoencode"),
    "count-recall": TaskEntry(
        "others.counting", "CountRecall", "POPGym's: how many of a kind were dealt so far", gym="count-recall"
    ),
    "higher-lower": TaskEntry("others.counting", "HigherLower", "POPGym's: guess the next card's rank", gym="higher-lower"),
    "minigrid-memory": TaskEntry(
        "others.minigrid_memory",
        "MiniGridMemory",
        "MiniGrid's: look at an object, then find it at the end of a hallway",
        gym="minigrid-memory",
    ),
    "noisy-cart-pole": TaskEntry(
        "others.cart_pole", "NoisyCartPole", "POPGym's: balance a pole seen through noise", gym="noisy-cart-pole"
    ),
}

_LEVELS = {
    "memory-maze": _level("memory_maze:MemoryMaze", "the paper's: find back to an apple among blocks, by landmarks", sets=()),
    "rooms_select_nonmatching_object": _level(
        "rooms.nonmatching:SelectNonmatching", "see an object in one room, take the other one in the next", sets=_MEMORY
    ),
    "rooms_watermaze": _level(
        "rooms.watermaze:Watermaze", "find a hidden platform in a round pool, and find it again", sets=_MEMORY
    ),
    "explore_obstructed_goals_small": _level(
        "explore.mazes:ObstructedGoals",
        "find back to a flag in a maze with 4 rooms, and doors that open or close each time",
        sets=_MEMORY,
    ),
    "explore_goal_locations_small": _level(
        "explore.mazes:GoalLocations", "find back to a flag in a maze with 4 rooms", sets=_MEMORY
    ),
    "explore_object_rewards_few": _level(
        "explore.object_rewards:ObjectRewards", "find out which of 4 categories pay, and take them", sets=_MEMORY
    ),
    "explore_obstructed_goals_large": _level(
        "explore.mazes:ObstructedGoals",
        "find back to a flag in a maze with 9 rooms, and doors that open or close each time",
        sets=_MEMORY,
        size=17,
        episode_steps=1800,
    ),
    "explore_goal_locations_large": _level(
        "explore.mazes:GoalLocations",
        "find back to a flag in a maze with 9 rooms",
        sets=_MEMORY,
        size=17,
        episode_steps=1800,
    ),
    "explore_object_rewards_many": _level(
        "explore.object_rewards:ObjectRewards",
        "find out which of 8 categories pay, and take them",
        sets=_MEMORY,
        objects=16,
        categories=8,
        episode_steps=1800,
    ),
    "rooms_collect_good_objects": _level(
        "rooms.collect:CollectGood", "take what is good, leave what is bad, in any room", sets=_REACTIVE
    ),
    "explore_object_locations_small": _level(
        "explore.mazes:ObjectLocations", "gather the apples of a maze with 4 rooms, again and again", sets=_REACTIVE
    ),
    "language_select_described_object": _level(
        "language.described:DescribedObject", "take what the instruction names", sets=_REACTIVE
    ),
    "psychlab_arbitrary_visuomotor_mapping": _level(
        "psychlab.visuomotor:VisuomotorMapping",
        "learn which of four buttons belongs to which image",
        sets=_REACTIVE,
        in_sets={"reduced": 0},  # alone it has five actions; in a set it must take what the others take
    ),
    "psychlab_continuous_recognition": _level(
        "psychlab.recognition:ContinuousRecognition", "say of every picture whether it was shown before", sets=_LATER
    ),
    "psychlab_sequential_comparison": _level(
        "psychlab.comparison:SequentialComparison", "see objects, and after a while whether one of them has changed", sets=_LATER
    ),
    "psychlab_visual_search": _level(
        "psychlab.search:VisualSearch", "say whether there is a magenta T among many shapes", sets=_LATER
    ),
    "rooms_exploit_deferred_effects": _level(
        "rooms.deferred:DeferredEffects", "take a loss that opens the way to more, if there is a door", sets=_LATER
    ),
    "rooms_keys_doors_puzzle": _level(
        "rooms.keys_doors:KeysDoorsPuzzle",
        "open doors with keys in the order that leads to the goal",
        sets=_LATER,
    ),
    "language_select_located_object": _level(
        "language.located:LocatedObject", "take the object of a colour in the room of a colour", sets=_LATER
    ),
    "language_execute_random_task": _level(
        "language.random_task:RandomTask", "do what one of fourteen kinds of instructions says", sets=_LATER
    ),
    "language_answer_quantitative_question": _level(
        "language.quantitative:QuantitativeQuestion", "say yes or no to a question about four objects", sets=_LATER
    ),
    "explore_object_locations_large": _level(
        "explore.mazes:ObjectLocations",
        "gather the apples of a maze with 9 rooms, again and again",
        sets=_LATER,
        size=17,
        episode_steps=1800,
    ),
    "skymaze_irreversible_path_hard": _level(
        "skymaze.irreversible:IrreversiblePath",
        "go down from platform to platform to the flag; no step leads back up",
        sets=_LATER,
    ),
    "skymaze_irreversible_path_varied": _level(
        "skymaze.irreversible:IrreversiblePath",
        "go down from platform to platform to the flag, in easy mazes and in hard ones",
        sets=_LATER,
        least=0,
        most=100,
    ),
    "lasertag_one_opponent_small": _level("lasertag.tag:LaserTag", "tag an opponent that shoots back, in a maze", sets=_LATER),
    "lasertag_three_opponents_small": _level(
        "lasertag.tag:LaserTag", "tag three opponents that shoot back, in a maze", sets=_LATER, opponents=3
    ),
    "lasertag_one_opponent_large": _level(
        "lasertag.tag:LaserTag", "tag an opponent that shoots back, in a larger maze", sets=_LATER, size=21
    ),
    "lasertag_three_opponents_large": _level(
        "lasertag.tag:LaserTag", "tag three opponents that shoot back, in a larger maze", sets=_LATER, size=21, opponents=3
    ),
    "natlab_fixed_large_map": _level(
        "natlab.forage:Forage",
        "gather mushrooms in a large country that is always the same",
        sets=_LATER,
        side=36,
        least=100,
        most=100,
        obstacles=100,
        regrow=0,
        fixed=1,
    ),
    "natlab_varying_map_regrowth": _level(
        "natlab.forage:Forage", "gather mushrooms that grow again, in one of 100 countries", sets=_LATER
    ),
    "natlab_varying_map_randomized": _level(
        "natlab.forage:Forage", "gather mushrooms in one of 100 countries", sets=_LATER, least=11, most=72, regrow=0
    ),
}
"""The first-person levels. The order within a set is this one, and a run's streams are shared out by it: keep it, and add levels
at the end."""

TASKS: Mapping[str, TaskEntry] = types.MappingProxyType(
    {**_TASKS, **{name: entry._replace(gym=name) for name, entry in _LEVELS.items()}}
)
"""Every task there is a name for."""

ALIASES: Mapping[str, str] = types.MappingProxyType({entry.also: name for name, entry in TASKS.items() if entry.also})
"""Second names."""

ABOUT: Mapping[str, str] = types.MappingProxyType(
    {
        "lab-memory": "the paper's memory split of DMLab-30: the eight levels that need memory, re-created here",
        "lab-reactive": "its reactive split: the other twenty-two",
        "lab12": "the memory split and four of the reactive one",
        "lab30": "all thirty levels of DMLab-30, re-created here",
    }
)
"""The sets that have a name, and what each is."""


def _member(name: str, entry: TaskEntry) -> str:
    return name + (":" + ",".join(f"{key}={value}" for key, value in entry.in_sets.items()) if entry.in_sets else "")


SETS: Mapping[str, tuple[str, ...]] = types.MappingProxyType(
    {each: tuple(_member(name, entry) for name, entry in TASKS.items() if each in entry.sets) for each in ABOUT}
)
"""What each set is made of."""
