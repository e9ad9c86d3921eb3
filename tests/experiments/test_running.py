"""Experiments from start to page: run, killed, gone on with, drawn; no run is done or counted twice."""

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gtrxl.cli.main import main
from gtrxl.experiments.errors import ExperimentError
from gtrxl.experiments.planning import plan
from gtrxl.experiments.running import collect, reproduce
from gtrxl.report.rows import read
from gtrxl.runs import settings as configs


def _reproduce(out: Path, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "gtrxl", "reproduce", *words, "--out", str(out)], stdout=subprocess.DEVNULL)


def test_the_experiments_are_listed(capsys):
    assert main(["reproduce", "--list"]) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in ("final", "gates", "numpad", "sensitivity", "divergence", "params", "identity-init"))
    assert main(["reproduce", "horizon", "--list"]) == 0
    assert "lstm.t-maze-corridor=4.00" in capsys.readouterr().out


def test_a_wrong_name_is_one_line(capsys):
    assert main(["reproduce", "nothing"]) == 2
    assert "there is no experiment 'nothing'" in capsys.readouterr().err


def test_rows_say_what_was_run_and_name_what_cannot_be_read(tmp_path: Path):
    """The plan may have changed since a run was made: its row has the settings of its folder."""
    first, second, *_ = plan("horizon", "quick")
    for each, steps in ((first, 999), (second, 512)):
        folder = tmp_path / "runs" / each.name
        folder.mkdir(parents=True)
        configs.write(dataclasses.replace(each.config, steps=steps), folder / "config.json")
        reports = [{"frames": at, "seconds": 1.0, "return_mean": 0.5, "episodes": 4} for at in (500, 1000)]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in reports))
    (tmp_path / "runs" / second.name / "result.json").write_text("{")
    (tmp_path / "rows.jsonl").write_bytes(b"\xff\x00\n")
    said: list[str] = []
    collect(tmp_path, "horizon", "quick", say=said.append)
    (row,) = read(tmp_path).rows
    assert (row["run"], row["planned_frames"], row["config"]["steps"], row["status"]) == (first.name, 999, 999, "under way")
    assert row["bounds"] == first.draw.bounds
    assert len(said) == 1
    assert second.name in said[0]


def _rows_of_ended_runs(home: Path, *, seed_of_the_last: int | None = None) -> list[str]:
    """What another machine would have left: a row for each run of a set, and no folders."""
    planned = plan("horizon", "quick")
    rows = [
        {"run": each.name, "status": "finished", "config": json.loads(json.dumps(configs.as_dict(each.config)))}
        for each in planned
    ]
    del rows[0]["config"]["net"]["output_norm"]  # a setting that came after this row
    if seed_of_the_last is not None:
        rows[-1]["config"]["seed"] = seed_of_the_last
    home.mkdir(parents=True)
    (home / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return [each.name for each in planned]


def test_runs_that_are_done_by_their_rows_are_not_done_again(tmp_path: Path, capsys):
    home = tmp_path / "horizon" / "quick"
    names = _rows_of_ended_runs(home)
    before = read(home).rows
    reproduce("horizon", "quick", tmp_path)
    assert not list((home / "runs").iterdir())
    assert sorted(row["run"] for row in read(home).rows) == sorted(row["run"] for row in before)
    assert f"{len(names)} runs are done by their rows" in capsys.readouterr().err


def test_rows_of_other_settings_are_not_taken_for_the_planned_runs(tmp_path: Path):
    names = _rows_of_ended_runs(tmp_path / "horizon" / "quick", seed_of_the_last=12345)
    with pytest.raises(ExperimentError, match=rf"the row of {re.escape(names[-1])} .* got seed 12345 there"):
        reproduce("horizon", "quick", tmp_path)
    assert not (tmp_path / "horizon" / "quick" / "runs").exists()


def test_a_run_on_levels_has_a_curve_for_each_split(tmp_path: Path):
    """Its point is the mean of the split's levels, each with its latest score, from when each has one."""
    first, *_ = plan("final", "laptop")
    folder = tmp_path / "runs" / first.name
    folder.mkdir(parents=True)
    configs.write(first.config, folder / "config.json")
    levels = ("rooms_watermaze", "explore_goal_locations_small", "rooms_collect_good_objects")
    seen = ((10.0, None, None), (None, 30.0, 50.0), (20.0, None, 60.0))
    reports = [
        {
            "frames": 100 * (n + 1),
            "seconds": 1.0,
            "return_mean": 1.0,
            "episodes": 4,
            "tasks": {
                name: {"normalised": score, "episodes": 0 if score is None else 2}
                for name, score in zip(levels, scores, strict=True)
            },
        }
        for n, scores in enumerate(seen)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in reports))
    collect(tmp_path, "final", "laptop")
    (row,) = read(tmp_path).rows
    assert row["splits"] == {"memory": [[200, 20.0, 2], [300, 25.0, 2]], "reactive": [[200, 50.0, 2], [300, 60.0, 2]]}
    assert row["scores"] == {"perfect memory": 100.0, "random": 0.0}


@pytest.mark.slow
def test_numpad_from_one_command_to_its_page(tmp_path: Path, capsys):
    assert main(["reproduce", "numpad", "--scale", "quick", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "numpad (quick)" in said
    found = read(tmp_path)
    assert found.problems == ()
    assert len(found.rows) == 8
    for row in found.rows:
        assert row["status"] == "finished"
        assert row["frames"] >= row["planned_frames"]
        assert row["parameters"] > 0
        assert row["versions"]["jax"]
        assert row["config"]["seed"] == row["seed"]
    assert main(["report", str(tmp_path)]) == 0
    assert "<svg" in (tmp_path / "report.html").read_text()


@pytest.mark.slow
def test_a_sweep_that_is_killed_goes_on_and_does_nothing_twice(tmp_path: Path):
    words = ("sensitivity", "--scale", "quick")
    killed = _reproduce(tmp_path, *words)
    home = tmp_path / "sensitivity" / "quick"
    deadline = time.monotonic() + 240
    while not list(home.glob("runs/*/result.json")) and time.monotonic() < deadline:
        time.sleep(0.2)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    done = {file: file.stat().st_mtime_ns for file in home.glob("runs/*/result.json")}
    assert done, "one run had ended before the kill"
    assert _reproduce(tmp_path, *words).wait(timeout=900) == 0
    rows = read(tmp_path).rows
    assert sorted(row["run"] for row in rows) == sorted(run.name for run in plan("sensitivity", "quick"))
    assert len(rows) == 10
    assert all(row["status"] == "finished" for row in rows)
    assert {file: file.stat().st_mtime_ns for file in done} == done, "what was done is not done again"
    for folder in home.glob("runs/[!.]*"):
        frames = [json.loads(line)["frames"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
        assert frames == sorted(set(frames)), "no report is there twice"
    before = (home / "rows.jsonl").read_text()
    assert collect(home, "sensitivity", "quick").read_text() == before
    os.rename(home / "runs", home / "elsewhere")
    assert collect(home, "sensitivity", "quick").read_text() == before, "rows outlive the folders that they were made from"
