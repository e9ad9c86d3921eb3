"""Settings: the defaults build, files come back the same, and every mistake has its one line."""

import dataclasses
import itertools
import json
import re
from pathlib import Path

import equinox as eqx
import jax
import pytest

from gtrxl import PPO, VMPO, Config, Net, VTrace, defaults, make_task
from gtrxl.algorithms import LEARNERS
from gtrxl.cores import CORES, CoreError, Transformer
from gtrxl.runs import settings as configs
from gtrxl.runs.errors import RunError
from gtrxl.tasks.catalogue import TASKS
from gtrxl.tasks.errors import TaskError
from gtrxl.training.building import make_agent
from gtrxl.training.session import engine_of

ROOT = Path(__file__).parents[2]
ALGORITHMS = {"vmpo": VMPO, "ppo": PPO, "vtrace": VTrace}


def test_there_are_defaults_for_every_task_core_and_algorithm():
    for task, core, (algorithm, learner) in itertools.product(TASKS, CORES, ALGORITHMS.items()):
        config = defaults(task=task, core=core, algorithm=algorithm)
        assert (config.task, config.core, config.algorithm) == (task, core, algorithm)
        assert type(config.learner) is learner
        assert set(config.net.core_sizes(core)) >= {"d_model", "layers", "dtype"}


@pytest.mark.parametrize("preset", ["small", "paper"])
def test_the_defaults_build(preset):
    """Every task with one core, every core with one task: as shapes, which is all that could be wrong."""
    for task, core in [(task, "none") for task in TASKS] + [("grid-numpad", core) for core in CORES]:
        config = defaults(task=task, core=core, preset=preset)
        agent = eqx.filter_eval_shape(lambda c=config: make_agent(c, make_task(c.task), jax.random.key(0)))
        if core in ("merlin", "rl-mem"):
            assert agent.core.size == config.net.memory
            continue
        side_by_side = config.net.layers if config.net.skip and core in ("lstm", "gru") else 1
        assert agent.core.output_size == config.net.width * side_by_side


@pytest.mark.parametrize(("algorithm", "task"), [("vmpo", "numpad-2x2"), ("ppo", "grid-numpad"), ("vtrace", "t-maze")])
def test_the_whole_state_of_a_run_can_be_made(algorithm, task):
    config = dataclasses.replace(defaults(task=task, core="lstm", algorithm=algorithm), devices=1)
    training = engine_of(config).shapes()
    assert training.situation.reset.shape == (config.streams,)
    gaussian = {"eta", "alpha_mean", "alpha_covariance"}
    assert set(training.trained.multipliers) == (gaussian if algorithm == "vmpo" else set())


def test_the_paper_s_preset_has_the_paper_s_sizes():
    config = defaults(preset="paper")
    net = config.net
    assert (net.layers, net.width, net.heads, net.head_dim, net.memory) == (12, 512, 8, 64, 512)
    assert (config.unroll, config.streams, config.learner) == (95, 128, VMPO.paper("numpad"))
    lstm = defaults(core="lstm", preset="paper").net
    assert (lstm.layers, lstm.width, lstm.skip) == (3, 256, True)


ODD_NET = Net(
    layers=3,
    width=12,
    heads=3,
    head_dim=2,
    mlp=5,
    memory=7,
    gate_bias=0.25,
    init_variance=0.5,
    skip=True,
    torso=6,
    hidden=5,
    dtype="bfloat16",
)
"""Sizes of which none is the default's."""


