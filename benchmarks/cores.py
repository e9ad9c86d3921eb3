"""How fast the cores act and learn, beside the rivals and beside what this machine could do at the most.

    python benchmarks/cores.py                                  # everything; half an hour and more on 2 cores
    python benchmarks/cores.py --quick                          # the small size, a minute or two, a first idea
    python benchmarks/cores.py --part acting --sizes paper --streams 64 --out acting.json

All contenders of a table run in turn within each round (`race.py`), on the same threads. Rivals that are not installed are
named and left out; `pip install "gtrxl[bench]"` brings torch and RLlib. B streams, T = 95 steps, M memory.
"""

import json
import os
import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import tyro
from rich.console import Console

from contenders import RIVALS, Library, Rival, load, ours
from costs import (
    SIZES,
    Size,
    acting_flops,
    bytes_read_as_inputs,
    bytes_read_as_keys_and_values,
    useful_flops,
)
from limits import Limits, machine, pin
from race import Contender, Progress, Result, Rules, many, race
from tables import LEARNS, growth, is_busy, judge, show_acting, show_growth, show_learning, show_machine, show_targets

T = 95
WIDTH = 150
"""Of tables that go to a file or a pipe."""
RLLIB = "RLlib GTrXLNet"


@dataclass(frozen=True)
class Args:
    """How fast the cores act and learn, beside the rivals."""

    part: Literal["acting", "learning", "memory", "all"] = "all"
    """Which tables to make."""
    sizes: tuple[Literal["small", "paper"], ...] = ("small", "paper")
    """small: 4 layers, width 64, memory 64. paper: 12 layers, width 512, memory 512."""
    streams: tuple[int, ...] = (1, 16, 64)
    """How many streams act or learn together."""
    memories: tuple[int, ...] = (64, 128, 256, 512, 1024, 2048)
    """Memory lengths for cost against memory."""
    repeats: int = 7
    """Rounds; a slow contender takes part in fewer."""
    budget: float = 30.0
    """Seconds a contender may spend in one table."""
    rivals: tuple[Rival, ...] = tuple(RIVALS)
    """Who takes part beside ours."""
    threads: int = 2
    """Processors this process keeps to; torch and XLA get as many threads."""
    large: bool = False
    """Learning at the paper size with 64 streams too: ours alone, about 15 s an iteration; rivals would need over 20 GB."""
    quick: bool = False
    """The small size, 16 streams, 3 short rounds; over what `sizes`, `streams`, `memories`, `repeats` and `budget` say."""
    out: Path | None = None
    """Write the rows here as JSON, whole after every table."""

    def __post_init__(self) -> None:
        if min(self.streams) < 1:
            raise ValueError(f"streams must be at least 1, got {min(self.streams)}; the comparison uses 1, 16 and 64")
        if len(self.memories) < 2:
            raise ValueError(f"memories must be at least two lengths, got {self.memories}; growth needs them")


QUICK = {"sizes": ("small",), "streams": (16,), "memories": (64, 256, 1024), "repeats": 3, "budget": 2.0}


class Record:
    """The rows so far; on disk the old file or the new one, never half of one."""

    def __init__(self, out: Path | None, **header: Any) -> None:
        self.rows: list[dict[str, Any]] = []
        self._out = out
        self._header = header

    def add(self, rows: list[dict[str, Any]]) -> None:
        """Takes a table's rows and writes all there are."""
        self.rows += rows
        self.write()

    def write(self, **more: Any) -> None:
        """The whole file anew."""
        if self._out is None:
            return
        self._header |= more
        unfinished = self._out.with_name(f"{self._out.name}.{os.getpid()}.tmp")
        unfinished.write_text(json.dumps({**self._header, "rows": self.rows}, indent=1) + "\n")
        unfinished.replace(self._out)


@dataclass(frozen=True)
class Run:
    """What every part needs."""

    libraries: list[Library]
    limits: Limits
    rules: Rules
    progress: Progress

    def race(self, contenders: list[Contender], *, label: str) -> list[Result]:
        """A race by these rules."""
        return race(contenders, rules=self.rules, label=label, progress=self.progress)


def acting(run: Run, size: Size, streams: int) -> list[dict[str, Any]]:
    """Rows of steps per second, and of how near they come to reading everything once."""
    contenders = [*ours.acting(size, streams)]
    for library in run.libraries:
        contenders += library.acting(size, streams)
    *results, read = run.race([*contenders, run.limits.read], label=f"acting, {size.name}, {many(streams)}")
    bandwidth = max(read.rate, run.limits.bandwidth)
    rllib = _rate(results, RLLIB)
    rows = []
    for result in results:
        row = _row("acting", "steps/s", size, streams, result)
        row["times_rllib"] = result.rate / rllib if rllib else None
        if result.contender.name.startswith("ours"):
            parameters = result.contender.parameters or 0
            steps = result.rate / streams  # of all streams together
            as_inputs = bytes_read_as_inputs(size, parameters=parameters, streams=streams)
            as_keys = bytes_read_as_keys_and_values(size, parameters=parameters, streams=streams)
            row["bandwidth"] = bandwidth
            row["share_reading_inputs"] = as_inputs * steps / bandwidth
            row["share_reading_keys_and_values"] = as_keys * steps / bandwidth
            row["share_of_matmul_peak"] = acting_flops(size) * result.rate / run.limits.matmul_peak
        rows.append(row)
    return rows


