"""What the small preset changes for each task: settings found to learn on a CPU. docs/learning.md has the runs."""

import dataclasses
from typing import Any

from gtrxl.envs.catalogue import make_task
from gtrxl.envs.contract import Task
from gtrxl.envs.grid_numpad import GridNumpad
from gtrxl.envs.host import is_host
from gtrxl.envs.numpad import Numpad
from gtrxl.learner import VMPO
from gtrxl.runtime.config import Config

GYM: dict[str, Any] = {"eps_eta": 0.1, "eps_alpha": 0.05, "alpha_init": 0.3, "lam": 0.95}
"""V-MPO for a task that nothing is known about."""


def small(config: Config[Any]) -> Config[Any]:
    """The settings for `config`'s task."""
    if is_host(config.task):
        config = dataclasses.replace(config, steps=500_000)
        learner = dataclasses.replace(config.learner, **GYM) if isinstance(config.learner, VMPO) else config.learner
        return dataclasses.replace(config, learner=learner)
    task = make_task(config.task)
    net = dataclasses.replace(config.net, memory=_memory(task))
    config = dataclasses.replace(config, net=net, **_sizes(task))
    if isinstance(config.learner, VMPO):
        config = dataclasses.replace(config, learner=dataclasses.replace(config.learner, **_vmpo(task)))
    return config


def _memory(task: Task) -> int:
    """Steps to look back: an episode, where that is affordable."""
    return min(max(64, task.episode_steps), 256)


def _sizes(task: Task) -> dict[str, Any]:
    if isinstance(task, Numpad):
        return {"steps": 30_000_000, "streams": 32, "unroll": 64, "discount": 0.99}
    if isinstance(task, GridNumpad) and task.size > 2:
        return {"steps": 30_000_000, "streams": 32}
    if isinstance(task, GridNumpad):
        return {"steps": 3_000_000}
    return {"steps": 1_000_000}


def _vmpo(task: Task) -> dict[str, Any]:
    if isinstance(task, GridNumpad) and task.size > 2:
        # The first policy is held back until the values mean something: on 2 x 2 pads that only costs time.
        return {"eps_eta": 0.5, "eps_alpha": 0.03, "alpha_init": 5.0}
    if isinstance(task, Numpad):
        return {"lam": 0.95, "eps_eta": 0.2, "eps_covariance": 1e-3}
    if isinstance(task, GridNumpad):
        return {"eps_eta": 0.2, "eps_alpha": 0.02, "alpha_init": 0.3}
    # Solved in a few thousand updates; at 1e-3 they are then lost again and found again (docs/log.md).
    return {"eps_eta": 0.2, "eps_alpha": 0.02, "alpha_init": 0.3, "learning_rate": 3e-4}
