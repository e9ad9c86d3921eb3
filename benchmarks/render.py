"""How many first-person pictures a second are made on one core, beside Memory Maze's own package and ViZDoom.

    python benchmarks/render.py                                          # ours alone, about a minute
    python benchmarks/render.py --rivals-python PATH/bin/python --out docs/data/render.json

`gtrxl, B`: Memory Maze at 72 x 96, B worlds that step together in one compiled program with random actions: the state moves on
and the picture is drawn, in every step. Rivals run with the Python of `--rivals-python`, where they are installed
(`pip install memory-maze gym "mujoco<4" vizdoom`, and Debian's libosmesa6): each steps one environment with random actions, on
the same core, in turn with ours. One that does not start is named and left out. Pictures differ in size, so pixels a second
are compared too.
"""

import os

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false"

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import tyro
from rich.console import Console
from rich.table import Table

from gtrxl.tasks import make_task
from limits import machine, pin
from race import Contender, Progress, Result, Rules, race, short

GOAL = 4000
"""Pictures a second at 72 x 96."""
RIVALS = {"memory-maze": 100.0, "vizdoom": 0.5}
"""How many times its rate is asked for: of its pictures, and of its pixels."""
LOOP = Path(__file__).parent / "contenders" / "first_person_loop.py"


@dataclass(frozen=True)
class Args:
    """How many first-person pictures a second are made on one core."""

    task: str = "memory-maze"
    """A first-person task with Memory Maze's actions."""
    worlds: tuple[int, ...] = (1, 16, 64, 256)
    """Worlds that step together."""
    rivals_python: Path | None = None
    """The Python that has the rivals."""
    repeats: int = 7
    """Rounds."""
    quick: bool = False
    """Three short rounds."""
    out: Path | None = None
    """Write the rows here as JSON."""


@dataclass(frozen=True)
class Pictures:
    """Who makes pictures of what size."""

    contender: Contender
    height: int
    width: int
    version: str | None = None


def ours(name: str, worlds: int) -> Pictures:
    """A program that steps all worlds; every step's picture is written to memory."""
    task: Any = make_task(name)
    steps = max(4, 512 // worlds)

    def one(carry: Any, key: jax.Array) -> tuple[Any, None]:
        state, _ = carry
        numbers, grip = jax.random.split(key)
        action = {
            "continuous": jax.random.uniform(numbers, (worlds, 8), minval=-1.0, maxval=1.0),
            "discrete": jax.random.randint(grip, (worlds, 1), 0, 2),
        }
        state, step = jax.vmap(task.step)(state, action)
        return (state, (step.observation, step.reward, step.terminated)), None

    @jax.jit
    def program(carry: Any, key: jax.Array) -> Any:
        return jax.lax.scan(one, carry, jax.random.split(key, steps))[0]

    @jax.jit
    def start(key: jax.Array) -> Any:
        state, observation = jax.vmap(task.reset)(jax.random.split(key, worlds))
        return state, (observation, jnp.zeros(worlds), jnp.zeros(worlds, bool))

    carry, key = start(jax.random.key(0)), jax.random.key(1)

    def call() -> None:
        nonlocal carry, key
        key, now = jax.random.split(key)
        carry = jax.block_until_ready(program(carry, now))

    return Pictures(Contender(f"gtrxl, {worlds}", call, work=float(steps * worlds)), task.height, task.width)


def rival(name: str, python: Path) -> Pictures | str:
    """One that runs in its own process, or why it does not."""
    # To a file: a pipe that nobody reads would fill and stop it.
    with tempfile.TemporaryFile("w+") as complaints:
        process = subprocess.Popen(
            [python, str(LOOP), name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints, text=True
        )
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None
        assert stdout is not None
        first = stdout.readline()
        complaints.seek(0)
        last = (complaints.read().strip().splitlines() or ["it ended without a word"])[-1]
    if not first:
        return last
    about = json.loads(first)
    steps = {"memory-maze": 5, "vizdoom": 200}[name]

    def call() -> None:
        print(steps, file=stdin, flush=True)
        if not stdout.readline():
            raise SystemExit(f"{name} ended in the middle of the race; run it alone: {python} {LOOP} {name}")

    return Pictures(Contender(name, call, work=float(steps)), about["height"], about["width"], about["version"])


def table(entrants: list[Pictures], results: list[Result]) -> tuple[Table, list[dict[str, Any]]]:
    """What was measured, beside the goals."""
    rates = {result.contender.name: result.rate for result in results}
    rivals = [entrant for entrant in entrants if entrant.contender.name in RIVALS]
    shown = Table(title="pictures/s on one core, steps included, random actions", title_justify="left")
    for column in (
        "",
        "size",
        "pictures/s",
        "slowest..fastest",
        "Mpixels/s",
        *(f"x {each.contender.name}" for each in rivals),
        "goal",
    ):
        shown.add_column(column, justify="right" if column else "left")
    rows = []
    for entrant, result in zip(entrants, results, strict=True):
        name, pixels = result.contender.name, entrant.height * entrant.width
        row: dict[str, Any] = {"name": name, "version": entrant.version, "height": entrant.height, "width": entrant.width}
        row |= {"pictures_per_second": result.rate, "rates": result.rates, "pixels_per_second": result.rate * pixels}
        times, met = [], []
        for other in rivals:
            pictures = result.rate / rates[other.contender.name]
            row[f"times_{other.contender.name}"] = pictures
            row[f"times_{other.contender.name}_pixels"] = by_pixel = pictures * pixels / (other.height * other.width)
            times.append(f"{short(pictures)} ({short(by_pixel)} by pixel)")
            met.append((by_pixel if other.contender.name == "vizdoom" else pictures) >= RIVALS[other.contender.name])
        verdict = ""
        if name not in RIVALS:
            row["met"] = result.rate >= GOAL and all(met)
            verdict = f"{GOAL:,} {'[green]met[/green]' if row['met'] else '[red]not met[/red]'}"
        size = f"{entrant.height} x {entrant.width}"
        shown.add_row(name, size, short(result.rate), result.spread, short(result.rate * pixels / 1e6), *times, verdict)
        rows.append(row)
    return shown, rows


def main(args: Args) -> None:
    """Measures, prints, writes."""
    if args.quick:
        args = replace(args, repeats=3)
    console = Console(width=None if sys.stdout.isatty() else 130)
    pin(1)
    about, started = machine(1, torch=None), time.strftime("%Y-%m-%dT%H:%M:%S%z")
    entrants = [ours(args.task, worlds) for worlds in args.worlds]
    for name in RIVALS:
        found = rival(name, args.rivals_python) if args.rivals_python else "no --rivals-python was given"
        if isinstance(found, str):
            console.print(f"{name} is left out: {found}")
        else:
            entrants.append(found)
    rules = Rules(rounds=args.repeats, sample=0.2 if args.quick else 0.5)
    results = race([entrant.contender for entrant in entrants], rules=rules, label="pictures", progress=Progress())
    shown, rows = table(entrants, results)
    console.print(f"{about['processor']}, one core of {about['processors']}, load {about['load_before']:.1f} before the run")
    console.print(shown)
    console.print(f"goals: {GOAL:,} pictures/s; 100 times memory-maze; half of ViZDoom's pixels")
    if args.out is not None:
        header = {"command": " ".join(sys.argv), "started": started, "machine": about, "task": args.task}
        args.out.write_text(json.dumps({**header, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Args))
