"""What a user writes, run: every file of examples/ at a small size, and the doors that each of them goes through."""

import importlib
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import install_import_hook
from PIL import Image

import gtrxl
from gtrxl import names
from gtrxl.cores import kernels
from gtrxl.cores.kernels import description
from gtrxl.runs.errors import RunError

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py"))

NET = {"layers": 1, "width": 8, "heads": 2, "head_dim": 4, "mlp": 8, "memory": 4, "torso": 8, "hidden": 8, "channels": "tiny"}
SMALL: dict[str, Any] = {"streams": 4, "unroll": 8, "steps": 64, "reports": 2, "devices": 1, "net": NET}
QUIET: dict[str, Any] = {"quiet": True, "board": False}
MAZE = "t-maze:corridor=3,patience=2"


def example(name: str) -> ModuleType:
    """The file as a module, as `--from examples` finds it; its shapes are checked like ours."""
    names.search_in(str(EXAMPLES))
    with install_import_hook(NAMES, "beartype.beartype"):
        return importlib.import_module(name)


@pytest.fixture(scope="module")
def lru_run(tmp_path_factory: pytest.TempPathFactory) -> gtrxl.Run:
    """A run of the own core."""
    folder = tmp_path_factory.mktemp("lru")
    return example("own_core").main(task=MAZE, width=6, run=folder / "run", **SMALL, **QUIET)


def test_own_core(lru_run):
    assert lru_run.status == "finished"
    assert (lru_run.config.core, lru_run.config.core_args) == ("own_core:LRU", ("width=6",))
    kept = json.loads((lru_run.folder / "config.json").read_text())
    assert (kept["core"], kept["core_args"]) == ("own_core:LRU", ["width=6"])
    agent = gtrxl.load(lru_run.folder)
    assert type(agent.agent.core) is example("own_core").LRU
    assert agent.agent.core.output_size == 6


def test_a_run_of_somebody_elses_core_is_not_imported_without_being_trusted(lru_run, monkeypatch):
    monkeypatch.setattr(names, "_given", {})
    for do in (gtrxl.load, gtrxl.evaluate, gtrxl.export, gtrxl.resume, gtrxl.read_run):
        with pytest.raises(RunError, match=r"would import and run: core own_core:LRU; if you trust it, say so with --trust"):
            do(lru_run.folder)
    assert gtrxl.load(lru_run.folder, trust=True).agent.core.output_size == 6
    assert names.is_given("own_core:LRU")  # on the word just given
    monkeypatch.setattr(names, "_given", {})
    assert gtrxl.load(lru_run.folder, core=example("own_core").LRU).agent.core.output_size == 6


def test_evaluation_loop(lru_run):
    returns = example("evaluation_loop").main(lru_run.folder, episodes=3, corridor=3, patience=2)
    assert len(returns) == 3
    assert set(returns) <= {0.0, 1.0}


@pytest.mark.slow
def test_own_gate(tmp_path):
    own = example("own_gate")
    core = own.rezero(4, d_model=8, memory=3, key=jax.random.key(0))
    assert not description.described(core.blocks)  # the library has no such gate
    assert kernels.available() == gtrxl.Transformer(4, d_model=8, memory=3, key=jax.random.key(0))._native()
    x = jnp.ones((5, 4))
    ys, _ = core.unroll(x, core.initial_state(), resets=jnp.zeros(5, bool))
    np.testing.assert_array_equal(ys, core.embed(x))  # closed: every layer is the identity

    run = own.main(task=MAZE, run=tmp_path / "run", **SMALL, **QUIET)
    assert run.config.core == "own_gate:rezero"
    opened = np.array(run.rows[-1]["gate_openness"])
    assert opened.shape == (1, 2)
    assert 0 < opened.max() < 0.1


def test_own_task(tmp_path):
    run = example("own_task").main(delay=2, episode_steps=6, core="gru", run=tmp_path / "run", **SMALL, **QUIET)
    assert run.config.task == "own_task:Echo:delay=2,episode_steps=6"
    assert (tmp_path / "run" / "episode.gif").exists()
    assert gtrxl.make_task("own_task:Echo:delay=4,episode_steps=8") == example("own_task").Echo(delay=4, episode_steps=8)


