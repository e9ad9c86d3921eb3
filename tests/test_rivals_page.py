"""What docs/rivals.md says of MERLIN is what the committed curves have."""

import json
import re
from pathlib import Path

HOME = Path(__file__).parent.parent
PAGE = (HOME / "docs" / "rivals.md").read_text().partition("## MERLIN")[2].partition("\n## ")[0]
DATA = json.loads((HOME / "docs" / "data" / "merlin.json").read_text())


def runs(model):
    return [run for run in DATA["runs"] if run["model"] == model]


def told(first):
    """The cells of the line of a table that begins so."""
    (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| {first} |")]
    return [cell.strip() for cell in line.split("|")[2:-1]]


def test_scores_are_those_of_the_runs():
    for label, model in {"MERLIN": "merlin", "RL-MEM": "rl-mem", "LSTM of 64": "lstm", "LSTM of 192": "lstm-large"}.items():
        mine, low = runs(model), runs(f"{model}-low")
        cells = [f"{mine[0]['parameters']:,}", *(", ".join(f"{run['late']:.2f}" for run in each) for each in (mine, low))]
        assert told(label) == cells
        assert (len(mine), len(low)) == (3, 0 if model == "merlin" else 1)


def test_every_seed_of_merlin_is_above_every_seed_of_the_others():
    least = min(run["late"] for run in runs("merlin"))
    assert least > max(run["late"] for run in DATA["runs"] if run["model"] != "merlin")


def test_what_was_held_out_is_told_and_predicted_better_than_before():
    for label, name in {
        "what was seen, lost in nats": "vector",
        "KL, in nats": "kl",
        "kinds of cards told right": "kinds told right",
    }.items():
        before, after = ([run["held_out"][when][name] for run in runs("merlin")] for when in ("untrained", "trained"))
        assert told(label) == [", ".join(f"{value:.3f}" for value in each) for each in (before, after)]
        if name == "vector":
            assert max(after) < min(before) / 10


def test_the_curves_fall():
    for run in runs("merlin"):
        curve = run["curve"]
        assert curve["prediction_vector"][-1] < curve["prediction_vector"][0] / 5
        assert curve["prediction_kl"][-1] < curve["prediction_kl"][0]


def test_the_settings_are_those_told():
    assert DATA["steps"] == 1_500_000
    assert "1.5 M frames" in PAGE
    assert f"segments of {DATA['unroll']} steps" in PAGE
    assert re.search(r"delay=12", DATA["task"])
    assert "12 steps later" in PAGE
