"""What docs/algorithms.md shows is true: its learner has a loss, a gradient and an optimiser, and its names are there."""

import re
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp

import gtrxl
from gtrxl.algorithms import Inputs, vmpo

PAGE = (Path(__file__).parent.parent / "docs" / "algorithms.md").read_text()
B, T = 2, 3


def test_the_learner_learns_what_paid():
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict = {"__name__": "example"}
    exec(example, names)
    learner = names["A2C"](lam=0.0)
    assert isinstance(learner, gtrxl.Learner)
    # The first action of every stream pays, nothing else does, and the value expects nothing.
    reward = jnp.zeros((B, T)).at[:, 0].set(1.0)
    inputs = Inputs(
        reward=reward,
        discount=jnp.full((B, T), 0.9),
        valid=jnp.ones((B, T), bool),
        log_prob=jnp.full((B, T), -1.0),
        behaviour_log_prob=jnp.full((B, T), -1.0),
        entropy=jnp.ones((B, T)),
        kl={"categorical": jnp.zeros((B, T))},
        value=jnp.zeros((B, T + 1)),
        behaviour_value=jnp.zeros((B, T + 1)),
        shift=jnp.zeros(B),
        scale=jnp.ones(B),
    )

    def loss(log_prob):
        return learner.loss({}, eqx.tree_at(lambda of: of.log_prob, inputs, log_prob))[0]

    slope = jax.grad(loss)(inputs.log_prob)
    assert bool(jnp.all(slope[:, 0] < 0))
    assert bool(jnp.all(slope[:, 1:] == 0))
    _, report = learner.loss({}, inputs)
    assert {"loss", "loss_policy", "loss_value", "loss_entropy", "entropy", "kl_categorical"} <= set(report)
    learner.optimiser().init({"weight": jnp.zeros(3)})


def test_the_terms_it_names_are_there():
    assert all(callable(getattr(vmpo, name)) for name in re.findall(r"`(?:gtrxl\.algorithms\.vmpo\.)?(\w+_\w+)`", _terms()))


def _terms() -> str:
    (found,) = re.findall(r"V-MPO's terms are public functions.*?`kl_loss`", PAGE, re.DOTALL)
    return found
