"""Measures what every task of the catalogue is worth, and keeps it in `src/gtrxl/tasks/scores.json`.

    python benchmarks/scores.py                          # all tasks; some minutes on 2 cores
    python benchmarks/scores.py --tasks t-maze recall    # these alone; the others keep theirs

The score of a trained agent without memory is not measured here; where the file has one it stays.
"""

import dataclasses
import json
import sys
import time
from pathlib import Path

import tyro
from rich.console import Console
from rich.table import Table

from gtrxl.tasks import TASKS, make_task
from gtrxl.tasks.scores import FILE, load, measure
from gtrxl.tasks.sets import VARIANTS


@dataclasses.dataclass(frozen=True)
class Args:
    """Scores of the random policy, of the player with a perfect memory, and of the one that is told the secret."""

    tasks: tuple[str, ...] = (*TASKS, *VARIANTS)
    """Names in the catalogue, and members of its sets."""
    episodes: int = 16_384
    """Episodes for each player."""
    first_person_episodes: int = 64
    """The same for tasks that are seen: theirs have a thousand steps and more."""
    seed: int = 0
    """Decides every episode."""
    out: Path = FILE
    """Where the scores are kept."""


def main(args: Args) -> None:
    """Measures, prints, writes."""
    table = Table(title="mean return ± standard error", title_justify="left")
    for column in ("task", "random", "perfect memory", "told", "without memory", "seconds"):
        table.add_column(column, justify="left" if column == "task" else "right")
    for name in args.tasks:
        start = time.perf_counter()
        seen = TASKS[name.partition(":")[0]].first_person
        scores = measure(make_task(name), episodes=args.first_person_episodes if seen else args.episodes, seed=args.seed)
        kept = dict(load.__wrapped__(args.out))  # others may have written their tasks meanwhile
        if name in kept:
            scores = dataclasses.replace(scores, memoryless=kept[name].memoryless)
        kept[name] = scores
        means = [
            (scores.random, scores.random_error),
            (scores.best, scores.best_error),
            (scores.told, scores.told_error),
            (scores.memoryless, None),
        ]
        table.add_row(name, *(_shown(mean, error) for mean, error in means), f"{time.perf_counter() - start:.0f}")
        rows = {each: dataclasses.asdict(kept[each]) for each in (*TASKS, *VARIANTS) if each in kept}
        unfinished = args.out.with_suffix(".tmp")
        unfinished.write_text(json.dumps(rows, indent=1) + "\n")
        unfinished.replace(args.out)
    Console(width=None if sys.stdout.isatty() else 120).print(table)


def _shown(mean: float | None, error: float | None) -> str:
    if mean is None:
        return "-"
    return f"{mean:.3f}" + ("" if error is None else f" ± {error:.3f}")


if __name__ == "__main__":
    main(tyro.cli(Args))
