"""MERLIN (Wayne et al. 2018): a memory written by what predicts, and its control in which all is learned from reward."""

from gtrxl.cores.merlin.core import Merlin, MerlinState, Said
from gtrxl.cores.merlin.rl_mem import RLMem, RLMemState
from gtrxl.cores.merlin.rows import Rows

__all__ = ["Merlin", "MerlinState", "RLMem", "RLMemState", "Rows", "Said"]
