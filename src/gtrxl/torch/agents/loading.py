"""The trained agent of a run, or of an exported file, found again as a PyTorch module."""

import os
from typing import Any

import equinox as eqx

from gtrxl.evaluation.compiled import CompiledAgent
from gtrxl.evaluation.gym_agent import GymAgent
from gtrxl.evaluation.loading import agents_of, restore_agent
from gtrxl.evaluation.restored import Restored
from gtrxl.runs.folder import Which
from gtrxl.torch.agents.acting import TorchCompiledAgent, TorchGymAgent
from gtrxl.torch.agents.building import twin
from gtrxl.torch.networks.agent import Agent
from gtrxl.training.session import EnvFn


def load(
    run: str | os.PathLike[str],
    which: Which | int = "best",
    *,
    task: str | None = None,
    device: Any = "cpu",
    env_fn: EnvFn | None = None,
    trust: bool = False,
    **given: Any,
) -> TorchCompiledAgent | TorchGymAgent:
    """The trained agent of a run, or of an exported file, computed by PyTorch on `device`.

    It has the calls of `gtrxl.load`'s and gives the same actions for the same observations and seeds. `agent.module` is the
    `nn.Module`. The rest is as in `gtrxl.load`.
    """
    restored = restore_agent(run, which, env_fn=env_fn, trust=trust, **given)
    return acting(restored, twin(restored.agent).to(device), task)


def acting(restored: Restored, module: Agent, task: str | None = None) -> TorchCompiledAgent | TorchGymAgent:
    """The module in the task it was trained on, or in another that is seen and acted on alike."""
    shapes = eqx.filter_eval_shape(lambda: restored.agent)
    agent = agents_of(shapes, restored.config, restored.tasks, task)[0]
    if isinstance(agent, GymAgent):
        return TorchGymAgent(agent=shapes, task=agent.task, spaces=agent.spaces, module=module)
    assert isinstance(agent, CompiledAgent)
    return TorchCompiledAgent(agent=shapes, task=agent.task, module=module)
