"""The script that each trainer's page begins with: complete, and run here. Also: what is missing is named, and nothing is
imported unasked."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"

pytestmark = pytest.mark.filterwarnings("default")  # the trainers' own are not ours to judge


def script(page: str) -> str:
    """The first one, which stands before any heading but the page's."""
    text = (DOCS / f"{page}.md").read_text()
    before, _, rest = text.partition("```python\n")
    assert before.count("\n#") == 0
    return rest.partition("```")[0]


def run(page: str, needs: str, folder: Path, monkeypatch: Any, **fewer: tuple[str, str]) -> dict[str, Any]:
    """The script's names after it ran; `fewer` are lines of it and what stands for them here."""
    pytest.importorskip(needs, reason=f"pip install 'gtrxl[{page}]'", exc_type=ImportError)  # Ray without RLlib raises its own
    text = script(page)
    for line, instead in fewer.values():
        assert line in text
        text = text.replace(line, instead)
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {"__name__": page}
    exec(compile(text, f"{page}.md", "exec"), names)
    return names


@pytest.mark.slow
def test_sb3(tmp_path, monkeypatch, capsys):
    names = run("sb3", "sb3_contrib", tmp_path, monkeypatch, frames=("FRAMES = 100_000", "FRAMES = 1_024"))
    assert names["model"].num_timesteps == 1024
    assert (tmp_path / "cartpole.zip").exists()
    assert re.search(r"^\d+ \+/- \d+ of 500$", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.slow
def test_torchrl(tmp_path, monkeypatch):
    names = run("torchrl", "torchrl", tmp_path, monkeypatch)
    assert names["right"] > 0.9  # a third is what one guesses


@pytest.mark.slow
def test_rllib(tmp_path, monkeypatch):
    names = run("rllib", "ray.rllib", tmp_path, monkeypatch)
    sys.modules["ray"].shutdown()
    assert names["result"] > 30  # 0 is what one guesses


@pytest.mark.slow
def test_flax(tmp_path, monkeypatch):
    names = run("flax", "flax", tmp_path, monkeypatch)
    assert names["linen_right"] > 0.9
    assert names["nnx_right"] > 0.9


@pytest.mark.parametrize(
    ("trainer", "package"), [("sb3", "sb3_contrib"), ("torchrl", "torchrl"), ("rllib", "ray"), ("flax", "flax")]
)
def test_a_missing_extra_is_named_in_one_line(trainer, package):
    """In a process of its own, where the package cannot be found; and the package itself asks for none of them."""
    asks = f"""
import sys, importlib.util
import gtrxl, gtrxl.trainers
found = {{"torch", "flax", "stable_baselines3", "torchrl"}} & set(sys.modules)
assert not found, found
there = importlib.util.find_spec
importlib.util.find_spec = lambda name, *of: None if name == {package!r} else there(name, *of)
try:
    import gtrxl.trainers.{trainer}
except ModuleNotFoundError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", asks], capture_output=True, text=True, timeout=300, check=False)
    said = done.stdout.strip()
    assert done.returncode == 0, done.stderr[-2000:]
    wanted = f"gtrxl.trainers.{trainer} needs "
    assert said.startswith(wanted) or "needs PyTorch" in said
    assert re.search(r"pip install 'gtrxl\[\w+\]'$", said)
    assert "\n" not in said
