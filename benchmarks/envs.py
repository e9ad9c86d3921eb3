"""How many steps per second the tasks make with random actions, beside Grid Numpad as a plain Python loop.

    python benchmarks/envs.py                         # a minute or two on 2 cores
    python benchmarks/envs.py --quick
    python benchmarks/envs.py --out envs.json

`compiled`: B streams in one program, drawing actions, observing, and beginning a new episode wherever one ended. XLA's CPU
backend runs such small operations on one thread, so the program is split over as many CPU devices as there are threads,
B / threads streams on each. `gymnasium`: the same tasks through `make_vec`, one call from Python for each step, on one device.
`Python loop`: one Grid Numpad in plain Python, written below, on one core as such loops are: called directly, and as users call
such a class, made by `gymnasium.make` with actions from `action_space.sample()`.
"""

import os

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = (
    f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={len(os.sched_getaffinity(0))}"
)

import json
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import tyro
from jax.sharding import Mesh, PartitionSpec
from rich.console import Console
from rich.table import Table

from gtrxl.gym.registration import NAMES, register
from gtrxl.tasks import TASKS, make_task
from gtrxl.tasks.contract import State, Task
from limits import machine, pin
from race import Contender, Progress, Result, Rules, race, short

GOALS = {"grid-numpad": 1_000_000, "numpad-2x2": 500_000}
"""Steps per second, compiled."""
STEPS = 200
"""In one call of a compiled program."""
PYTHON = "Grid Numpad 2x2, Python loop"
PYTHON_MADE = "Grid Numpad 2x2, Python loop, gymnasium.make"


@dataclass(frozen=True)
class Args:
    """How many steps per second the tasks make."""

    tasks: tuple[str, ...] = tuple(TASKS)
    """Names in the catalogue."""
    streams: int = 1024
    """B, streams that step together."""
    threads: int = 2
    """Processors this process keeps to, and CPU devices that the streams are split over."""
    repeats: int = 7
    """Rounds."""
    quick: bool = False
    """Three short rounds."""
    out: Path | None = None
    """Write the rows here as JSON."""

    def __post_init__(self) -> None:
        if self.threads < 1 or self.streams % self.threads:
            raise ValueError(f"streams must be a multiple of threads, got {self.streams} and {self.threads}; 1,024 on 2 is usual")


def compiled(name: str, task: Task, *, streams: int, devices: list[Any]) -> Contender:
    """A program that makes STEPS steps of all streams; every observation, reward and end is computed, and summed."""

    def start(key: jax.Array) -> tuple[State, jax.Array]:
        reset_key, cut_key = jax.random.split(key)
        # The first episode is cut at a random step, so that streams do not end all at once.
        return task.reset(reset_key)[0], jax.random.randint(cut_key, (), 1, task.episode_steps + 1)

    def draw(key: jax.Array, shape: tuple[int, int]) -> jax.Array:
        if isinstance(task.action_space, gymnasium.spaces.Discrete):
            return jax.random.randint(key, shape, 0, int(task.action_space.n))
        return jax.random.uniform(key, (*shape, *(task.action_space.shape or ())), minval=-1.0, maxval=1.0)

    def one(carry: tuple[State, jax.Array], drawn: tuple[jax.Array, jax.Array]):
        (state, left), (actions, reset_keys) = carry, drawn
        state, step = jax.vmap(task.step)(state, actions)
        left = left - 1
        ended = step.terminated | step.truncated | (left == 0)

        def restart() -> tuple[State, jax.Array, jax.Array]:
            new, observation = jax.vmap(task.reset)(reset_keys)
            pick = lambda a, b: jnp.where(ended.reshape(-1, *[1] * (a.ndim - 1)), a, b)  # noqa: E731
            return jax.tree.map(pick, new, state), pick(observation, step.observation), jnp.where(ended, -1, left)

        state, observation, left = jax.lax.cond(ended.any(), restart, lambda: (state, step.observation, left))
        return (state, left), (jnp.sum(observation), jnp.sum(step.reward), jnp.sum(ended))

    def run(carry: tuple[State, jax.Array], key: jax.Array) -> tuple[tuple[State, jax.Array], tuple[jax.Array, ...]]:
        action_key, reset_key = jax.random.split(jax.random.fold_in(key, jax.lax.axis_index("devices")))
        shape = STEPS, streams // len(devices)
        carry, sums = jax.lax.scan(one, carry, (draw(action_key, shape), jax.random.split(reset_key, shape)))
        return carry, jax.tree.map(lambda x: x.sum()[None], sums)

    mesh, split, whole = Mesh(np.array(devices), ("devices",)), PartitionSpec("devices"), PartitionSpec()
    program = jax.jit(jax.shard_map(run, mesh=mesh, in_specs=(split, whole), out_specs=(split, split), check_vma=False))
    sharding = jax.NamedSharding(mesh, split)
    carry = jax.device_put(jax.jit(jax.vmap(start))(jax.random.split(jax.random.key(0), streams)), sharding)
    key = jax.random.key(1)

    def call() -> None:
        nonlocal carry, key
        key, now = jax.random.split(key)
        carry, sums = program(carry, now)
        jax.block_until_ready(sums)

    return Contender(f"{name}, compiled", call, work=float(STEPS * streams), threads=lambda: len(devices))


def through_gymnasium(gym_name: str, *, streams: int) -> Contender:
    """One call from Python for each step of all streams."""
    envs = gymnasium.make_vec(gym_name, num_envs=streams)
    envs.reset(seed=0)
    actions = [envs.action_space.sample() for _ in range(20)]

    def call() -> None:
        for action in actions:
            envs.step(action)

    return Contender(f"{gym_name}, gymnasium", call, work=float(20 * streams), threads=lambda: 1)


