"""The twin gives what the JAX core gives: outputs, gradients and states, for any chunking, resets and filling of the memory."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import hypothesis
import jax
from hypothesis import strategies as st
from torch.utils import _pytree as pytree

import gtrxl
import gtrxl.torch
from gtrxl.torch.cores.attention import block_count
from tests.cores.building import NAMES
from tests.marks import few
from tests.torch.building import (
    AGREEMENT,
    assert_close,
    assert_states_close,
    jax_gradients,
    jax_unroll,
    pair,
    steps,
    tensors,
    torch_gradients,
)

SOME = pytest.mark.parametrize("name", few(NAMES, keep=lambda _, name: name in ("gtrxl-gru", "trxl", "lstm", "mamba2")))
ROUGH = {"s5": 1e-4}
"""JAX's rounding, compiled as for tests: the twin's gradients are 6e-7 from those in float64, and JAX's 5e-5."""
CALM = {"mlstm": {"spread": 0.2}}
"""It divides by a sum that with larger weights may be next to nothing, and then neither of the two is near float64."""
STREAMS, BEFORE, STEPS = 3, 3, 9
"""Fewer steps before than slots, so that the memory is partly filled; more steps than slots."""


def drawn(seed, width, *, length=STEPS):
    random = np.random.default_rng(seed)
    xs = random.standard_normal((STREAMS, BEFORE + length, 5)).astype(np.float32)
    resets = random.random((STREAMS, BEFORE + length)) < 0.2
    return xs, resets, random.standard_normal((STREAMS, length, width)).astype(np.float32)


@SOME
def test_outputs_gradients_and_states_are_those_of_jax(name):
    core, twin = pair(name, **CALM.get(name, {}))
    for seed in range(2):
        xs, resets, wish = drawn(seed, core.output_size)
        _, begin = jax_unroll(core, xs[:, :BEFORE], gtrxl.Streams(core, STREAMS).initial_state(), resets[:, :BEFORE])
        ys, after, by_core, by_xs = jax_gradients(core, xs[:, BEFORE:], begin, resets[:, BEFORE:], wish)
        t_xs, t_resets, t_wish = tensors(xs, resets, wish)
        _, t_begin = twin.unroll(t_xs[:, :BEFORE], twin.initial_state(STREAMS), resets=t_resets[:, :BEFORE])
        assert_states_close(t_begin, begin)
        t_ys, t_after, t_core, t_by_xs = torch_gradients(twin, t_xs[:, BEFORE:], t_begin, t_resets[:, BEFORE:], t_wish)
        tolerance = ROUGH.get(name, AGREEMENT)
        assert_close(t_ys, ys, tolerance)
        assert_states_close(t_after, after, tolerance)
        assert_close(t_by_xs, by_xs, tolerance)
        assert sorted(t_core) == sorted(by_core)
        for field, gradient in t_core.items():
            assert_close(gradient, by_core[field], tolerance)


@SOME
@hypothesis.settings(max_examples=8)
@hypothesis.given(data=st.data())
def test_any_chunking_and_any_way_give_one_unroll(name, data):
    """From a state of JAX, in chunks that are unrolled, stepped, or stepped from a prepared state, with gradients on or off."""
    core, twin = pair(name, **CALM.get(name, {}))
    xs, resets, _ = drawn(data.draw(st.integers(0, 5)), 1)
    _, begin = jax_unroll(core, xs[:, :BEFORE], gtrxl.Streams(core, STREAMS).initial_state(), resets[:, :BEFORE])
    expected, expected_after = jax_unroll(core, xs[:, BEFORE:], begin, resets[:, BEFORE:])
    t_xs, t_resets = tensors(xs[:, BEFORE:], resets[:, BEFORE:])
    state, at, found = gtrxl.torch.state_from_jax(begin), 0, []
    while at < STEPS:
        chunk = slice(at, at + data.draw(st.integers(1, STEPS - at)))
        way = data.draw(st.sampled_from(["unroll", "steps", "prepared"]))
        with torch.set_grad_enabled(data.draw(st.booleans())):
            if way == "unroll":
                ys, state = twin.unroll(t_xs[:, chunk], state, resets=t_resets[:, chunk])
            else:
                ys, state = steps(twin, t_xs[:, chunk], twin.prepare(state) if way == "prepared" else state, t_resets[:, chunk])
        state, at = twin.plain(state), chunk.stop
        found.append(ys)
    assert_close(torch.cat(found, dim=1), expected, ROUGH.get(name, AGREEMENT))
    assert_states_close(state, expected_after)
    back = gtrxl.torch.state_to_jax(state)
    assert type(back) is type(expected_after)


