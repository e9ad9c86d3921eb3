"""A run folder is data: what it names outside of the package is imported on the user's word alone."""

import dataclasses
import json
import sys

import pytest

import gtrxl
from gtrxl import names
from gtrxl.cli import main as cli
from gtrxl.runs import settings
from gtrxl.runs.errors import RunError
from gtrxl.runs.folder import read_config
from gtrxl.runs.tasks import foreign

STRANGE = """
import pathlib
pathlib.Path(__file__).with_name("imported").write_text("")
from gtrxl.cores import LSTM
from gtrxl.algorithms import PPO
from gtrxl.tasks.t_maze import TMaze
class Core(LSTM): pass
class Learner(PPO): pass
class Maze(TMaze): pass
def make(): raise OSError("run")
"""


@pytest.fixture
def strange(tmp_path, monkeypatch):
    """A module that leaves a mark when it is imported; its name is new to this process."""
    name = f"strange_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(STRANGE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield name
    sys.modules.pop(name, None)


def folder_with(tmp_path, **named):
    folder = tmp_path / "run"
    folder.mkdir()
    data = settings.as_dict(gtrxl.defaults(task="t-maze", core="lstm", algorithm="ppo"))
    if "algorithm" in named:
        data.pop("learner")
    (folder / "config.json").write_text(json.dumps(data | named))
    return folder


@pytest.mark.parametrize(
    ("field", "text", "said"),
    [
        ("core", "{0}:Core", "core {0}:Core"),
        ("algorithm", "{0}:Learner", "algorithm {0}:Learner"),
        ("task", "{0}:Maze", "task {0}:Maze"),
        ("task", "{0}:Maze:corridor=3", "task {0}:Maze"),
        ("task", "t-maze+{0}:Maze", "task {0}:Maze"),
        ("task", "env:{0}.make", "task {0}"),
        ("task", "gym:env_fn/{0}.make", "task {0}"),
        ("task", "gym:{0}:Some-v0", "task {0}"),
        ("task", "gym:CartPole-v1+env:{0}.make", "task {0}"),
    ],
)
def test_nothing_is_imported_unasked(tmp_path, strange, field, text, said, capsys):
    folder = folder_with(tmp_path, **{field: text.format(strange)})
    calls = (lambda: read_config(folder), lambda: gtrxl.load(folder), lambda: gtrxl.resume(folder), lambda: gtrxl.export(folder))
    for call in calls:
        with pytest.raises(RunError) as caught:
            call()
        line = str(caught.value)
        assert said.format(strange) in line
        assert line.endswith("if you trust it, say so with --trust (trust=True), or give the thing itself")
        assert "\n" not in line
    for command in ("eval", "resume", "watch", "export"):
        assert cli.main([command, str(folder)]) == 2
        assert "names code outside of gtrxl" in capsys.readouterr().err
    assert cli.main(["train", "--config", str(folder / "config.json")]) == 2
    assert not (tmp_path / "imported").exists()
    assert strange not in sys.modules


def test_with_trust_it_is_found(tmp_path, strange):
    folder = folder_with(tmp_path, core=f"{strange}:Core", algorithm=f"{strange}:Learner", task=f"{strange}:Maze:corridor=3")
    config = read_config(folder, trust=True)
    assert (tmp_path / "imported").exists()
    assert (config.core, config.algorithm, config.task) == (f"{strange}:Core", f"{strange}:Learner", f"{strange}:Maze:corridor=3")
    assert type(config.learner).__name__ == "Learner"
    assert config.core_arguments()["d_model"] == config.net.width


def test_what_this_process_was_given_needs_no_word(tmp_path, strange):
    module = __import__(strange)
    place = names.place_of(module.Core)
    config = read_config(folder_with(tmp_path, core=place))
    assert config.core == f"{strange}:Core"


@pytest.mark.parametrize(
    "text", ["t-maze", "lab-memory:height=8,width=8", "gym:CartPole-v1", "gym:MiniGrid-MemoryS7-v0", "dmlab30", "jax:gymnax/X"]
)
def test_what_the_package_knows_needs_no_word(text):
    assert foreign(text) == ()


def test_a_card_of_an_export_is_data_too(tmp_path, strange):
    from safetensors.numpy import save_file

    data = settings.as_dict(gtrxl.defaults(task="t-maze", core="lstm")) | {"core": f"{strange}:Core"}
    save_file({}, tmp_path / "agent.safetensors")
    (tmp_path / "agent.json").write_text(json.dumps({"config": data}))
    with pytest.raises(RunError, match="names code outside of gtrxl"):
        gtrxl.load_export(tmp_path / "agent.safetensors")
    assert not (tmp_path / "imported").exists()


def test_settings_name_what_was_given_as_an_object(strange):
    module = __import__(strange)
    changes = settings.named(
        {
            "core": module.Core,
            "core_args": {"d_model": 8, "dtype": "float32"},
            "task": module.Maze(corridor=3),
            "algorithm": module.Learner,
        }
    )
    assert changes == {
        "core": f"{strange}:Core",
        "core_args": ("d_model=8", 'dtype="float32"'),
        "task": f"{strange}:Maze:corridor=3",
        "algorithm": f"{strange}:Learner",
    }
    config = settings.change(gtrxl.defaults(**{name: changes[name] for name in ("core", "task", "algorithm")}), changes)
    assert (config.core_arguments()["d_model"], config.core_arguments()["dtype"]) == (8, "float32")
    learner = module.Learner(clip=0.3)
    assert settings.named({"algorithm": learner}) == {"algorithm": f"{strange}:Learner", "learner": learner}
    assert settings.named({"algorithm": gtrxl.PPO}) == {"algorithm": "ppo"}
    with pytest.raises(RunError, match="core_args must be key=value, got 'width'"):
        dataclasses.replace(config, core_args=("width",))
    with pytest.raises(RunError, match="core: a class or a function has a place"):
        settings.named({"core": 5})
