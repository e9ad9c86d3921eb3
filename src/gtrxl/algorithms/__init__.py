"""The mathematics of learning: returns, V-MPO, PPO, V-trace, PopArt, as pure functions of arrays."""

from gtrxl.algorithms import masked, pixel_control, popart, vmpo
from gtrxl.algorithms.catalogue import LEARNERS
from gtrxl.algorithms.contract import Inputs, Learner
from gtrxl.algorithms.divergences import kl_categorical, kl_covariance, kl_mean
from gtrxl.algorithms.errors import LearnerError
from gtrxl.algorithms.impala import VTrace
from gtrxl.algorithms.popart import PopArt
from gtrxl.algorithms.ppo import PPO
from gtrxl.algorithms.returns import advantages, returns, vtrace
from gtrxl.algorithms.vmpo import VMPO

__all__ = [
    "LEARNERS", "PPO", "VMPO", "Inputs", "Learner", "LearnerError", "PopArt", "VTrace", "advantages", "kl_categorical",
    "kl_covariance", "kl_mean", "masked", "pixel_control", "popart", "returns", "vmpo", "vtrace",
]  # fmt: skip
