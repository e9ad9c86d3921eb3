"""Checkpoints of one pytree of arrays: atomic, exact to the bit, the last few and the best one kept."""

from gtrxl.runs.checkpoints.keeping import Checkpoints
from gtrxl.runs.checkpoints.leaves import size_of

__all__ = ["Checkpoints", "size_of"]