@pytest.mark.parametrize(
    ("memory", "length"), few([(3, 40), (0, 1), (0, 40), (1, 2), (3, 2), (3, 1)], keep=lambda number, _: number == 0)
)
def test_segments_longer_and_shorter_than_the_memory(memory, length):
    """Of 40 steps, which are cut into blocks, the last one not full."""
    core, twin = pair("gtrxl-gru", memory=memory)
    assert length < 40 or block_count(length, memory=memory, head_dim=4) > 1
    xs, resets, wish = drawn(1, core.output_size, length=length)
    begin = gtrxl.Streams(core, STREAMS).initial_state()
    ys, after, by_core, by_xs = jax_gradients(core, xs[:, BEFORE:], begin, resets[:, BEFORE:], wish)
    t_xs, t_resets, t_wish = tensors(xs[:, BEFORE:], resets[:, BEFORE:], wish)
    t_ys, t_after, t_core, t_by_xs = torch_gradients(twin, t_xs, twin.initial_state(STREAMS), t_resets, t_wish)
    assert_close(t_ys, ys)
    assert_states_close(t_after, after)
    assert_close(t_by_xs, by_xs)
    for field, gradient in t_core.items():
        assert_close(gradient, by_core[field])


@pytest.mark.parametrize("name", ["gtrxl-gru", "trxl", "lstm", "lru", "mamba2", "mlstm"])
def test_derivatives_are_those_of_finite_differences(name):
    """In float64, of every parameter: what is written out by hand (attention, GRU gates, recurrences) is the derivative."""
    _, twin = pair(name)
    twin = twin.double()
    xs, resets = torch.randn(2, 6, 5, dtype=torch.float64), torch.rand(2, 6) < 0.2
    _, state = twin.unroll(torch.randn(2, 3, 5, dtype=torch.float64), twin.initial_state(2), resets=resets[:, :3])
    names, values = zip(*twin.named_parameters(), strict=True)

    def outputs(xs, *values):
        given = dict(zip(names, values, strict=True))
        return torch.func.functional_call(twin, given, (xs, state, resets))[0]

    assert torch.autograd.gradcheck(outputs, (xs.requires_grad_(), *values), fast_mode=True, atol=1e-6)


@SOME
def test_bfloat16_is_that_of_jax_as_far_as_it_goes(name):
    core, twin = pair(name, dtype="bfloat16")
    xs, resets, _ = drawn(0, 1)
    ys, after = jax_unroll(core, xs, gtrxl.Streams(core, STREAMS).initial_state(), resets)
    t_xs, t_resets = tensors(xs, resets)
    t_ys, t_after = twin.unroll(t_xs, twin.initial_state(STREAMS), resets=t_resets)
    assert t_ys.dtype == torch.float32
    there = pytree.tree_leaves(gtrxl.torch.state_from_jax(after))
    assert [part.dtype for part in pytree.tree_leaves(t_after)] == [part.dtype for part in there]
    assert_close(t_ys, ys, 0.15)
    whole, _ = pair(name)[1].unroll(t_xs, pair(name)[1].initial_state(STREAMS), resets=t_resets)
    mean = float(((t_ys - whole).abs().mean() / whole.abs().mean()).detach())
    assert 0 < mean < 0.05
    assert back_and_forth(after, twin)


def back_and_forth(state, twin):
    """A state of bfloat16 keeps its bits from JAX and back."""
    again = gtrxl.torch.state_to_jax(gtrxl.torch.state_from_jax(state))
    return jax.tree.all(jax.tree.map(np.array_equal, state, again))
