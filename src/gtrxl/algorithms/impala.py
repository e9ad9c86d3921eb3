"""V-trace (IMPALA), to compare V-MPO with. B streams, T steps."""

from dataclasses import dataclass

import jax
from jaxtyping import Array, Float

from gtrxl.algorithms import masked
from gtrxl.algorithms.contract import Inputs, Learner, Metrics, Multipliers, common_metrics, summed, value_loss
from gtrxl.algorithms.errors import LearnerError, between, positive
from gtrxl.algorithms.returns import vtrace


@dataclass(frozen=True, kw_only=True)
class VTrace(Learner):
    """V-trace actor-critic (IMPALA, Espeholt et al. 2018): policy gradient that corrects for a policy that has moved on."""

    learning_rate: float = 1e-3
    """Adam's step size for the network."""
    lam: float = 1.0
    """lambda of the returns: 1 is IMPALA's."""
    max_grad_norm: float = 0.5
    """Gradients longer than this are shortened to it; 0 leaves them alone. IMPALA's 40 is for a loss summed over the batch; here
    losses are means, as PPO's, and so is this."""
    rho_bar: float = 1.0
    """Ratios of new to old probability count no more than this: which policy's value is learned."""
    c_bar: float = 1.0
    """Ratios count no more than this in the trace: how far back a surprise reaches."""
    entropy_cost: float = 0.01
    """Weight of the entropy bonus."""
    value_cost: float = 0.5
    """Weight of half the mean squared error of the value."""

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("rho_bar", self.rho_bar, hint="IMPALA uses 1")
        positive("c_bar", self.c_bar, hint="IMPALA uses 1")
        if self.c_bar > self.rho_bar:
            raise LearnerError(f"c_bar must be at most rho_bar ({self.rho_bar:g}), got {self.c_bar:g}; IMPALA uses 1 for both")
        between("entropy_cost", self.entropy_cost, least=0.0, hint="0 gives no bonus, 0.01 is usual")
        between("value_cost", self.value_cost, least=0.0, hint="IMPALA uses 0.5")

    def _vtrace(self, inputs: Inputs) -> tuple[Float[Array, "B T"], Float[Array, "B T"]]:
        """Targets in reward units, advantages in normalised space; no gradient."""
        inputs = jax.lax.stop_gradient(inputs)
        targets, advantage = vtrace(
            reward=inputs.reward,
            discount=inputs.discount,
            value=inputs.in_reward_units(inputs.value),
            valid=inputs.valid,
            log_ratio=inputs.log_prob - inputs.behaviour_log_prob,
            lam=self.lam,
            rho_bar=self.rho_bar,
            c_bar=self.c_bar,
        )
        return targets, advantage / inputs.scale[:, None]

    def targets(self, inputs: Inputs) -> Float[Array, "B T"]:
        """V-trace targets by the online value, in reward units."""
        return self._vtrace(inputs)[0]

    def loss(self, multipliers: Multipliers, inputs: Inputs) -> tuple[Float[Array, ""], Metrics]:
        """Policy gradient with V-trace advantages (in normalised space), squared error of the value, entropy."""
        valid = inputs.valid
        target, advantage = self._vtrace(inputs)
        target = inputs.normalised(target)
        parts = {
            "loss_policy": -masked.mean(advantage * masked.only(inputs.log_prob, valid), valid),
            "loss_value": self.value_cost * value_loss(value=inputs.value[:, :-1], target=target, valid=valid),
            "loss_entropy": -self.entropy_cost * masked.mean(inputs.entropy, valid),
        }
        return summed(parts, parts | common_metrics(inputs, advantage=advantage, target=target))
