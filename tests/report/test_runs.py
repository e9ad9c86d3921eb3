"""Folders of runs -> groups that differ in as few settings as tell them apart, with what their rows say."""

import json
from pathlib import Path

import pytest

from gtrxl.report.errors import ReportError
from gtrxl.report.runs import compare_runs, read_record
from gtrxl.report.runs_figure import draw
from gtrxl.tasks.scale import of_100

from .made_up_runs import made_up_run

SCORES = json.loads((Path(__file__).parents[2] / "src/gtrxl/tasks/scores.json").read_text())


def test_seeds_are_pooled_and_only_what_tells_runs_apart_is_told(tmp_path):
    for core, level in (("gtrxl-gru", 1.0), ("lstm", 0.5)):
        for seed in (2, 0, 1):
            made_up_run(tmp_path / f"{core}-{seed}", core=core, seed=seed, level=level + 0.1 * seed)
    found = compare_runs([tmp_path])
    assert (found.common, found.telling) == ({"task": "t-maze", "algorithm": "vmpo"}, ("core",))
    assert found.following == ("net.layers", "net.width")
    assert [group.label() for group in found.groups] == ["core gtrxl-gru", "core lstm"]
    assert [[run.settings["seed"] for run in group.runs] for group in found.groups] == [[0, 1, 2]] * 2
    assert found.groups[1].returns == pytest.approx([0.5 * 38.5 / 40, 0.6 * 38.5 / 40, 0.7 * 38.5 / 40])
    assert found.groups[1].frames_per_second == 2000.0
    assert (found.left_out, len(found.runs), found.tasks) == ((), 6, ("t-maze",))


def test_a_setting_that_tells_more_than_the_core_is_told_too(tmp_path):
    for number, (core, rate) in enumerate([("lstm", 1e-3), ("lstm", 3e-4), ("gtrxl-gru", 1e-3)]):
        made_up_run(tmp_path / str(number), core=core, learner={"learning_rate": rate, "lam": 0.9})
    found = compare_runs([tmp_path])
    assert found.telling == ("core", "learner.learning-rate")
    assert [group.label(without=("core",)) for group in found.groups] == [
        f"learning-rate {rate}" for rate in ("0.001", "0.0003", "0.001")
    ]


def test_a_setting_that_came_to_be_between_two_runs_is_no_difference(tmp_path):
    made_up_run(tmp_path / "old")
    made_up_run(tmp_path / "new", seed=1, popart_step=1e-4)
    found = compare_runs([tmp_path])
    assert (found.telling, found.following, len(found.groups)) == ((), (), 1)


def test_how_a_run_stands_is_told_and_one_that_has_not_ended_is_not_averaged(tmp_path):
    made_up_run(tmp_path / "a", seed=0)
    made_up_run(tmp_path / "b", seed=1, status=None)
    made_up_run(tmp_path / "c", seed=2, status="diverged", level=0.5)
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "planned.json").write_text((tmp_path / "a" / "config.json").read_text())
    silent = made_up_run(tmp_path / "e", seed=4)
    (silent / "metrics.jsonl").write_text(json.dumps({"frames": 500, "return_mean": None, "episodes": 0}) + "\n")
    (group,) = compare_runs([tmp_path]).groups
    standings = {run.name: run.standing for run in group.runs}
    assert standings == {
        "a": "finished",
        "b": "unfinished at 25 %",
        "c": "diverged at 100 %",
        "d": "not begun",
        "e": "finished, no episode ended",
    }
    assert [run.name for run in group.counted] == ["a", "c", "e"]
    assert len(group.returns) == 2
    (only,) = compare_runs([tmp_path / "b"]).groups
    assert only.returns == [10 / 40]


