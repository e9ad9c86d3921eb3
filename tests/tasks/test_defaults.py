"""The settings that each task is learned with: the numbers that the runs in docs/learning.md found, spelled out."""

import pytest

from gtrxl.runs.presets import defaults
from gtrxl.tasks import TASKS, make_task
from gtrxl.tasks.first_person.level import Level
from gtrxl.tasks.t_maze import TMaze

SIMPLE = {"eps_eta": 0.2, "eps_alpha": 0.02, "alpha_init": 0.3}
PATIENT = {"eps_eta": 0.5, "eps_alpha": 0.03, "alpha_init": 5.0, "max_surge": 1.5}
ROLLING = {"lam": 0.95, "eps_eta": 0.2, "eps_covariance": 1e-4}
PICTURES = {"lam": 0.95, "eps_eta": 0.2, "eps_alpha": 0.02, "eps_covariance": 1e-3, "alpha_init": 0.3, "learning_rate": 5e-4}
GUESSING = SIMPLE | {"learning_rate": 1e-3}
CARDS = {"steps": 3_000_000, "discount": 0.5}

KNOWN = {  # memory, sizes, V-MPO, the paper's domain
    "grid-numpad": (64, {"steps": 3_000_000}, SIMPLE | {"learning_rate": 5e-4, "max_surge": 1.5}, "numpad"),
    "grid-numpad-3x3": (100, {"steps": 30_000_000, "streams": 32}, PATIENT, "numpad"),
    "grid-numpad-4x4": (200, {"steps": 30_000_000, "streams": 32}, PATIENT, "numpad"),
    **dict.fromkeys(
        ("numpad-2x2", "numpad-3x3", "numpad-4x4"),
        (256, {"steps": 30_000_000, "streams": 32, "unroll": 64, "discount": 0.99}, ROLLING, "numpad"),
    ),
    "t-maze": (64, {"steps": 1_000_000}, SIMPLE | {"learning_rate": 3e-4}, "numpad"),
    "recall": (64, {"steps": 1_000_000}, SIMPLE | {"learning_rate": 3e-4}, "numpad"),
    "passive-t-maze": (64, {"steps": 1_000_000, "discount": 0.99}, SIMPLE | {"learning_rate": 3e-4}, "numpad"),
    **dict.fromkeys(("repeat-previous", "count-recall", "higher-lower"), (64, CARDS, GUESSING, "numpad")),
    "repeat-first": (64, CARDS | {"discount": 0.97}, GUESSING, "numpad"),
    "autoencode": (103, CARDS, GUESSING, "numpad"),
    "noisy-cart-pole": (64, {"steps": 3_000_000, "discount": 0.99}, SIMPLE | {"learning_rate": 3e-4}, "numpad"),
    "minigrid-memory": (64, {"steps": 1_000_000, "discount": 0.99}, SIMPLE | {"learning_rate": 3e-4}, "numpad"),
}
SEEN = {"steps": 3_000_000, "streams": 32, "unroll": 32, "discount": 0.99}


@pytest.mark.parametrize("name", TASKS)
def test_the_settings_are_those_that_are_known_to_learn(name):
    task = make_task(name)
    found = task.defaults()
    seen = (128, SEEN, PICTURES, "memory_maze" if name == "memory-maze" else "dmlab30")
    memory, sizes, vmpo, paper = seen if isinstance(task, Level) else KNOWN[name]
    assert (found.memory, found.sizes, dict(found.vmpo), found.paper) == (memory, sizes, vmpo, paper)


def test_ppo_learns_what_it_was_seen_to_learn_better():
    better = {"repeat-first", "count-recall", "minigrid-memory"}
    assert {name for name in TASKS if make_task(name).defaults().algorithm == "ppo"} == better
    for name in better:
        config = defaults(task=name)
        assert (config.algorithm, config.learner.learning_rate) == ("ppo", 5e-4)
        assert defaults(task=name, algorithm="vmpo").algorithm == "vmpo"


@pytest.mark.parametrize(("corridor", "memory"), [(1, 64), (90, 100), (400, 256)])
def test_memory_holds_an_episode_where_that_is_affordable(corridor, memory):
    assert TMaze(corridor=corridor).defaults().memory == memory


def test_unrolls_of_cores_without_a_window_hold_a_corridor():
    """What an unroll does not span they cannot be taught; a transformer's memory is computed anew with today's weights."""
    assert TMaze(corridor=90).defaults().recurrent_unroll == 100
    for core in ("lstm", "lru", "gtrxl-lru"):
        assert defaults(task="t-maze", core=core).unroll == 64
        assert defaults(task="t-maze", core=core).learner.learning_rate == 1e-3
    assert defaults(task="t-maze", core="gtrxl-gru").unroll == 32
    assert defaults(task="t-maze", core="gtrxl-gru").learner.learning_rate == 3e-4


def test_transformer_blocks_have_transformer_sizes_whatever_remembers():
    assert defaults(core="gtrxl-lru").net.width == defaults(core="gtrxl-gru").net.width == 64
    assert defaults(core="lru").net.width == defaults(core="lstm").net.width == 128


def test_an_lstm_has_its_own_rate_where_one_was_found():
    assert dict(make_task("grid-numpad").defaults().recurrent) == {"learning_rate": 2e-3}
    assert {core: defaults(core=core).learner.learning_rate for core in ("gtrxl-gru", "trxl", "lstm", "gru")} == {
        "gtrxl-gru": 5e-4,
        "trxl": 5e-4,
        "lstm": 2e-3,
        "gru": 2e-3,
    }
    assert all(not make_task(name).defaults().recurrent for name in TASKS if name not in ("grid-numpad", "t-maze"))
