"""`gtrxl.testing.check_core`: passes our cores and a right one of somebody else's, and says what is wrong with others."""

import os
import subprocess
import sys

import jax.numpy as jnp
import pytest

from gtrxl.testing import PROMISES, ContractViolation, check_core
from tests.cores.average import Average, Plain
from tests.cores.building import NAMES, random_core, small_sizes


def average(flaw=""):
    return Average(jnp.asarray(0.8), 3, flaw)


@pytest.mark.parametrize("name", NAMES)
def test_every_core_keeps_the_contract(name):
    report = check_core(random_core(name, **small_sizes(name, memory=3)), memoryless=name == "none")
    assert report.broken == ()
    checked = {check.promise for check in report.checks}
    optional = {"the window", "no gradient into the state", "gradient through the segment"}
    assert checked >= set(PROMISES) - optional - {"the calls exist"}
    if "trxl" in name:
        assert checked >= optional
        assert report.left_out == ()


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


def test_bfloat16_keeps_the_contract_within_its_own_tolerance():
    report = check_core(random_core("gtrxl-gru", **small_sizes("gtrxl-gru", memory=3), dtype="bfloat16"))
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
    with pytest.raises(ContractViolation, match="it has no initial_state, step, unroll, prepare, plain"):
        check_core(type("Half", (), {"input_size": 3, "output_size": 3})())
