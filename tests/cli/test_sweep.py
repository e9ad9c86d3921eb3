"""`gtrxl sweep`: every combination with every seed, under names that say what varies; what is wrong is said before a start."""

import dataclasses
import json
from pathlib import Path

import pytest

from gtrxl.cli.main import main
from gtrxl.cli.sweep import plan
from gtrxl.experiments import sweeps
from gtrxl.runs.presets import defaults

TINY = [
    "--streams",
    "2",
    "--unroll",
    "4",
    "--steps",
    "128",
    "--reports",
    "2",
    "--net.torso",
    "8",
    "--net.hidden",
    "8",
    "--net.width",
    "8",
]


def test_the_product_of_what_varies_times_seeds():
    varied = ["core=gtrxl-gru,lstm", "learner.learning-rate=1e-3,3e-4"]
    planned = plan(["t-maze", "--steps", "300k", "--seed", "7"], varied, seeds=2)
    assert list(planned) == [
        f"core={core},learning-rate={rate},seed={seed}"
        for seed in (7, 8)
        for core in ("gtrxl-gru", "lstm")
        for rate in ("0.001", "0.0003")
    ]
    for name, config in planned.items():
        assert f"core={config.core},learning-rate={config.learner.learning_rate:g},seed={config.seed}" == name
        assert (config.task, config.steps) == ("t-maze", 300_000)
    # Each has the defaults of its core.
    one = planned["core=lstm,learning-rate=0.0003,seed=7"]
    assert one.net == defaults(task="t-maze", core="lstm").net
    alone = dataclasses.replace(defaults(task="t-maze", core="lstm"), steps=300_000, seed=7)
    assert one == dataclasses.replace(alone, learner=dataclasses.replace(alone.learner, learning_rate=3e-4))


def test_tasks_flags_and_settings_of_other_parts_can_vary_too():
    tasks = plan([], ["task=t-maze:corridor=10;t-maze"], seeds=1)
    assert list(tasks) == ["task=t-maze-corridor-10,seed=0", "task=t-maze,seed=0"]
    skips = plan(["t-maze", "--core", "lstm"], ["net.skip=yes,no"], seeds=1)
    assert [config.net.skip for config in skips.values()] == [True, False]
    masks = plan(["gym:CartPole-v1"], ["mask_velocity=yes,no"], seeds=1)
    assert {name: config.gym.mask_velocity for name, config in masks.items()} == {
        "mask-velocity=True,seed=0": True,
        "mask-velocity=False,seed=0": False,
    }
    assert list(plan(["t-maze"], [], seeds=3)) == ["seed=0", "seed=1", "seed=2"]
    assert [config.steps for config in plan(["t-maze"], ["steps=20k,1e5"], seeds=1).values()] == [20_000, 100_000]


@pytest.mark.parametrize(("arguments", "line"), [
    (["t-maze", "--vary", "core=lstm,elephant"], "gtrxl: there is no core 'elephant'"),
    (["t-maze", "--vary", "learner.lam=0.9,2"], "gtrxl: lam must be"),
    (["t-maze", "--vary", "core"], "gtrxl: vary must be an option and its values, got 'core'; for example"),
    (["t-maze", "--vary", "core=lstm,"], "gtrxl: vary must be an option and its values"),
    (["t-maze", "--vary", "seed=1,2"], "gtrxl: vary must not name the seed, got 'seed=1,2'; --seeds 5"),
    (["t-maze", "--vary", "run=a,b"], "gtrxl: vary must name a setting, got 'run'"),
    (["t-maze", "--vary", "core=lstm", "--vary", "core=gru"], "gtrxl: vary must name an option once, got core twice"),
    (["t-maze", "--core=gru", "--vary", "core=lstm"], "gtrxl: core must be varied or given, got both --vary core and --core=gru"),
    (["t-maze", "--vary", "task=t-maze"], "gtrxl: task must be varied or given, got both --vary task and t-maze"),
    (["t-maze", "--vary", "steps=1.5"], "gtrxl: a number of frames must be whole, got 1.5"),
    (["t-maze", "--vary", "discount=0.9,0.90"], "gtrxl: every combination must be another one, got discount=0.9 twice"),
    (["t-maze", "--seeds", "0"], "gtrxl: seeds must be at least 1, got 0"),
    (["t-maze", "--run", "x"], "gtrxl: --run must be left out of a sweep, got x; --out is"),
    (["t-maze", "--jobs", "-1"], "gtrxl: jobs must be at least 0, got -1"),
])  # fmt: skip
def test_what_is_wrong_is_one_line_and_leaves_nothing(
    arguments: list[str], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    assert main(["sweep", "--quiet", *arguments]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(line)
    assert not list(tmp_path.iterdir())


def test_a_name_that_is_no_option_is_said_with_what_may_be_meant(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as stop:
        main(["sweep", "t-maze", "--vary", "learner.learnin-rate=1e-3"])
    assert stop.value.code == 2
    assert "--learner.learning-rate" in capsys.readouterr().err


def test_a_list_starts_nothing_and_says_how_far_runs_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    command = ["sweep", "t-maze", "--vary", "core=lstm,none", "--seeds", "1", "--list"]
    assert main(command) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [
        ["run", "frames", "status", "task"],
        ["core=lstm,seed=0", "1,000,000", "to", "do", "t-maze"],
        ["core=none,seed=0", "1,000,000", "to", "do", "t-maze"],
        ["2", "runs", "into", "sweeps/t-maze-core"],
    ]
    assert not list(tmp_path.iterdir())
    begun = tmp_path / "sweeps" / "t-maze-core" / "core=lstm,seed=0"
    begun.mkdir(parents=True)
    (begun / "config.json").write_text(json.dumps({"task": "t-maze", "steps": 1_000_000}))
    (begun / "metrics.jsonl").write_text(json.dumps({"frames": 250_000, "return_mean": 0.5, "episodes": 3}) + "\n")
    assert main(command) == 0
    assert "core=lstm,seed=0  1,000,000  unfinished at 25 %  t-maze" in capsys.readouterr().out


def test_a_sweep_trains_compares_and_does_nothing_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "out"
    command = ["sweep", "t-maze", *TINY, "--core", "none", "--vary", "discount=0.9,0.8", "--seeds", "1", "--out", str(out)]
    assert main(command) == 0
    said = capsys.readouterr()
    assert said.err.startswith(f"2 runs into {out}\n")
    assert said.err.count(" finished; ") == 2
    assert said.out.startswith("all: core none, algorithm vmpo, ")
    assert "discount=0.9,seed=0" in said.out
    assert said.out.rstrip().endswith(f"in {out}; `gtrxl compare {out}` shows this again, with --to FILE.png as a figure")
    assert sorted(path.name for path in out.iterdir() if path.name[0] != ".") == ["discount=0.8,seed=0", "discount=0.9,seed=0"]
    rows = (out / "discount=0.9,seed=0" / "metrics.jsonl").read_bytes()
    assert main([*command, "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    assert (out / "discount=0.9,seed=0" / "metrics.jsonl").read_bytes() == rows
    assert main(["compare", *(str(path) for path in out.iterdir())]) == 0
    assert main([*command, "--streams", "4"]) == 2
    assert "must hold a run with the settings planned, got streams 2 there and 4 here" in capsys.readouterr().err


def test_an_interrupt_is_one_line_that_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def interrupted(*arguments: object, **named: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sweeps, "sweep", interrupted)
    assert main(["sweep", "t-maze", "--out", str(tmp_path), "--quiet"]) == 130
    assert capsys.readouterr().err == f"stopped with checkpoints in {tmp_path}; the same command goes on\n"
