"""What Ray costs: the sizes of what travels, and the time an unroll takes beyond the actor's own, next to processes without Ray.

    python benchmarks/ray_actors.py --actors 2 --seconds 10

One actor after the other is asked for one unroll at a time, so the time on the way is not hidden behind the next unroll.
"""

import dataclasses
import json
import pathlib
import pickle
import platform
import statistics
import time

import jax
import numpy as np
import tyro

from gtrxl.gym.by_name import parse
from gtrxl.runs.presets import defaults
from gtrxl.training.actors.actor import Assignment
from gtrxl.training.actors.fleet import Fleet, LocalFleet
from gtrxl.training.actors.packets import Packet
from gtrxl.training.actors.ray_fleet import RayFleet
from gtrxl.training.building import make_agent


@dataclasses.dataclass(frozen=True)
class Settings:
    """What to measure, and where it goes."""

    task: str = "gym:CartPole-v1"
    cores: tuple[str, ...] = ("lstm", "gtrxl-gru")
    actors: int = 2
    tasks: int = 8
    """K, of each actor."""
    unroll: int = 32
    """T."""
    seconds: float = 10.0
    """Of each measurement, after the first unroll of every actor."""
    data: pathlib.Path = pathlib.Path("docs/data/ray_actors.json")


def one_at_a_time(fleet: Fleet, seconds: float) -> tuple[Packet, list[float], list[float]]:
    """A packet; the seconds of unrolls as the actors say, and as seen from here."""
    for actor in range(fleet.size):
        fleet.ask(actor)
    packets = []
    while len(packets) < fleet.size:
        for _, answer in fleet.wait(1.0):
            if not isinstance(answer, Packet):
                raise RuntimeError(answer.message)
            packets.append(answer)
    inside, outside = [], []
    until, actor = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        begun = time.perf_counter()
        fleet.ask(actor)
        came = fleet.wait(60.0)
        outside.append(time.perf_counter() - begun)
        inside += [answer.seconds.whole for _, answer in came if isinstance(answer, Packet)]
        actor = (actor + 1) % fleet.size
    return packets[0], inside, outside


def main(settings: Settings) -> None:
    """Both engines, each core."""
    rows = []
    for core in settings.cores:
        config = defaults(task=settings.task, core=core, algorithm="vmpo")
        task = parse(config.task)
        agent = jax.tree.map(np.asarray, make_agent(config, task.spaces(), jax.random.key(0)))
        assignment = Assignment(task=task, streams=settings.tasks, steps=settings.unroll, seed=0)
        for engine, kind in (("processes", LocalFleet), ("ray", RayFleet)):
            with kind(assignment, settings.actors) as fleet:
                fleet.publish(0, agent)
                packet, inside, outside = one_at_a_time(fleet, settings.seconds)
            rows.append(
                {
                    "engine": engine,
                    "core": core,
                    "packet_bytes": len(pickle.dumps(packet, pickle.HIGHEST_PROTOCOL)),
                    "weights_bytes": len(pickle.dumps(agent, pickle.HIGHEST_PROTOCOL)),
                    "unrolls": len(outside),
                    "unroll_ms": 1e3 * statistics.median(inside),
                    "on_the_way_ms": 1e3 * (statistics.median(outside) - statistics.median(inside)),
                }
            )
            print(json.dumps(rows[-1]))
    asked = {name: value for name, value in dataclasses.asdict(settings).items() if name != "data"}
    made = {"made_by": "python benchmarks/ray_actors.py", "machine": platform.platform(), "settings": asked}
    settings.data.parent.mkdir(parents=True, exist_ok=True)
    settings.data.write_text(json.dumps({**made, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Settings))
