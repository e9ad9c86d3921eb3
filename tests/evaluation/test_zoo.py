"""Every agent of the zoo is what its card says: small, whole, and as good as it was when the card was written."""

import json
import math

import numpy as np
import pytest
from safetensors.numpy import load_file

import gtrxl
from gtrxl.cli import main as cli
from gtrxl.evaluation.exported import file_of, place_for
from gtrxl.runs.errors import RunError
from gtrxl.zoo import shelf
from tests.marks import few

NAMES = shelf.all_names()
WANTED = {"grid-numpad", "t-maze", "cartpole-no-velocity", "repeat-previous-medium"}


def test_the_shelf_is_not_empty():
    assert set(NAMES) >= WANTED


def test_the_shelf_is_small():
    sizes = {path.name: path.stat().st_size for path in shelf.FOLDER.iterdir()}
    assert max(sizes.values()) < 1_000_000
    assert sum(sizes.values()) < 10_000_000
    assert {name.rpartition(".")[2] for name in sizes} == {"safetensors", "json"}


@pytest.mark.parametrize("name", NAMES)
def test_a_card_tells_of_its_file(name):
    card, arrays = shelf.card_of(name), load_file(shelf.path_of(name))
    assert card["arrays"] == {key: {"shape": list(of.shape), "dtype": str(of.dtype)} for key, of in arrays.items()}
    assert card["parameters"] == sum(array.size for array in arrays.values())
    assert all(np.isfinite(array).all() for array in arrays.values())
    assert card["command"].startswith(f"gtrxl train {card['command'].split()[2]} ")
    assert card["score"]["command"].startswith(f"gtrxl eval zoo:{name} --episodes {card['score']['episodes']}")
    if card["score"]["best"] is not None:  # trained: nearer to the best than to random
        assert card["score"]["normalised"] > 50


PLAYED = {"two-rooms": 8, "cartpole-no-velocity": 4, "numpad-2x2": 8}
"""Episodes of those that take long; of the others 32."""


@pytest.mark.parametrize("name", few(NAMES, keep=lambda _, name: name in ("grid-numpad", "t-maze")))
def test_an_agent_still_gets_its_score(name):
    """Other episodes than the card's: the mean may differ by what so few episodes make it differ."""
    told, episodes = shelf.card_of(name)["score"], PLAYED.get(name, 32)
    played = gtrxl.evaluate(f"zoo:{name}", episodes=episodes, seed=7, greedy="--greedy" in told["command"])
    spread = max(told["std"], 0.02 * abs(told["mean_return"]))
    assert abs(played.mean_return - told["mean_return"]) < 5 * spread / math.sqrt(episodes)


def test_an_agent_acts_by_its_name():
    agent = gtrxl.load("zoo:t-maze")
    action, _ = agent.act(np.zeros(agent.task.observation_space.shape, np.float32), agent.initial_state())
    assert agent.task.action_space.contains(action)
    with pytest.raises(RunError, match=r"an exported agent has one checkpoint, got 'last' of zoo:t-maze"):
        gtrxl.load("zoo:t-maze", "last")


def test_what_is_made_of_an_agent_goes_where_it_can_be_found(tmp_path):
    assert file_of("runs/zoo") is None
    assert str(place_for("zoo:t-maze", "episode.gif")) == "t-maze.gif"
    assert str(place_for("hf:owner/an.agent", "agent.onnx")) == "an.agent.onnx"
    assert place_for(tmp_path / "one.safetensors", "episode.gif") == tmp_path / "one.gif"
    assert place_for(tmp_path, "episode.gif") == tmp_path / "episode.gif"


def with_newer(card, now):
    """Settings of a card, and those that are newer than it."""
    both = {name: with_newer(value, now[name]) if isinstance(value, dict) else value for name, value in card.items()}
    return {**now, **both}


def test_a_film_and_an_export_by_name(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["export", "zoo:t-maze"]) == 0
    assert capsys.readouterr().out == "wrote t-maze.safetensors and t-maze.json\n"
    here, there = load_file(tmp_path / "t-maze.safetensors"), load_file(shelf.path_of("t-maze"))
    assert here.keys() == there.keys()
    assert all(np.array_equal(here[name], there[name]) for name in here)
    ours, theirs = json.loads((tmp_path / "t-maze.json").read_text()), shelf.card_of("t-maze")
    assert ours["return_late_in_training"] == theirs["return_late_in_training"]
    theirs = {**theirs, "config": with_newer(theirs["config"], ours["config"])}
    assert {**ours, "version": None} == {**{name: theirs[name] for name in ours}, "version": None}
    assert cli.main(["watch", "zoo:t-maze"]) == 0
    assert capsys.readouterr().out.startswith("wrote t-maze.gif: 41 steps, return ")


def test_the_command_lists_them(capsys):
    assert cli.main(["zoo"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1 : 1 + len(NAMES)]] == [f"zoo:{name}" for name in NAMES]
    assert cli.main(["zoo", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == set(NAMES)


@pytest.mark.parametrize(("name", "line"), [
    ("t-mase", "gtrxl: the zoo has no agent 't-mase'; did you mean t-maze? (`gtrxl zoo` lists them)\n"),
    ("elephant", f"gtrxl: the zoo has no agent 'elephant'; there are {', '.join(NAMES)} (`gtrxl zoo` lists them)\n"),
])  # fmt: skip
def test_an_agent_that_is_not_there_is_one_line(name, line, capsys):
    for command in ("eval", "watch", "export"):
        assert cli.main([command, f"zoo:{name}"]) == 2
        assert capsys.readouterr().err == line
