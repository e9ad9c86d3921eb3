"""Exported steps, run by others: onnxruntime and a bare `torch.export` program do what `agent.act` does, the memory fed back.

B streams, T steps.
"""

import json
import re
import runpy
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")
onnxruntime = pytest.importorskip("onnxruntime")

import gtrxl
from gtrxl.cli.main import main
from gtrxl.gym.spaces import Spaces
from gtrxl.torch.export import onnx, program
from gtrxl.torch.export.tracing import running_maximum
from tests.cores.building import NAMES
from tests.marks import few
from tests.torch.agents.kinds import KINDS, jax_player, network_inputs, observed, restored
from tests.torch.agents.test_twin import numbers_of

ROOT = Path(__file__).parents[3]
B, T = 3, 7
TYPES = {"float32": np.float32, "int32": np.int32, "uint8": np.uint8, "bool": np.bool_}


@pytest.fixture(autouse=True)
def _shapes_left_open():
    """What is traced has no number of streams, which is no int to a check of shapes."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def in_onnxruntime(path, card):
    session = onnxruntime.InferenceSession(path.read_bytes())
    assert [port.name for port in session.get_inputs()] == list(card["inputs"])
    assert [port.name for port in session.get_outputs()] == list(card["outputs"])
    for port in (*session.get_inputs(), *session.get_outputs()):
        assert port.shape == (card["inputs"] | card["outputs"])[port.name]["shape"]
    return lambda feeds: dict(zip(card["outputs"], session.run(None, feeds), strict=True))


def in_torch(path, card):
    step = torch.export.load(path).module()

    def run(feeds):
        given = step(*(torch.from_numpy(np.array(feeds[name])) for name in card["inputs"]))
        return dict(zip(card["outputs"], (part.numpy() for part in given), strict=True))

    return run


def begun(card, streams):
    """The memory of an episode's start, by what the card says."""
    shapes = {name: [streams if size == "B" else size for size in of["shape"]] for name, of in card["inputs"].items()}
    return {name: np.zeros(shapes[name], TYPES[card["inputs"][name]["dtype"]]) for name in card["fed_back"].values()}


def fed_back(card, out):
    return {to: out[name] for name, to in card["fed_back"].items()}


def by_name(seen):
    return seen if isinstance(seen, dict) else {"observation": seen}


@eqx.filter_jit
def unrolled(agent, observations, state, resets):
    return agent.unroll(observations, state, resets=resets)


def check_against_the_network(found, run, card):
    """Policy and value of streams that reset at different times, to rounding."""
    seen = network_inputs(found, B, T)
    resets = np.random.default_rng(2).random((B, T)) < 0.3
    resets[:, 0] = True
    policy, value, _ = unrolled(found.agent, seen, found.agent.initial_state(B), jnp.asarray(resets))
    state = begun(card, B)
    # Whatever a memory holds, a reset hides it.
    state = {name: piece + (np.nan if piece.dtype == np.float32 else 2) for name, piece in state.items()}
    wanted = {name: part for name, part in numbers_of(policy).items() if part is not None} | {"value": value}
    for t in range(T):
        now = {name: np.ascontiguousarray(part[:, t]) for name, part in by_name(seen).items()}
        out = run({**now, "reset": resets[:, t], **state})
        for name, part in wanted.items():
            np.testing.assert_allclose(out[name], part[:, t], rtol=1e-3, atol=1e-3)
        state = fed_back(card, out)


def check_against_act(found, run, card):
    """Two episodes one after the other in one stream: the likeliest actions, with whatever the first left behind."""
    player, shown = jax_player(found), found.tasks.shown
    state, differ = begun(card, 1), set()
    for seed in (0, 1):
        theirs, before = player.initial_state(seed), None
        for number, observation in enumerate(observed(found, T, seed=seed)):
            reward = 0.5 * number
            seen = shown.lens(observation, action=before, reward=reward) if isinstance(shown, Spaces) else observation
            now = {name: np.asarray(part)[None] for name, part in by_name(seen).items()}
            now = {name: part.astype(TYPES[card["inputs"][name]["dtype"]]) for name, part in now.items()}
            out = run({**now, "reset": np.array([number == 0]), **state})
            state = fed_back(card, out)
            parts = {name.partition(".")[2]: out[name][0] for name in out if name.startswith("action")}
            before = parts.get("", parts)
            action, theirs = player.act(observation, theirs, reward=reward, greedy=True)
            ours = shown.hand.to_task(before) if isinstance(shown, Spaces) else before
            jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3), ours, action)
            differ.add(str(action))
    return differ


