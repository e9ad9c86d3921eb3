"""Whether a claim of the form 'this model scores above that one' holds in the runs at hand. Needs no JAX.

N runs of a model.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from gtrxl.report.statistics import RESAMPLES, interquartile_mean, probability_of_improvement

ENOUGH = 3
"""Runs of each model, at least; fewer say nothing."""


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Two models, and what their runs say."""

    higher: str
    lower: str
    verdict: Literal["holds", "open", "contradicted", "too few"]
    """`open`: the 95 % interval of the difference of interquartile means has 0 in it."""
    difference: float
    low: float
    high: float
    improvement: float
    """How often a run of the first is better than one of the second."""

    def __str__(self) -> str:
        interval = f"{self.difference:+.3g} [{self.low:+.3g}, {self.high:+.3g}]"
        if self.verdict == "too few":
            return f"{self.higher} above {self.lower}: too few runs"
        told = {"holds": "holds", "open": "cannot be told", "contradicted": "is contradicted"}[self.verdict]
        return f"{self.higher} above {self.lower} {told} ({interval})"


def compare(higher: str, lower: str, scores: Mapping[str, Sequence[float]], *, seed: int = 0) -> Comparison:
    """By resampling the runs of both."""
    ours, theirs = (np.asarray(scores.get(name, ()), np.float64) for name in (higher, lower))
    if min(len(ours), len(theirs)) < ENOUGH:
        return Comparison(higher, lower, "too few", *[float("nan")] * 4)
    generator = np.random.default_rng(seed)
    drawn = [interquartile_mean(generator.choice(values, (RESAMPLES, len(values)))) for values in (ours, theirs)]
    low, high = np.percentile(drawn[0] - drawn[1], [2.5, 97.5])
    verdict = "holds" if low > 0 else "contradicted" if high < 0 else "open"
    difference = float(interquartile_mean(ours) - interquartile_mean(theirs))
    return Comparison(
        higher, lower, verdict, difference, float(low), float(high), probability_of_improvement(ours.tolist(), theirs.tolist())
    )


def sentence(comparisons: Sequence[Comparison]) -> str:
    """In one sentence what holds and what does not."""
    if not comparisons:
        return ""
    parts = {
        "holds": "holds",
        "contradicted": "the other way round",
        "open": "cannot be told from these runs",
        "too few": "too few runs to say",
    }
    said = []
    for verdict, words in parts.items():
        named = [f"{each.higher} above {each.lower}" for each in comparisons if each.verdict == verdict]
        if named:
            said.append(f"{words}: {', '.join(named)}")
    return "; ".join(said)[:1].upper() + "; ".join(said)[1:] + "."
