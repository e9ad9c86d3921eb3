"""Actors, agents and a fleet in this process, small enough for tests."""

import dataclasses
import functools

import jax

from gtrxl import Net, defaults
from gtrxl.gym.task import GymTask
from gtrxl.runs.folder import Run
from gtrxl.runs.tasks import GymTasks
from gtrxl.training.actors.actor import Actor, Assignment
from gtrxl.training.actors.engine import ActorsEngine
from gtrxl.training.actors.packets import Failure, Packet
from gtrxl.training.building import make_agent
from gtrxl.training.session import Outputs, begin, go_on
from tests.training.toys import Counter

TASK = GymTask("Counter", env_fn=Counter, previous="action+reward")
NET = Net(layers=1, width=8, heads=1, head_dim=8, mlp=8, memory=4, torso=8, hidden=8)


@functools.cache
def agent_for(core="lstm", seed=0, task=TASK):
    config = dataclasses.replace(defaults(task="gym:CartPole-v1", core=core, algorithm="vmpo"), net=NET)
    return jax.device_get(make_agent(config, task.spaces(), jax.random.key(seed)))


def assignment(task=TASK, *, streams=2, steps=4, **others):
    return Assignment(task=task, streams=streams, steps=steps, seed=3, **others)


class InlineFleet:
    """Actors in this process, each called when it is waited for. `fate(actor, asks)` may name a failure instead of an unroll."""

    size: int

    def __init__(self, assignment, actors, *, fate=lambda actor, asks: None):
        self.assignment, self.size = assignment, actors
        self.fate = fate
        self.actors = [Actor(assignment, i) for i in range(actors)]
        self.attempts = [0] * actors
        self.asked, self.asks = [], [0] * actors
        self.weights = (-1, None)
        self.published, self.closed = [], False

    def publish(self, version, weights):
        self.weights = (version, weights)
        self.published.append(version)

    def ask(self, actor):
        self.asked.append(actor)
        self.asks[actor] += 1

    def wait(self, timeout) -> list[tuple[int, Packet | Failure]]:
        if not self.asked:
            return []
        actor = self.asked.pop(0)
        if self.fate(actor, self.asks[actor]):
            return [(actor, Failure(actor, "raised", self.fate(actor, self.asks[actor])))]
        version, weights = self.weights
        return [(actor, self.actors[actor].answer(weights, version))]

    def restart(self, actor):
        self.attempts[actor] += 1
        self.actors[actor].close()
        self.actors[actor] = Actor(self.assignment, actor, attempt=self.attempts[actor])
        self.asked = [other for other in self.asked if other != actor]

    def close(self):
        self.closed = True
        for actor in self.actors:
            actor.close()


def engine(config, task, *, open_fleet=None) -> ActorsEngine:
    return ActorsEngine(config, GymTasks(task), open_fleet=open_fleet)


def train(config, task, *, run, quiet=False, board=True, open_fleet=None) -> Run:
    return begin(engine(config, task, open_fleet=open_fleet), run, Outputs(quiet=quiet, board=board))


def resume(config, task, folder, *, quiet=False, board=True, open_fleet=None) -> Run:
    return go_on(engine(config, task, open_fleet=open_fleet), folder, Outputs(quiet=quiet, board=board))


def gym_task(config) -> GymTask:
    """The task of settings that are a Gymnasium task's."""
    assert isinstance(config.tasks, GymTasks)
    return config.tasks.task
