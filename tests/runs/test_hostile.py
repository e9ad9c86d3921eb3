"""Whatever a stranger's run folder says, nothing is imported or run for it, and one line says why not."""

import dataclasses
import http.server
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import gtrxl
from gtrxl import names
from gtrxl.cli import main as cli
from gtrxl.runs import settings
from gtrxl.runs.folder import read_config
from gtrxl.runs.tasks import foreign
from tests.runs.hostile import BROKEN, CODE, HOSTILE, MARKER, config_of, filled, of_another_kind

GOOD = settings.as_dict(gtrxl.defaults(task="t-maze", core="lstm"))
COMMANDS = ("eval", "resume", "watch", "export")
QUICK = (
    "a core",
    "an algorithm",
    "a task as an argument of ours",
    "the same through a module of ours",
    "deep lists",
    "no number",
)
"""Those that the command line is tried with by default."""
LATE = ("a function of a script", "a function inside of another")
"""Well-formed: that there is no such function is seen when the run begins."""


@pytest.fixture
def marker(tmp_path, monkeypatch):
    """A module that can be imported, and is seen when it is; as is a call of `http.server.test`."""
    name = f"hostile_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MARKER)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(http.server, "test", lambda *_, **__: (tmp_path / "imported").write_text("served"))
    yield name
    sys.modules.pop(name, None)


def folder_of(tmp_path, case, module):
    folder = tmp_path / "run"
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_bytes(config_of(GOOD, case, module))
    return folder


