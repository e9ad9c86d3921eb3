"""What a return is compared with: 0 for a random policy, 100 for the best there is a score of. Needs no JAX."""

import dataclasses
import math


def of_100(score: float, *, random: float, best: float) -> float:
    """A score between the random policy's (0) and the best known (100); not a number where these two are the same."""
    return 100 * (score - random) / (best - random) if best != random else math.nan


@dataclasses.dataclass(frozen=True)
class Scale:
    """The scores that a task's returns are compared with."""

    random: float
    best: float
    best_is: str = "perfect memory"
    """Whose score the best is: "perfect memory", or "human"."""
    memoryless: float | None = None
    """An agent without memory, trained; None where none was."""

    def of_100(self, score: float) -> float:
        """0 for the random policy, 100 for the best."""
        return of_100(score, random=self.random, best=self.best)

    @property
    def lines(self) -> dict[str, float]:
        """The levels to draw beside a curve, by name."""
        named = {self.best_is: self.best, "no memory": self.memoryless, "random": self.random}
        return {name: score for name, score in named.items() if score is not None}
