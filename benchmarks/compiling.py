"""How long does it take until a training run begins to run? What `gtrxl train` compiles, without programs that were kept.

    python benchmarks/compiling.py memory-maze lab-memory
    python benchmarks/compiling.py lab-memory --kept             # a second time as well, with the programs of the first

For each task or set, in a process of its own: the program that makes the state before the first update (`start`), the training
program (`tracing` is JAX's part of the time, `compiling` XLA's) and the look at the memory. Seconds of wall time, and of CPU time
on all cores together, which other work on the machine disturbs less. `instructions` counts those of the training program as XLA
is given it.
"""

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

import tyro

from gtrxl.cli.tables import print_table, table

_CHILD = "--child"


@dataclasses.dataclass(frozen=True)
class Settings:
    """What to measure."""

    tasks: tyro.conf.Positional[tuple[str, ...]] = ("memory-maze", "lab-memory")
    kept: bool = False
    """Each a second time, with the programs that the first one kept."""


def child(task: str) -> None:
    """Compiles as `gtrxl train TASK` does, and prints how long it took."""
    import jax

    from gtrxl.runs import settings as configs
    from gtrxl.training import programs
    from gtrxl.training.device_engine import DeviceEngine

    programs.keep()
    row: dict[str, float] = {}

    @contextmanager
    def timed(name: str) -> Iterator[None]:
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        row[name], row[f"{name}_cpu"] = time.perf_counter() - wall, time.process_time() - cpu

    config = configs.defaults(task=task)
    engine = DeviceEngine(config, config.tasks)  # pyright: ignore[reportArgumentType]
    with timed("start"):
        state = engine.placed(jax.block_until_ready(engine.start()))
    traced = jax.stages.Traced.lower

    def lower(self: jax.stages.Traced, *args: object, **named: object) -> jax.stages.Lowered:
        made = traced(self, *args, **named)  # pyright: ignore[reportArgumentType]
        row["instructions"] = max(row.get("instructions", 0), made.as_text().count(" = "))
        return made

    jax.stages.Traced.lower = lower  # pyright: ignore[reportAttributeAccessIssue]
    with timed("run"), engine.running(state, before=(), say=lambda _: None):
        pass
    print(json.dumps(row))


def measured(task: str, cache: str) -> dict[str, float]:
    """A row, by a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, _CHILD, task],
        env={**os.environ, "JAX_COMPILATION_CACHE_DIR": cache},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Measures and prints."""
    settings = tyro.cli(Settings, description=__doc__)
    made = table("task", ["start", "training", "CPU time", "instructions"])
    for task in settings.tasks:
        with tempfile.TemporaryDirectory() as cache:
            for again in range(1 + settings.kept):
                row = measured(task, cache)
                cpu = row["start_cpu"] + row["run_cpu"]
                shown = (f"{row['start']:.1f} s", f"{row['run']:.1f} s", f"{cpu:.1f} s", f"{row['instructions']:,.0f}")
                made.add_row(task + (", kept" if again else ""), *shown)
                print(task, json.dumps(row), file=sys.stderr, flush=True)
    print_table(made)


if __name__ == "__main__":
    if sys.argv[1:2] == [_CHILD]:
        child(sys.argv[2])
    else:
        main()