CASES = [("numbers", "gtrxl-gru"), *((kind, "gtrxl-gru") for kind in KINDS if kind != "numbers")]
CASES += [("numbers", core) for core in NAMES if core != "gtrxl-gru"]


@pytest.mark.parametrize(("kind", "core"), few(CASES, keep=lambda number, _: number == 0))
def test_onnxruntime_acts_like_the_agent(kind, core, tmp_path, capfd):
    found = restored(kind, core, **({} if core == "gtrxl-gru" else {"layers": 1}))  # a layer of each, which is traced sooner
    card = onnx.write(found, tmp_path / "agent.onnx")
    run = in_onnxruntime(tmp_path / "agent.onnx", card)
    check_against_the_network(found, run, card)
    done = check_against_act(found, run, card)
    assert len(done) > 1 or core != "gtrxl-gru"
    assert not capfd.readouterr().err  # it complains of shapes that are not what the graph says
    assert str(tmp_path.parent).encode() not in (tmp_path / "agent.onnx").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "core"), [("numbers", "lstm"), ("numbers", "mamba2"), ("gymnasium, all parts", "gtrxl-gru")])
def test_a_program_of_torch_acts_like_the_agent(kind, core, tmp_path):
    found = restored(kind, core)
    card = program.write(found, tmp_path / "agent.pt2")
    run = in_torch(tmp_path / "agent.pt2", card)
    check_against_the_network(found, run, card)
    assert check_against_act(found, run, card)


@pytest.mark.slow
def test_a_core_in_bfloat16_is_exported_in_float32(tmp_path):
    found = restored("numbers", "gtrxl-gru", dtype="bfloat16")
    card = onnx.write(found, tmp_path / "agent.onnx")
    assert {port["dtype"] for port in card["inputs"].values()} == {"float32", "int32", "bool"}
    check_against_the_network(restored("numbers"), in_onnxruntime(tmp_path / "agent.onnx", card), card)


@pytest.mark.slow
@pytest.mark.parametrize("format", ["onnx", "torch"])
def test_a_trained_agent_from_the_command_line_solves_its_task(format, exported):
    """The README's first agent, whose return is 45 where it remembers and 18 where it does not."""
    suffix, opened = {"onnx": (".onnx", in_onnxruntime), "torch": (".pt2", in_torch)}[format]
    card = json.loads((exported / f"agent{suffix}.json").read_text())
    assert (card["format"], card["config"]["task"]) == (format, "grid-numpad")
    run = opened(exported / f"agent{suffix}", card)
    task = gtrxl.make_task("grid-numpad")
    world, seen = jax.vmap(task.reset)(jax.random.split(jax.random.key(0), 16))
    step = jax.jit(jax.vmap(task.step))
    state, total = begun(card, 16), np.zeros(16)
    for number in range(task.episode_steps):
        out = run({"observation": np.asarray(seen), "reset": np.full(16, number == 0), **state})
        state = fed_back(card, out)
        world, after = step(world, jnp.asarray(out["action"]))
        seen, total = after.observation, total + np.asarray(after.reward)
    assert total.mean() > 42


@pytest.mark.slow
def test_what_the_page_and_the_example_show_is_true(exported, monkeypatch):
    page = (ROOT / "docs" / "deploy.md").read_text()
    monkeypatch.chdir(exported)
    names = {}
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(block, names)
    assert names["said"]["logits"].shape == (1, 9)
    assert names["logits"].shape == (1, 9)
    assert names["action"] in range(9)
    assert names["policy"].logits.shape == (1, 8, 9)
    example = runpy.run_path(str(ROOT / "examples" / "onnx_agent.py"))
    assert min(example["main"]("agent.onnx", episodes=2)) >= 35


def test_running_maxima_are_those_of_torch():
    x = torch.from_numpy(np.random.default_rng(0).integers(-3, 4, (2, 13, 3)))
    for dim, size in ((1, 13), (1, 1), (-1, 3), (0, 2)):
        part = x.narrow(dim, 0, size)
        for ours, theirs in zip(running_maximum(part, dim), torch.cummax(part, dim), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


def test_what_is_missing_or_wrong_is_told_in_one_line(tmp_path, capsys):
    assert main(["export", "zoo:grid-numpad", "--format", "onnx", "--to", str(tmp_path / "agent.pt2")]) == 2
    said = capsys.readouterr().err
    assert "must end in .onnx" in said
    assert said.count("\n") == 1