@pytest.mark.parametrize("core", CORES)
def test_sizes_reach_the_core(core):
    config = dataclasses.replace(defaults(core=core), net=ODD_NET)
    agent = eqx.filter_eval_shape(lambda: make_agent(config, make_task(config.task), jax.random.key(0)))
    assert agent.torso.second.weight.shape == (6, 6)
    assert agent.core.input_size == 6
    assert agent.core.dtype == "bfloat16"
    if CORES[core][0] is Transformer:
        assert agent.core.memory == 7
        assert (config.net.core_sizes(core)["gate_bias"], config.net.core_sizes(core)["init_variance"]) == (0.25, 0.5)
        assert agent.core.blocks.attention.u.shape == (3, 3, 2)
        assert agent.core.blocks.mlp.first.weight.shape == (3, 12, 5)
    elif core in ("lstm", "gru"):
        assert agent.core.output_size == 3 * 12, "skip connections put the layers' outputs side by side"


def odd(algorithm, core) -> Config:
    """Settings of which none is the default's."""
    base = defaults(algorithm=algorithm, core=core)
    learner = dataclasses.replace(base.learner, learning_rate=0.00125, lam=0.5, target_period=3)
    return dataclasses.replace(
        base,
        task="t-maze:corridor=7",
        seed=3,
        steps=12_345,
        streams=24,
        unroll=11,
        discount=0.123456789,
        popart_step=0.0,
        devices=1,
        reports=7,
        checkpoint_every=2,
        net=ODD_NET,
        learner=learner,
    )


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_file_gives_back_what_was_written(algorithm, tmp_path):
    for config in (odd(algorithm, "lstm"), defaults(algorithm=algorithm), defaults(algorithm=algorithm, preset="paper")):
        configs.write(config, tmp_path / "config.json")
        assert configs.read(tmp_path / "config.json") == config


def test_what_a_file_leaves_out_has_the_default_of_its_task_core_and_algorithm(tmp_path):
    path = tmp_path / "some.json"
    path.write_text(
        json.dumps({"core": "lstm", "algorithm": "ppo", "net": {"width": 32}, "learner": {"clip": 0.1}, "discount": 1})
    )
    base = defaults(core="lstm", algorithm="ppo")
    net, learner = dataclasses.replace(base.net, width=32), PPO(clip=0.1)
    assert configs.read(path) == dataclasses.replace(base, net=net, learner=learner, discount=1.0)


def test_a_run_of_an_older_version_is_what_it_was(tmp_path):
    """It wrote all settings that there were. What has become a setting since is as it was then, whatever is usual now."""
    path = tmp_path / "config.json"
    tasks = ("grid-numpad", "gym:CartPole-v1", "gym:MountainCarContinuous-v0")
    for task, algorithm in itertools.product(tasks, ("vmpo", "ppo")):
        learner = {"adam_epsilon": 1e-8} | ({"least_spread": 0.0} if algorithm == "ppo" else {})
        before = {
            "net": {"output_norm": False},
            "learner": learner,
            "gym": {"noise_steps": 1, "widest_noise": 0.0},
            "fleet": {"ahead": 1},
        }
        config = configs.change(defaults(task=task, algorithm=algorithm), {**before, "final_rate": 1.0})
        written = configs.as_dict(config)
        for part, names in before.items():
            written[part] = {name: value for name, value in written[part].items() if name not in names}
        del written["final_rate"]
        path.write_text(json.dumps(written))
        assert configs.read(path) == config


def test_gymnasium_tasks_are_learned_by_ppo_unless_another_is_named(tmp_path):
    config = defaults(task="gym:CartPole-v1")
    assert (config.algorithm, config.fleet.ahead, config.learner.epochs) == ("ppo", 0, 10)
    named = defaults(task="gym:CartPole-v1", algorithm="vmpo")
    assert (named.algorithm, named.streams, named.unroll, named.discount, named.fleet.ahead) == ("vmpo", 16, 32, 0.97, 1)
    path = tmp_path / "by_hand.json"
    path.write_text(json.dumps({"task": "gym:CartPole-v1", "learner": {"clip": 0.1}}))
    assert configs.read(path) == configs.change(config, {"learner": {"clip": 0.1}})
    assert configs.read(path, algorithm="ppo") == configs.read(path)
    assert configs.read(path, algorithm="vmpo").learner == named.learner
    for other in ("grid-numpad", "t-maze", "dmlab:rooms_watermaze"):
        assert defaults(task=other).algorithm == "vmpo"
    for task in ("gym:CartPole-v1", "gym:Pendulum-v1"):
        paper = defaults(task=task, preset="paper")
        assert paper == defaults(task=task, algorithm="vmpo", preset="paper")
        assert (paper.streams, paper.unroll, paper.learner, paper.fleet.ahead) == (128, 95, VMPO.paper("numpad"), 1)


