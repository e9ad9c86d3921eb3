"""What an attack was, what came of it, and what a part of the attacks is."""

import dataclasses
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

Outcome = Literal["same", "whole", "older", "rows", "said", "harmless", "counted", "fault"]
OUTCOMES: dict[Outcome, str] = {
    "same": "as if nothing had happened, to the bit",
    "whole": "finished, no row lost or twice",
    "older": "went on from an older checkpoint, and said so",
    "rows": "damaged rows set aside, and said; the rest the same, to the bit",
    "said": "refused or ended with one clear line",
    "harmless": "nothing imported, nothing wrong",
    "counted": "noticed, named, counted; the run finished",
    "fault": "a fault",
}
"""What can come of an attack. Only the last is not as promised."""
Form = Literal["full", "quick"]


@dataclasses.dataclass(frozen=True)
class Case:
    """One attack, or a chain of them on one run, and what came of it."""

    part: str
    number: int
    did: str
    """What was done to what."""
    outcome: Outcome
    fault: str = ""
    """What was not as promised; empty if all was."""
    attacks: int = 1
    """Signals sent, files damaged."""
    file: str = ""
    """The kind of file that was damaged."""
    seconds: float = 0.0

    def __post_init__(self):
        if (self.outcome == "fault") != bool(self.fault):
            raise ValueError(f"a fault is described and nothing else is, got {self.outcome!r} with {self.fault!r}; give both")


class Part:
    """Attacks of one kind. Number n of a seed is always the same attack, so a run of the script that was killed goes on."""

    name: ClassVar[str]
    about: ClassVar[str]
    """What is done, for the table and the help."""
    counts: ClassVar[dict[Form, int]]
    """How many cases there are, or at the most."""
    batch: ClassVar[int] = 1
    """Cases that are done in one go."""
    alone: ClassVar[bool] = False
    """Whether it needs the machine for itself."""

    @classmethod
    def total(cls, form: Form) -> int:
        """How many cases there are."""
        return cls.counts[form]

    def __init__(self, work: Path, seed: int):
        self.work, self.seed = work / self.name, seed
        self.work.mkdir(parents=True, exist_ok=True)

    def prepare(self) -> None:
        """What the cases compare with; once, before the first of them."""

    def attack(self, numbers: list[int]) -> list[Case]:
        """Does these cases and judges them."""
        raise NotImplementedError

    def random(self, number: int) -> np.random.Generator:
        """The draws of one case."""
        return np.random.default_rng([self.seed, *self.name.encode(), number])
