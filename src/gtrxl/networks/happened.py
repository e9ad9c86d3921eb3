"""What a core may be asked to predict, from what an agent sees and does: as sizes when it is made, as arrays of a batch.

B streams, T steps. A core knows nothing of tasks: here their observations and actions become its own words
(`gtrxl.cores.contract`).
"""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from gtrxl.cores.contract import Happened, Observed
from gtrxl.tasks.specs import VECTOR, ActionSpec, ObservationSpec


def observed_of(seen: ObservationSpec, acts: ActionSpec) -> Observed:
    """The sizes of a task's observations and actions."""
    return Observed(vector=seen.vector, images=seen.images, choices=acts.discrete, numbers=acts.continuous)


def happened_of(
    acts: ActionSpec,
    observation: PyTree,
    action: PyTree,
    *,
    reward: Float[Array, "B T"],
    returns: Float[Array, "B T"],
    reset: Bool[Array, "B T"],
    valid: Bool[Array, "B T"],
) -> Happened:
    """A batch of them; `observation` is as the torso takes it, its numbers at a common size."""
    parts = observation if isinstance(observation, dict) else {VECTOR: observation}
    lead = reward.shape
    choices = {"categorical": lambda: action[..., None], "gaussian": lambda: None, "hybrid": lambda: action.get("discrete")}
    numbers = {"categorical": lambda: None, "gaussian": lambda: action, "hybrid": lambda: action.get("continuous")}
    chosen, made = choices[acts.kind](), numbers[acts.kind]()
    return Happened(
        vector=parts.get(VECTOR, jnp.zeros((*lead, 0))),
        images={name: part for name, part in parts.items() if part.dtype == jnp.uint8},
        choices=jnp.zeros((*lead, 0), jnp.int32) if chosen is None else chosen,
        numbers=jnp.zeros((*lead, 0)) if made is None else made,
        reward=reward,
        returns=returns,
        reset=reset,
        valid=valid,
    )
