"""The learners by name: V-MPO, and PPO and V-trace (IMPALA) to compare it with. B streams, T steps."""

from dataclasses import dataclass, replace
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from gtrxl.learner import masked, vmpo
from gtrxl.learner.contract import Inputs, Learner, Metrics, Multipliers, common_metrics
from gtrxl.learner.errors import LearnerError, between, positive
from gtrxl.learner.returns import returns, vtrace


@dataclass(frozen=True, kw_only=True)
class VMPO(Learner):
    """V-MPO: fits the better half of what was tried, and stays within a KL of the policy that tried it.

    The defaults learn small tasks quickly; `VMPO.paper()` has the paper's settings.
    """

    lam: float = 0.9
    """lambda of the returns: 1 is the paper's n-step return to the end of the unroll, 0 trusts the next value."""
    target_period: int = 10
    """Learner steps between copies of the online network to the one that acts; the KL is measured from that copy."""
    multiplier_rate: float = 1e-2  # pyright: ignore[reportIncompatibleVariableOverride, reportIncompatibleMethodOverride]
    """Adam's step size for temperature and KL multipliers."""
    eps_eta: float = 0.5
    """How far the sample weights may be from uniform: large prefers the very best steps, small the whole better half."""
    eps_alpha: float = 0.02
    """Bound on the KL of a categorical policy."""
    eps_mean: float = 0.0075
    """Bound on the mean's part of a Gaussian policy's KL."""
    eps_covariance: float = 4e-5
    """Bound on the covariance's part of a Gaussian policy's KL."""
    eta_init: float = 1.0
    """First temperature: large weighs the better half evenly, small prefers the best steps."""
    alpha_init: float = 5.0
    """First multiplier of a categorical policy's KL."""
    alpha_mean_init: float = 1.0
    """First multiplier of the mean's KL."""
    alpha_covariance_init: float = 1.0
    """First multiplier of the covariance's KL."""
    rank_in_reward_units: bool = False
    """Compare advantages in reward units rather than in units of each task's own spread: tasks that pay more then count more."""

    DIALS: ClassVar[tuple[str, ...]] = ("eps_eta", "eps_alpha", "eps_mean", "eps_covariance")

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("multiplier_rate", self.multiplier_rate, hint="1e-2 learns fast, the paper uses the network's 1e-4")
        positive("eps_eta", self.eps_eta, hint="the paper uses 0.1")
        positive("eps_alpha", self.eps_alpha, hint="the paper samples it from 0.001 to 0.1")
        positive("eps_mean", self.eps_mean, hint="the paper samples it from 0.005 to 0.01")
        positive("eps_covariance", self.eps_covariance, hint="the paper samples it from 5e-6 to 4e-4")
        positive("eta_init", self.eta_init, hint="the paper uses 1, for Numpad 10")
        positive("alpha_init", self.alpha_init, hint="the paper uses 5")
        positive("alpha_mean_init", self.alpha_mean_init, hint="the paper uses 1")
        positive("alpha_covariance_init", self.alpha_covariance_init, hint="the paper uses 1")

    @classmethod
    def paper(cls, environment: str = "numpad") -> "VMPO":
        """The paper's settings for `numpad`, `memory_maze` or `dmlab30`; middles (geometric) of the bounds that it samples."""
        if environment not in PAPER:
            raise LearnerError(
                f"environment must be one of {', '.join(PAPER)}, got {environment!r}; others were not in the paper"
            )
        common = cls(learning_rate=1e-4, multiplier_rate=1e-4, lam=1.0, eps_eta=0.1, eps_alpha=0.01)
        return replace(common, **PAPER[environment])

    def bounds(self) -> dict[str, tuple[float, float | Float[Array, ""]]]:
        """For each part of a KL that can be bounded: its first multiplier and its bound."""
        return {
            "categorical": (self.alpha_init, self.eps_alpha),
            "mean": (self.alpha_mean_init, self.eps_mean),
            "covariance": (self.alpha_covariance_init, self.eps_covariance),
        }

    def multipliers(self, kl_names: tuple[str, ...]) -> Multipliers:
        """The temperature `eta`, and `alpha_<part>` for each part of the KL, at their first values."""
        bounds = self.bounds()
        for name in kl_names:
            if name not in bounds:
                raise LearnerError(
                    f"a part of the KL must be one of {', '.join(bounds)}, got {name!r}; V-MPO has a bound for each"
                )
        first = {"eta": self.eta_init} | {f"alpha_{name}": bounds[name][0] for name in kl_names}
        return {name: jnp.asarray(value, jnp.float32) for name, value in first.items()}

    def project(self, multipliers: Multipliers) -> Multipliers:
        """Multipliers as they may be: at least 1e-8."""
        return vmpo.project(multipliers)

    def targets(self, inputs: Inputs) -> Float[Array, "B T"]:
        """Returns bootstrapped from the online value, in reward units."""
        return _returns(inputs, value=inputs.value, lam=self.lam)

    def loss(self, multipliers: Multipliers, inputs: Inputs) -> tuple[Float[Array, ""], Metrics]:
        """L_V + L_pi + L_eta + L_alpha, with no further weights."""
        value, eta, bounds = inputs.value[:, :-1], multipliers["eta"], self.bounds()
        target = inputs.normalised(self.targets(inputs))
        advantage = jax.lax.stop_gradient(target - value)
        if self.rank_in_reward_units:
            advantage = advantage * inputs.scale[:, None]
        chosen = vmpo.top_half(advantage, inputs.valid)
        weight = vmpo.sample_weights(advantage, eta=eta, chosen=chosen)
        kl_losses = [
            vmpo.kl_loss(kl, alpha=multipliers[f"alpha_{name}"], epsilon=bounds[name][1], valid=inputs.valid)
            for name, kl in inputs.kl.items()
        ]
        parts = {
            "loss_policy": vmpo.policy_loss(log_prob=inputs.log_prob, weight=weight),
            "loss_value": vmpo.value_loss(value=value, target=target, valid=inputs.valid),
            "loss_temperature": vmpo.temperature_loss(advantage, eta=eta, chosen=chosen, epsilon=self.eps_eta),
            "loss_kl": sum(kl_losses, jnp.zeros(())),
        }
        report = parts | multipliers | common_metrics(inputs, advantage=advantage, target=target)
        return _total(parts, report)


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
    value_cost: float = 0.5
    """Weight of half the mean squared error of the value."""

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("clip", self.clip, hint="0.2 is usual")
        between("entropy_cost", self.entropy_cost, least=0.0, hint="0 gives no bonus, 0.01 is usual")
        between("value_cost", self.value_cost, least=0.0, hint="0.5 is usual")

    def targets(self, inputs: Inputs) -> Float[Array, "B T"]:
        """lambda-returns by the values at the time of acting, in reward units; the last value is the caller's choice."""
        return _returns(inputs, value=inputs.behaviour_value, lam=self.lam)

    def loss(self, multipliers: Multipliers, inputs: Inputs) -> tuple[Float[Array, ""], Metrics]:
        """Clipped surrogate, squared error of the value, entropy; advantages standardised over the batch given."""
        valid = inputs.valid
        target = inputs.normalised(self.targets(inputs))
        raw = jax.lax.stop_gradient(target - inputs.behaviour_value[:, :-1])
        spread = jnp.sqrt(masked.variance(raw, valid))
        advantage = masked.only(raw - masked.mean(raw, valid), valid) / (spread + 1e-8)
        log_ratio = masked.only(inputs.log_prob - jax.lax.stop_gradient(inputs.behaviour_log_prob), valid)
        ratio = jnp.exp(log_ratio)
        surrogate = jnp.minimum(ratio * advantage, jnp.clip(ratio, 1 - self.clip, 1 + self.clip) * advantage)
        parts = {
            "loss_policy": -masked.mean(surrogate, valid),
            "loss_value": self.value_cost * vmpo.value_loss(value=inputs.value[:, :-1], target=target, valid=valid),
            "loss_entropy": -self.entropy_cost * masked.mean(inputs.entropy, valid),
        }
        clipped = masked.mean((jnp.abs(ratio - 1) > self.clip).astype(jnp.float32), valid)
        report = parts | {"clipped": clipped} | common_metrics(inputs, advantage=raw, target=target)
        return _total(parts, report)


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
        value_loss = vmpo.value_loss(value=inputs.value[:, :-1], target=target, valid=valid)
        parts = {
            "loss_policy": -masked.mean(advantage * masked.only(inputs.log_prob, valid), valid),
            "loss_value": self.value_cost * value_loss,
            "loss_entropy": -self.entropy_cost * masked.mean(inputs.entropy, valid),
        }
        return _total(parts, parts | common_metrics(inputs, advantage=advantage, target=target))


def _returns(inputs: Inputs, *, value: Float[Array, "B _"], lam: float) -> Float[Array, "B T"]:
    """lambda-returns in reward units, by these (normalised) values; no gradient."""
    value = inputs.in_reward_units(jax.lax.stop_gradient(value))
    return returns(reward=inputs.reward, discount=inputs.discount, value=value, valid=inputs.valid, lam=lam)


def _total(parts: Metrics, report: Metrics) -> tuple[Float[Array, ""], Metrics]:
    """The sum of the parts, and the report with it."""
    loss = sum(parts.values(), jnp.zeros(()))
    return loss, jax.lax.stop_gradient({"loss": loss} | report)


PAPER: dict[str, dict[str, float]] = {
    "numpad": {"eta_init": 10.0, "eps_mean": 7.1e-3, "eps_covariance": 4.5e-5},
    "memory_maze": {"eps_mean": 7.1e-3, "eps_covariance": 1.4e-5},
    "dmlab30": {},
}
"""The paper's settings that differ by environment. What it samples log-uniformly is at the middle of its range."""

LEARNERS: dict[str, type[Learner]] = {"vmpo": VMPO, "ppo": PPO, "vtrace": VTrace}
