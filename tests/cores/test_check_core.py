"""`gtrxl.testing.check_core`: passes our cores and a right one of somebody else's, and says what is wrong with others."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl import CoreError, Streams
from gtrxl.cores.streams import history, openness, output_size
from gtrxl.testing import PROMISES, ContractViolation, check_core
from tests.cores.average import Average, Bare, Plain
from tests.cores.building import (
    LINEAR,
    NAMES,
    TRANSFORMERS,
    assert_close,
    normal,
    random_core,
    small_sizes,
    streams_step,
    streams_unroll,
)
from tests.marks import few


def average(flaw=""):
    return Average(jnp.asarray(0.8), 3, flaw)


@pytest.mark.parametrize("name", few(NAMES, keep=lambda _, name: name in ("lstm", "trxl", "gtrxl-gru", "none")))
def test_every_core_keeps_the_contract(name):
    report = check_core(random_core(name, **small_sizes(name, memory=3)), memoryless=name == "none")
    assert report.broken == ()
    checked = {check.promise for check in report.checks}
    optional = {"the window", "no gradient into the state", "gradient through the segment"}
    assert checked >= set(PROMISES) - optional - {"the calls exist"}
    if name in TRANSFORMERS:
        assert checked >= optional
        assert report.left_out == ()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["trxl", "gtrxl-gru"])
def test_the_contract_holds_as_users_compile_it(name):
    """The suite compiles without XLA's optimisations (conftest); what must be bit-identical has to be so with them too."""
    code = f"""
import gtrxl, jax
core = gtrxl.make_core({name!r}, input_size=5, d_model=32, layers=2, heads=4, memory=6, key=jax.random.key(0))
print(gtrxl.testing.check_core(core))
"""
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.stdout.startswith("Transformer keeps its promises"), done.stderr


def test_memory_of_nothing_keeps_the_contract_and_forgets():
    report = check_core(random_core("gtrxl-gru", **small_sizes("gtrxl-gru", memory=0)))
    assert any("meant to have no memory" in why for why in report.left_out)


def test_skip_connections_keep_the_contract():
    check_core(random_core("lstm", **small_sizes("lstm"), skip=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gtrxl-gru", *LINEAR[:1]])
def test_bfloat16_keeps_the_contract_within_its_own_tolerance(name):
    report = check_core(random_core(name, **small_sizes(name, memory=3), dtype="bfloat16"))
    assert report.largest("nothing leaks past a reset") == 0.0


def test_a_foreign_core_passes_and_the_report_says_what_was_done():
    report = check_core(average())
    assert report.broken == ()
    text = str(report)
    assert text.startswith("Average keeps its promises")
    assert "not checked: the window: the core has no `memory` and `layers`" in text
    assert all(check.deviation <= check.limit for check in report.checks)


def test_a_core_that_is_no_pytree_passes():
    report = check_core(Plain())
    assert "weights may change: the core is not a pytree with floating arrays in it" in report.left_out


@pytest.mark.parametrize(
    ("flaw", "promise"),
    [
        ("the state grows", "the state is fixed"),
        ("prepare changes the state", "prepared steps equal steps"),
        ("reset adds nothing but does not clear", "nothing leaks past a reset"),
        ("it looks ahead", "nothing leaks from the future"),
        ("it never writes", "it remembers"),
        ("it divides by zero", "finite"),
        ("it raises", "the state is fixed"),
    ],
)
def test_a_flaw_is_named(flaw, promise):
    with pytest.raises(ContractViolation) as caught:
        check_core(average(flaw))
    assert promise in caught.value.broken
    meaning, cause = PROMISES[promise]
    assert f"{promise}: {meaning}." in str(caught.value)
    assert f"Usual cause: {cause}." in str(caught.value)
    if flaw == "it raises":
        assert "raised RuntimeError: this core cannot unroll" in str(caught.value)


def test_several_violations_come_in_one_message():
    with pytest.raises(ContractViolation) as caught:
        check_core(average("it looks ahead"))
    assert {"nothing leaks from the future", "unroll equals steps", "any chunking"} <= set(caught.value.broken)
    assert str(caught.value).startswith(f"Average breaks {len(caught.value.broken)} of the promises a core makes")


def test_memoryless_is_held_to_it():
    with pytest.raises(ContractViolation) as caught:
        check_core(average(), memoryless=True)
    assert caught.value.broken == ("it remembers",)


def test_missing_calls_are_listed():
    with pytest.raises(ContractViolation, match="it has no initial_state, step, unroll"):
        check_core(type("Half", (), {"input_size": 3, "output_size": 3})())


def test_a_core_with_three_calls_passes_and_runs_in_many_streams():
    """Nothing but `initial_state`, `step` and `unroll`: no sizes, nothing to prepare, no base class."""
    core = Bare(jnp.asarray(0.8))
    with pytest.raises(ContractViolation, match="it has no input_size"):
        check_core(core)
    assert check_core(core, input_size=3).broken == ()
    xs, resets = jnp.asarray(normal(0, 4, 6, 3)), jnp.asarray(np.random.default_rng(1).random((4, 6)) < 0.3)
    streams = Streams(core, 4)
    ys, after = streams_unroll(streams, xs, streams.initial_state(), resets)
    state, stepped = streams.prepare(streams.initial_state()), []
    for t in range(6):
        y, state = streams_step(streams, xs[:, t], state, resets[:, t])
        stepped.append(y)
    assert_close(np.stack(stepped, axis=1), ys, 1e-6)
    assert_close(streams.plain(state).mean, after.mean, 1e-6)
    assert output_size(core, 3) == 3
    with pytest.raises(CoreError, match="says neither its output_size nor its input_size"):
        _ = streams.output_size
    assert history(core, 40) == 40
    assert openness(core, xs, after, resets) is None


def test_a_core_s_own_calls_for_many_streams_are_used():
    """What a stranger's core does better than `jax.vmap`, and what it tells of itself."""

    class Own(Average):
        def unroll_streams(self, xs, states, resets):
            ys, states = jax.vmap(lambda xs, state, resets: self.unroll(xs, state, resets=resets))(xs, states, resets)
            return ys + 1, states

        def history(self, episode_steps):
            return min(7, episode_steps)

        def openness(self, xs, states, resets):
            return jnp.full((1, 2), 0.25)

    core, xs, resets = Own(jnp.asarray(0.8), 3), jnp.asarray(normal(0, 4, 6, 3)), jnp.zeros((4, 6), bool)
    streams = Streams(core, 4)
    ours, _ = streams.unroll(xs, streams.initial_state(), resets=resets)
    plain, _ = Streams(average(), 4).unroll(xs, streams.initial_state(), resets=resets)
    assert_close(ours, plain + 1, 1e-6)
    assert (history(core, 40), history(core, 4)) == (7, 4)
    np.testing.assert_array_equal(openness(core, xs, streams.initial_state(), resets), np.full((1, 2), 0.25))
