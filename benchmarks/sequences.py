"""Which hidden sequences of Numpad (the grid or the sphere) has a trained agent not learned? Its return, sequence by sequence.

    python benchmarks/sequences.py RUN [RUN ...]

Plays new episodes with the agent of each run's last checkpoint. Prints how many sequences there are, the mean return over all
episodes, the share of episodes in which the agent never comes to repeat the sequence, and the worst sequences.
"""

import collections
import dataclasses
import pathlib
import sys
from typing import Annotated

import jax
import numpy as np
import tyro

from gtrxl.evaluation import compiled as playing
from gtrxl.evaluation.loading import restore_agent
from gtrxl.tasks import make_task
from gtrxl.tasks.numpad.grid import GridNumpad
from gtrxl.tasks.numpad.numpad import Numpad


@dataclasses.dataclass(frozen=True)
class Settings:
    """Which runs to look at."""

    runs: Annotated[tuple[pathlib.Path, ...], tyro.conf.Positional]
    episodes: int = 2048
    seed: int = 5
    worst: int = 6
    """How many of the worst sequences to print."""


def look(run: pathlib.Path, settings: Settings) -> None:
    """Prints the returns of one run."""
    config, _, agent, update = restore_agent(run, "last")
    task = make_task(config.task)
    if not isinstance(task, GridNumpad | Numpad):
        sys.exit(f"a run must be of Numpad or Grid Numpad, got {config.task} in {run}")
    scores, first = playing.play(agent, task, jax.random.key(settings.seed + playing.OTHER), settings.episodes, False)
    scores = np.asarray(scores)
    by_sequence: dict[tuple[int, ...], list[float]] = collections.defaultdict(list)
    for order, score in zip(np.asarray(first.pads.order), scores, strict=True):
        by_sequence[tuple(order.tolist())].append(float(score))
    means = sorted((float(np.mean(of)), sequence) for sequence, of in by_sequence.items())
    lost = np.mean(scores < 2 * len(means[0][1]))  # less than two passes
    print(f"{run}, update {update}: mean {scores.mean():.2f}, spread {scores.std():.2f} over {len(scores)} episodes")
    print(f"  {len(means)} sequences, median {np.median([mean for mean, _ in means]):.1f}; fewer than two passes in {lost:.1%}")
    print("  worst: " + ", ".join(f"{'-'.join(map(str, order))} {mean:.1f}" for mean, order in means[: settings.worst]))


def main() -> None:
    """One block of lines for each run."""
    settings = tyro.cli(Settings, description=__doc__)
    jax.config.update("jax_num_cpu_devices", 2)
    for run in settings.runs:
        look(run, settings)


if __name__ == "__main__":
    main()