def test_own_level_is_drawn(tmp_path):
    own = example("own_level")
    own.draw(own.Orchard(episode_steps=6), tmp_path, frames=6)
    with Image.open(tmp_path / "orchard.gif") as gif, Image.open(tmp_path / "orchard.png") as strip:
        frames: int = gif.n_frames  # pyright: ignore[reportAttributeAccessIssue]
        assert (frames, strip.width, strip.height) == (6, gif.width, 6 * gif.height)


@pytest.mark.slow
def test_own_level_is_trained(tmp_path, monkeypatch):
    own = example("own_level")
    monkeypatch.setattr(own, "draw", lambda *_, **__: None)
    small = {**SMALL, "streams": 2, "unroll": 4, "core": "none"}
    run = own.main(episode_steps=6, run=tmp_path / "run", **small, **QUIET)
    assert run.status == "finished"
    assert run.config.task == "own_level:Orchard:episode_steps=6"


def test_own_level_pays_for_finding_the_apple_and_hides_it():
    """Walked into the apple by hand, without a picture."""
    task = example("own_level").Orchard()
    world = task.build(jax.random.key(0))
    there = eqx.tree_at(lambda of: of.body.place, world, world.scene.objects.place[0])
    stay = task.command(jnp.int32(1))
    found = task.judge(there, stay, jax.random.key(1))
    assert (float(found.reward), bool(found.terminated)) == (1.0, False)
    assert not found.world.scene.objects.there.any()
    assert jnp.linalg.norm(found.world.body.place - world.scene.objects.place[0]) >= 1.5
    again = task.judge(eqx.tree_at(lambda of: of.body.place, found.world, there.body.place), stay, jax.random.key(2))
    assert float(again.reward) == 1.0
    assert float(task.judge(found.world, stay, jax.random.key(3)).reward) == 0.0


def test_own_algorithm(tmp_path):
    run = example("own_algorithm").main(
        task=MAZE, core="none", learner={"entropy_cost": 0.02}, run=tmp_path / "run", **SMALL, **QUIET
    )
    assert run.config.algorithm == "own_algorithm:A2C"
    assert run.config.learner == example("own_algorithm").A2C(entropy_cost=0.02)
    assert {"loss_policy", "loss_value", "loss_entropy"} <= set(run.rows[-1])
    assert gtrxl.load(run.folder).agent is not None


@pytest.mark.slow
def test_ppo_loop():
    returns = example("ppo_loop").main(corridor=2, streams=4, unroll=8, updates=3, width=8, layers=1)
    assert returns
    assert set(returns) <= {0.0, 1.0}


def test_own_env(tmp_path):
    run = example("own_env").main(episodes=4, run=tmp_path / "run", fleet={"actors": 1}, **SMALL, **QUIET)
    assert run.status == "finished"
    assert run.config.task == "env:own_env:make"


# The same from the command line, in processes of their own: nothing is left of the one that trained.


def command(name: str) -> list[str]:
    """The command line that an example's description begins with."""
    lines = (EXAMPLES / f"{name}.py").read_text().splitlines()
    return shlex.split(next(line for line in lines if line.strip().startswith("gtrxl train")))[1:]