def learning(run: Run, size: Size, streams: int, *, rivals: bool) -> list[dict[str, Any]]:
    """Rows of frames per second forward and backward, and of useful operations beside the matrix-multiply peak."""
    contenders = [*ours.learning(size, streams, T)]
    for library in run.libraries if rivals else []:
        contenders += library.learning(size, streams, T)
    *results, matmul = run.race([*contenders, run.limits.matmul], label=f"learning, {size.name}, {many(streams)}")
    peak = max(matmul.rate, run.limits.matmul_peak)
    mine = max(filter(None, (_rate(results, name) for name in LEARNS)), default=None)
    rows = []
    for result in results:
        row = _row("learning", "frames/s", size, streams, result)
        row["ours_times_this"] = mine / result.rate if mine else None
        if result.contender.same_model:
            flops = useful_flops(size, steps=T, streams=streams) * result.rate
            row["useful_flops_per_second"] = flops
            row["matmul_peak"] = peak
            row["share_of_matmul_peak"] = flops / peak
            row["share_of_torch_peak"] = flops / run.limits.torch_matmul_peak if run.limits.torch_matmul_peak else None
        rows.append(row)
    return rows


def against_memory(run: Run, size: Size, memories: tuple[int, ...], *, streams: int) -> list[dict[str, Any]]:
    """Rows of seconds per step and per frame, and of bytes, for one memory length after another (raced with each other)."""
    sizes = [replace(size, memory=memory) for memory in memories]
    label = f"memory length, {size.name}, {many(streams)}"
    act = [ours.loop_alone(each, streams, name=str(each.memory)) for each in sizes]
    acted = run.race(act, label=f"{label}, acting")
    learn = [ours.gradient(ours.core_of(each), streams, T, name=str(each.memory)) for each in sizes]
    learnt = run.race(learn, label=f"{label}, learning")
    rows = []
    for each, acting_result, learning_result in zip(sizes, acted, learnt, strict=True):
        plain, prepared = ours.state_bytes(each)
        rows.append(
            {
                "part": "memory",
                "size": size.name,
                "streams": streams,
                "memory": each.memory,
                "acting_seconds": 1 / acting_result.rate,
                "acting_rates": acting_result.rates,
                "learning_seconds": 1 / learning_result.rate,
                "learning_rates": learning_result.rates,
                "state_bytes_plain": plain,
                "state_bytes_prepared": prepared,
            }
        )
    return rows


def _row(part: str, unit: str, size: Size, streams: int, result: Result) -> dict[str, Any]:
    return {
        "part": part,
        "size": size.name,
        "streams": streams,
        "name": result.contender.name,
        "unit": unit,
        "rate": result.rate,
        "spread": result.spread,
        "rates": result.rates,
        "threads": result.contender.threads(),
        "parameters": result.contender.parameters,
        "same_model": result.contender.same_model,
    }


def _rate(results: list[Result], name: str) -> float | None:
    return next((result.rate for result in results if result.contender.name == name), None)


def main(args: Args) -> None:
    """Measures, prints, writes."""
    if args.quick:
        args = replace(args, **QUICK)
    console, progress = Console(width=None if sys.stdout.isatty() else WIDTH), Progress()
    threads = pin(args.threads)
    libraries, missing = load(args.rivals)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(threads)
    rules = Rules(rounds=args.repeats, sample=0.1 if args.quick else 0.2, budget=args.budget)
    about = machine(threads, torch=torch)
    limits = Limits(rules=replace(rules, rounds=max(5, args.repeats)), torch=torch, progress=progress)
    show_machine(console, about, limits, missing)
    record = Record(
        args.out,
        command=" ".join(sys.argv),
        started=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        machine=about,
        missing=missing,
        limits=limits.rates,
        sizes={name: asdict(SIZES[name]) for name in (*args.sizes, "wide")},
    )
    run = Run(libraries, limits, rules, progress)
    if args.part in ("acting", "all"):
        for size in args.sizes:
            for streams in args.streams:
                rows = acting(run, SIZES[size], streams)
                show_acting(console, rows)
                record.add(rows)
    if args.part in ("learning", "all"):
        for size in args.sizes:
            for streams in args.streams:
                heavy = size == "paper" and streams > 16
                if heavy and not args.large:
                    console.print(f"learning, paper, {many(streams)}: left out; --large measures it")
                    continue
                rows = learning(run, SIZES[size], streams, rivals=not heavy)
                show_learning(console, rows)
                record.add(rows)
    if args.part in ("memory", "all"):
        for size in ("small",) if args.quick else ("small", "wide"):
            rows = against_memory(run, SIZES[size], args.memories, streams=16)
            show_growth(console, rows)
            record.add(rows)
    targets = judge(record.rows, busy=is_busy(about))
    show_targets(console, targets)
    record.write(targets=targets, growth=growth(record.rows), load_after=os.getloadavg()[0])


if __name__ == "__main__":
    main(tyro.cli(Args))
