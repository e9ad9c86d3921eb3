"""What remembers: the contract, the transformers, the recurrent networks, linear ones, and the control without memory."""

from gtrxl.cores.catalogue import CORES, PAPER_CORES, PAPER_INPUT_SIZE, core_arguments, find_core, make_core, paper_core
from gtrxl.cores.contract import Core, Happened, Observed, State
from gtrxl.cores.errors import CoreError
from gtrxl.cores.gates import Gate
from gtrxl.cores.linear.agalite import AGaLiTe
from gtrxl.cores.linear.deltanet import DeltaNet
from gtrxl.cores.linear.ffm import FFM
from gtrxl.cores.linear.gtrxl_lru import GatedLRU
from gtrxl.cores.linear.lru import LRU
from gtrxl.cores.linear.mamba2 import Mamba2
from gtrxl.cores.linear.mingru import MinGRU
from gtrxl.cores.linear.minlstm import MinLSTM
from gtrxl.cores.linear.mlstm import MLSTM
from gtrxl.cores.linear.s5 import S5
from gtrxl.cores.markov import Markov, NoState
from gtrxl.cores.memory import Memory, PreparedMemory, PreparedStreams
from gtrxl.cores.merlin import Merlin, RLMem
from gtrxl.cores.recurrent import GRU, LSTM, GRUState, LSTMState
from gtrxl.cores.streams import Streams
from gtrxl.cores.transformer import Transformer

__all__ = [
    "CORES", "FFM", "GRU", "LRU", "LSTM", "MLSTM", "PAPER_CORES", "PAPER_INPUT_SIZE", "S5", "AGaLiTe", "Core", "CoreError",
    "DeltaNet", "GRUState", "Gate", "GatedLRU", "Happened", "LSTMState", "Mamba2", "Markov", "Memory", "Merlin", "MinGRU",
    "MinLSTM", "NoState", "Observed", "PreparedMemory", "PreparedStreams", "RLMem", "State", "Streams", "Transformer",
    "core_arguments", "find_core", "make_core", "paper_core",
]  # fmt: skip
