"""The mathematics of learning: returns, V-MPO, PPO, V-trace, PopArt, as pure functions of arrays."""

from gtrxl.learner import masked, pixel_control, popart, vmpo
from gtrxl.learner.contract import Inputs, Learner
from gtrxl.learner.divergences import kl_categorical, kl_covariance, kl_mean
from gtrxl.learner.errors import LearnerError
from gtrxl.learner.learners import LEARNERS, PPO, VMPO, VTrace
from gtrxl.learner.popart import PopArt
from gtrxl.learner.returns import advantages, returns, vtrace
from gtrxl.learner.targets import target_due, update_target

__all__ = [
    "LEARNERS", "PPO", "VMPO", "Inputs", "Learner", "LearnerError", "PopArt", "VTrace", "advantages", "kl_categorical",
    "kl_covariance", "kl_mean", "masked", "pixel_control", "popart", "returns", "target_due", "update_target", "vmpo", "vtrace",
]  # fmt: skip
