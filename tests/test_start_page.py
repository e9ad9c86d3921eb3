"""What docs/start.md shows is true: its example runs, and the commands work on the run that it makes."""

import json
import re
from pathlib import Path

import pytest
from PIL import Image

from gtrxl.cli.main import main

PAGE = (Path(__file__).parent.parent / "docs" / "start.md").read_text()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The example's names, and the folder it ran in."""
    home = tmp_path_factory.mktemp("home")
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        exec(example, names)
    return names, home


def test_the_example_runs(made):
    names, home = made
    assert names["run"].status == "finished"
    assert names["action"] in (0, 1, 2)
    assert (home / names["weights"]).exists()
    assert json.loads((home / names["card"]).read_text())["config"]["core"] == "gru"


def test_eval_prints_one_object(made, capsys):
    folder = made[1] / "runs" / "maze"
    assert main(["eval", str(folder), "--episodes", "64", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert {"mean_return", "episodes", "random", "best", "normalised", "interval"} <= set(said)
    assert said["episodes"] == 64
    assert said["normalised"] == pytest.approx(100 * (said["mean_return"] - said["random"]) / (said["best"] - said["random"]))
    assert said["interval"][0] <= said["mean_return"] <= said["interval"][1]


def test_watch_draws_an_episode(made, capsys):
    folder = made[1] / "runs" / "maze"
    assert main(["watch", str(folder)]) == 0
    steps = int(re.findall(r"(\d+) steps", capsys.readouterr().out)[0])
    with Image.open(folder / "episode.gif") as gif:
        assert gif.n_frames == steps + 1  # pyright: ignore[reportAttributeAccessIssue]


def test_resume_of_a_finished_run_has_nothing_to_do(made, capsys):
    folder = made[1] / "runs" / "maze"
    before = (folder / "metrics.jsonl").read_bytes()
    assert main(["resume", str(folder), "--quiet"]) == 0
    assert (folder / "metrics.jsonl").read_bytes() == before
    assert "frames" in capsys.readouterr().out


def test_the_table_of_files_is_what_a_run_leaves(made):
    folder = made[1] / "runs" / "maze"
    named = re.findall(r"^\| `([a-z.]+)/?` \|", PAGE, re.MULTILINE)
    assert len(named) == 5
    assert all((folder / name).exists() for name in named)


def test_the_example_of_the_tasks_page_runs():
    page = (Path(__file__).parent.parent / "docs" / "tasks.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names = {}
    exec(example, names)
    assert names["rewards"].shape == (64,)
    assert names["env"].observation_space.contains(names["env"].reset(seed=0)[0])
