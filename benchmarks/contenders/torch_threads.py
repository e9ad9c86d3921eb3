"""Torch at its better number of threads.

OpenMP threads that wait for one another by spinning are a hundred times slower as soon as anything else wants a
processor, and on small tensors two threads can lose to one on a quiet machine too. So threads sleep while they wait
(`load` sees to it, unless OMP_WAIT_POLICY says otherwise), and each torch contender runs on one thread or on all,
whichever was faster when it was tried. XLA has no such choice: ours always runs on all.
"""

import os
import time
from collections.abc import Callable

import torch

from race import Contender

TRIAL = 0.3
"""Seconds to try each number of threads for, once a contender is warm; at least one call."""
SLOW = 3.0
"""Seconds of a call that is surely better off on all threads."""


class AtBestThreads:
    """Calls `run` on one thread or on all of them, as the first call finds out."""

    def __init__(self, run: Callable[[], object]):
        self.alone = self._run = run
        self._most = len(os.sched_getaffinity(0))
        self.threads: int | None = None

    def __call__(self) -> None:
        """One call; the first one tries."""
        if self.threads is None:
            self.threads = self._best()
            return
        if torch.get_num_threads() != self.threads:
            torch.set_num_threads(self.threads)
        self._run()

    def _best(self) -> int:
        torch.set_num_threads(self._most)
        start = time.perf_counter()
        self._run()
        if time.perf_counter() - start > SLOW:
            return self._most
        return min({1, self._most}, key=self._seconds)

    def _seconds(self, threads: int) -> float:
        torch.set_num_threads(threads)
        self._run()
        start, calls = time.perf_counter(), 0
        while calls == 0 or time.perf_counter() - start < TRIAL:
            self._run()
            calls += 1
        return (time.perf_counter() - start) / calls


def contender(
    name: str, run: Callable[[], object], *, work: float, model: torch.nn.Module, same_model: bool = False
) -> Contender:
    """A torch model as a contender; its row says how many threads it ran on."""
    best = AtBestThreads(run)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return Contender(name, best, work, parameters, same_model=same_model, threads=lambda: best.threads)
