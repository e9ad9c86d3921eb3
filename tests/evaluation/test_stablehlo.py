"""One step of an agent as a program: it plays as the agent does, and needs nothing of this package to run."""

import contextlib
import dataclasses
import json
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("flatbuffers")
import jax.export

import gtrxl
from gtrxl.cli import main as cli
from gtrxl.cores import kernels
from gtrxl.evaluation.compiled import CompiledAgent
from gtrxl.evaluation.formats import stablehlo
from gtrxl.evaluation.loading import agents_of
from gtrxl.evaluation.restored import Restored
from gtrxl.runs.errors import RunError
from gtrxl.training.building import make_agent

NET = {"layers": 2, "width": 16, "torso": 12, "hidden": 8, "memory": 5}
EPISODES = ((1, 7, 12), (12, 7, 1))
"""Of each stream, steps of episodes one after the other: shorter than the memory, longer, and much longer."""


def restored(task, core="gtrxl-gru", **changes) -> Restored:
    """An agent with weights so large that it prefers something at every step."""
    net = gtrxl.Net(**{**NET, "layers": 1 if core in ("lstm", "gru", "none") else 2, **changes.pop("net", {})})
    config = dataclasses.replace(gtrxl.defaults(task=task, core=core), net=net, **changes)
    agent = make_agent(config, config.tasks.shown, jax.random.key(1))
    large = lambda leaf: 3 * leaf if leaf.ndim == 2 else leaf  # noqa: E731
    heads = jax.tree.map(large, (agent.policy, agent.value))
    return Restored(config, config.tasks, eqx.tree_at(lambda of: (of.policy, of.value), agent, heads), 0)


def read(found: Restored, folder):
    """The program as it is on the disk, and its card."""
    card = stablehlo.write(found, folder / "agent.stablehlo")
    return jax.export.deserialize(bytearray((folder / "agent.stablehlo").read_bytes())), card


def rubbish(told):
    """A state as it may stand in memory before an episode: of the card's shapes, and of no meaning."""
    return {
        name: np.full((len(EPISODES), *of["shape"][1:]), np.nan if of["dtype"] == "float32" else 77, of["dtype"])
        for name, of in told.items()
    }


def seen(found: Restored, steps: int, seed: int):
    """What an agent might be shown, step by step."""
    random = np.random.default_rng(seed)

    def draw(part):
        return random.integers(0, 255, part.shape, np.uint8) if part.dtype == np.uint8 else random.normal(size=part.shape)

    zeros = stablehlo.seen_zeros(found.tasks)
    return [jax.tree.map(lambda part: draw(part).astype(part.dtype), zeros) for _ in range(steps)]


def check(found: Restored, folder) -> None:
    """Every step of several episodes: the likeliest action is that of `agent.act`, policy and value those of `agent.step`."""
    program, card = read(found, folder)
    assert program.platforms == ("cpu", "cuda", "tpu")
    assert "gtrxl" not in program.mlir_module()
    call = jax.jit(program.call)
    with kernels.left_out():
        step = jax.jit(lambda observation, memory, reset: found.agent.step(observation, memory, reset=reset))
        player = agents_of(found.agent, found.config, found.tasks)[0]
        state, said = rubbish(card["inputs"]["state"]), {}
        first = [[number == 0 for steps in stream for number in range(steps)] for stream in EPISODES]
        shown = [seen(found, sum(stream), seed) for seed, stream in enumerate(EPISODES)]
        thoughts = [player.initial_state() for _ in EPISODES]
        memories = [found.agent.initial_state(1) for _ in EPISODES]
        for time, resets in enumerate(zip(*first, strict=True)):
            now = [stream[time] for stream in shown]
            said = call(jax.tree.map(lambda *parts: np.stack(parts), *now), state, np.array(resets))
            state = said["state"]
            for stream, (observation, reset) in enumerate(zip(now, resets, strict=True)):
                alone = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], observation)
                policy, value, memories[stream] = step(alone, memories[stream], jnp.asarray([reset]))
                for ours, theirs in zip(jax.tree.leaves(said["policy"]), jax.tree.leaves(policy), strict=True):
                    np.testing.assert_allclose(ours[stream], theirs[0], atol=2e-5)
                np.testing.assert_allclose(said["value"][stream], value[0], atol=2e-5)
                if isinstance(player, CompiledAgent):
                    thought = player.initial_state() if reset else thoughts[stream]
                    action, thoughts[stream] = player.act(observation, thought, greedy=True)
                    chosen = jax.tree.map(lambda a, b: np.allclose(a[stream], b, atol=2e-5), said["action"], action)
                    assert jax.tree.all(chosen)
        told = jax.tree.map(lambda leaf: {"shape": ["B", *leaf.shape[1:]], "dtype": str(leaf.dtype)}, said)
        assert told == card["outputs"]


