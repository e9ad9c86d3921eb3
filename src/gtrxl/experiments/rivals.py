"""The scoreboard of memories: every core with as many parameters as a GTrXL (GRU) of two layers of 32, on tasks that need memory.

Two sets of runs. `rivals-rates` is the search: every model with each of four learning rates, on one task, with seeds of its
own (draws belong to a set by its name). What it finds goes into `RATES`, by the same rule for all: the rate with the
highest interquartile mean, the lower one of two that are level. `rivals` is the comparison. Widths are those that come
nearest in parameters on the T-maze; tests/experiments/test_rivals.py counts all of them on all goals.

Other cores than transformers learn only from what an unroll spans, so an unroll spans the corridor, for all models alike; a
transformer's memory spans it with its two layers.
"""

from collections.abc import Mapping
from typing import Any

from gtrxl.experiments.models import GRU, LSTM, NONE, TRXL_I, Model
from gtrxl.experiments.records import Experiment, Goal, RunSet, Size

SIZE = 32
"""Width of the model that gives the measure, GTrXL (GRU): small, so that 15 memories on 9 tasks are hours of a laptop."""
RATES: Mapping[str, float] = {}
"""Learning rates by core, as `gtrxl reproduce rivals-rates --scale laptop` found them; it has not been run yet."""
FIRST_RATE = 1e-3
"""Of a core that was not searched for yet."""
SEARCHED = (3e-4, 1e-3, 2e-3, 4e-3)


def _model(label: str, core: str, **net: Any) -> Model:
    return Model(label, core, net=net, learner={"learning_rate": RATES.get(core, FIRST_RATE)})


def _gated(label: str, core: str, width: int, mlp: int) -> Model:
    return _model(label, core, layers=2, width=width, heads=4, head_dim=width // 4, mlp=mlp)


MODELS = (
    _model(LSTM.label, "lstm", layers=1, width=70),
    _model("GRU", "gru", layers=1, width=80),
    _gated(GRU.label, "gtrxl-gru", SIZE, SIZE),
    _gated(TRXL_I.label, "trxl-i", 52, 40),
    _gated("GTrXL (LRU)", "gtrxl-lru", 32, 72),
    _gated("AGaLiTe", "agalite", 28, 72),
    _model("LRU", "lru", layers=2, width=64),
    _model("S5", "s5", layers=2, width=72),
    _model("minGRU", "mingru", layers=2, width=64),
    _model("minLSTM", "minlstm", layers=2, width=58),
    _model("Mamba-2", "mamba2", layers=2, width=50, heads=2),
    _model("mLSTM", "mlstm", layers=2, width=56, heads=4),
    _model("Gated DeltaNet", "deltanet", layers=2, width=56, heads=4),
    _model("FFM", "ffm", layers=2, width=44),
    _model(NONE.label, "none", layers=2, width=138),
)
"""Those that there are runs of elsewhere keep their names, and with them their colours."""


def corridor(steps: int, frames: int) -> Goal:
    """A T-maze that an unroll holds, and a transformer's two layers."""
    memory = max(64, steps // 2 + 8)
    return Goal(
        f"t-maze:corridor={steps}",
        frames,
        f"T-maze, {steps} steps",
        steps,
        net={"memory": memory},
        settings={"unroll": max(32, steps + 8)},
    )


CORRIDORS = (corridor(24, 500_000), corridor(96, 1_000_000), corridor(384, 1_500_000))
GOALS = (
    *CORRIDORS,
    Goal("grid-numpad", 1_500_000, "Grid Numpad 2x2", key="numpad-2x2"),
    Goal("grid-numpad-3x3", 3_000_000, "Grid Numpad 3x3", key="numpad-3x3", net={"memory": 100}),
    Goal("recall:items=16,ask=4", 2_000_000, "recall of 16 cards", key="recall-16", settings={"unroll": 64}),
    Goal(
        "repeat-previous:decks=2,k=32", 1_500_000, "RepeatPreviousMedium", key="repeat-previous-medium", settings={"unroll": 64}
    ),
    Goal("count-recall", 2_000_000, "CountRecallEasy", key="count-recall-easy", settings={"unroll": 64}),
    Goal("psychlab_arbitrary_visuomotor_mapping:height=24,width=32,images=4", 100_000, "visuomotor mapping", key="pictures"),
)
LONG = corridor(1500, 10_000_000)
"""The longest corridor that was published, with its authors' frames: not for a laptop, one run takes as long as all others."""


def searched() -> tuple[Model, ...]:
    """Every model with each of the four rates."""
    return tuple(
        model.but(label=f"{model.label}, {rate:g}", key=f"{model.core}-{rate:g}", learner={"learning_rate": rate})
        for model in MODELS
        for rate in SEARCHED
    )


_TINY = {"streams": 8, "reports": 8}
_QUICK = (corridor(4, 2048), corridor(8, 2048))

RUNS = (
    RunSet(
        "rivals-rates",
        {
            "quick": Size(_QUICK[:1], searched()[:8], 1, "rivals", settings=_TINY, hours=0.1),
            "laptop": Size(CORRIDORS[:1], searched(), 3, "rivals", hours=0.5),
            "paper": Size(CORRIDORS[:1], searched(), 5, "rivals"),
        },
    ),
    RunSet(
        "rivals",
        {
            "quick": Size(_QUICK, MODELS, 1, "rivals", settings=_TINY, hours=0.3),
            "laptop": Size(GOALS, MODELS, 5, "rivals", hours=7.0),
            "paper": Size((*GOALS, LONG), MODELS, 10, "rivals"),
        },
    ),
)

EXPERIMENTS = (
    Experiment(
        "rivals-rates",
        "ours",
        "every memory with four learning rates on one task: the search before the comparison",
        "rivals-rates",
        "rivals",
        "Each memory is compared at the rate that suits it.",
    ),
    Experiment(
        "rivals",
        "ours",
        "every memory with as many parameters, at equal frames and at equal time; what each costs",
        "rivals",
        "rivals",
        "GTrXL (GRU) is ahead of the memories that have come since, at equal size.",
        pairs=tuple((GRU.label, model.label) for model in MODELS if model.label != GRU.label),
    ),
)
