"""What a return is worth: the scores of a random policy and of a player with a perfect memory, for every task.

Those of the catalogue are kept in `scores.json`, made by `python benchmarks/scores.py`; others are measured when asked for.
"""

import dataclasses
import functools
import json
from pathlib import Path

import jax
import numpy as np

from gtrxl.tasks.contract import Task
from gtrxl.tasks.episodes import returns
from gtrxl.tasks.making import spell
from gtrxl.tasks.players.player import Player
from gtrxl.tasks.players.scripted import RandomPlayer, perfect_memory
from gtrxl.tasks.scale import Scale, of_100

FILE = Path(__file__).with_name("scores.json")
"""The scores of the catalogue's tasks."""

EPISODES = 1024
"""How many are played of a task that is not in the file."""


@dataclasses.dataclass(frozen=True)
class Scores:
    """Mean returns of a task's reference players. An `_error` is the standard error of the mean before it."""

    random: float
    """Every action as likely as every other."""
    random_error: float
    best: float
    """The scripted player with a perfect memory: it knows the rules, not the secret."""
    best_error: float
    told: float | None
    """The same player, told the hidden sequence at the start; None where there is nothing to find out."""
    told_error: float | None
    episodes: int
    """How many each of them played."""
    seed: int
    memoryless: float | None = None
    """An agent without memory, trained; None where none was."""

    def normalised(self, score: float) -> float:
        """0 at the random policy, 100 at the player with a perfect memory; not a number where these two score the same."""
        return of_100(score, random=self.random, best=self.best)


def reference_scores(task: Task) -> Scores:
    """The scores of a task: looked up if it is in the catalogue, else measured once, which takes some seconds."""
    known = load().get(spell(task))
    return _measured(task) if known is None else known


def known_scores(task: Task) -> Scores | None:
    """The scores of a task where they are kept or quickly measured: None of a first-person level with other rules than the
    catalogue's, and of a task that nobody has written a player for."""
    kept = load().get(spell(task.scored_as()))
    if kept is not None:
        return kept
    return _measured(task) if task.quickly_scored and task.player() is not None else None


def scale_of(task: Task) -> Scale | None:
    """The scores that a task's returns are compared with: its own, those that are kept, or quickly measured ones; None if nobody
    knows any."""
    if (own := task.scale()) is not None:
        return own
    known = known_scores(task)
    return None if known is None else Scale(random=known.random, best=known.best, memoryless=known.memoryless)


@functools.cache
def load(path: Path = FILE) -> dict[str, Scores]:
    """The kept scores, by the spelling of their task."""
    if not path.exists():
        return {}
    return {name: Scores(**row) for name, row in json.loads(path.read_text("utf-8")).items()}


def measure(task: Task, *, episodes: int, seed: int) -> Scores:
    """Plays `episodes` episodes with each player. The seed and the order of the players decide every one of them."""
    random_key, best_key, told_key = jax.random.split(jax.random.key(seed), 3)

    def score(player: Player, key: jax.Array) -> tuple[float, float]:
        found = returns(task, player, key, episodes=episodes).astype(np.float64)
        return float(found.mean()), float(found.std(ddof=1) / np.sqrt(episodes)) if episodes > 1 else float("nan")

    random, random_error = score(RandomPlayer(task), random_key)
    best, best_error = score(perfect_memory(task), best_key)
    insider = task.told_player()
    known, known_error = (None, None) if insider is None else score(insider, told_key)
    return Scores(
        random=random,
        random_error=random_error,
        best=best,
        best_error=best_error,
        told=known,
        told_error=known_error,
        episodes=episodes,
        seed=seed,
    )


@functools.cache
def _measured(task: Task) -> Scores:
    return measure(task, episodes=EPISODES, seed=0)
