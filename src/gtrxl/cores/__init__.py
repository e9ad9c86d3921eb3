"""What remembers: the contract, the transformers, the recurrent networks, and the control without memory."""

from gtrxl.cores.catalogue import CORES, PAPER_CORES, PAPER_INPUT_SIZE, core_arguments, find_core, make_core, paper_core
from gtrxl.cores.contract import Core, Happened, Observed, State
from gtrxl.cores.errors import CoreError
from gtrxl.cores.gates import Gate
from gtrxl.cores.markov import Markov, NoState
from gtrxl.cores.memory import Memory, PreparedMemory, PreparedStreams
from gtrxl.cores.merlin import Merlin, RLMem
from gtrxl.cores.recurrent import GRU, LSTM, GRUState, LSTMState
from gtrxl.cores.streams import Streams
from gtrxl.cores.transformer import Transformer

__all__ = [
    "CORES", "GRU", "LSTM", "PAPER_CORES", "PAPER_INPUT_SIZE", "Core", "CoreError", "GRUState", "Gate", "Happened", "LSTMState",
    "Markov", "Memory", "Merlin", "NoState", "Observed", "PreparedMemory", "PreparedStreams", "RLMem", "State", "Streams",
    "Transformer", "core_arguments", "find_core", "make_core", "paper_core",
]  # fmt: skip
