"""What docs/your-task.md shows is true: its examples run."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp

import gtrxl

PAGE = (Path(__file__).parent.parent / "docs" / "your-task.md").read_text()
GYM, COMPILED = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_example_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "example"}
    exec(GYM, names)
    assert names["run"].status == "finished"  # pyright: ignore[reportAttributeAccessIssue]
    (table,) = re.findall(r"\| field \| meaning \|\n(.*?)\n\n", PAGE, re.DOTALL)
    fields = re.findall(r"`(\w+)`", table)
    assert len(fields) == 8
    assert set(fields) <= set(names["run"].rows[-1])  # pyright: ignore[reportAttributeAccessIssue]
    assert names["action"] in (0, 1)


def test_the_task_pays_for_what_was_shown():
    names = {"__name__": "example"}
    exec(COMPILED, names)
    task = names["Echo"](delay=2)  # pyright: ignore[reportCallIssue]
    state, seen = jax.vmap(task.reset)(jax.random.split(jax.random.key(0), 16))
    sign, rewards, step = jnp.argmax(seen[:, :3], axis=1), [], None
    for _ in range(3):
        state, step = jax.vmap(task.step)(state, sign)
        rewards.append(step.reward)
    assert isinstance(step, gtrxl.Step)
    assert float(jnp.stack(rewards[:-1]).sum()) == 0.0
    assert bool(jnp.all(rewards[-1] == 1.0))
    assert bool(jnp.all(step.terminated))
    assert task.observation_space.contains(seen[0].__array__())


def test_every_optional_method_is_one_of_the_contract():
    (table,) = re.findall(r"\| method \| what for .*?\n\n", PAGE, re.DOTALL)
    methods = re.findall(r"`(\w+)(?:\(\w*\))?`", table.replace("| `step` |", "|"))
    named = [name for name in methods if name not in ("watch", "play")]
    assert named == ["player", "scale", "defaults", "draw", "controls", "advance", "observe"]
    assert all(callable(getattr(gtrxl.Task, name)) for name in named)
