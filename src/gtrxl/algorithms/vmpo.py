"""V-MPO (Song et al. 2019) term by term. Arrays hold one number for each step of the whole batch, in any shape.

D is the batch, every step that is `valid`; `chosen` marks the half of it with the largest advantages. The loss is the plain sum
of policy, temperature, KL and value losses. All of them are written for the global array: under a sharded `jit`, the
half is the half of the batch on all devices.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, UInt32

from gtrxl.algorithms import masked
from gtrxl.algorithms.contract import Inputs, Learner, Metrics, Multipliers, common_metrics, lambda_returns, summed, value_loss
from gtrxl.algorithms.errors import LearnerError, positive

FLOOR = 1e-8
"""What multipliers are projected to be at least, after each update."""

Scalar = Float[Array, ""]


PAPER: dict[str, dict[str, float]] = {
    "numpad": {"eta_init": 10.0, "eps_mean": 7.1e-3, "eps_covariance": 4.5e-5},
    "memory_maze": {"eps_mean": 7.1e-3, "eps_covariance": 1.4e-5},
    "dmlab30": {},
}
"""The paper's settings that differ by environment. What it samples log-uniformly is at the middle of its range."""
PAPER_RECURRENT: dict[str, dict[str, float]] = {"dmlab30": {"eps_alpha": 5e-3}}
"""Those of its LSTM, where they are others: on DMLab-30 its range of eps_alpha ends at 0.025, the transformers' at 0.1."""


@dataclass(frozen=True, kw_only=True)
class VMPO(Learner):
    """V-MPO: fits the better half of what was tried, and stays within a KL of the policy that tried it.

    The defaults learn small tasks quickly; `VMPO.paper()` has the paper's settings.
    """

    lam: float = 0.9
    """lambda of the returns: 1 is the paper's n-step return to the end of the unroll, 0 trusts the next value."""
    adam_epsilon: float = 1e-4
    """Adam's epsilon. V-MPO follows advantages of any size, also those that are noise once a task is solved; a gradient that is
    not much larger than this then moves little."""
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
    def paper(cls, environment: str = "numpad", *, recurrent: bool = False) -> "VMPO":
        """The paper's settings for `numpad`, `memory_maze` or `dmlab30`; middles (geometric) of the bounds that it samples.

        `recurrent` has those of its LSTM, else they are the transformers'.
        """
        if environment not in PAPER:
            raise LearnerError(
                f"environment must be one of {', '.join(PAPER)}, got {environment!r}; others were not in the paper"
            )
        common = cls(learning_rate=1e-4, adam_epsilon=1e-8, multiplier_rate=1e-4, lam=1.0, eps_eta=0.1, eps_alpha=0.01)
        return replace(common, **PAPER[environment], **(PAPER_RECURRENT.get(environment, {}) if recurrent else {}))

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
        return projected(multipliers)

    def targets(self, inputs: Inputs) -> Float[Array, "B T"]:
        """Returns bootstrapped from the online value, in reward units."""
        return lambda_returns(inputs, value=inputs.value, lam=self.lam)

    def loss(self, multipliers: Multipliers, inputs: Inputs) -> tuple[Float[Array, ""], Metrics]:
        """L_V + L_pi + L_eta + L_alpha, with no further weights."""
        value, eta, bounds = inputs.value[:, :-1], multipliers["eta"], self.bounds()
        target = inputs.normalised(self.targets(inputs))
        advantage = jax.lax.stop_gradient(target - value)
        if self.rank_in_reward_units:
            advantage = advantage * inputs.scale[:, None]
        chosen = top_half(advantage, inputs.valid)
        weight = sample_weights(advantage, eta=eta, chosen=chosen)
        kl_losses = [
            kl_loss(kl, alpha=multipliers[f"alpha_{name}"], epsilon=bounds[name][1], valid=inputs.valid)
            for name, kl in inputs.kl.items()
        ]
        parts = {
            "loss_policy": policy_loss(log_prob=inputs.log_prob, weight=weight),
            "loss_value": value_loss(value=value, target=target, valid=inputs.valid),
            "loss_temperature": temperature_loss(advantage, eta=eta, chosen=chosen, epsilon=self.eps_eta),
            "loss_kl": sum(kl_losses, jnp.zeros(())),
        }
        report = parts | multipliers | common_metrics(inputs, advantage=advantage, target=target)
        return summed(parts, report)


