"""The command line: what it prints, where, and with which exit code."""

import dataclasses
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import types

import numpy as np
import pytest

import gtrxl
from gtrxl.cli import main as cli
from gtrxl.cli import runs
from gtrxl.cores import CORES
from gtrxl.evaluation import evaluate
from gtrxl.evaluation.trained_agent import Ends
from gtrxl.gym.by_name import parse
from gtrxl.runs.terminal import View
from gtrxl.training.reporting import on_interrupt

LONG = "what is seen takes a minute, a set of levels some minutes"


def run(*arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    try:
        code = cli.main(arguments)
    except SystemExit as stop:  # how tyro ends --help and bad usage
        code = int(stop.code or 0)
    said = capsys.readouterr()
    return code, said.out, said.err


def test_params_prints_nine_models_and_merlin(capsys: pytest.CaptureFixture[str]):
    code, out, err = run("params", capsys=capsys)
    lines = out.splitlines()
    assert (code, err, len(lines)) == (0, "", 11)
    assert "core only" in lines[0]
    assert next(line for line in lines if line.startswith("GTrXL (GRU)")).split()[2:] == [
        "66.4", "M", "66.314", "M", "-0.13", "%", "60.003", "M",
    ]  # fmt: skip


def test_params_parts(capsys: pytest.CaptureFixture[str]):
    code, out, _ = run("params", "--parts", capsys=capsys)
    assert code == 0
    assert all(part in out.splitlines()[0] for part in ("vision", "language", "core", "policy", "value", "pixel control"))


def test_params_json_adds_up(capsys: pytest.CaptureFixture[str]):
    code, out, _ = run("params", "--json", capsys=capsys)
    rows = json.loads(out)
    assert code == 0
    assert len(rows) == 10
    for row in rows:
        assert sum(row["parts"].values()) == row["total"]
        assert row["name"] == "merlin" or abs(row["difference_percent"]) < 0.5


def test_cores_lists_every_core(capsys: pytest.CaptureFixture[str]):
    code, out, _ = run("cores", capsys=capsys)
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[1:]] == list(CORES)
    assert set(json.loads(run("cores", "--json", capsys=capsys)[1])) == set(CORES)


@pytest.mark.parametrize(("arguments", "line"), [
    (["demo", "--cores", "elephant"], "gtrxl: there is no core 'elephant'; the cores are lstm,"),
    (["demo", "--updates", "0"], "gtrxl: updates must be at least 1, got 0; the default is 800"),
    (["demo", "--repeats", "0"], "gtrxl: repeats must be at least 1, got 0"),
    (["demo", "--cores"], "gtrxl: cores must name at least one"),
])  # fmt: skip
def test_what_the_user_can_put_right_is_one_line(
    arguments: list[str], line: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
):
    code, out, err = run(*arguments, "--out", str(tmp_path / "new"), capsys=capsys)
    assert (code, out) == (2, "")
    assert err.startswith(line)
    assert err.count("\n") == 1
    assert not (tmp_path / "new").exists()


def test_a_folder_that_cannot_be_made_is_said_before_training(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "file").write_text("")
    code, _, err = run("demo", "--out", str(tmp_path / "file" / "below"), capsys=capsys)
    assert code == 2
    assert err.count("\n") == 1
    assert "below" in err


def test_a_mistake_of_ours_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch):
    def broken(_: object) -> None:
        raise ValueError("operands could not be broadcast")

    monkeypatch.setattr(cli.Cores, "run", broken)
    with pytest.raises(ValueError, match="broadcast"):
        cli.main(["cores"])


def test_a_second_signal_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """A run that is about to stop, and is told so again."""

    def stopping(self: object):
        with on_interrupt(View()) as asked:
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGTERM)
        raise AssertionError(asked)

    monkeypatch.setattr(cli.COMMANDS["cores"], "run", stopping)
    code, out, err = run("cores", capsys=capsys)
    assert (code, out) == (130, "")
    assert err.splitlines() == ["gtrxl: stopped at once; `gtrxl resume RUN` goes on with a run from its last checkpoint"]


