"""Rows of runs -> points, a table, a figure."""

import json

import pytest

from gtrxl.report import learning_curves


@pytest.fixture
def folder(tmp_path):
    """A run of 120 reports whose return is the number of the report; the first ended no episode."""
    config = {"task": "t-maze", "core": "lstm", "seed": 3, "algorithm": "vmpo", "devices": 2}
    (tmp_path / "config.json").write_text(json.dumps(config))
    rows = [
        {"frames": 10 * n, "seconds": 0.5 * n, "return_mean": None if n == 1 else float(n), "episodes": 0 if n == 1 else 4}
        for n in range(1, 121)
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "result.json").write_text(json.dumps({"status": "finished"}))
    return tmp_path


def test_a_record_keeps_the_curve_and_how_it_was_made(folder):
    made = learning_curves.record(folder, command="gtrxl train t-maze")
    assert (made["core"], made["seed"], made["status"], made["command"]) == ("lstm", 3, "finished", "gtrxl train t-maze")
    assert (made["frames"], made["seconds"]) == (1200, 60.0)
    assert made["return"] == pytest.approx(sum(range(110, 121)) / 11)  # the last tenth of 119 rows with episodes
    assert made["points"][0] == [20, 1.0, 2.0]
    assert made["points"][-1][:2] == [1200, 60.0]


def test_first_above_says_when_a_level_was_reached(folder):
    made = learning_curves.record(folder, command="")
    assert learning_curves.first_above(made, 50.0) == (500, 25.0)
    assert learning_curves.first_above(made, 500.0) is None


def test_the_table_shows_every_seed(folder):
    made = learning_curves.record(folder, command="")
    lines = learning_curves.table([made, {**made, "seed": 0, "return": None}]).splitlines()
    assert len(lines) == 3
    assert "| t-maze | lstm | -, 115.0 | 115.0 | 0.0 M | 1.0 |" in lines[2]


def test_runs_of_different_lengths_are_compared_after_the_same_frames():
    def run(core, seed, end):
        return {"core": core, "seed": seed, "frames": end, "points": [[at, 0.0, at / 10] for at in range(10, end + 1, 10)]}

    lines = learning_curves.equal_frames([run("lstm", 1, 200), run("lstm", 0, 300), run("gru", 0, 100)], 200).splitlines()
    assert lines[2:] == ["| lstm | 19.0, 19.0 | 19.0 |"]  # points 180, 190, 200; the run of 100 frames is left out


def test_the_middle_of_curves_with_other_reports_is_taken_at_the_same_frames():
    often = [[10.0 * n, 0.0, 10.0 * n] for n in range(1, 6)]  # its return is its frames
    seldom = [[20.0, 0.0, 120.0], [40.0, 0.0, 140.0], [80.0, 0.0, 180.0]]  # 100 more
    assert learning_curves.middle([often]) == ([10, 20, 30, 40, 50], [10, 20, 30, 40, 50])
    assert learning_curves.middle([often, seldom]) == ([20, 30, 40, 50], [70, 80, 90, 100])
    assert learning_curves.middle([seldom, often, often])[1] == [20, 30, 40, 50]


def test_a_figure_is_drawn_and_levels_that_are_close_share_a_line(folder):
    made = learning_curves.record(folder, command="")
    learning_curves.draw([made], {"t-maze": {"perfect": 100.0, "random": 1.0, "none": 2.0}}, [folder / "figure.png"])
    assert (folder / "figure.png").stat().st_size > 5_000
    assert learning_curves.shared_levels({"perfect": 100.0, "none": 2.0, "random": 1.0}) == [
        (1.0, "random, none"),
        (100.0, "perfect"),
    ]
