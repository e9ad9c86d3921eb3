"""The scoreboard's models are equal in what they should be equal in, and its table says what its rows say."""

import pytest

from gtrxl.cores import CORES, core_arguments
from gtrxl.experiments.catalogue import EXPERIMENTS
from gtrxl.experiments.planning import plan
from gtrxl.experiments.rivals import MODELS, SEARCHED
from gtrxl.experiments.running import _sizes
from gtrxl.report.rivals import scoreboard

OURS = {"trxl", "gtrxl-input", "gtrxl-output", "gtrxl-highway", "gtrxl-sigtanh", "merlin", "rl-mem"}
"""Compared elsewhere: in the paper's ablation, and MERLIN with its control."""


def test_every_memory_takes_part():
    assert {model.core for model in MODELS} == set(CORES) - OURS


@pytest.mark.slow
def test_all_models_have_as_many_parameters():
    """Within 5 %, on every goal: the whole agent, as it is trained."""
    for goal in {each.goal.label for each in plan("rivals", "laptop")}:
        runs = [each for each in plan("rivals", "laptop") if each.goal.label == goal and each.draw.number == 0]
        counts = {each.model.core: _sizes(each.config)["parameters"] for each in runs}
        measure = counts["gtrxl-gru"]
        assert measure
        for core, count in counts.items():
            assert count == pytest.approx(measure, rel=0.05), (goal, core)


def test_unrolls_and_memories_span_the_corridor():
    for each in plan("rivals", "laptop"):
        if each.goal.dial:
            assert each.config.unroll > each.goal.dial
            if "memory" in core_arguments(each.config.core):
                assert each.config.net.layers * each.config.net.memory >= each.goal.dial


def test_the_search_is_the_same_for_all_and_has_seeds_of_its_own():
    searched = plan("rivals-rates", "laptop")
    for model in MODELS:
        rates = {each.config.learner.learning_rate for each in searched if each.config.core == model.core}
        assert rates == set(SEARCHED)
    assert not {each.config.seed for each in searched} & {each.config.seed for each in plan("rivals", "laptop")}


def made_up(model, goal, dial, curve, seconds):
    return {
        "set": "rivals", "scale": "quick", "run": f"{model}.{goal}", "model": model, "goal": goal, "task": "t-maze", "dial": dial,
        "draw": 0, "seed": 1, "status": "finished", "planned_frames": 1000, "frames": 1000, "seconds": seconds,
        "frames_per_second": 1000 / seconds, "curve": curve, "scores": {"random": 0.5, "no memory": 0.5, "perfect memory": 1.0},
        "parameters": 10, "state_bytes": 20,
    }  # fmt: skip


def test_equal_time_cuts_the_slower_one_short():
    """One that is solved at its end, and takes four times as long: after a quarter of that it knew nothing."""
    rows = [
        made_up("GTrXL (GRU)", "T-maze, 8 steps", 8, [[250, 0.5, 300], [1000, 1.0, 300]], 40.0),
        made_up("LSTM", "T-maze, 8 steps", 8, [[250, 0.5, 300], [1000, 0.75, 300]], 10.0),
    ]
    made = scoreboard(EXPERIMENTS["rivals"], rows)
    cells = {row[1]: row for row in made.table if row[0] == "T-maze, 8 steps"}
    assert cells["GTrXL (GRU)"][3].startswith("100.0")
    assert cells["GTrXL (GRU)"][4].startswith("0.0")
    assert cells["LSTM"][3].startswith("50.0")
    assert cells["LSTM"][4].startswith("50.0")
    ends = {row[1]: row[-1] for row in made.table if row[0] == "all"}
    assert ends == {"GTrXL (GRU)": "longest corridor 8", "LSTM": "longest corridor none"}
