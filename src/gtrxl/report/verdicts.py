"""Whether a claim of the form 'this model scores above that one' holds in the runs at hand. Needs no JAX.

N runs of a model.
"""

import dataclasses
import math
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
    difference: float = math.nan
    low: float = math.nan
    high: float = math.nan
    improvement: float = math.nan
    """How often a run of the first is better than one of the second; not a number of shares."""
    relation: str = "above"
    where: str = ""
    """On which of several tasks."""

    @property
    def claim(self) -> str:
        """What would hold."""
        return f"{self.higher} {self.relation} {self.lower}" + (f" on {self.where}" if self.where else "")

    @property
    def finding(self) -> str:
        """What the runs show; the claim itself where they cannot tell."""
        turned = dataclasses.replace(self, higher=self.lower, lower=self.higher)
        return turned.claim if self.verdict == "contradicted" else self.claim

    def __str__(self) -> str:
        if self.verdict == "too few":
            return f"{self.claim}: too few runs"
        told = {"holds": "holds", "open": "cannot be told", "contradicted": "is contradicted"}[self.verdict]
        interval = f"{self.difference:+.3g} [{self.low:+.3g}, {self.high:+.3g}]"
        wins = "" if math.isnan(self.improvement) else f"; in {self.improvement:.0%} of all pairs the first is better"
        return f"{self.claim}: {told} (difference {interval}{wins})"


def compare(higher: str, lower: str, scores: Mapping[str, Sequence[float]], *, where: str = "", seed: int = 0) -> Comparison:
    """By resampling the runs of both."""
    ours, theirs = (np.asarray(scores.get(name, ()), np.float64) for name in (higher, lower))
    if min(len(ours), len(theirs)) < ENOUGH:
        return Comparison(higher, lower, "too few", where=where)
    generator = np.random.default_rng(seed)
    drawn = [interquartile_mean(generator.choice(values, (RESAMPLES, len(values)))) for values in (ours, theirs)]
    low, high = np.percentile(drawn[0] - drawn[1], [2.5, 97.5])
    difference = float(interquartile_mean(ours) - interquartile_mean(theirs))
    improvement = probability_of_improvement(ours.tolist(), theirs.tolist())
    return Comparison(higher, lower, _verdict(low, high), difference, float(low), float(high), improvement, where=where)


def compare_shares(higher: str, lower: str, flags: Mapping[str, Sequence[bool]], *, relation: str) -> Comparison:
    """Of runs of which something is true or not: Newcombe's interval of the difference of two shares.

    An interquartile mean would not see what happens to fewer than a quarter of the runs, and resampling nothing but noes would
    be too sure of itself.
    """
    ours, theirs = (flags.get(name, ()) for name in (higher, lower))
    if min(len(ours), len(theirs)) < ENOUGH:
        return Comparison(higher, lower, "too few", relation=relation)
    (p, p_low, p_high), (q, q_low, q_high) = _wilson(ours), _wilson(theirs)
    low, high = p - q - math.hypot(p - p_low, q_high - q), p - q + math.hypot(p_high - p, q - q_low)
    return Comparison(higher, lower, _verdict(low, high), p - q, low, high, relation=relation)


def _verdict(low: float, high: float) -> Literal["holds", "open", "contradicted"]:
    return "holds" if low > 0 else "contradicted" if high < 0 else "open"


def _wilson(flags: Sequence[bool]) -> tuple[float, float, float]:
    """A share and Wilson's 95 % interval of it."""
    count, share, z = len(flags), sum(flags) / len(flags), 1.959964
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / (1 + z * z / count)
    return share, middle - half, middle + half


def sentence(comparisons: Sequence[Comparison]) -> str:
    """In a sentence each, what holds and what does not. Of a claim that is contradicted, what is true instead is said: the claim
    in its own words could be taken for a finding."""
    if not comparisons:
        return ""
    parts = {
        "holds": "Holds",
        "contradicted": "The opposite of the claim holds",
        "open": "Cannot be told from these runs",
        "too few": "Too few runs to say",
    }
    said = []
    for verdict, words in parts.items():
        named = [each.finding for each in comparisons if each.verdict == verdict]
        if named:
            said.append(f"{words}: {'; '.join(named)}.")
    return " ".join(said)
