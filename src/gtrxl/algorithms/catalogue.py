"""The learners by name, and anyone's by its place."""

from gtrxl import names
from gtrxl.algorithms.contract import Learner
from gtrxl.algorithms.errors import LearnerError
from gtrxl.algorithms.impala import VTrace
from gtrxl.algorithms.ppo import PPO
from gtrxl.algorithms.vmpo import VMPO

LEARNERS: dict[str, type[Learner]] = {"vmpo": VMPO, "ppo": PPO, "vtrace": VTrace}


def learner_class(algorithm: str) -> type[Learner]:
    """The class of a name (`vmpo`) or a place (`package.module:Class`)."""
    if algorithm in LEARNERS:
        return LEARNERS[algorithm]
    if not names.is_place(algorithm):
        raise LearnerError(
            f"algorithm must be one of {', '.join(LEARNERS)}, or yours as package.module:Class, got {algorithm!r}"
            f"{names.meant(algorithm, LEARNERS) or '; the paper uses vmpo'}"
        )
    try:
        found = names.find(algorithm, what="the algorithm")
    except names.PlaceError as error:
        raise LearnerError(str(error)) from error
    if not isinstance(found, type) or not issubclass(found, Learner):
        raise LearnerError(
            f"an algorithm must be a class derived from gtrxl.Learner, got {found!r}; see examples/own_algorithm.py"
        )
    return found