def test_levels_of_deepmind_lab_are_scored_under_their_own_names_beside_humans(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Scored is another level than the one trained on, and nobody calls a human the best there is."""

    class Player:
        def __init__(self, name: str):
            self.task = parse(name)
            self.name, self.scored = self.task.name, self.task.scored

        def returns(self, **_: object):
            return np.array([5.0, 6.0])

        def ends(self, **_: object):
            scale = self.task.scale_of()
            assert scale is not None
            return Ends(scale.random, scale.best, scale.best_is)

    names = ["dmlab:rooms_collect_good_objects_train", "dmlab:rooms_watermaze"]
    monkeypatch.setattr(runs, "_say_that_compiling_takes_long", lambda *_, **__: None)
    restored = types.SimpleNamespace(agent=None, config=types.SimpleNamespace(task="+".join(names)), tasks=None, update=3)
    monkeypatch.setattr(evaluate, "restore_agent", lambda *_, **__: restored)
    for chosen in (names, names[:1]):
        restored.config.task = "+".join(chosen)
        monkeypatch.setattr(evaluate, "agents_of", lambda *_, chosen=chosen: [Player(name) for name in chosen])
        code, out, _ = run("eval", str(tmp_path), "--episodes", "2", capsys=capsys)
        assert code == 0
        assert "dmlab:rooms_collect_good_objects_test" in out
        assert "human" in out
        assert "best" not in out


def test_help_teaches_every_command(capsys: pytest.CaptureFixture[str]):
    code, out, _ = run("--help", capsys=capsys)
    assert code == 0
    assert all(name in out for name in cli.COMMANDS)
    assert run(capsys=capsys)[:2] == (0, out)
    for name in cli.COMMANDS:
        code, out, _ = run(name, "--help", capsys=capsys)
        assert code == 0
        assert "--" in out.replace("--help", "")
        assert ("--json" in out) == (name in ("params", "cores", "demo", "tasks", "eval", "compare", "zoo"))


def test_train_help_shows_the_defaults_of_its_task_and_learner(capsys: pytest.CaptureFixture[str]):
    def words(*arguments: str) -> str:
        return " ".join(run("train", *arguments, "--help", capsys=capsys)[1].replace("│", " ").split())

    assert "--learner.eps-eta" in words()
    assert "pyright" not in words(), "tyro shows a comment where there is no docstring"
    assert "--learner.clip" in words("--algorithm", "ppo")
    assert "--learner.eps-eta" not in words("--algorithm=ppo")
    assert "(default: 128)" in words("--core", "lstm")
    assert words("grid-numpad-3x3") != words("grid-numpad")


def test_a_setting_that_is_on_or_off_may_be_asked_for_either_way_whatever_its_default():
    from gtrxl.cli.runs import Train

    for preset, default in (("small", True), ("paper", False)):
        line = ["t-maze", "--preset", preset]
        assert Train.parse(line).net.output_norm is default
        assert Train.parse([*line, "--net.output-norm"]).net.output_norm is True
        assert Train.parse([*line, "--net.no-output-norm"]).net.output_norm is False


def test_a_task_may_be_named_after_the_options():
    from gtrxl.cli.runs import Train

    late, early = Train.parse(["--seed", "3", "grid-numpad-3x3"]), Train.parse(["grid-numpad-3x3", "--seed", "3"])
    assert dataclasses.asdict(late) == dataclasses.asdict(early)
    assert late.net.memory >= 96


@pytest.mark.parametrize(("arguments", "line"), [
    (["train", "elephant"], "gtrxl: there is no task 'elephant'; `gtrxl tasks` lists all"),
    (["train", "--core", "elephant"], "gtrxl: there is no core 'elephant'"),
    (["train", "grid-numpad:size=9"], "gtrxl: size must be from 2 to 4, got 9"),
    (["train", "--algorithm", "elephant"], "gtrxl: algorithm must be one of vmpo, ppo, vtrace, or yours as package.module:"),
    (["train", "--config", "nothing.json"], "gtrxl: there is no file nothing.json"),
    (["train", "--learner.lam", "2"], "gtrxl: lam must be"),
    (["train", "--streams", "0"], "gtrxl: streams must be at least 1, got 0"),
    (["resume", "nowhere"], "gtrxl: there is no run in nowhere"),
    (["eval", "nowhere"], "gtrxl: there is no run in nowhere"),
    (["watch", "nowhere"], "gtrxl: there is no run in nowhere"),
    (["export", "nowhere"], "gtrxl: there is no run in nowhere"),
])  # fmt: skip
def test_what_is_wrong_with_a_run_is_one_line(
    arguments: list[str], line: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*arguments, capsys=capsys)
    assert (code, out) == (2, "")
    assert err.startswith(line)
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_tasks_lists_every_task_with_its_scores(capsys: pytest.CaptureFixture[str]):
    from gtrxl.tasks import TASKS
    from gtrxl.tasks.sets import SETS

    code, out, _ = run("tasks", capsys=capsys)
    assert code == 0
    tasks, sets, _ = out.split("\n\n")
    assert [line.split()[0] for line in tasks.splitlines()[1:]] == list(TASKS)
    scores = json.loads(run("tasks", "--json", capsys=capsys)[1])
    assert all(scores[name]["random"] < scores[name]["best"] for name in TASKS)
    assert {line.split()[0]: line.split()[1] for line in sets.splitlines()[1:]} == {
        **{name: str(len(members)) for name, members in SETS.items()},
        "dmlab30": "30",
        "dmlab30-memory": "8",
        "dmlab30-reactive": "22",
        "A+B": "2",
    }
    assert all(len(line.split()) > 3 for line in sets.splitlines()[1:]), "each says what it is"


def test_the_examples_that_tasks_prints_can_be_trained(capsys: pytest.CaptureFixture[str]):
    from gtrxl.tasks.sets import make_tasks

    out = run("tasks", capsys=capsys)[1]
    assert [len(make_tasks(text)) for text in re.findall(r"[\w+-]+:[\w=,:+-]*\d", out)] == [2, 1, 12]


@pytest.mark.parametrize(("task", "said"), [("lab12", 1), ("memory-maze", 1), ("t-maze", 0), ("gym:CartPole-v1", 0)])
def test_a_line_says_that_compiling_pictures_takes_long(
    task: str, said: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def refused(*_: object, **__: object):
        raise gtrxl.CoreError("enough")

    monkeypatch.setattr("gtrxl.training.session.train", refused)
    assert run("train", task, capsys=capsys) == (2, "", f"{task}: compiling {LONG}\n" * said + "gtrxl: enough\n")
    assert run("train", task, "--quiet", capsys=capsys)[2] == "gtrxl: enough\n"


def test_bad_usage_is_exit_code_two(capsys: pytest.CaptureFixture[str]):
    code, out, err = run("dance", capsys=capsys)
    assert (code, out) == (2, "")
    assert "dance" in err


def test_python_dash_m_and_version():
    said = subprocess.run([sys.executable, "-m", "gtrxl", "--version"], capture_output=True, text=True, check=True)
    assert said.stdout == f"gtrxl {gtrxl.__version__}\n"


def test_a_reader_that_has_gone_is_no_error():
    program = subprocess.Popen(
        [sys.executable, "-m", "gtrxl", "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert program.stdout is not None
    program.stdout.close()
    _, said = program.communicate(timeout=120)
    assert (program.returncode, said) == (141, "")
