"""Batches to test learners with. B streams, T steps."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gtrxl.algorithms import Inputs

B, T = 3, 7


def make(seed=0, *, kl=("categorical",), all_valid=False):
    """A batch as float64 arrays by name: episodes that end, episodes cut by a time limit, and two tasks' scales."""
    random = np.random.default_rng(seed)
    normal = random.standard_normal
    discount, valid = np.full((B, T), 0.9), np.ones((B, T), bool)
    if not all_valid:
        discount[0, 2], valid[0, 3] = 0.0, False  # ended: what follows is the last observation
        valid[1, 4] = False  # cut by a time limit: the discount before it stays
        discount[2, 5], valid[2, 6] = 0.0, False
        valid[2, 0] = False
    batch = {
        "reward": normal((B, T)),
        "discount": discount,
        "valid": valid,
        "log_prob": -np.abs(normal((B, T))) - 0.1,
        "entropy": np.abs(normal((B, T))),
        "value": normal((B, T + 1)),
        "behaviour_value": normal((B, T + 1)),
        "shift": np.array([0.0, 0.5, 0.5]),
        "scale": np.array([1.0, 3.0, 3.0]),
    }
    batch["behaviour_log_prob"] = batch["log_prob"] + 0.4 * normal((B, T))
    batch |= {f"kl_{name}": np.abs(normal((B, T))) for name in kl}
    return batch


def inputs(batch):
    """The batch as a learner takes it."""
    kl = {name[3:]: jnp.asarray(of, jnp.float32) for name, of in batch.items() if name.startswith("kl_")}
    fields = {name: batch[name] for name in Inputs.__dataclass_fields__ if name != "kl"}
    return Inputs(kl=kl, **{name: jnp.asarray(of, bool if name == "valid" else jnp.float32) for name, of in fields.items()})


def multipliers(batch):
    """The multipliers among a batch's arrays."""
    return {name: jnp.asarray(of, jnp.float32) for name, of in batch.items() if name == "eta" or name.startswith("alpha_")}


@eqx.filter_jit
def loss_and_gradients(learner, multipliers, inputs):
    """The loss, its report, and the gradients by (multipliers, inputs)."""

    def loss(free):
        return learner.loss(*free)

    (value, report), gradients = eqx.filter_value_and_grad(loss, has_aux=True)((multipliers, inputs))
    return value, report, gradients


def repeated(batch):
    """The same batch twice, stream after stream."""
    return {name: np.concatenate([of, of]) if np.ndim(of) else of for name, of in batch.items()}


def target_after(*, online, target, step, period: int):
    """The acting network after `step` updates: a copy of the online one if that is due, else as it was."""
    due = jnp.asarray(step) % period == 0
    return jax.tree.map(lambda new, old: jnp.where(due, new, old), online, target)