def test_returns_are_put_on_the_scale_where_one_is_known(tmp_path):
    known = SCORES["t-maze"]
    run = read_record(made_up_run(tmp_path / "known"))
    assert run.late_return is not None
    assert run.of_100 == of_100(run.late_return, random=known["random"], best=known["best"])
    assert run.levels["perfect memory"] == known["best"]
    other = made_up_run(tmp_path / "other", task="gym:CartPole-v1")
    assert (read_record(other).of_100, read_record(other).levels) == (None, {})
    (other / "result.json").write_text(json.dumps({"status": "finished", "normalised": 42.0}))
    assert read_record(other).of_100 == 42.0
    several = made_up_run(tmp_path / "several", task="t-maze+t-maze:corridor=20", level=100.0)
    rows = [json.loads(line) for line in (several / "metrics.jsonl").read_text().splitlines()]
    for each, levels in ((50.0, {"best": 100.0, "random": 0.0}), (None, {})):
        tasks = {
            "t-maze": {"return_mean": 1.0, "normalised": each},
            "t-maze:corridor=20": {"return_mean": None, "normalised": None},
        }
        (several / "metrics.jsonl").write_text("".join(json.dumps({**row, "tasks": tasks}) + "\n" for row in rows))
        assert read_record(several).levels == levels
        assert (read_record(several).of_100 is None) == (each is None)


def test_the_median_goes_on_with_the_runs_that_are_left(tmp_path):
    made_up_run(tmp_path / "a", seed=0, level=1.0)
    made_up_run(tmp_path / "b", seed=1, level=3.0)
    made_up_run(tmp_path / "c", seed=2, level=2.0, status=None)
    (group,) = compare_runs([tmp_path]).groups
    curve = dict(group.median_curve())
    assert curve[10_000.0] == pytest.approx(2.0 * 10 / 40)
    assert curve[40_000.0] == pytest.approx((1.0 + 3.0) / 2)


def test_what_is_no_run_is_left_out_by_name(tmp_path):
    run = made_up_run(tmp_path / "run")
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    broken = made_up_run(tmp_path / "broken")
    (broken / "config.json").write_text("{")
    listed = made_up_run(tmp_path / "listed")
    (listed / "config.json").write_text("[]")
    torn = made_up_run(tmp_path / "torn")
    (torn / "metrics.jsonl").write_text('{"frames": 1}\nnot a row\n{"frames": 2}\n')
    given = [run, run, *(tmp_path / name for name in ("file", "empty", "nowhere", "broken", "listed", "torn"))]
    found = compare_runs(given)
    assert [each.name for each in found.runs] == ["run"]
    assert [line.partition(str(tmp_path) + "/")[2] for line in found.left_out[:3]] == [
        "file is no run: it is a file",
        "empty is no run: it has no config.json",
        "nowhere is no run: there is no such folder",
    ]
    assert "config.json must be JSON" in found.left_out[3]
    assert "must hold one JSON object, got list" in found.left_out[4]
    assert "line 2 is not" in found.left_out[5]
    with pytest.raises(ReportError, match=r"compare must be given folders of runs, got none: .*empty is no run"):
        compare_runs([tmp_path / "empty"])


def test_a_figure_has_a_panel_for_each_task_and_a_line_for_each_group(tmp_path):
    for core, level in (("gtrxl-gru", 1.0), ("lstm", 0.5)):
        for seed in (0, 1):
            made_up_run(tmp_path / f"{core}-{seed}", core=core, seed=seed, level=level)
    silent = made_up_run(tmp_path / "silent", task="gym:CartPole-v1")
    (silent / "metrics.jsonl").write_text("")
    found = compare_runs([tmp_path])
    draw(found, tmp_path / "deep" / "figure.svg")
    drawn = (tmp_path / "deep" / "figure.svg").read_text()
    for words in (
        "t-maze",
        "core gtrxl-gru (2 runs)",
        "core lstm (2 runs)",
        "perfect memory 1",
        "gym:CartPole-v1",
        "no episode ended",
    ):
        assert f">{words}" in drawn, words
    draw(found, tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_text() == drawn
    draw(found, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ReportError, match=r"must end in .png or .svg, got .*figure.pdf; for example .*figure.png"):
        draw(found, tmp_path / "figure.pdf")
