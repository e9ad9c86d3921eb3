"""What every learner is: settings, and a loss for one batch of unrolls. B streams, T steps.

A learner is a frozen record of numbers, checked when it is made, and its fields are the command line's options. It knows nothing
of networks: the caller runs the network over the unroll and hands in what it said, as `Inputs`.
"""

import abc
import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float

from gtrxl.algorithms import masked
from gtrxl.algorithms.errors import between, count, positive
from gtrxl.algorithms.returns import returns
from gtrxl.algorithms.surges import limit_surges

Metrics = dict[str, Float[Array, ""]]
Multipliers = dict[str, Float[Array, ""]]
"""Numbers that are trained along with the network, by name."""


class Inputs(eqx.Module):
    """One batch of unrolls: what happened, and what the online network says about it. Times are as in `returns`.

    Values are in normalised space; `value * scale + shift` is in reward units. Without PopArt the scale is 1 and the shift 0.
    """

    reward: Float[Array, "B T"]
    discount: Float[Array, "B T"]
    """Zero where the action ended the episode for good."""
    valid: Bool[Array, "B T"]
    """False where the observation is an episode's last: its action counts nowhere."""
    log_prob: Float[Array, "B T"]
    """Of the action taken, by the online policy; summed over the parts of a hybrid action."""
    behaviour_log_prob: Float[Array, "B T"]
    """Of the action taken, when it was taken."""
    entropy: Float[Array, "B T"]
    kl: dict[str, Float[Array, "B T"]]
    """KL(policy that acted || online policy), by part: `categorical`, `mean`, `covariance`."""
    value: Float[Array, "B T+1"]
    """By the online network; one more for the observation after the last step."""
    behaviour_value: Float[Array, "B T+1"]
    """What it was when the actions were taken: the same in reward units, whatever the statistics were then."""
    shift: Float[Array, " B"]
    scale: Float[Array, " B"]

    def in_reward_units(self, value: Float[Array, "B t"]) -> Float[Array, "B t"]:
        """Normalised values, in reward units."""
        return value * self.scale[:, None] + self.shift[:, None]

    def normalised(self, x: Float[Array, "B t"]) -> Float[Array, "B t"]:
        """Returns in reward units, in the values' normalised space."""
        return (x - self.shift[:, None]) / self.scale[:, None]


