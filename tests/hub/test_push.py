"""`gtrxl push` and `hf:owner/name` against a stand-in for Hugging Face on this machine, with their own library."""

import json
import socket
from typing import Any

import pytest

pytest.importorskip("huggingface_hub")
import huggingface_hub
import huggingface_hub.constants
import yaml
from safetensors.numpy import load_file

import gtrxl
from gtrxl.cli import main as cli
from gtrxl.runs.errors import RunError
from gtrxl.zoo import shelf
from tests.hub.stand_in import OWNER, TOKEN, Hub

# Of huggingface_hub itself, in its upload of large files.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=<...>' to upload raw bytes:DeprecationWarning")

REPO = f"{OWNER}/remembers"
FILES = {"README.md", "agent.json", "agent.safetensors", "episode.gif"}


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """The stand-in, and a user who is known to it."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_XET", True)  # a protocol of its own, which it does not speak
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    server = Hub()
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    yield server
    server.shutdown()
    server.server_close()


def push(*more):
    return cli.main(["push", "zoo:t-maze", REPO, "--episodes", "4", *more])


def test_an_agent_goes_there_and_comes_back(hub, capsys):
    assert push() == 0
    assert capsys.readouterr().out.endswith(f"README.md, agent.json, agent.safetensors, episode.gif: {hub.url}/{REPO}\n")
    assert set(hub.files[REPO]) == FILES
    found = gtrxl.load(f"hf:{REPO}")
    assert found.name == "t-maze"
    assert gtrxl.evaluate(f"hf:{REPO}", episodes=4).mean_return == gtrxl.evaluate("zoo:t-maze", episodes=4).mean_return
    card = json.loads(hub.files[REPO]["agent.json"])
    reward = f"{card['score']['mean_return']:.2f} +/- {card['score']['std']:.2f}"
    assert hub.messages == [f"gtrxl-gru agent for t-maze, trained by vmpo with gtrxl: {reward}"]


def test_the_card_is_what_hugging_face_s_own_classes_read(hub):
    """`EvalResult` is what their leaderboards are filled from."""
    assert push("--no-film") == 0
    page = huggingface_hub.ModelCard(hub.files[REPO]["README.md"].decode())
    data: Any = page.data
    assert data.library_name == "gtrxl"
    assert {"t-maze", "deep-reinforcement-learning", "reinforcement-learning"} <= set(data.tags)
    (result,) = data.eval_results
    score = json.loads(hub.files[REPO]["agent.json"])["score"]
    assert (result.task_type, result.metric_type, result.dataset_name) == ("reinforcement-learning", "mean_reward", "t-maze")
    assert result.metric_value == f"{score['mean_return']:.2f} +/- {score['std']:.2f}"
    assert f'gtrxl.load("hf:{REPO}")' in page.text
    assert "episode.gif" not in page.text.replace("--to episode.gif", "")


def test_pushing_again_changes_what_is_there(hub):
    assert push("--no-film") == 0
    assert push("--no-film", "--seed", "3") == 0
    assert json.loads(hub.files[REPO]["agent.json"])["score"]["seed"] == 3
    assert len(hub.messages) == 2


def test_what_cannot_be_is_one_line_before_any_episode_is_played(hub, monkeypatch, capsys):
    def said(repository=REPO):
        assert cli.main(["push", "zoo:t-maze", repository]) == 2
        line = capsys.readouterr().err
        assert line.count("\n") == 1
        return line

    with monkeypatch.context() as patched:
        patched.setattr("gtrxl.evaluation.sharing.push.evaluate", lambda *given, **named: pytest.fail("played"))
        assert "a repository at Hugging Face is named owner/name, got 'elephant'" in said("elephant")
        patched.setenv("HF_TOKEN", "hf_wrong")
        assert f"cannot upload to {REPO}: {hub.url} refused the token (401); `hf auth login`" in said()
        patched.delenv("HF_TOKEN")
        patched.setattr(huggingface_hub, "get_token", lambda: None)
        assert "no token was found; `hf auth login`, or set HF_TOKEN" in said()
        patched.undo()
    with monkeypatch.context() as patched:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            patched.setenv("HF_ENDPOINT", f"http://127.0.0.1:{free.getsockname()[1]}")
        assert "cannot be reached; `gtrxl push --to FOLDER` only writes the files" in said()
    with monkeypatch.context() as patched:
        patched.setattr("importlib.util.find_spec", lambda name: None)
        assert "huggingface_hub, which is not installed; pip install 'gtrxl[hub]'" in said()
    assert hub.files == {}


def test_a_repository_of_somebody_else_is_refused(hub, capsys):
    assert cli.main(["push", "zoo:t-maze", "another/agent", "--episodes", "2", "--no-film"]) == 2
    assert "cannot upload to another/agent: " in (line := capsys.readouterr().err)
    assert "refused the token (403)" in line


def test_an_agent_that_is_not_there_is_one_line(hub, capsys):
    with pytest.raises(RunError, match=r"cannot download somebody/nothing: there is no such agent at http"):
        gtrxl.load("hf:somebody/nothing")
    with pytest.raises(RunError, match=r"named owner/name, got 'nothing'"):
        gtrxl.load("hf:nothing")
    hub.files[REPO] = {"agent.json": b"{}", "agent.safetensors": b"rubbish"}
    with pytest.raises(RunError, match=r"the card has no settings under `config`"):
        gtrxl.load(f"hf:{REPO}")


def test_a_stranger_s_agent_is_data(hub):
    """A card that names code of somebody's is refused, as a run's settings are."""
    card = shelf.card_of("t-maze")
    card["config"]["core"] = "elephant:Core"
    hub.files[REPO] = {"agent.json": json.dumps(card).encode(), "agent.safetensors": shelf.path_of("t-maze").read_bytes()}
    with pytest.raises(RunError, match="trust"):
        gtrxl.load(f"hf:{REPO}")


def test_a_page_s_data_is_yaml_whatever_the_task_is_called(tmp_path):
    assert cli.main(["push", "zoo:repeat-previous-medium", REPO, "--to", str(tmp_path), "--episodes", "2", "--no-film"]) == 0
    _, data, _ = (tmp_path / "README.md").read_text().split("---\n", 2)
    assert yaml.safe_load(data)["tags"][0] == "repeat-previous:decks=2,k=32"
    assert load_file(tmp_path / "agent.safetensors").keys() == load_file(shelf.path_of("repeat-previous-medium")).keys()
