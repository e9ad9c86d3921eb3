"""Tasks that misbehave, and an agent to play them; importable by Ray's workers."""

import ctypes
import dataclasses
import functools
import ipaddress
import json
import os
import pathlib
import signal
import time

import equinox as eqx
import gymnasium
import jax
import numpy as np

from gtrxl.algorithms import VMPO
from gtrxl.cores import make_core
from gtrxl.gym.by_name import parse
from gtrxl.gym.task import GymTask
from gtrxl.networks.agent import Agent, Torso
from gtrxl.networks.policies import Head
from gtrxl.runs import metrics
from gtrxl.runs.checkpoints import Checkpoints
from gtrxl.runs.config import FleetSettings, Net
from gtrxl.runs.presets import defaults
from gtrxl.training.actors.actor import Assignment
from tests.training import crew


class Odd(gymnasium.Env):
    """Does as it should until its fifth step."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, habit: str):
        self.habit, self.steps = habit, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        if self.habit == "dawdles":
            time.sleep(0.2)
        if self.steps == 5:
            if self.habit == "sleeps":
                time.sleep(1000)
            elif self.habit == "clutches":  # sleeps in C and never lets another thread of Python run
                ctypes.PyDLL(None).sleep(1000)
            elif self.habit == "exits":
                os._exit(3)
            elif self.habit == "raises":
                raise KeyError("the third door")
        return np.zeros(2, np.float32), 0.0, False, self.steps % 7 == 0, {}


def odd(habit: str, **settings) -> Assignment:
    task = GymTask(habit, previous="none", env_fn=functools.partial(Odd, habit))
    return Assignment(task=task, streams=1, steps=4, seed=0, **settings)


def cartpole(**settings) -> Assignment:
    return Assignment(task=parse("gym:CartPole-v1"), streams=2, steps=5, seed=0, **settings)


def agent(observation: int, *, seed: int = 0) -> Agent:
    """A small LSTM, its arrays NumPy's."""
    keys = jax.random.split(jax.random.key(seed), 3)
    core = make_core("lstm", input_size=8, d_model=8, layers=1, key=keys[1])
    made = Agent(torso=Torso(observation, 8, key=keys[0]), core=core, head=Head(Odd.action_space), hidden=8, key=keys[2])
    return jax.tree.map(np.asarray, made)


# A learner that is killed


def numbers(tree) -> list[np.ndarray]:
    """Every array of a learner's state, in order."""
    leaves = jax.tree.leaves(eqx.filter(tree, eqx.is_array))
    plain = [jax.random.key_data(leaf) if jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf for leaf in leaves]
    return [np.array(leaf) for leaf in plain]


def killed(folder: str) -> None:
    """Learns on a cluster of its own. Notes what checkpoints are made of and, before it kills itself, what it leaves behind."""
    home = pathlib.Path(folder)
    written, save = metrics.Metrics.write, Checkpoints.save

    def noting_save(self, step, tree, score=None, **told):
        save(self, step, tree, score, **told)
        np.savez(home / f"saved-{step}.npz", *numbers(tree))

    def fatal_write(self, row):
        written(self, row)
        if row["updates"] == 6:
            pids = descendants(os.getpid())
            left = {"processes": {pid: name(pid) for pid in pids}, "listening": listening(pids)}
            (home / "left.json").write_text(json.dumps(left))
            os.kill(os.getpid(), signal.SIGKILL)

    Checkpoints.save, metrics.Metrics.write = noting_save, fatal_write
    config = dataclasses.replace(
        defaults(task="gym:CartPole-v1", core="lstm", algorithm="vmpo"),
        net=Net(layers=1, width=8, torso=8, hidden=8),
        learner=VMPO(target_period=2),
        fleet=FleetSettings(engine="ray", actors=2, tasks=2),
        streams=4,
        unroll=5,
        steps=4 * 5 * 8,
        reports=4,
        checkpoint_every=1,
    )
    crew.train(config, crew.gym_task(config), run=home / "run", quiet=True, board=False)


def parents() -> dict[int, int]:
    """Every process and its parent."""
    found = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            found[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
    return found


def descendants(pid: int) -> list[int]:
    found, level, parent = [], {pid}, parents()
    while level:
        level = {child for child, above in parent.items() if above in level}
        found += level
    return found


def name(pid: int) -> str:
    return pathlib.Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()


def is_running(pid: int) -> bool:
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def listening(pids: list[int]) -> list[str]:
    """The addresses that these processes accept connections at."""
    sockets = set()
    for pid in pids:
        for link in pathlib.Path(f"/proc/{pid}/fd").glob("*"):
            try:
                sockets.add(os.readlink(link))
            except OSError:
                continue
    found = []
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            local, state = fields[1], fields[3]
            if state == "0A" and f"socket:[{fields[9]}]" in sockets:
                words = bytes.fromhex(local.partition(":")[0])
                address = ipaddress.ip_address(b"".join(words[i : i + 4][::-1] for i in range(0, len(words), 4)))
                found.append(str(getattr(address, "ipv4_mapped", None) or address))
    return found
