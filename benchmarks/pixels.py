"""How fast is training from pictures, and where does the time go?

    python benchmarks/pixels.py --out docs/data/pixels.json                 # the loop: Memory Maze at 72 x 96 and at 24 x 32
    python benchmarks/pixels.py --repeats 0                                 # compiles it and keeps the programs: no figures
    python benchmarks/pixels.py --part torso --out docs/data/torso.json     # the ResNet alone, beside PyTorch (torso.py)

For each task: frames a second of the whole loop (task, acting, learning, in one compiled program) on all cores of the CPU and on
one, and of its parts, each compiled alone on the same shapes. Shares are those of one core. Rendering is a step of the task less
the same step without its picture, which is the rules; torso and core are the agent's at acting (a step of it less its torso
is the core, with memory, policy and value); the update is the whole less all of these, and its torso is that torso's forward and
backward pass alone. Parts are measured in turn and repeated; the median counts. V-MPO here copies its network at every update:
whole periods of ten would only take longer to measure. Programs are kept where `gtrxl train` keeps its own, so that a machine has
to be quiet for the rounds alone: compile first. A row says how loaded the machine was.
"""

import dataclasses
import json
import os
import pathlib
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import tyro

import torso
from gtrxl.cli.tables import print_table, table
from gtrxl.runs import settings as configs
from gtrxl.tasks.first_person.level import Level
from gtrxl.tasks.players.scripted import random_action
from gtrxl.training import programs
from gtrxl.training.device_engine import build
from gtrxl.training.placement import choose_devices
from gtrxl.training.rollout import begin

Call = Callable[[], Any]


@dataclasses.dataclass(frozen=True)
class Settings:
    """What to measure."""

    part: Literal["loop", "torso"] = "loop"
    """The whole loop and its parts, or the ResNet alone beside its rival: of what follows that reads `repeats` and `out`."""
    tasks: tuple[str, ...] = ("memory-maze", "memory-maze:height=24,width=32")
    core: str = "gtrxl-gru"
    channels: str = "small"
    streams: int = 16
    unroll: int = 32
    pixel_control: float = 0.0
    devices: int = 0
    """Devices to spread the streams over; 0 takes all cores of the CPU."""
    repeats: int = 5
    """Rounds after the first one, which warms up; 0 only compiles."""
    out: pathlib.Path | None = None
    """Where the rows go; those of other tasks that are there already are kept."""


def _programs(settings: Settings, task: str) -> tuple[dict[str, Call], int]:
    """What is measured, each a call that waits for its end; and how many frames each of them has."""
    config = configs.change(
        configs.defaults(task=task, core=settings.core),
        {
            "streams": settings.streams,
            "unroll": settings.unroll,
            "devices": settings.devices,
            "pixel_control": settings.pixel_control,
            "net": {"channels": settings.channels},
            "learner": {"target_period": 1},
        },
    )
    config = choose_devices(config)
    made: dict[str, Call] = {}
    if config.devices > 1:
        made["all"] = _whole(config)
    config = dataclasses.replace(config, devices=1)
    made["one"] = _whole(config)
    loop, training = build(config)
    level, agent = loop.task, training.trained.agent
    if not isinstance(level, Level):
        raise SystemExit(f"a task must be one first-person level, got {task}; try memory-maze")
    streams, steps = settings.streams, settings.unroll
    situation = eqx.filter_jit(begin)(level, jax.random.split(jax.random.key(0), streams))
    seen = jax.tree.map(lambda leaf: jnp.repeat(leaf[:, None], steps + 1, axis=1), situation.observation)
    weights, rest = eqx.partition(agent, eqx.is_inexact_array)

    def stepping(move: Callable[[Any, Any], tuple[Any, Any]]) -> Callable[[Any], Any]:
        def program(state: Any) -> Any:
            def step(state: Any, key: Any) -> Any:
                actions = jax.vmap(lambda key: random_action(level, key))(jax.random.split(key, streams))
                state, shown = jax.vmap(move)(state, actions)
                return state, jax.tree.map(lambda leaf: jnp.sum(leaf, dtype=jnp.float32), shown)

            return jax.lax.scan(step, state, jax.random.split(jax.random.key(1), steps))

        return program

    def looking(state: Any, action: Any) -> tuple[Any, Any]:
        state, after = level.step(state, action)
        return state, (after.observation["image"], after.reward)

    def blind(state: Any, action: Any) -> tuple[Any, Any]:
        state, reward, _, _ = level.advance(state, action)
        return state, reward

    def acting(weights: Any, observations: Any, memory: Any) -> Any:
        agent = eqx.combine(weights, rest)

        def step(memory: Any, observation: Any) -> Any:
            policy, value, memory = agent.step(observation, memory, reset=jnp.zeros(streams, bool))
            return memory, (policy.mode(), value)

        in_time = jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1)[:steps], observations)
        return jax.lax.scan(step, agent.prepare(memory), in_time)[1]

    def torso(weights: Any, observations: Any) -> Any:
        agent = eqx.combine(weights, rest)
        in_time = jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1)[:steps], observations)
        return jax.lax.map(agent.torso, in_time)

    def torso_update(weights: Any, observations: Any) -> Any:
        def loss(weights: Any) -> Any:
            return jnp.sum(jnp.square(eqx.combine(weights, rest).torso(observations)))

        return jax.grad(loss)(weights)

    parts: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
        "task": (stepping(looking), (situation.task,)),
        "rules": (stepping(blind), (situation.task,)),
        "agent": (acting, (weights, seen, agent.initial_state(streams))),
        "torso": (torso, (weights, seen)),
        "torso_update": (torso_update, (weights, seen)),
    }
    for name, (part, arguments) in parts.items():
        made[name] = _compiled(part, arguments)
    return made, streams * steps


