"""An agent of a run's sizes for a run's tasks."""

import dataclasses
import reprlib
from typing import Any

import jax

from gtrxl.cores.catalogue import CORES, make_core
from gtrxl.cores.contract import offered
from gtrxl.gym.spaces import Spaces
from gtrxl.networks.agent import Agent
from gtrxl.networks.encoder import make_torso
from gtrxl.networks.happened import observed_of
from gtrxl.networks.normaliser import Normaliser
from gtrxl.networks.policies import Head
from gtrxl.runs.config import CHANNELS, Config
from gtrxl.runs.errors import RunError, first_line
from gtrxl.tasks.contract import Task
from gtrxl.tasks.specs import ObservationSpec
from gtrxl.training.update import Update


def make_agent(config: Config[Any], shown: Task | Spaces, key: jax.Array, *, values: int = 1) -> Agent:
    """A new agent of these sizes for what a compiled task or a Gymnasium task shows; with a value for each of so many tasks."""
    torso_key, core_key, heads_key = jax.random.split(key, 3)
    net = config.net
    if isinstance(shown, Spaces):
        seen, head = shown.lens.spec, Head(shown.hand.spec, widest=config.gym.widest_noise)
        seen = dataclasses.replace(seen, measured=()) if config.gym.raw_numbers else seen
    else:
        seen, head = ObservationSpec.of(shown.observation_space), Head(shown.action_space)
    torso = make_torso(seen, net.torso, channels=CHANNELS[net.channels], key=torso_key)
    torso = Normaliser(torso, seen) if seen.measured else torso
    core = offered(_core(config, core_key), "observing")(observed_of(seen, head.spec), key=jax.random.fold_in(core_key, 1))
    return Agent(
        torso=torso,
        core=core,
        head=head,
        hidden=net.hidden,
        values=values,
        output_norm=net.output_norm,
        pixel_control=config.pixel_control > 0,
        key=heads_key,
    )


def _core(config: Config[Any], key: jax.Array) -> Any:
    try:
        return make_core(config.core, input_size=config.net.torso, key=key, **config.core_arguments())
    except TypeError as error:
        if config.core not in CORES:
            raise  # a mistake in somebody's own core keeps its traceback
        said = f"core_args must fit {config.core}, got {reprlib.repr(config.core_args)}: {first_line(error)}"
        raise RunError(f"{said}; leave them out") from error


def update_of(config: Config[Any], **where: Any) -> Update:
    """How these settings learn from a batch; `where` says on what devices, and which settings stay outside of the program."""
    return Update(
        learner=config.learner,
        discount=config.discount,
        popart_step=config.popart_step,
        pixel_control=config.pixel_control,
        prediction_weight=config.prediction_weight,
        final_rate=config.final_rate,
        last=float(config.last_update) if config.last_update else None,
        **where,
    )
