"""An algorithm of your own: advantage actor-critic (A2C, Mnih et al. 2016), with RMSprop.

    python examples/own_algorithm.py
    gtrxl train t-maze --algorithm own_algorithm:A2C --learner.entropy-cost 0.02 --from examples

A learner is a frozen record of numbers, which become options of the command line, with a loss. What the network said about a
batch comes as `Inputs`; how it is unrolled, from which memory and on how many devices, is not the learner's business.

B streams, T steps.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

import gtrxl
from gtrxl.algorithms import Inputs, masked, returns


@dataclass(frozen=True, kw_only=True)
class A2C(gtrxl.Learner):
    """Policy gradient with the advantage of lambda-returns, one step for each batch."""

    learning_rate: float = 2e-3
    """RMSprop's step size."""
    lam: float = 0.95
    """lambda of the returns."""
    max_grad_norm: float = 0.5
    """Gradients longer than this are shortened to it."""
    entropy_cost: float = 0.01
    """Weight of the entropy bonus."""
    value_cost: float = 0.5
    """Weight of the squared error of the value."""

    def optimiser(self) -> optax.GradientTransformation:
        """Adam, if a learner does not say otherwise."""
        return optax.chain(optax.clip_by_global_norm(self.max_grad_norm), optax.rmsprop(self.learning_rate, decay=0.99, eps=1e-5))

    def targets(self, inputs: Inputs) -> Float[Array, "B T"]:
        """What the value should have said, in units of the reward."""
        value = inputs.in_reward_units(jax.lax.stop_gradient(inputs.value))
        return returns(reward=inputs.reward, discount=inputs.discount, value=value, valid=inputs.valid, lam=self.lam)

    def loss(self, multipliers: dict[str, Array], inputs: Inputs) -> tuple[Float[Array, ""], dict[str, Array]]:
        """The loss of a batch, and numbers to report. Steps that are not valid count nowhere."""
        del multipliers  # numbers trained along with the network: V-MPO has some, A2C none
        valid = inputs.valid
        error = inputs.normalised(self.targets(inputs)) - inputs.value[:, :-1]
        advantage = jax.lax.stop_gradient(error)
        parts = {
            "loss_policy": -masked.mean(advantage * inputs.log_prob, valid),
            "loss_value": self.value_cost * masked.mean(jnp.square(error), valid),
            "loss_entropy": -self.entropy_cost * masked.mean(inputs.entropy, valid),
        }
        loss = jnp.sum(jnp.stack(list(parts.values())))
        return loss, {**parts, "loss": loss, "entropy": masked.mean(inputs.entropy, valid)}


def main(*, task: str = "t-maze:corridor=10", **changes: Any) -> gtrxl.Run:
    """Trains with it."""
    run = gtrxl.train(algorithm=A2C, task=task, **changes)
    print(f"A2C: mean return {run.mean_return} in {run.config.task} after {run.rows[-1]['frames']:,} frames")
    return run


if __name__ == "__main__":
    main(learner={"entropy_cost": 0.02}, steps=300_000)
