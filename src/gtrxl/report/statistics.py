"""What many runs say together: means with standard errors, interquartile means with bootstrap intervals, ranks. Needs no JAX.

N runs, B resamples.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

RESAMPLES = 2000
"""Bootstrap samples behind an interval."""


@dataclasses.dataclass(frozen=True)
class Summary:
    """Of the scores of N runs."""

    count: int
    mean: float
    error: float
    """Standard error of the mean; not a number for one run."""
    iqm: float
    """Mean of the middle half: bad and lucky runs count less than in the mean, and more than in the median."""
    low: float
    high: float
    """The iqm's 95 % interval, by resampling the runs."""


def summary(scores: Sequence[float], *, seed: int = 0) -> Summary:
    """All of it; the seed decides the resampling, so that a report made twice is the same."""
    values = np.asarray(scores, np.float64)
    if not len(values):
        raise ValueError("a summary needs at least one score")
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else float("nan")
    drawn = np.random.default_rng(seed).choice(values, (RESAMPLES, len(values)))
    low, high = np.percentile(interquartile_mean(drawn), [2.5, 97.5])
    return Summary(len(values), float(values.mean()), float(error), float(interquartile_mean(values)), float(low), float(high))


def interquartile_mean(values: np.ndarray) -> np.ndarray | np.floating:
    """The mean of the middle half along the last axis, runs at its edges counted by the part that is inside."""
    ordered = np.sort(values, axis=-1)
    count = ordered.shape[-1]
    edges = np.arange(count + 1) / count
    inside = np.clip(np.minimum(edges[1:], 0.75) - np.maximum(edges[:-1], 0.25), 0.0, None)
    return ordered @ (inside / inside.sum())


def ranked(scores: Sequence[float]) -> list[float]:
    """From the best run to the worst."""
    return sorted(scores, reverse=True)


def probability_of_improvement(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """How often a run of ours is better than one of theirs, taken at random; a tie is half."""
    mine, other = np.asarray(ours)[:, None], np.asarray(theirs)[None]
    return float(np.mean((mine > other) + 0.5 * (mine == other)))
