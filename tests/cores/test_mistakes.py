"""Eleven mistakes found in public implementations, made on purpose, and what finds it.

Found by `check_core`: what one can see from outside, whatever the core is. Found by the comparison with the golden
numbers: what only the paper's equations can tell.
"""

import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl import Streams
from gtrxl.testing import ContractViolation, check_core
from tests.cores import reference
from tests.cores.building import WAYS, assert_close, assert_streams_agree, random_core, small_sizes, unroll
from tests.cores.naive import Naive
from tests.cores.test_golden import TOLERANCE, load
from tests.marks import few


def naive(mistake="", *, seed=None):
    """The golden case's core, or the same with its weights moved."""
    case, layers = load("gtrxl-gru")
    random = np.random.default_rng(seed)
    moved = [
        {name: of + (0 if seed is None else 0.3 * random.standard_normal(of.shape)) for name, of in layer.items()}
        for layer in layers
    ]
    weights = tuple({name: jnp.asarray(of, jnp.float32) for name, of in layer.items()} for layer in moved)
    return Naive(weights, heads=int(case["heads"]), memory=case["memory"].shape[1], mistake=mistake), moved, case


def compare_with_the_paper(core, case, way="unroll"):
    state = core.remembering(case["memory"].astype(np.float32), case["filled"])
    if core.mistake == "unfilled slots seen as zeros":
        state = core.remembering(np.where(case["memory"] == 1000, 0, case["memory"]).astype(np.float32), core.memory)
    ys, _ = WAYS[way](core, case["xs"].astype(np.float32), state, case["resets"])
    assert_close(ys, case["ys"], TOLERANCE)


def test_without_a_mistake_the_naive_core_is_right():
    core, _, case = naive()
    assert check_core(core).broken == ()
    for way in WAYS:
        compare_with_the_paper(core, case, way)


FOUND_BY_THE_PAPER_S_NUMBERS = {
    1: ["gate arguments swapped"],
    2: ["queries not normalised"],
    3: ["no relu after attention", "no relu after the mlp"],
    4: ["relu on the final output"],
    5: ["unfilled slots seen as zeros"],
    6: ["a reset inside an unroll ignored"],
    7: ["scores over sqrt of the model width"],
    8: ["current step missing from the keys"],
    10: ["learning sees the whole segment"],
}


@pytest.mark.parametrize(
    ("number", "mistake"), [(n, mistake) for n, of in FOUND_BY_THE_PAPER_S_NUMBERS.items() for mistake in of]
)
def test_golden_numbers_find(number, mistake):
    core, _, case = naive(mistake)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        compare_with_the_paper(core, case)


FOUND_BY_CHECK_CORE = {
    "unfilled slots seen as zeros": (5, "a fresh state starts an episode"),
    "a reset inside an unroll ignored": (6, "nothing leaks past a reset"),
    "a reset at the start of an unroll ignored": (6, "nothing leaks past a reset"),
    "gradient into the memory": (9, "no gradient into the state"),
    "only the current step learns": (9, "gradient through the segment"),
    "learning sees the whole segment": (10, "unroll equals steps"),
    "stale keys": (11, "weights may change"),
    "the next step seen": (0, "nothing leaks from the future"),
    "window one short": (0, "the window"),
}
"""Mistake -> its number (0: not among the eleven), and the promise that must be named."""


@pytest.mark.parametrize("mistake", few(FOUND_BY_CHECK_CORE, keep=lambda number, _: number % 3 == 0))
def test_check_core_finds(mistake):
    number, promise = FOUND_BY_CHECK_CORE[mistake]
    core, _, _ = naive(mistake)
    with pytest.raises(ContractViolation) as caught:
        check_core(core)
    assert promise in caught.value.broken
    if number in (9, 11):  # mistakes that break one promise alone must not be reported as anything else
        assert caught.value.broken == (promise,)
    message = str(caught.value)
    assert f". {promise}: " in message
    assert "Usual cause: " in message
    assert "off by" in message or "gradient is zero" in message or "does not depend" in message


def test_all_eleven_are_found():
    found = {number for number, _ in FOUND_BY_CHECK_CORE.values()} | set(FOUND_BY_THE_PAPER_S_NUMBERS)
    assert found >= set(range(1, 12))


@pytest.mark.parametrize("mistake", ["", "stale keys everywhere"])
def test_keys_cached_with_old_weights_are_found_by_the_reference(mistake):
    """Mistake 11 made in acting and learning alike agrees with itself; only recomputing from the stored inputs tells."""
    old, _, case = naive(mistake)
    new, layers, _ = naive(mistake, seed=1)
    xs, resets = case["xs"].astype(np.float32), np.zeros(len(case["xs"]), bool)
    _, state = unroll(old, xs, old.initial_state(), resets)
    ys, _ = unroll(new, xs, state, resets)
    expected, _ = reference.stack("gtrxl-gru", layers, xs, np.asarray(state.inputs), new.heads, resets, new.memory)
    if mistake:
        with pytest.raises(AssertionError, match="Not equal to tolerance"):
            assert_close(ys, expected, TOLERANCE)
    else:
        assert_close(ys, expected, TOLERANCE)


class OneResetForAll(Streams):
    """Mistake 6 in a batch: the first stream's reset taken for every stream."""

    def step(self, x, state, *, reset):
        return super().step(x, state, reset=jnp.broadcast_to(reset[:1], reset.shape))


def test_one_reset_taken_for_all_streams_is_found():
    core = random_core("gtrxl-gru", **small_sizes("gtrxl-gru"))
    assert_streams_agree(Streams(core, 3), seed=0)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        assert_streams_agree(OneResetForAll(core, 3), seed=0)
