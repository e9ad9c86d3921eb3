"""What `gtrxl push` writes, where Hugging Face's library is not installed: the upload itself is tested in tests/hub."""

import json
import re

import pytest

import gtrxl
from gtrxl.cli import main as cli
from gtrxl.evaluation.sharing import model_card
from gtrxl.runs.errors import RunError
from gtrxl.zoo import shelf


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Written, not uploaded."""
    home = tmp_path_factory.mktemp("push") / "files"
    done = gtrxl.push("zoo:t-maze", "somebody/remembers", to=home, episodes=8, film=False)
    assert (done.folder, done.address) == (home, None)
    assert done.files == ("README.md", "agent.json", "agent.safetensors")
    return home


def test_what_was_written_is_an_agent_with_its_score(folder):
    card = json.loads((folder / "agent.json").read_text())
    again = gtrxl.evaluate(folder / "agent.safetensors", episodes=8)
    assert card["score"]["mean_return"] == again.mean_return
    assert card["score"]["std"] == again.std
    assert card["score"]["command"] == "gtrxl eval hf:somebody/remembers --episodes 8 --seed 0"


def test_the_page_begins_with_the_data_that_leaderboards_read(folder):
    score = json.loads((folder / "agent.json").read_text())["score"]
    _, data, text = (folder / "README.md").read_text().split("---\n", 2)
    assert data.startswith("library_name: gtrxl\n")
    tags = re.findall(r'^- "(.*)"$', data, re.MULTILINE)
    assert tags == ["t-maze", "deep-reinforcement-learning", "reinforcement-learning", "gtrxl", "gtrxl-gru"]
    assert f'type: mean_reward\n      value: "{score["mean_return"]:.2f} +/- {score["std"]:.2f}"\n' in data
    assert "# gtrxl-gru for `t-maze`" in text
    assert "(episode.gif)" not in text


def test_numbers_have_two_digits():
    assert model_card.mean_reward({"mean_return": 44.968, "std": 0.1}) == "44.97 +/- 0.10"


def test_a_page_of_a_score_without_a_scale_claims_none():
    card = shelf.card_of("t-maze")
    card["score"] = {**card["score"], "best": None, "best_is": None, "normalised": None, "random": None}
    text = model_card.readme(card, repository="a/b", film="episode.gif")
    assert "random policy" not in text
    assert "None" not in text
    assert "![An episode](episode.gif)" in text


def test_without_the_extra_it_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert cli.main(["push", "zoo:t-maze", "somebody/remembers"]) == 2
    line = "gtrxl: Hugging Face needs huggingface_hub, which is not installed; pip install 'gtrxl[hub]'\n"
    assert capsys.readouterr().err == line
    with pytest.raises(RunError, match=r"pip install 'gtrxl\[hub\]'"):
        gtrxl.load("hf:somebody/remembers")


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match=r"cannot write to .*file/under: .*; choose another folder with --to"):
        gtrxl.push("zoo:t-maze", "somebody/remembers", to=tmp_path / "file" / "under", episodes=8, film=False)
    with pytest.raises(RunError, match=r"named owner/name, got 'remembers'"):
        gtrxl.push("zoo:t-maze", "remembers", dry_run=True)


def test_a_dry_run_keeps_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["push", "zoo:t-maze", "somebody/remembers", "--dry-run", "--episodes", "8", "--no-film"]) == 0
    assert capsys.readouterr().out.endswith(": nothing uploaded, nothing kept (dry run)\n")
    assert list(tmp_path.iterdir()) == []
