"""PPO, to compare V-MPO with. B streams, T steps."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from gtrxl.algorithms import masked
from gtrxl.algorithms.contract import Inputs, Learner, Metrics, Multipliers, common_metrics, lambda_returns, summed, value_loss
from gtrxl.algorithms.errors import between, positive


@dataclass(frozen=True, kw_only=True)
class PPO(Learner):
    """PPO (Schulman et al. 2017): several passes over each batch, with the policy's ratio clipped."""

    learning_rate: float = 1e-3
    """Adam's step size for the network."""
    lam: float = 0.95
    """lambda of the advantages (GAE)."""
    max_grad_norm: float = 0.5
    """Gradients longer than this are shortened to it; 0 leaves them alone."""
    epochs: int = 4
    """Times each batch is gone through."""
    minibatches: int = 4
    """Parts a batch is split into, along its streams; one learner step each."""
    clip: float = 0.2
    """How far the ratio of new to old probability pays: no further than 1 +- clip."""
    entropy_cost: float = 0.01
    """Weight of the entropy bonus."""
    least_spread: float = 0.0
    """Advantages are divided by their spread in a batch, or by this share of the returns' spread (PopArt's) if that is more:
    where rewards are rare, most batches have none, and small differences should not count like a reward."""
    value_cost: float = 0.5
    """Weight of half the mean squared error of the value."""

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("clip", self.clip, hint="0.2 is usual")
        between("entropy_cost", self.entropy_cost, least=0.0, hint="0 gives no bonus, 0.01 is usual")
        between("least_spread", self.least_spread, least=0.0, hint="0 divides by what there is, 0.5 suits rare rewards")
        between("value_cost", self.value_cost, least=0.0, hint="0.5 is usual")

    def targets(self, inputs: Inputs) -> Float[Array, "B T"]:
        """lambda-returns by the values at the time of acting, in reward units; the last value is the caller's choice."""
        return lambda_returns(inputs, value=inputs.behaviour_value, lam=self.lam)

    def loss(self, multipliers: Multipliers, inputs: Inputs) -> tuple[Float[Array, ""], Metrics]:
        """Clipped surrogate, squared error of the value, entropy; advantages standardised over the batch given."""
        valid = inputs.valid
        target = inputs.normalised(self.targets(inputs))
        raw = jax.lax.stop_gradient(target - inputs.behaviour_value[:, :-1])
        spread = jnp.sqrt(masked.variance(raw, valid))
        advantage = masked.only(raw - masked.mean(raw, valid), valid) / (jnp.maximum(spread, self.least_spread) + 1e-8)
        log_ratio = masked.only(inputs.log_prob - jax.lax.stop_gradient(inputs.behaviour_log_prob), valid)
        ratio = jnp.exp(log_ratio)
        surrogate = jnp.minimum(ratio * advantage, jnp.clip(ratio, 1 - self.clip, 1 + self.clip) * advantage)
        parts = {
            "loss_policy": -masked.mean(surrogate, valid),
            "loss_value": self.value_cost * value_loss(value=inputs.value[:, :-1], target=target, valid=valid),
            "loss_entropy": -self.entropy_cost * masked.mean(inputs.entropy, valid),
        }
        clipped = masked.mean((jnp.abs(ratio - 1) > self.clip).astype(jnp.float32), valid)
        report = parts | {"clipped": clipped} | common_metrics(inputs, advantage=raw, target=target)
        return summed(parts, report)
