"""Observation -> torso -> core -> heads: what surrounds a core in the paper's agents."""

from gtrxl.networks.counts import PAPER_MODELS, RIVALS, Count, PaperModel, count, count_paper_models, parameters
from gtrxl.networks.errors import AgentError
from gtrxl.networks.heads import MLP, PixelControl, dueling
from gtrxl.networks.language import Language, word_buckets
from gtrxl.networks.paper import Answer, Observation, PaperAgent
from gtrxl.networks.vision import PAPER_CHANNELS, SMALL_CHANNELS, ResNet

__all__ = [
    "MLP", "PAPER_CHANNELS", "PAPER_MODELS", "RIVALS", "SMALL_CHANNELS", "AgentError", "Answer", "Count", "Language",
    "Observation", "PaperAgent", "PaperModel", "PixelControl", "ResNet", "count", "count_paper_models", "dueling", "parameters",
    "word_buckets",
]  # fmt: skip