def test_what_a_known_gymnasium_task_needs_is_all_that_is_different_there():
    usual = defaults(task="gym:CartPole-v1")
    own = {"entropy_cost": 0.01, "clip": 0.1, "learning_rate": 5e-4}
    pendulum = configs.change(usual, {"task": "gym:Pendulum-v1", "discount": 0.95, "learner": own})
    assert defaults(task="gym:Pendulum-v1") == pendulum
    rare = {
        "popart_step": 1e-4,
        "learner": {"entropy_cost": 0.01, "least_spread": 0.5},
        "gym": {"noise_steps": 16},
    }
    assert defaults(task="gym:MountainCarContinuous-v0") == configs.change(
        usual, {"task": "gym:MountainCarContinuous-v0", **rare}
    )


@pytest.mark.parametrize(("streams", "minibatches"), [(1, 1), (2, 2), (6, 2), (7, 1), (12, 4)])
def test_minibatches_that_nobody_asked_for_divide_the_streams_that_somebody_did(streams, minibatches):
    config = defaults(task="gym:CartPole-v1", streams=streams)
    assert (config.streams, config.learner.minibatches) == (streams, minibatches)


def test_a_file_read_for_another_algorithm_keeps_all_but_the_learner(tmp_path):
    written = configs.change(defaults(task="t-maze"), {"streams": 8, "learner": {"learning_rate": 2e-4}})
    configs.write(written, tmp_path / "config.json")
    read = configs.read(tmp_path / "config.json", algorithm="ppo")
    assert read == dataclasses.replace(written, algorithm="ppo", learner=PPO())
    assert configs.read(tmp_path / "config.json", algorithm="vmpo") == written


def test_changes_replace_what_they_name_alone():
    base = odd("vmpo", "gtrxl-gru")
    changed = configs.change(base, {"steps": 9, "net": {"memory": 3}, "learner": {"eps_eta": 1}})
    assert changed == dataclasses.replace(
        base, steps=9, net=dataclasses.replace(base.net, memory=3), learner=dataclasses.replace(base.learner, eps_eta=1.0)
    )
    assert configs.change(base, {}) == base
    assert configs.change(base, {"net": Net()}).net == Net()


def test_a_task_has_one_spelling():
    assert Config(task="grid-numpad:size=2,episode_steps=50").task == "grid-numpad"
    assert Config(task="grid-numpad:size=3,episode_steps=100").task == "grid-numpad-3x3"


