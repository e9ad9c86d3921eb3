"""What a return is worth: the scores of a random policy and of a player with a perfect memory, for every task.

Those of the catalogue are kept in `scores.json`, made by `python benchmarks/scores.py`; others are measured when asked for.
"""

import dataclasses
import functools
import json
from pathlib import Path

import jax
import numpy as np

from gtrxl.envs.catalogue import spell
from gtrxl.envs.contract import Task
from gtrxl.envs.episodes import returns
from gtrxl.envs.players import Player, RandomPlayer, perfect_memory, told

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
        if self.best == self.random:
            return float("nan")
        return 100 * (score - self.random) / (self.best - self.random)


def reference_scores(task: Task) -> Scores:
    """The scores of a task: looked up if it is in the catalogue, else measured once, which takes some seconds."""
    known = load().get(spell(task))
    return _measured(task) if known is None else known


def known_scores(task: Task) -> Scores | None:
    """The scores of a task where they are kept or quickly measured: None of a first-person level with other rules than the
    catalogue's. The size of its picture changes nothing: neither player looks at it."""
    from gtrxl.envs.first_person.level import Level

    if not isinstance(task, Level):
        return reference_scores(task)
    return load().get(spell(dataclasses.replace(task, height=type(task).height, width=type(task).width)))


@functools.cache
def load(path: Path = FILE) -> dict[str, Scores]:
    """The kept scores, by the spelling of their task."""
    if not path.exists():
        return {}
    return {name: Scores(**row) for name, row in json.loads(path.read_text()).items()}


def measure(task: Task, *, episodes: int, seed: int) -> Scores:
    """Plays `episodes` episodes with each player. The seed and the order of the players decide every one of them."""
    random_key, best_key, told_key = jax.random.split(jax.random.key(seed), 3)

    def score(player: Player, key: jax.Array) -> tuple[float, float]:
        found = returns(task, player, key, episodes=episodes).astype(np.float64)
        return float(found.mean()), float(found.std(ddof=1) / np.sqrt(episodes)) if episodes > 1 else float("nan")

    random, random_error = score(RandomPlayer(task), random_key)
    best, best_error = score(perfect_memory(task), best_key)
    insider = told(task)
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