def top_half(advantage: Float[Array, "*n"], valid: Bool[Array, "*n"]) -> Bool[Array, "*n"]:
    """The valid steps whose advantage is at least the middle one: half of them, rounded up.

    Steps that tie with the middle one are all in, so that no step is preferred for its place in the batch, and a batch that is
    repeated has its half repeated.
    """
    # Bisection over the bits finds the middle one in 32 counts. Against sorting it is ten times faster on a CPU, and a batch
    # that is spread over devices exchanges one number per count instead of being gathered.
    half = (jnp.sum(valid) + 1) // 2
    rank = jnp.where(valid, _ordered_bits(advantage), 0)

    def next_bit(i: Array, middle: Array) -> Array:
        higher = middle | (jnp.uint32(1 << 31) >> i.astype(jnp.uint32))
        return jnp.where(jnp.sum(rank >= higher) >= half, higher, middle)

    return valid & (rank >= jax.lax.fori_loop(0, 32, next_bit, jnp.uint32(0)))


def _ordered_bits(x: Float[Array, "*n"]) -> UInt32[Array, "*n"]:
    """Whole numbers above zero in the order of x."""
    one_zero = jnp.where(x == 0, 0.0, x)  # -0.0 equals 0.0, but its bits do not
    bits = jax.lax.bitcast_convert_type(one_zero.astype(jnp.float32), jnp.uint32)
    sign = jnp.uint32(1 << 31)
    return jnp.where(bits >= sign, ~bits, bits | sign)


def _below_best(advantage: Float[Array, "*n"], chosen: Bool[Array, "*n"]) -> tuple[Float[Array, "*n"], Scalar]:
    """Chosen advantages less the largest of them (at most zero, so that no exponential overflows), and the largest."""
    best = jnp.max(jnp.where(chosen, advantage, -jnp.inf))
    best = jnp.where(jnp.any(chosen), best, 0.0)
    return jnp.where(chosen, advantage - best, 0.0), best


def sample_weights(advantage: Float[Array, "*n"], *, eta: Scalar, chosen: Bool[Array, "*n"]) -> Float[Array, "*n"]:
    """psi: a softmax of advantage / eta over the chosen steps, zero elsewhere. It adds up to one and has no gradient."""
    advantage, eta = jax.lax.stop_gradient((advantage, eta))
    below, _ = _below_best(advantage, chosen)
    weight = jnp.where(chosen, jnp.exp(below / eta), 0.0)
    return weight / jnp.maximum(jnp.sum(weight), 1.0)  # the best has weight one: the sum is less only if there is none


def policy_loss(*, log_prob: Float[Array, "*n"], weight: Float[Array, "*n"]) -> Scalar:
    """L_pi = - sum of psi * log pi(a|s). A sum, not a mean: the weights already add up to one."""
    return -jnp.sum(weight * jnp.where(weight > 0, log_prob, 0.0))


def temperature_loss(advantage: Float[Array, "*n"], *, eta: Scalar, chosen: Bool[Array, "*n"], epsilon: float | Scalar) -> Scalar:
    """L_eta = eta * epsilon + eta * log(mean of exp(advantage / eta) over the chosen steps). Its gradient is eta's alone."""
    below, best = _below_best(jax.lax.stop_gradient(advantage), chosen)
    total = jnp.sum(jnp.where(chosen, jnp.exp(below / eta), 0.0))
    size = jnp.sum(chosen)
    # eta * log(exp(best / eta)) = best: what was taken out for safety comes back without eta.
    log_mean = jnp.log(jnp.where(size > 0, total, 1.0)) - jnp.log(jnp.maximum(size, 1))
    return eta * (epsilon + log_mean) + best


def kl_loss(kl: Float[Array, "*n"], *, alpha: Scalar, epsilon: float | Scalar, valid: Bool[Array, "*n"]) -> Scalar:
    """L_alpha = mean over D of alpha * (epsilon - sg[KL]) + sg[alpha] * KL.

    The policy is pulled back by alpha times its KL from the target; alpha grows while the KL is over its bound.
    """
    moved = masked.mean(kl, valid)
    return alpha * (epsilon - jax.lax.stop_gradient(moved)) + jax.lax.stop_gradient(alpha) * moved


def projected(multipliers: Multipliers) -> Multipliers:
    """Multipliers as they may be: at least 1e-8."""
    return jax.tree.map(lambda x: jnp.maximum(x, FLOOR), multipliers)