MISTAKES = {
    "steps": ({"steps": 0}, "steps must be at least 1, got 0; leave it out for what the task is known to need"),
    "streams": ({"streams": 0}, "streams must be at least 1, got 0; leave it out"),
    "unroll": ({"unroll": 0}, "unroll must be at least 1, got 0; leave it out"),
    "devices": ({"devices": -1}, "devices must be at least 0, got -1; the default is 0"),
    "final_rate": ({"final_rate": 1.5}, "final_rate must be between 0 and 1, got 1.5; 1 keeps the learning rate as it is"),
    "reports": ({"reports": 0}, "reports must be at least 1, got 0; the default is 100"),
    "checkpoint_every": ({"checkpoint_every": 0}, "checkpoint_every must be at least 1, got 0; the default is 5"),
    "seed": ({"seed": -1}, "seed must be at least 0, got -1; the default is 0"),
    "large seed": ({"seed": 2**32}, "seed must be less than 2**32, got 4294967296; JAX looks at 32 bits"),
    "discount": ({"discount": 1.5}, "discount must be between 0 and 1, got 1.5; 0.97 looks"),
    "discount nan": ({"discount": float("nan")}, "discount must be between 0 and 1, got nan"),
    "popart": ({"popart_step": 1.0}, "popart_step must be at least 0 and less than 1, got 1.0; the paper uses 1e-4"),
    "core": ({"core": "transformer"}, "there is no core 'transformer'; the cores are lstm, gru"),
    "task": ({"task": "pong"}, "there is no task 'pong'; `gtrxl tasks` lists all"),
    "task size": ({"task": "t-maze:corridor=0"}, "corridor must be "),
    "algorithm": (
        {"algorithm": "ppo"},
        "algorithm must be one of vmpo, ppo, vtrace and its learner's settings with it, got 'ppo'",
    ),
    "minibatches": ({"learner": {"minibatches": 3}}, "minibatches must divide streams, got 3 for 16; try --streams 15"),
    "learner's": ({"learner": {"eps_eta": 0.0}}, "eps_eta must be above 0, got 0; the paper uses 0.1"),
    "torso": ({"net": {"torso": 0}}, "torso must be at least 1, got 0; the default is 64"),
    "hidden": ({"net": {"hidden": 0}}, "hidden must be at least 1, got 0; the default is 64"),
    "gate_bias": ({"net": {"gate_bias": float("inf")}}, "gate_bias must be a finite number or 'depth', got inf; leave it out"),
    "unknown": ({"step": 5}, "the settings must name settings there are, got 'step'; did you mean steps? there are task, core"),
    "unknown in net": (
        {"net": {"depth": 5}},
        "net in the settings must name settings there are, got 'depth'; did you mean width? there are layers",
    ),
    "unknown in learner": ({"learner": {"clip": 1.0}}, "learner in the settings must name settings there are, got 'clip'"),
    "type": ({"steps": "many"}, "steps in the settings must be int, got 'many'; the default is 3000000"),
    "half": ({"steps": 1.5}, "steps in the settings must be int, got 1.5"),
    "truth": ({"steps": True}, "steps in the settings must be int, got True"),
    "record": ({"steps": {"a": 1}}, "steps in the settings must be int, got {'a': 1}"),
    "number for net": ({"net": 5}, "net in the settings must be settings by name, got 5; {} changes none"),
    "list for learner": ({"learner": [1]}, "learner in the settings must be settings by name, got [1]"),
    "type in net": ({"net": {"width": "8"}}, "width in net in the settings must be int, got '8'; the default is 64"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_every_mistake_has_its_line(name):
    changes, line = MISTAKES[name]
    with pytest.raises(ValueError, match="^" + re.escape(line)) as caught:
        configs.change(defaults(), changes)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [("layers", 0), ("width", 0), ("width", 7), ("heads", 0), ("head_dim", 0), ("mlp", 0), ("memory", -1)],
)
def test_what_the_core_cannot_be_made_with_is_said_by_the_core(field, value):
    config = configs.change(defaults(), {"net": {field: value}, "devices": 1})
    with pytest.raises(CoreError, match=rf"must be .*, got {value}; "):
        engine_of(config).shapes()


def test_there_are_no_defaults_for_what_there_is_not():
    assert set(LEARNERS) == set(ALGORITHMS)
    with pytest.raises(CoreError, match="there is no core 'x'; the cores are lstm, "):
        defaults(core="x")
    with pytest.raises(TaskError, match=r"there is no task 'x'; .gtrxl tasks. lists all"):
        defaults(task="x")


UNREADABLE = {
    "not json": (b"{", "must be JSON, got Expecting property name"),
    "empty": (b"", "must be JSON, got Expecting value"),
    "not text": (b"\xff\xfe\x00", "must be JSON, got 'utf-8' codec"),
    "list": (b"[]", "must hold one JSON object, got list"),
    "task": (b'{"task": 5}', "must be str, got 5; the default is 'grid-numpad'"),
    "core": (b'{"core": []}', "must be str, got []; the default is 'gtrxl-gru'"),
    "algorithm": (b'{"algorithm": null}', "must be str, got None; the default is 'vmpo'"),
    "unknown": (b'{"sizes": 5}', "must name settings there are, got 'sizes'"),
    "float": (b'{"steps": 1e6}', "must be int, got 1000000.0"),
    "not there": (b'{"net": {"layers": null}}', "must be int, got None; the default is 2"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_file_that_cannot_be_read_says_which_and_why(name, tmp_path):
    content, line = UNREADABLE[name]
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(RunError) as caught:
        configs.read(path)
    assert str(path) in str(caught.value)
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_file_and_a_folder_are_no_settings(tmp_path):
    with pytest.raises(RunError, match=r"there is no file .*none.json; a run keeps its settings in RUN/config.json"):
        configs.read(tmp_path / "none.json")
    with pytest.raises(RunError, match=r".* cannot be read: Is a directory; RUN/config.json of any run"):
        configs.read(tmp_path)


def test_settings_are_frozen_and_equal_by_value():
    assert defaults() == defaults()
    assert hash(defaults()) == hash(defaults())
    with pytest.raises(dataclasses.FrozenInstanceError):
        defaults().steps = 5  # pyright: ignore[reportAttributeAccessIssue]


def test_the_paper_s_settings_depend_on_the_task():
    maze, level, several = (defaults(task=task, preset="paper") for task in ("memory-maze", "rooms_watermaze", "lab12"))
    assert (maze.learner, maze.pixel_control) == (VMPO.paper("memory_maze"), 0.0)
    for config in (level, several):
        assert (config.learner, config.pixel_control) == (VMPO.paper("dmlab30"), 2e-3)
    for config in (maze, level, several, defaults(task="numpad", preset="paper")):
        assert (config.unroll, config.discount, config.net.layers, config.net.memory) == (95, 0.99, 12, 512)
        assert config.net.channels == "paper"
    assert (maze.streams, level.streams, several.streams) == (128, 128, 144), "the least from 128 that two devices can share"


def test_the_paper_s_settings_depend_on_the_core():
    """On DMLab-30 its LSTM is drawn from a narrower range than the transformers; nowhere else."""
    for task, of_lstm in (("dmlab30", 0.005), ("rooms_watermaze", 0.005), ("memory-maze", 0.01), ("grid-numpad", 0.01)):
        lstm, gtrxl = (defaults(task=task, core=core, preset="paper") for core in ("lstm", "gtrxl-gru"))
        assert isinstance(lstm.learner, VMPO)
        assert isinstance(gtrxl.learner, VMPO)
        assert (lstm.learner.eps_alpha, gtrxl.learner.eps_alpha) == (of_lstm, 0.01), task


def test_what_is_said_of_the_paper_s_preset_is_what_it_has():
    streams = {task: defaults(task=task, preset="paper").streams for task in ("dmlab30", "dmlab30-memory", "dmlab30-reactive")}
    assert streams == {"dmlab30": 180, "dmlab30-memory": 128, "dmlab30-reactive": 132}
    page = " ".join((ROOT / "docs" / "dmlab.md").read_text().split())
    assert "The batch is 180 unrolls, where the paper has 128" in page
    assert "(`dmlab30-memory` has 128, `dmlab30-reactive` 132)" in page


def test_a_level_s_small_settings_fit_a_cpu():
    config = defaults(task="lab-reactive:height=32,width=48")
    assert config.task == "lab-reactive:height=32,width=48"
    assert (config.net.channels, config.pixel_control) == ("small", 0.0)
    assert config.streams % (2 * len(config.tasks)) == 0, "as many for each level, on two devices too"
    with pytest.raises(RunError, match=r"pixel_control must be at least 0, got -1.0; the paper uses 2e-3"):
        configs.change(config, {"pixel_control": -1.0})
