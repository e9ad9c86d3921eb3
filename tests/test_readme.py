"""What the README shows is true: its core runs, its own task is trained, and .ci/run finds the test command."""

import re
from pathlib import Path

import gymnasium
import pytest

README = (Path(__file__).parent.parent / "README.md").read_text()
CORE, OWN_TASK = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_the_example_runs():
    names = {}
    exec(CORE, names)
    assert names["ys"].shape == (95, 64)
    assert names["y"].shape == (names["core"].output_size,)


@pytest.mark.slow
def test_a_task_of_one_s_own_is_trained_in_three_lines(tmp_path, monkeypatch):
    import gtrxl

    def make_env() -> gymnasium.Env:
        return gymnasium.make("CartPole-v1")

    monkeypatch.chdir(tmp_path)
    names = {"gtrxl": gtrxl, "make_env": make_env, "observation": make_env().reset(seed=0)[0]}
    assert "steps=300_000" in OWN_TASK
    exec(OWN_TASK.replace("steps=300_000", "steps=2_048, quiet=True"), names)
    assert names["run"].status == "finished"  # pyright: ignore[reportAttributeAccessIssue]
    assert names["action"] in (0, 1)


def test_the_two_commands_begin_from_a_fresh_clone():
    commands = re.findall(r"```bash\n(.*?)\n```", README, re.DOTALL)
    assert len(commands) == 2
    assert all(command.startswith("python3 -m venv .venv && .venv/bin/pip install -q -e ") for command in commands)
    assert re.search(r"# tests$", commands[1]), ".ci/run looks for this line"
    assert len(re.findall(r"# tests$", README, re.MULTILINE)) == 1
