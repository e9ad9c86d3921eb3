"""Scores on DMLab-30 as the literature gives them: in per cent of a human, averaged over levels.

A level's score is 0 for the random policy and 100 for a human. `mean` averages them, `capped` counts none as more than 100.
"""

import dataclasses
import math
from collections.abc import Mapping

from gtrxl.gym.dmlab.levels import LEVELS, SETS, level_of
from gtrxl.tasks.errors import TaskError

SPLITS: Mapping[str, str] = {"all": "dmlab30", "memory": "dmlab30-memory", "reactive": "dmlab30-reactive"}
"""What is averaged over, and the set that it is."""


@dataclasses.dataclass(frozen=True)
class HumanScore:
    """The average over some levels."""

    mean: float
    capped: float
    levels: int
    """How many."""


def normalised(level: str, score: float) -> float:
    """A return of one of the thirty in per cent of a human; `level` is the one trained on, or the one scored on."""
    known = level_of(level)
    if known is None:
        raise TaskError(f"level must be one of the thirty of DMLab-30, got {level!r}; the first is {next(iter(LEVELS))!r}")
    if not math.isfinite(score):
        raise TaskError(f"a score must be finite, got {score} for {level}; it is the mean return of whole episodes")
    return known.normalised(score)


def average(scores: Mapping[str, float]) -> HumanScore:
    """Mean returns by level -> their averages. Every level counts once, so a level and its test level cannot both be there."""
    names = [known.name for name in scores if (known := level_of(name)) is not None]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise TaskError(f"a level counts once, got both the training and the test level of {min(twice)!r}; leave one out")
    if not scores:
        raise TaskError("an average needs at least one level, got none; give mean returns by level")
    each = [normalised(level, score) for level, score in scores.items()]
    return HumanScore(
        mean=math.fsum(each) / len(each), capped=math.fsum(min(score, 100.0) for score in each) / len(each), levels=len(each)
    )


def splits(scores: Mapping[str, float]) -> dict[str, HumanScore]:
    """The averages over all thirty, over the memory split and over the reactive one: those of them whose levels are all there."""
    by_level = {known.name: score for level, score in scores.items() if (known := level_of(level)) is not None}
    whole = {name: SETS[of] for name, of in SPLITS.items() if set(SETS[of]) <= set(by_level)}
    return {name: average({level: by_level[level] for level in levels}) for name, levels in whole.items()}
