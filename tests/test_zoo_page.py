"""What docs/zoo.md shows is true: its table is that of the cards, its examples run, its commands are commands."""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
from benchmarks import zoo

import gtrxl
from gtrxl.cli.runs import Train
from gtrxl.runs import settings
from gtrxl.runs.config import Config
from gtrxl.zoo import shelf

PAGE = (Path(__file__).parents[1] / "docs" / "zoo.md").read_text()
LOADING, READING = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_page_has_the_table_of_the_cards():
    assert zoo.table() in PAGE


def test_every_agent_has_its_entry():
    """And was trained by the command that its entry has, which is one."""
    entries = {entry.name: entry for entry in zoo.ENTRIES}
    for name in shelf.all_names():
        card = shelf.card_of(name)
        assert (card["command"], card["score"]["command"]) == (entries[name].command, entries[name].eval_command)
        parsed = Train.parse(entries[name].words)
        for field in ("task", "core", "algorithm", "seed", "steps", "streams", "unroll", "discount"):
            assert getattr(parsed, field) == card["config"][field], (name, field)


def test_an_entry_is_made_of_a_run_with_its_settings_alone(tmp_path):
    entry = next(entry for entry in zoo.ENTRIES if entry.name == "numpad-2x2")
    parsed = Train.parse(entry.words)
    config = Config(**{field.name: getattr(parsed, field.name) for field in dataclasses.fields(Config)})
    settings.write(config, tmp_path / "config.json")
    assert zoo.differs(entry, tmp_path) == ""
    learner = dataclasses.replace(config.learner, eps_mean=0.1)
    settings.write(dataclasses.replace(config, seed=7, learner=learner), tmp_path / "config.json")
    assert zoo.differs(entry, tmp_path) == "seed 7 for 832453169, learner.eps_mean 0.1 for 0.005822182740599955"


def test_the_agent_of_the_example_acts():
    names = {}
    exec(LOADING, names)
    assert names["agent"].task.action_space.contains(names["action"])


def test_the_example_reads_a_program(tmp_path, monkeypatch):
    pytest.importorskip("flatbuffers")
    gtrxl.export("zoo:t-maze", tmp_path / "agent.stablehlo", format="stablehlo")
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(READING, names)
    assert names["action"].shape == (3,)
    assert set(np.asarray(names["action"]).tolist()) <= set(range(4))
