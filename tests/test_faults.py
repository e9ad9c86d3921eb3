"""The short form of `benchmarks/faults.py`: a few attacks of each kind, judged by the same functions."""

import shutil

import numpy as np
import pytest
from benchmarks.attacks import damage, failing, fleets, hostile, kills, numbers, tiny
from benchmarks.attacks.cases import Case


def no_fault(*cases: Case) -> None:
    assert cases
    assert not [f"{case.part} {case.number}: {case.did}: {case.fault}" for case in cases if case.fault]


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    """A run as a kill leaves it, and the same finished."""
    home = tmp_path_factory.mktemp("damage")
    list(damage.make(str(home), core="none"))
    return damage.Bench(home)


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("config.json", "cut"),
        ("checkpoints/LAST/card.json", "empty"),
        ("checkpoints/LAST/STATE", "flip"),
        pytest.param("metrics.jsonl", "garbage", marks=pytest.mark.slow),
        pytest.param("config.json", "flip", marks=pytest.mark.slow),
        pytest.param("config.json", "gone", marks=pytest.mark.slow),
        pytest.param("metrics.jsonl", "flip", marks=pytest.mark.slow),
        pytest.param("metrics.jsonl", "gone", marks=pytest.mark.slow),
        pytest.param("checkpoints/LAST/card.json", "flip", marks=pytest.mark.slow),
        pytest.param("checkpoints/LAST/STATE", "gone", marks=pytest.mark.slow),
        pytest.param("checkpoints/LAST/STATE", "zeros", marks=pytest.mark.slow),
    ],
)
def test_damage_is_harmless_or_said(bench, file, kind):
    last = bench.home / "stopped/checkpoints" / str(tiny.checkpoints(bench.home / "stopped")[-1])
    largest = max((path for path in last.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    file = file.replace("LAST/STATE", str(largest.relative_to(last.parent))).replace("LAST", last.name)
    no_fault(bench.case(0, "stopped", file, kind, random=np.random.default_rng(3)))


def test_a_difference_without_a_word_is_a_fault(bench):
    """The judge itself: what differs does not pass unless something was said, and weights that differ never do."""
    rows, weights = bench.final
    answers = {"read": ("stopped", rows[:7]), "go_on": ("finished", rows, weights, [14])}
    bench.right["judged"] = {call: (answer, "", ["compiling"]) for call, answer in answers.items()}

    def judged(call, answer, *, said=(), error=""):
        found = bench.right["judged"] | {call: (answer, error, ["compiling", *said])}
        return bench.judge("judged", found)[0]

    later = [rows[0] | {"return_mean": 0.75}, *rows[1:]]
    other = weights | {next(iter(weights)): "other"}
    line = "metrics.jsonl was damaged: line 3 is set aside"
    assert judged("read", answers["read"]) == "same"
    assert judged("read", None, error="config.json must be JSON") == "said"
    assert judged("read", None, error="!a traceback of KeyError: 'score'") == "fault"
    assert judged("read", ("stopped", later[:7])) == "fault"
    assert judged("read", ("stopped", rows[:5])) == "same", "a kill may leave fewer rows, if the run goes on well"
    assert judged("go_on", ("finished", later, weights, [14])) == "fault"
    assert judged("go_on", ("finished", later, weights, [14]), said=[line]) == "fault"
    assert judged("go_on", ("finished", rows[1:], weights, [14])) == "fault"
    assert judged("go_on", ("finished", rows[1:], weights, [14]), said=[line]) == "rows"
    assert judged("go_on", ("finished", rows, other, [14]), said=[line]) == "fault"
    assert judged("go_on", ("finished", rows, weights, [12])) == "fault"
    assert judged("go_on", ("finished", rows, weights, [12]), said=["goes on from checkpoint 10"]) == "older"


@pytest.fixture(scope="module")
def good(bench):
    """Where a good run is, for strangers to spoil."""
    shutil.copytree(bench.home / "finished", bench.home / "good")
    return bench.home


QUICK = ("a core, in a checkpoint's card", "a key twice", "a card that is a list")


@pytest.mark.parametrize(
    "what", [what if what in QUICK else pytest.param(what, marks=pytest.mark.slow) for what in hostile.FORGED]
)
def test_a_strangers_folder_is_data(good, what):
    no_fault(hostile.case(good, [*hostile.HOSTILE].index(what)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("core", "weight"),
    [
        ("lstm", ".policy.output.bias"),
        ("gtrxl-gru", ".core.blocks.mlp"),
        ("gtrxl-gru", ".core.blocks.gate"),
        ("gtrxl-gru", ".core.embed.bias"),
    ],
)
def test_nan_in_weights_ends_a_run_and_no_checkpoint_has_it(tmp_path, core, weight):
    bench = numbers.Bench(tmp_path, core)
    which = next(place for place, name in enumerate(bench.names) if name.startswith(weight))
    no_fault(bench.case(0, which, np.random.default_rng(0)))


@pytest.mark.slow
@pytest.mark.parametrize("part", [kills.Compiled, kills.Learner, kills.Sweep, kills.Twice, failing.Tasks])
def test_what_is_killed_goes_on(tmp_path, part):
    attack = part(tmp_path, 1)
    attack.prepare()
    no_fault(*attack.attack([0]))


@pytest.mark.slow
@pytest.mark.parametrize("way", ["killed", "stopped", "orphaned"])
def test_actors_that_are_killed_or_stopped_are_noticed(tmp_path, way):
    no_fault(*fleets.Actors(tmp_path, 1).attack([["killed", "stopped", "orphaned"].index(way)]))


@pytest.mark.slow
def test_a_killed_run_goes_on(tmp_path):
    """One kill, in the middle of a checkpoint, without the reference that the long form has: every row is there once."""
    attack = kills.Compiled(tmp_path, 0)
    attack.lives["none"] = 1.0
    folder = tmp_path / "run"
    command = attack.start(attack.begins(folder, "none"))
    assert attack.strike(command, folder, "a checkpoint is written", np.random.default_rng(0), 1.0)
    kills.check_alone(command)
    again = attack.start(attack.goes_on(folder, "none"))
    assert again.wait() == 0, again.said
    assert [row["updates"] for row in tiny.rows(folder)] == [tiny.PERIOD * (n + 1) for n in range(tiny.REPORTS)]
    assert tiny.left_over(folder) == ""