@dataclass(frozen=True, kw_only=True)
class Learner(abc.ABC):
    """A way to learn from unrolls: its settings, its loss."""

    learning_rate: float = 1e-3
    """Adam's step size for the network."""
    lam: float = 0.9
    """lambda of the returns: 1 follows the rewards to the end of the unroll, 0 trusts the next value."""
    adam_epsilon: float = 1e-8
    """Adam's epsilon: gradients much smaller than this move little. Large enough, it keeps noise from moving what is solved."""
    max_grad_norm: float = 0.0
    """Gradients longer than this are shortened to it; 0 leaves them alone."""
    max_surge: float = 0.0
    """Gradients this many times as long as usual are shortened to that; 0 leaves them alone."""
    target_period: int = 1
    """Learner steps between copies of the online network to the one that acts."""
    epochs: int = 1
    """Times each batch is gone through."""
    minibatches: int = 1
    """Parts a batch is split into, along its streams; one learner step each."""

    DIALS: ClassVar[tuple[str, ...]] = ()
    """Settings that the loss merely adds and multiplies, so that one compiled program can serve all values of them."""

    def __post_init__(self) -> None:
        positive("learning_rate", self.learning_rate, hint="1e-3 is a good start for small networks, 1e-4 for large ones")
        positive("adam_epsilon", self.adam_epsilon, hint="1e-8 is Adam's own, 1e-4 holds what is solved")
        between("lam", self.lam, least=0.0, most=1.0, hint="0.9 learns fast, 1 is the n-step return")
        between("max_grad_norm", self.max_grad_norm, least=0.0, hint="0 switches clipping off")
        if self.max_surge:
            between("max_surge", self.max_surge, least=1.0, hint="1.5 holds what is solved, 0 switches it off")
        count("target_period", self.target_period, hint="1 acts with the newest network, the paper copies every 10 steps")
        count("epochs", self.epochs, hint="1 uses each batch once")
        count("minibatches", self.minibatches, hint="1 uses the whole batch at once")

    def dials(self) -> dict[str, float]:
        """What the dials are set to, by name."""
        return {name: getattr(self, name) for name in self.DIALS}

    def turned(self, dials: Mapping[str, float | Float[Array, ""]]) -> "Learner":
        """The same learner with dials that may be arrays: for use inside a compiled program, where none can be checked."""
        if not dials:
            return self
        other = copy.copy(self)
        for name, value in dials.items():
            object.__setattr__(other, name, value)
        return other

    @property
    def multiplier_rate(self) -> float:
        """Adam's step size for the multipliers."""
        return self.learning_rate

    def optimiser(self) -> optax.GradientTransformation:
        """What turns gradients into changes of the network."""
        adam = optax.adam(self.learning_rate, eps=self.adam_epsilon)
        limits = [optax.clip_by_global_norm(self.max_grad_norm)] if self.max_grad_norm else []
        limits += [limit_surges(self.max_surge)] if self.max_surge else []
        return optax.chain(*limits, adam) if limits else adam

    def multiplier_optimiser(self) -> optax.GradientTransformation:
        """The same for the multipliers."""
        return optax.adam(self.multiplier_rate)

    def multipliers(self, kl_names: tuple[str, ...]) -> Multipliers:
        """Numbers trained along with the network, at their first values; `kl_names` are the parts of the policy's KL."""
        del kl_names
        return {}

    def project(self, multipliers: Multipliers) -> Multipliers:
        """Multipliers as they may be; to be applied after each update."""
        return multipliers

    @abc.abstractmethod
    def targets(self, inputs: Inputs) -> Float[Array, "B T"]:
        """Returns that the value is trained towards, in reward units; no gradient. At steps that do not count, the value."""

    @abc.abstractmethod
    def loss(self, multipliers: Multipliers, inputs: Inputs) -> tuple[Float[Array, ""], Metrics]:
        """What to minimise over network and multipliers, and what to report about it."""


def common_metrics(inputs: Inputs, *, advantage: Float[Array, "B T"], target: Float[Array, "B T"]) -> Metrics:
    """What is reported whatever the learner: entropy, KL, how well the value predicts. `target` is in normalised space."""
    report = {
        "entropy": masked.mean(inputs.entropy, inputs.valid),
        "explained_variance": masked.explained_variance(prediction=inputs.value[:, :-1], target=target, valid=inputs.valid),
        "advantage_mean": masked.mean(advantage, inputs.valid),
        "advantage_std": masked.variance(advantage, inputs.valid) ** 0.5,
    }
    report |= {f"kl_{name}": masked.mean(kl, inputs.valid) for name, kl in inputs.kl.items()}
    return jax.lax.stop_gradient(report)


def lambda_returns(inputs: Inputs, *, value: Float[Array, "B _"], lam: float) -> Float[Array, "B T"]:
    """lambda-returns in reward units, by these (normalised) values; no gradient."""
    value = inputs.in_reward_units(jax.lax.stop_gradient(value))
    return returns(reward=inputs.reward, discount=inputs.discount, value=value, valid=inputs.valid, lam=lam)


def summed(parts: Metrics, report: Metrics) -> tuple[Float[Array, ""], Metrics]:
    """The sum of the parts, and the report with it."""
    loss = sum(parts.values(), jnp.zeros(()))
    return loss, jax.lax.stop_gradient({"loss": loss} | report)


def value_loss(*, value: Float[Array, "*n"], target: Float[Array, "*n"], valid: Bool[Array, "*n"]) -> Float[Array, ""]:
    """L_V = half the mean over D of (V - G)^2; the target has no gradient."""
    return 0.5 * masked.mean(jnp.square(masked.only(value - jax.lax.stop_gradient(target), valid)), valid)