def gtrxl_says(*words: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    """What a command of a new process says."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONWARNINGS": "error::UserWarning"}
    line = [sys.executable, "-m", "gtrxl", *map(str, words)]
    done = subprocess.run(line, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == code, done.stderr[-3000:] + done.stdout[-3000:]
    return done


SIZES = "--net.layers 1 --net.memory 4 --net.torso 8 --net.hidden 8 --net.channels tiny --streams 4 --unroll 8"
TINY = f"--steps 64 --reports 2 --devices 1 --quiet --no-board --learner.target-period 1 {SIZES}".split()
OWN = {
    "own_core": "core own_core:LRU",
    "own_gate": "core own_gate:rezero",
    "own_task": "task own_task:Echo",
    "own_algorithm": "algorithm own_algorithm:A2C",
    "own_env": "task own_env",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OWN)
def test_a_run_of_ones_own_is_found_again_by_every_command(name, tmp_path):
    run, known = tmp_path / "run", ("--trust", "--from", "examples")
    actors = ("--actors", "1") if name == "own_env" else ()
    gtrxl_says(*command(name), *TINY, *actors, "--run", run)

    for words in (("resume", run, "--steps", 128), ("eval", run), ("export", run), ("watch", run)):
        refused = gtrxl_says(*words, "--from", "examples", code=2)
        (said,) = refused.stderr.strip().splitlines()
        assert f"would import and run: {OWN[name]}" in said
        assert said.endswith("say so with --trust (trust=True), or give the thing itself")

    gtrxl_says("resume", run, "--steps", 128, "--quiet", "--no-board", *known)
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [row["updates"] for row in rows] == [1, 2, 3, 4]
    scored = json.loads(gtrxl_says("eval", run, "--episodes", 4, "--json", *known).stdout)
    assert (scored["episodes"], scored["update"] > 0) == (4, True)
    gtrxl_says("export", run, *known)
    assert (run / "agent.safetensors").exists()
    if name != "own_env":  # which cannot draw itself
        gtrxl_says("watch", run, *known)
        assert (run / "episode.gif").exists()

    loads = f"""
import gtrxl
agents = [gtrxl.load({str(run)!r}, trust=True), gtrxl.load_export({str(run / "agent.safetensors")!r}, trust=True)]
print(*(agent.name for agent in agents))
"""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{EXAMPLES}"}
    said = subprocess.run([sys.executable, "-c", loads], env=environment, capture_output=True, text=True, timeout=300, check=True)
    assert len(set(said.stdout.split())) == 1


@pytest.mark.slow
def test_own_level_from_the_command_line(tmp_path):
    gtrxl_says(*command("own_level"), *TINY, "--run", tmp_path / "run")


@pytest.mark.slow
def test_a_core_of_a_script_goes_along_to_the_actors(tmp_path):
    """A class of `__main__`: no other process can import it."""
    script = tmp_path / "script.py"
    before, _, _ = (EXAMPLES / "own_core.py").read_text().partition("if __name__")
    script.write_text(
        before
        + f"""
if __name__ == "__main__":
    small = {{**{SMALL!r}, **{QUIET!r}}}
    run = gtrxl.train(
        core=LRU, core_args={{"width": 6}}, task="gym:CartPole-v1", fleet={{"actors": 1}}, run={str(tmp_path / "run")!r}, **small
    )
    assert run.config.core == "__main__:LRU", run.config.core
    assert gtrxl.load(run.folder, core=LRU).agent.core.output_size == 6
    gtrxl.resume(run.folder, core=LRU, steps=128, quiet=True, board=False)
    print(run.status)
"""
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.stdout.split() == ["finished"], done.stderr[-3000:]
    refused = gtrxl_says("eval", tmp_path / "run", "--trust", code=2)
    assert "__main__:LRU lives in a script or inside a function and cannot be imported" in refused.stderr


@pytest.mark.slow
def test_own_core_on_actors_of_ray(tmp_path):
    """Which are no children of this process: they look for the core where --from says."""
    named = ("--core", "own_core:LRU", "--core-args", "width=6", "--from", "examples")
    gtrxl_says("train", "gym:CartPole-v1", *named, *TINY, "--engine", "ray", "--actors", "1", "--run", tmp_path / "run")


@pytest.mark.slow
def test_tour(tmp_path, monkeypatch):
    """The notebook's code, cell by cell in one namespace, with fewer steps."""
    monkeypatch.chdir(tmp_path)
    text = (EXAMPLES / "tour.ipynb").read_text()
    assert len(text) < 20_000
    cells = ["".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    assert "STEPS = 200_000" in cells[0]
    space: dict[str, Any] = {}
    for cell in cells:
        exec(cell.replace("STEPS = 200_000", "STEPS = 2_000"), space)
