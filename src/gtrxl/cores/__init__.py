"""What remembers: the contract, the transformers, the recurrent networks, and the control without memory."""

from gtrxl.cores.catalogue import CORES, PAPER_CORES, PAPER_INPUT_SIZE, make_core, paper_core
from gtrxl.cores.contract import Core, State
from gtrxl.cores.errors import CoreError
from gtrxl.cores.markov import Markov, NoState
from gtrxl.cores.recurrent import GRU, LSTM, GRUState, LSTMState
from gtrxl.cores.streams import PreparedStreams, Streams
from gtrxl.cores.transformer import Memory, PreparedMemory, Transformer

__all__ = [
    "CORES", "GRU", "LSTM", "PAPER_CORES", "PAPER_INPUT_SIZE", "Core", "CoreError", "GRUState", "LSTMState", "Markov",
    "Memory", "NoState", "PreparedMemory", "PreparedStreams", "State", "Streams", "Transformer", "make_core", "paper_core",
]  # fmt: skip