def refused(call):
    """The one line that a call raises."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (which of ours is asked below)
        call()
    assert type(caught.value).__module__.startswith("gtrxl."), caught.value
    line = str(caught.value)
    assert "\n" not in line
    assert len(line) < 1500
    return line


def untouched(tmp_path, module):
    return not (tmp_path / "imported").exists() and module not in sys.modules and "antigravity" not in sys.modules


def test_there_are_enough_of_them():
    assert len(HOSTILE) == len(CODE) + len(BROKEN) == len(dict(HOSTILE))
    assert len(CODE) >= 20
    assert len(BROKEN) >= 20


@pytest.mark.parametrize("name", [name for name, _ in HOSTILE])
def test_python_refuses_in_one_line(tmp_path, marker, name):
    folder = folder_of(tmp_path, dict(HOSTILE)[name], marker)
    for call in (gtrxl.load, gtrxl.evaluate, gtrxl.resume, gtrxl.watch, gtrxl.export):
        line = refused(lambda call=call: call(folder))
        if name in CODE:
            assert filled(CODE[name][1], marker) in line
            assert line.endswith("if you trust it, say so with --trust (trust=True), or give the thing itself")
    assert {path.name for path in folder.iterdir()} <= {"config.json", "lock"}, "nothing is written either"
    assert untouched(tmp_path, marker)


@pytest.mark.parametrize("name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name, _ in HOSTILE])
def test_the_command_line_refuses_in_one_line(tmp_path, marker, name, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = folder_of(tmp_path, dict(HOSTILE)[name], marker)
    lines = [*([command, str(folder)] for command in COMMANDS), ["train", "--config", str(folder / "config.json")]]
    for line in lines:
        assert cli.main(line) == 2
        said = capsys.readouterr()
        assert said.out == ""
        *before, last = said.err.splitlines()
        assert last.startswith("gtrxl: ")
        assert len(before) <= (2 if name in LATE else 0), "what it was about to do, at most"
        if name in CODE:
            assert filled(CODE[name][1], marker) in said.err
    assert untouched(tmp_path, marker)


@pytest.mark.parametrize(
    "name", ["a core", "an algorithm", "a task with arguments", "all three", "a task as an argument of ours"]
)
def test_with_the_users_word_the_honest_ones_work(tmp_path, marker, name, capsys):
    folder = folder_of(tmp_path, CODE[name][0], marker)
    config = read_config(folder, trust=True)
    assert config.tasks.shown is not None
    assert (tmp_path / "imported").exists()
    assert "there is no finished checkpoint" in refused(lambda: gtrxl.load(folder, trust=True))
    assert cli.main(["export", str(folder), "--trust"]) == 2
    assert "there is no finished checkpoint" in capsys.readouterr().err


def test_settings_of_another_kind_are_said_field_by_field():
    config = gtrxl.defaults(task="t-maze", core="lstm")
    records = {"": config, "gym": config.gym, "fleet": config.fleet, "net": config.net, "learner": config.learner}
    tried = 0
    for part, record in records.items():
        for field, value in of_another_kind(record):
            data = {field: value} if not part else {part: {field: value}}
            line = refused(lambda data=data: settings.checked(GOOD | data, where="a file"))
            assert field in line, line
            tried += 1
    assert tried > 300


def test_numbers_without_end_are_refused_before_anything_is_made_of_them():
    config = gtrxl.defaults(task="t-maze", core="gtrxl-gru")
    for part, record in {"": config, "fleet": config.fleet, "net": config.net, "learner": config.learner}.items():
        for field in dataclasses.fields(record):
            if type(getattr(record, field.name)) is int:
                for value in (10**30, 10**4000):
                    data = {field.name: value} if not part else {part: {field.name: value}}
                    line = refused(lambda data=data: settings.checked(GOOD | {"core": "gtrxl-gru"} | data, where="a file"))
                    assert field.name in line
                    assert len(line) < 300


@pytest.mark.parametrize(("name", "kind"), [("metrics.jsonl", "file"), ("checkpoints", "folder"), ("config.json", "file")])
def test_what_leads_out_of_the_folder_is_not_written(tmp_path, name, kind):
    outside = tmp_path / "precious"
    if kind == "file":
        outside.write_text(json.dumps(GOOD) if name == "config.json" else "mine\n")
    else:
        outside.mkdir()
    folder = folder_of(tmp_path, {}, "")
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(outside)
    before = outside.read_text() if kind == "file" else [*outside.iterdir()]
    line = refused(lambda: gtrxl.resume(folder))
    assert f"{folder / name} leads out of the run's folder, to {outside}" in line
    assert line.endswith("if it is yours, say so with --trust (trust=True)")
    assert (outside.read_text() if kind == "file" else [*outside.iterdir()]) == before


def test_neither_an_export_nor_a_picture_is_written_through_a_link(tmp_path):
    outside = tmp_path / "precious"
    outside.write_text("mine")
    for file, call in (("agent.json", gtrxl.export), ("agent.part", gtrxl.export), ("episode.gif", gtrxl.watch)):
        folder = folder_of(tmp_path, {}, "")
        (folder / file).symlink_to(outside)
        assert "leads out of the run's folder" in refused(lambda call=call, folder=folder: call(folder))
        (folder / file).unlink()
    assert outside.read_text() == "mine"


@pytest.mark.parametrize("kind", ["pipe", "device", "large"])
def test_what_has_no_end_is_not_read(tmp_path, kind):
    folder = tmp_path / "run"
    folder.mkdir()
    match kind:
        case "pipe":
            os.mkfifo(folder / "config.json")
        case "device":
            (folder / "config.json").symlink_to("/dev/zero")
        case "large":
            (folder / "config.json").touch()
            os.truncate(folder / "config.json", 2**40)
    line = refused(lambda: gtrxl.load(folder))
    assert "must have at most 16777216 bytes" in line if kind == "large" else "must be a file, got a pipe or a device" in line


def test_a_cluster_elsewhere_is_joined_on_the_users_word_alone(tmp_path, capsys):
    """Who has the cluster decides what runs here. Reading the run joins nothing; one of this machine needs no word."""
    data = {"task": "gym:CartPole-v1", "fleet": {"engine": "ray", "address": "evil.example:6379"}}
    folder = folder_of(tmp_path, data, "")
    for call in (lambda: gtrxl.resume(folder), lambda: cli.main(["train", "--config", str(folder / "config.json")])):
        try:
            line = refused(call)
        except pytest.fail.Exception:
            line = capsys.readouterr().err.strip()
        assert "names a Ray cluster, evil.example:6379, which going on with it would join and run code of" in line
        assert line.endswith("say so with --trust (trust=True)")
    assert read_config(folder).fleet.address == "evil.example:6379"
    for address in ("auto", "127.0.0.1:6379", "ray://localhost:10001", None):
        engine = "ray" if address else "auto"
        config = read_config(
            folder_of(tmp_path, {"task": "gym:CartPole-v1", "fleet": {"engine": engine, "address": address}}, "")
        )
        settings.ask_before_joining(config, "a file")


def test_a_package_that_we_know_is_not_taken_from_the_working_directory(tmp_path, monkeypatch):
    """`memory_gym.py` beside a stranger's run is not the package of that name."""
    (tmp_path / "memory_gym.py").write_text("raise SystemExit('run')")
    (tmp_path / "craftax").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    assert names.is_here("memory_gym")
    assert names.is_here("craftax.craftax_env")
    assert not names.is_here("gymnasium")
    assert not names.is_here("no_such_module")
    assert foreign("gym:MortarMayhem-v0") == ("memory_gym",)
    assert foreign("gym:memory_gym:MortarMayhem-v0") == ("memory_gym",)
    assert foreign("t-maze+jax:craftax/Craftax-Symbolic-v1") == ("craftax",)
    folder = folder_of(tmp_path, {"task": "gym:MortarMayhem-v0"}, "")
    assert "task memory_gym; if you trust it" in refused(lambda: gtrxl.load(folder))


def test_python_m_does_not_look_in_the_working_directory(tmp_path):
    """As the command `gtrxl`: a file that is called as something we import later is not it."""
    (tmp_path / "imported.py").write_text("print('imported')")
    (tmp_path / "safetensors.py").write_text("import pathlib; pathlib.Path('taken').touch()")
    folder = folder_of(tmp_path, {"core": "imported:Core"}, "")
    source = str(Path(gtrxl.__file__).parents[1])
    said = subprocess.run(
        [sys.executable, "-m", "gtrxl", "export", str(folder), "--trust"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (said.returncode, said.stdout) == (2, "")
    assert "the core imported:Core cannot be imported: No module named 'imported'" in said.stderr
    assert said.stderr.count("\n") == 1
    assert not (tmp_path / "taken").exists()
