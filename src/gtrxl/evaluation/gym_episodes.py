"""Scores on a Gymnasium task: whole episodes of an agent, or of one that acts at random, played from this process.

A task of which a process holds only one (DeepMind Lab) is played in processes of their own, side by side.

E episodes, K streams.
"""

import concurrent.futures
import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from gtrxl.cores import State
from gtrxl.evaluation.trained_agent import OTHER, choose, empty_memory
from gtrxl.gym.isolated import IsolatedEnv
from gtrxl.gym.spaces import ActionSpec
from gtrxl.gym.stream import EnvStream, TaskFault
from gtrxl.gym.task import GymTask
from gtrxl.networks.agent import Agent
from gtrxl.runs.errors import RunError
from gtrxl.training.actors.actor import stacked

AT_ONCE = 16
"""Episodes played side by side."""
PROCESSES = 4
"""The same, of tasks in processes of their own; a fixed number, because it decides which episodes are played."""
Act = Callable[[list[EnvStream], int], list[Any]]
"""What every stream does at a step."""
Begin = Callable[[int], State]
ActMany = Callable[[Any, State, Any, PRNGKeyArray], tuple[Any, State]]


def returns(agent: Agent, task: GymTask, *, episodes: int, seed: int = 0, greedy: bool = False) -> Float[np.ndarray, " E"]:
    """The scores of `episodes` episodes; `greedy` takes the likeliest action instead of drawing one."""
    return returns_of(
        lambda streams: empty_memory(agent, streams),
        lambda seen, memory, reset, key: _act(agent, seen, memory, reset, key, greedy),
        task,
        episodes=episodes,
        seed=seed,
    )


def returns_of(begin: Begin, act: ActMany, task: GymTask, *, episodes: int, seed: int = 0) -> Float[np.ndarray, " E"]:
    """The scores of whatever acts in many streams: `begin(streams)` is its memory before the first step, and
    `act(seen, memory, reset, key)` gives the actions of all streams and the next memory."""
    key = jax.random.key(seed + OTHER)
    memory: State = None

    def each(streams: list[EnvStream], step: int) -> list[Any]:
        nonlocal memory
        memory = begin(len(streams)) if memory is None else memory
        reset = np.array([stream.reset for stream in streams])
        seen = stacked([stream.observation for stream in streams])
        action, memory = act(seen, memory, reset, jax.random.fold_in(key, step))
        action = jax.device_get(action)
        return [jax.tree.map(lambda leaf: leaf[k], action) for k in range(len(streams))]

    return _play(task, each, episodes=episodes, seed=seed)


def random_returns(task: GymTask, *, episodes: int, seed: int = 0) -> Float[np.ndarray, " E"]:
    """The scores of `episodes` episodes with every action as likely as every other."""
    generator = np.random.default_rng([OTHER, seed])

    def act(streams: list[EnvStream], step: int) -> list[Any]:
        return [random_action(stream.spaces.hand.spec, generator) for stream in streams]

    return _play(task, act, episodes=episodes, seed=seed)


def random_action(spec: ActionSpec, generator: np.random.Generator) -> Any:
    """Any action of this kind, for one stream: choices uniform, numbers uniform in [-1, 1]."""
    discrete = generator.integers(0, spec.discrete) if spec.discrete else np.zeros(0, np.int64)
    continuous = generator.uniform(-1, 1, spec.continuous).astype(np.float32)
    if spec.kind != "hybrid":
        return discrete[0] if spec.kind == "categorical" else continuous
    return ({"discrete": discrete} if spec.discrete else {}) | ({"continuous": continuous} if spec.continuous else {})


def _play(task: GymTask, act: Act, *, episodes: int, seed: int) -> Float[np.ndarray, " E"]:
    """Every stream plays its share of the episodes to the end: the first to end would be the short ones."""
    if episodes < 1:
        raise RunError(f"episodes must be at least 1, got {episodes}; 100 give a fair idea")
    if len(task.tasks) > 1:
        raise RunError(f"one task is played at a time, got the {len(task.tasks)} of {task.name}; play each of its `tasks`")
    count = min(PROCESSES if task.alone else AT_ONCE, episodes)
    share = [episodes // count + (k < episodes % count) for k in range(count)]
    scores: list[list[float]] = [[] for _ in range(count)]
    streams: list[EnvStream] = []
    try:
        for k, each in enumerate(np.random.SeedSequence([OTHER, seed]).generate_state(count)):
            make = functools.partial(IsolatedEnv, task) if task.alone else None
            streams.append(EnvStream(task, seed=int(each), index=k, make=make))
        # Those in processes of their own are waited for all at once.
        with concurrent.futures.ThreadPoolExecutor(count if task.alone else 1) as pool:
            each_at_once = pool.map if task.alone else map
            step = 0
            while playing := [k for k in range(count) if len(scores[k]) < share[k]]:
                actions = act(streams, step)
                for k, moved in zip(playing, each_at_once(lambda k: streams[k].move(actions[k]), playing), strict=True):
                    if moved.ended is not None:
                        scores[k].append(moved.ended.score)
                step += 1
    except TaskFault as fault:
        raise RunError(str(fault)) from fault
    finally:
        for stream in streams:
            stream.close()
    return np.array([score for some in scores for score in some])


@eqx.filter_jit
def _act(agent: Agent, seen: Any, memory: State, reset: Any, key: PRNGKeyArray, greedy: bool) -> tuple[Any, State]:
    policy, _, memory = agent.step(seen, memory, reset=reset)
    return choose(agent, policy, key, len(reset), greedy), memory
