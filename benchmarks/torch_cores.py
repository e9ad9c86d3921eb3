"""The cores in PyTorch beside those of RLlib and DI-engine, in processor seconds: also on a machine with other work to do.

    python benchmarks/torch_cores.py
    python benchmarks/torch_cores.py --sizes small --streams 16 --parts learning

Each runs on one thread, in turns with the others; a figure is the least processor time of a call over all rounds. For rates on a
quiet machine, with all threads and JAX beside them: `benchmarks/cores.py`. T = 95 steps of a segment.
"""

import time
from dataclasses import dataclass
from typing import Literal

import torch
import tyro

from contenders import Rival, load
from costs import SIZES

T = 95


@dataclass(frozen=True)
class Args:
    """What to compare."""

    sizes: tuple[Literal["small", "paper"], ...] = ("small", "paper")
    """small: 4 layers, width 64, memory 64. paper: 12 layers, width 512, memory 512."""
    streams: tuple[int, ...] = (1, 16)
    """How many streams act or learn together."""
    parts: tuple[Literal["acting", "learning"], ...] = ("acting", "learning")
    """Steps of all streams; segments forward and backward."""
    rounds: int = 12
    """At the small size; a fourth of them at the paper's."""
    rivals: tuple[Rival, ...] = ("rllib", "di_engine")
    """Who takes part beside ours."""


def main(args: Args) -> None:
    """Measures and prints a line for each case."""
    torch.set_num_threads(1)
    libraries, missing = load(("torch_twin", *args.rivals))
    for name, why in missing.items():
        print(f"missing: {name}: {why}")
    for size in (SIZES[name] for name in args.sizes):
        small = size.name == "small"
        for part in args.parts:
            for streams in args.streams:
                least: dict[str, float] = {}
                contenders = [
                    (library.acting(size, streams) if part == "acting" else library.learning(size, streams, T))[0]
                    for library in libraries
                ]
                for number in range(1 + (args.rounds if small else max(2, args.rounds // 4))):
                    for each in contenders:
                        run = getattr(each.run, "alone", each.run)
                        calls = 20 if small and part == "acting" else 1
                        start = time.process_time()
                        for _ in range(calls):
                            run()
                        spent = (time.process_time() - start) / calls
                        if number:  # the first is to get warm
                            least[each.name] = min(spent, least.get(each.name, spent))
                ours = next(iter(least.values()))
                told = ", ".join(f"{name} {1e3 * spent:.2f} ms (x {spent / ours:.2f})" for name, spent in least.items())
                print(f"{part}, {size.name}, {streams} streams: {told}", flush=True)


if __name__ == "__main__":
    main(tyro.cli(Args))