def _whole(config: Any) -> Call:
    loop, training = build(config)
    arrays, rest = eqx.partition(training, eqx.is_array)

    def whole(arrays: Any) -> Any:
        training, report = loop.run(eqx.combine(arrays, rest), 1)
        return eqx.filter(training, eqx.is_array), report.metrics["loss"]

    return _compiled(whole, (arrays,))


def _compiled(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Call:
    program = jax.jit(function).lower(*arguments).compile()
    return lambda: jax.block_until_ready(program(*arguments))


def measured(settings: Settings, task: str) -> dict[str, Any] | None:
    """A row of the table; None if nothing is to be measured."""
    _say(f"{task}: compiling")
    made, frames = _programs(settings, task)
    if not settings.repeats:
        return None
    seconds: dict[str, list[float]] = {name: [] for name in made}
    for repeat in range(settings.repeats + 1):  # the first warms up
        _say(f"{task}: round {repeat} of {settings.repeats}" if repeat else f"{task}: warming up")
        for name, call in made.items():
            start = time.perf_counter()
            call()
            if repeat:
                seconds[name].append(time.perf_counter() - start)
    middle = {name: statistics.median(values) for name, values in seconds.items()}
    fastest = "all" if "all" in middle else "one"
    one, update = middle["one"], max(0.0, middle["one"] - middle["task"] - middle["agent"])
    shares = {
        "rules": middle["rules"],
        "rendering": max(0.0, middle["task"] - middle["rules"]),
        "torso": middle["torso"],
        "core": max(0.0, middle["agent"] - middle["torso"]),
        "update": update,
        "update_torso": min(update, middle["torso_update"]),
    }
    return {
        "task": task,
        "core": settings.core,
        "channels": settings.channels,
        "pixel_control": settings.pixel_control,
        "streams": settings.streams,
        "unroll": settings.unroll,
        "frames_per_second": round(frames / middle[fastest], 1),
        "least": round(frames / max(seconds[fastest]), 1),
        "most": round(frames / min(seconds[fastest]), 1),
        "on_one_core": round(frames / one, 1),
        "load": round(os.getloadavg()[0], 1),
        "rendered_per_second": round(frames / max(1e-9, middle["task"] - middle["rules"])),
        **{f"{name}_share": round(value / one, 3) for name, value in shares.items()},
    }


def main() -> None:
    """Measures and prints."""
    settings = tyro.cli(Settings, description=__doc__)
    if settings.part == "torso":
        torso.run(repeats=settings.repeats, out=settings.out)
    else:
        measure_loop(settings)


def measure_loop(settings: Settings) -> None:
    """The whole loop and its parts."""
    programs.keep()
    rows = [row for task in settings.tasks if (row := measured(settings, task)) is not None]
    if not rows:
        return
    devices = len(jax.local_devices())
    print(
        f"{settings.core}, {settings.channels} torso, {settings.streams} streams, unrolls of {settings.unroll} steps; "
        f"all: {devices} cores"
    )
    columns = ["all cores", "spread", "one core", "rules", "rendering", "torso", "core", "update", "of it torso"]
    made = table("task", columns)
    for row in rows:
        shares = (f"{row[f'{name}_share']:.0%}" for name in ("rules", "rendering", "torso", "core", "update", "update_torso"))
        speeds = (f"{row['frames_per_second']:,.0f}", f"{row['least']:,.0f}-{row['most']:,.0f}", f"{row['on_one_core']:,.0f}")
        made.add_row(row["task"], *speeds, *shares)
    print_table(made)
    if settings.out is not None:
        kept = json.loads(settings.out.read_text())["rows"] if settings.out.exists() else []
        rows = [row for row in kept if row["task"] not in settings.tasks] + rows
        told = {"command": "python benchmarks/pixels.py", "devices": devices, "rows": rows}
        settings.out.write_text(json.dumps(told, indent=1) + "\n")


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
