"""Contenders timed in turn, so that what else the machine does falls on all of them alike.

A round lets every contender run for one sample; a sample is as many calls as fill a fifth of a second, at least one.
A contender that has spent its budget of seconds sits the remaining rounds out: it then has fewer samples, and says so.
"""

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Contender:
    """`run` does `work` units (steps, frames, bytes, operations) and returns when they are done."""

    name: str
    run: Callable[[], object]
    work: float
    parameters: int | None = None
    same_model: bool = False
    """Whether it computes what ours does: layers, widths, GRU gates, relative positions, memory under today's weights."""
    threads: Callable[[], int | None] = lambda: None
    """On how many threads it ran, if it had a choice."""


@dataclass(frozen=True)
class Result:
    """Units per second, one rate for each sample."""

    contender: Contender
    rates: tuple[float, ...]

    @property
    def rate(self) -> float:
        """The median."""
        return statistics.median(self.rates)

    @property
    def spread(self) -> str:
        """Slowest to fastest."""
        return f"{short(min(self.rates))}..{short(max(self.rates))}"


@dataclass(frozen=True)
class Rules:
    """How long a race is: rounds, the seconds a sample should fill, and each contender's budget of seconds."""

    rounds: int = 7
    sample: float = 0.2
    budget: float = 30.0

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise ValueError(f"repeats must be at least 1, got {self.rounds}; 5 or more give a spread worth reading")


class Progress:
    """One line on stderr: rewritten in a terminal, otherwise a new one every ten seconds."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._last = 0.0

    def __call__(self, text: str) -> None:
        """Says what runs now."""
        now = time.monotonic()
        if self._terminal:
            print(f"\r\x1b[2K{text}", end="", file=sys.stderr, flush=True)
        elif now - self._last > 10:
            print(text, file=sys.stderr, flush=True)
            self._last = now

    def clear(self) -> None:
        """Leaves the line to what is printed next."""
        if self._terminal:
            print("\r\x1b[2K", end="", file=sys.stderr, flush=True)


def race(contenders: Sequence[Contender], *, rules: Rules, label: str, progress: Progress) -> list[Result]:
    """Every contender's samples, in the order given. The first call compiles and warms up, and does not count."""
    calls: dict[str, int] = {}
    spent: dict[str, float] = {}
    rates: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    for contender in contenders:
        progress(f"{label}: {contender.name}, first call")
        first = _seconds(contender, 1)
        # A first call that fills the budget alone is as good a guess as the second, which would cost as much again.
        guess = first if first > rules.budget / 2 else _seconds(contender, 1)
        calls[contender.name] = max(1, round(rules.sample / guess))
        spent[contender.name] = 0.0
    for number in range(rules.rounds):
        for contender in contenders:
            name = contender.name
            if rates[name] and spent[name] + spent[name] / len(rates[name]) > rules.budget:
                continue
            progress(f"{label}: {name}, round {number + 1} of {rules.rounds}")
            seconds = _seconds(contender, calls[name])
            rates[name].append(contender.work * calls[name] / seconds)
            spent[name] += seconds
    progress.clear()
    return [Result(contender, tuple(rates[contender.name])) for contender in contenders]


def _seconds(contender: Contender, calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        contender.run()
    return time.perf_counter() - start


def short(number: float) -> str:
    """Three figures that matter, thousands marked."""
    if number >= 100:
        return f"{number:,.0f}"
    return f"{number:.3g}"


def many(streams: int) -> str:
    """1 stream, 2 streams."""
    return f"{streams} stream{'' if streams == 1 else 's'}"