class PythonGridNumpad(gymnasium.Env[np.ndarray, Any]):
    """Grid Numpad as a class in plain Python and NumPy: what there is elsewhere, with this task's rules."""

    MOVES = ((0, 0), (-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0), (1, 1))

    def __init__(self, size: int = 2, episode_steps: int = 50):
        self.size, self.episode_steps = size, episode_steps
        self.action_space = gymnasium.spaces.Discrete(len(self.MOVES))
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (2 * size**2 + len(self.MOVES) + 1,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        """A random path that visits every pad once, and a random start."""
        path: list[int] = []
        while len(path) < self.size**2:
            path = [random.randrange(self.size**2)]
            while onward := [pad for pad in self._neighbours(path[-1]) if pad not in path]:
                path.append(random.choice(onward))
        self.path, self.lit, self.paid, self.elapsed = path, 0, 0, 0
        self.row, self.column = divmod(random.randrange(self.size**2), self.size)
        return self._observe(None, 0.0), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Moves and presses."""
        rows, columns = self.MOVES[action]
        row, column = self.row + rows, self.column + columns
        reward = 0.0
        if action and 0 <= row < self.size and 0 <= column < self.size:
            self.row, self.column = row, column
            if row * self.size + column == self.path[self.lit]:
                self.lit += 1
                if self.lit > self.paid:
                    self.paid, reward = self.lit, 1.0
                if self.lit == len(self.path):
                    self.lit = self.paid = 0
            else:
                self.lit = 0
        self.elapsed += 1
        return self._observe(action, reward), reward, False, self.elapsed >= self.episode_steps, {}

    def _neighbours(self, pad: int) -> list[int]:
        row, column = divmod(pad, self.size)
        moves = [(row + r, column + c) for r, c in self.MOVES[1:]]
        return [r * self.size + c for r, c in moves if 0 <= r < self.size and 0 <= c < self.size]

    def _observe(self, action: int | None, reward: float) -> np.ndarray:
        pads = self.size**2
        observation = np.zeros(2 * pads + 10, np.float32)
        observation[self.row * self.size + self.column] = 1
        for pad in self.path[: self.lit]:
            observation[pads + pad] = 1
        if action is not None:
            observation[2 * pads + action] = 1
        observation[-1] = reward
        return observation


def python_loops(steps: int = 2000) -> list[Contender]:
    """One environment, random actions, a reset wherever an episode ends."""

    def loop(name: str, env: gymnasium.Env, draw: Callable[[], int]) -> Contender:
        env.reset()

        def call() -> None:
            for _ in range(steps):
                _, _, terminated, truncated, _ = env.step(draw())
                if terminated or truncated:
                    env.reset()

        return Contender(name, call, work=float(steps), threads=lambda: 1)

    gymnasium.register("PythonGridNumpad-v0", lambda **arguments: PythonGridNumpad(**arguments))
    made = gymnasium.make("PythonGridNumpad-v0")
    return [loop(PYTHON, PythonGridNumpad(), lambda: random.randrange(9)), loop(PYTHON_MADE, made, made.action_space.sample)]


def table(results: list[Result], streams: int) -> tuple[Table, list[dict[str, Any]]]:
    """What was measured, beside the Python loop and the goals."""
    bare, made = (next(result.rate for result in results if result.contender.name == name) for name in (PYTHON, PYTHON_MADE))
    shown = Table(title=f"steps/s, random actions, {streams:,} streams (the Python loop: 1)", title_justify="left")
    for column in ("", "devices", "steps/s", "slowest..fastest", "x Python", "x Python\nby make", "goal"):
        shown.add_column(column, justify="right" if column else "left")
    rows = []
    for result in results:
        goal = GOALS.get(result.contender.name.removesuffix(", compiled"))
        met = None if goal is None else result.rate >= goal
        verdict = "" if goal is None else f"{goal:,} {'[green]met[/green]' if met else '[red]not met[/red]'}"
        times = [f"{short(result.rate / slow)}x" for slow in (bare, made)]
        shown.add_row(result.contender.name, str(result.contender.threads()), short(result.rate), result.spread, *times, verdict)
        row = {"name": result.contender.name, "devices": result.contender.threads(), "steps_per_second": result.rate}
        ratios = {"times_python": result.rate / bare, "times_python_by_make": result.rate / made}
        rows.append(row | {"rates": result.rates, **ratios, "goal": goal, "met": met})
    return shown, rows


def main(args: Args) -> None:
    """Measures, prints, writes."""
    if args.quick:
        args = replace(args, repeats=3)
    console = Console(width=None if sys.stdout.isatty() else 120)
    threads = pin(args.threads)
    if threads < args.threads:
        raise SystemExit(f"threads must be at most {threads} here, got {args.threads}; this machine has no more")
    register()
    devices = jax.devices()[: args.threads]
    about, started = machine(threads, torch=None), time.strftime("%Y-%m-%dT%H:%M:%S%z")
    contenders = [
        *(compiled(name, make_task(name), streams=args.streams, devices=devices) for name in args.tasks),
        *(through_gymnasium(name, streams=args.streams) for name in NAMES),
        *python_loops(),
    ]
    rules = Rules(rounds=args.repeats, sample=0.1 if args.quick else 0.3)
    results = race(contenders, rules=rules, label="steps", progress=Progress())
    shown, rows = table(results, args.streams)
    console.print(f"{about['processor']}, {about['processors']} processors, load {about['load_before']:.1f} before the run")
    console.print(shown)
    if args.out is not None:
        header = {"command": " ".join(sys.argv), "started": started, "machine": about, "streams": args.streams}
        args.out.write_text(json.dumps({**header, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Args))