@pytest.mark.parametrize("core", ["gtrxl-gru", "lstm"])
def test_a_program_plays_as_the_agent_does(core, tmp_path):
    check(restored("grid-numpad", core), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "core"),
    [
        *(("grid-numpad", core) for core in ("none", "gru", "trxl", "trxl-i", "gtrxl-input", "gtrxl-highway", "gtrxl-sigtanh")),
        ("numpad-2x2", "gtrxl-gru"),
        ("gym:CartPole-v1", "gtrxl-gru"),
        ("gym:Pendulum-v1", "lstm"),
        ("rooms_select_nonmatching_object:height=24,width=32", "gtrxl-gru"),
    ],
)
def test_other_cores_actions_and_pictures(task, core, tmp_path):
    """Gymnasium's have a normaliser, which is inside of the program."""
    check(restored(task, core, net={"channels": "tiny"}), tmp_path)


@pytest.mark.skipif(not kernels.available(), reason="no C++ compiler on this machine")
def test_without_care_the_program_would_name_the_native_library():
    """What `left_out` is for: the same step, made as an agent on this machine makes it."""
    found = restored("grid-numpad")
    observation = stablehlo.seen_zeros(found.tasks)
    for care in (False, True):
        with kernels.left_out() if care else contextlib.nullcontext():
            step, state = stablehlo.one_step(found.agent, observation)
            assert ("gtrxl_act" in jax.jit(step).lower(observation, state, jnp.zeros((), bool)).as_text()) != care


READER = """
import json, pathlib, sys
import jax, numpy as np
import jax.export

file = pathlib.Path(sys.argv[1])
card = json.loads(file.with_name(file.name + ".json").read_text())
program = jax.export.deserialize(bytearray(file.read_bytes()))
state = {name: np.zeros((1, *of["shape"][1:]), of["dtype"]) for name, of in card["inputs"]["state"].items()}
of = card["inputs"]["observation"]
actions = []
for step in range(6):
    observation = np.sin(np.arange(of["shape"][1]) + step).astype(of["dtype"])
    said = program.call(observation[None], state, np.array([step == 0]))
    state = said["state"]
    actions.append(int(said["action"][0]))
assert not [name for name in sys.modules if name.partition(".")[0] in ("gtrxl", "equinox")]
print(json.dumps(actions))
"""


def test_the_command_writes_what_a_process_without_this_package_runs(tmp_path, capsys, monkeypatch):
    folder = tmp_path / "run"
    found = restored("grid-numpad")
    monkeypatch.setattr("gtrxl.evaluation.export.restore_agent", lambda *given, **named: found)
    assert cli.main(["export", str(folder), "--format", "stablehlo"]) == 0
    assert capsys.readouterr().out == f"wrote {folder}/agent.stablehlo and {folder}/agent.stablehlo.json\n"
    assert sorted(path.name for path in folder.glob("agent*")) == ["agent.stablehlo", "agent.stablehlo.json"]
    command = [sys.executable, "-c", READER, str(folder / "agent.stablehlo")]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    player = agents_of(found.agent, found.config, found.tasks)[0]
    thought, actions = player.initial_state(), []
    for step in range(6):
        action, thought = player.act(np.sin(np.arange(18) + step).astype(np.float32), thought, greedy=True)
        actions.append(int(action))
    assert json.loads(answer.stdout) == actions


def test_formats_that_cannot_be_are_one_line(tmp_path, monkeypatch):
    with pytest.raises(RunError, match=r"format must be one of safetensors, .*got 'stablehol'; did you mean stablehlo\?"):
        gtrxl.export(tmp_path, format="stablehol")
    with pytest.raises(RunError, match=r"must end in .stablehlo, got agent.safetensors"):
        gtrxl.export(tmp_path, "agent.safetensors", format="stablehlo")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(RunError, match=r"flatbuffers, which is not installed; pip install 'gtrxl\[stablehlo\]'"):
        gtrxl.export(tmp_path, format="stablehlo")
