"""How fast is training from end to end, and where does the time go?

    python benchmarks/train.py --out docs/data/train.json

For each core, on Grid Numpad and on Numpad: frames a second of the whole loop (task, acting, learning, in one compiled program)
with a device for each core of the CPU and with one, and of the same program with parts left out. Shares are those of one
device: acting is the loop without learning, less the task alone; learning is the rest. Contenders are interleaved and repeated;
the median counts, and the spread is shown.
"""

import dataclasses
import json
import pathlib
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import tyro

from gtrxl.cli.tables import print_table, table
from gtrxl.runs import settings as configs
from gtrxl.training.device_engine import build
from gtrxl.training.placement import choose_devices
from gtrxl.training.rollout import act, begin

CONTENDERS: dict[str, tuple[str, dict[str, Any]]] = {
    "none": ("none", {"layers": 1, "width": 128}),
    "lstm 1 x 128": ("lstm", {"layers": 1, "width": 128}),
    "trxl-i 2 layers": ("trxl-i", {"layers": 2}),
    "gtrxl-gru 2 layers": ("gtrxl-gru", {"layers": 2}),
    "gtrxl-gru 4 layers": ("gtrxl-gru", {"layers": 4}),
}
"""Name -> core and sizes; width 64, 4 x 16 heads, memory 64 unless said otherwise."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """What to measure."""

    tasks: tuple[str, ...] = ("grid-numpad", "numpad-2x2")
    contenders: tuple[str, ...] = tuple(CONTENDERS)
    devices: int = 0
    """Devices to spread the streams over; 0 takes all cores of the CPU."""
    streams: int = 16
    repeats: int = 5
    frames: int = 40_000
    """Frames of one measurement, about."""
    out: pathlib.Path | None = None
    """Where the rows go; those of other tasks that are there already are kept."""


def programs(settings: Settings, task: str, contender: str) -> dict[str, tuple[Callable[[], Any], int]]:
    """What is measured: name -> (a call that waits for its end, its frames)."""
    core, sizes = CONTENDERS[contender]
    config = configs.change(
        configs.defaults(task=task, core=core),
        {"streams": settings.streams, "devices": settings.devices, "net": {"memory": 64, **sizes}},
    )
    config = choose_devices(dataclasses.replace(config, unroll=32))
    made: dict[str, tuple[Callable[[], Any], int]] = {}
    if config.devices > 1:
        made["all"] = _whole(config, settings.frames)
    config = dataclasses.replace(config, devices=1)
    made["one"] = _whole(config, settings.frames)
    loop, training = build(config)
    periods = max(1, settings.frames // (loop.frames_per_update * loop.period))
    frames = periods * loop.period * loop.frames_per_update
    arrays, rest = eqx.partition(training, eqx.is_array)

    def acting(arrays: Any) -> Any:
        training = eqx.combine(arrays, rest)
        agent = training.trained.agent

        def unroll(carry: Any, key: Any) -> Any:
            memory, situation = carry
            keys = jax.random.split(key, settings.streams)
            memory, situation, record, _ = act(agent, loop.task, memory, situation, keys=keys, steps=loop.unroll)
            return (memory, situation), jnp.sum(record.reward)

        start = agent.prepare(training.memory), training.situation
        _, rewards = jax.lax.scan(unroll, start, jax.random.split(jax.random.key(0), frames // loop.frames_per_update))
        return rewards

    def task_alone(arrays: Any) -> Any:
        del arrays
        (task,) = loop.tasks
        space = task.action_space
        keys = jax.random.split(jax.random.key(0), settings.streams)
        situation = begin(loop.task, keys)

        def step(state: Any, key: Any) -> Any:
            if hasattr(space, "n"):
                actions = jax.random.randint(key, (settings.streams,), 0, int(space.n))  # pyright: ignore
            else:
                actions = jax.random.normal(key, (settings.streams, *space.shape))  # pyright: ignore
            state, after = jax.vmap(task.step)(state, actions)
            return state, jnp.sum(after.reward)

        _, rewards = jax.lax.scan(step, situation.task, jax.random.split(jax.random.key(1), frames // settings.streams))
        return rewards

    for name, part in (("acting and task", acting), ("task", task_alone)):
        program = jax.jit(part).lower(arrays).compile()
        made[name] = (lambda program=program: jax.block_until_ready(program(arrays)), frames)
    return made


def _whole(config: Any, frames: int) -> tuple[Callable[[], Any], int]:
    loop, training = build(config)
    periods = max(1, frames // (loop.frames_per_update * loop.period))
    arrays, rest = eqx.partition(training, eqx.is_array)

    def whole(arrays: Any) -> Any:
        training, report = loop.run(eqx.combine(arrays, rest), periods)
        return eqx.filter(training, eqx.is_array), report.metrics["loss"]

    compiled = jax.jit(whole).lower(arrays).compile()
    return lambda: jax.block_until_ready(compiled(arrays)), periods * loop.period * loop.frames_per_update


def main() -> None:
    """Measures and prints."""
    settings = tyro.cli(Settings, description=__doc__)
    rows = []
    for task in settings.tasks:
        made = {}
        for contender in settings.contenders:
            _say(f"{task}: compiling {contender}")
            made[contender] = programs(settings, task, contender)
        speeds: dict[tuple[str, str], list[float]] = {}
        for repeat in range(settings.repeats + 1):  # the first warms up
            _say(f"{task}: round {repeat} of {settings.repeats}" if repeat else f"{task}: warming up")
            for contender, parts in made.items():
                for part, (call, frames) in parts.items():
                    start = time.perf_counter()
                    call()
                    if repeat:
                        speeds.setdefault((contender, part), []).append(frames / (time.perf_counter() - start))
        middle = {key: statistics.median(values) for key, values in speeds.items()}
        fastest = "all" if ("lstm 1 x 128", "all") in middle else "one"
        lstm = middle.get(("lstm 1 x 128", fastest))
        for contender in made:
            one, acting, alone = (1 / middle[contender, part] for part in ("one", "acting and task", "task"))
            speed = middle[contender, fastest]
            rows.append(
                {
                    "task": task,
                    "core": contender,
                    "frames_per_second": round(speed),
                    "least": round(min(speeds[contender, fastest])),
                    "most": round(max(speeds[contender, fastest])),
                    "on_one_core": round(1 / one),
                    "task_share": round(alone / one, 3),
                    "acting_share": round(max(0.0, acting - alone) / one, 3),
                    "learning_share": round(max(0.0, one - acting) / one, 3),
                    "times_lstm": round(lstm / speed, 2) if lstm else None,
                }
            )
    devices = len(jax.local_devices())
    print(f"{settings.streams} streams, unrolls of 32 steps; all: {devices} devices")
    made_table = table("task", ["core", "all cores", "spread", "one device", "task", "acting", "learning", "x LSTM's cost"])
    for row in rows:
        shares = (f"{row[name]:.0%}" for name in ("task_share", "acting_share", "learning_share"))
        spread = f"{row['least']:,}-{row['most']:,}"
        times = "" if row["times_lstm"] is None else f"{row['times_lstm']:.1f}"
        speed, single = f"{row['frames_per_second']:,}", f"{row['on_one_core']:,}"
        made_table.add_row(row["task"], row["core"], speed, spread, single, *shares, times)
    print_table(made_table)
    if settings.out is not None:
        kept = json.loads(settings.out.read_text())["rows"] if settings.out.exists() else []
        rows = [row for row in kept if row["task"] not in settings.tasks] + rows
        told = {"command": "python benchmarks/train.py", "streams": settings.streams, "devices": devices, "rows": rows}
        settings.out.write_text(json.dumps(told, indent=1) + "\n")


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
