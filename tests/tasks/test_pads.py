"""Numpad's rules, pad by pad, against a plain retelling of them; and the paths that can be hidden."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gtrxl.tasks.errors import TaskError
from gtrxl.tasks.numpad.pads import Pads, Sequence
from gtrxl.tasks.numpad.paths import neighbours, orders, paths


def retold(order: list[int], presses: list[int | None]) -> tuple[list[float], list[set[int]]]:
    """The rules of the paper as one would tell them: rewards, and the pads that are lit after each press."""
    sequence = [order.index(i) for i in range(max(order) + 1)]
    lit: list[int] = []
    paid: set[int] = set()
    rewards, lights = [], []
    for pad in presses:
        reward = 0.0
        if pad is not None:
            if pad == sequence[len(lit)]:
                lit.append(pad)
                if pad not in paid:
                    paid.add(pad)
                    reward = 1.0
                if len(lit) == len(sequence):
                    lit, paid = [], set()
            else:
                lit = []
        rewards.append(reward)
        lights.append(set(lit))
    return rewards, lights


@jax.jit
def press_all(order: jax.Array, pads: jax.Array, pressed: jax.Array) -> tuple[jax.Array, jax.Array]:
    hidden = Sequence(size=3, length=5)

    def body(state: Pads, press: tuple[jax.Array, jax.Array]) -> tuple[Pads, tuple[jax.Array, jax.Array]]:
        state, reward = hidden.press(state, *press)
        return state, (reward, state.lights())

    start = Pads(order=order, lit=jnp.int32(0), paid=jnp.int32(0))
    return jax.lax.scan(body, start, (pads, pressed))[1]


ORDER = [-1, 3, -1, 0, 2, 4, 1, -1, -1]
"""The sequence 3, 6, 4, 1, 5 on 3 x 3 pads."""
A, B, C, D, E = 3, 6, 4, 1, 5


def pressing(presses: list[int | None], *, steps: int = 24) -> tuple[list[float], list[set[int]]]:
    padded = [*presses, *[None] * (steps - len(presses))]
    pads = jnp.array([0 if pad is None else pad for pad in padded], jnp.int32)
    rewards, lights = press_all(jnp.array(ORDER, jnp.int8), pads, jnp.array([pad is not None for pad in padded]))
    shown = [{int(i) for i in np.flatnonzero(row)} for row in np.asarray(lights)]
    return np.asarray(rewards).tolist()[: len(presses)], shown[: len(presses)]


@pytest.mark.parametrize(
    ("presses", "rewards", "lit_after"),
    [
        pytest.param([A, B, C], [1, 1, 1], {A, B, C}, id="the next number lights and pays"),
        pytest.param([B], [0], set(), id="the second number does not light first"),
        pytest.param([A, B, D], [1, 1, 0], set(), id="a wrong pad clears all"),
        pytest.param([A, B, A], [1, 1, 0], set(), id="a pad that is lit is a wrong pad, even the first one"),
        pytest.param([A, B, 0], [1, 1, 0], set(), id="a pad outside the sequence is a wrong pad"),
        pytest.param([A, B, 0, A, B], [1, 1, 0, 0, 0], {A, B}, id="a number pays once in a pass"),
        pytest.param([A, B, 0, A, B, C], [1, 1, 0, 0, 0, 1], {A, B, C}, id="the first new number after an error pays"),
        pytest.param([A, B, C, D, E], [1, 1, 1, 1, 1], set(), id="the whole sequence lit, the lights go out"),
        pytest.param([A, B, C, D, E, A, B], [1] * 7, {A, B}, id="after completion every number pays again"),
        pytest.param([A, B, None, None, C], [1, 1, 0, 0, 1], {A, B, C}, id="pressing nothing changes nothing"),
    ],
)
def test_rules(presses, rewards, lit_after):
    found, lights = pressing(presses)
    assert found == rewards
    assert lights[-1] == lit_after


@given(st.lists(st.sampled_from([None, A, B, C, D, E, 0, 2]), max_size=24))
def test_any_presses_do_what_the_rules_say(presses):
    assert pressing(presses) == retold(ORDER, presses)


@given(st.lists(st.sampled_from([0, 1]), min_size=4, max_size=12))
def test_long_passes_do_what_the_rules_say(blunders):
    """Mostly right presses, with a wrong one here and there: random ones hardly ever complete a pass."""
    presses: list[int | None] = []
    for number, blunder in zip([A, B, C, D, E, A, B, C, D, E, A, B], blunders, strict=False):
        presses += [8, A, B] if blunder and len(presses) < 18 else [number]
    assert pressing(presses) == retold(ORDER, presses)


@pytest.mark.parametrize(("size", "count", "corner_to_corner"), [(2, 24, 2), (3, 784, 30), (4, 343_184, 4942)])
def test_whole_paths_are_as_many_as_are_known(size, count, corner_to_corner):
    """From a corner to the opposite one: OEIS A272445."""
    found = paths(size, size * size)
    assert len(found) == count
    assert ((found[:, 0] == 0) & (found[:, -1] == size * size - 1)).sum() == corner_to_corner


@pytest.mark.parametrize(("size", "count"), [(2, 64), (3, 10_305)])
def test_paths_of_all_lengths_are_as_many_as_are_known(size, count):
    """Directed paths of any length on the king's graph: OEIS A236690."""
    assert sum(len(paths(size, length)) for length in range(1, size * size + 1)) == count


@pytest.mark.parametrize(("size", "length"), [(2, 1), (2, 3), (2, 4), (3, 1), (3, 2), (3, 5), (3, 9)])
def test_paths_move_like_a_king_and_visit_no_pad_twice(size, length):
    found = paths(size, length).astype(int)
    assert found.shape[1] == length
    assert len({tuple(path) for path in found}) == len(found)
    assert all(len(set(path)) == length for path in found)
    row, column = np.divmod(found, size)
    steps = np.maximum(abs(np.diff(row, axis=1)), abs(np.diff(column, axis=1)))
    assert (steps == 1).all()
    if length == 2:
        assert len(found) == neighbours(size).sum()


def test_orders_are_the_paths_the_other_way_round():
    for path, order in zip(paths(3, 4)[::37], orders(3, 4)[::37], strict=True):
        assert [int(np.flatnonzero(order == i)[0]) for i in range(4)] == path.tolist()
        assert (order == -1).sum() == 5


def test_every_path_is_drawn_equally_often():
    """Chi-squared over the 24 sequences of 2 x 2, 24,000 draws: its 99.9 % point with 23 degrees of freedom is 49.7."""
    hidden = Sequence(size=2, length=4)
    drawn = jax.jit(jax.vmap(hidden.draw))(jax.random.split(jax.random.key(0), 24_000))
    assert not np.asarray(drawn.lit).any()
    _, counts = np.unique(np.asarray(drawn.order), axis=0, return_counts=True)
    assert len(counts) == 24
    assert ((counts - 1000) ** 2 / 1000).sum() < 49.7


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": 5, "length": 4}, "size must be from 2 to 4, got 5"),
        ({"size": 2, "length": 5}, "sequence must be from 1 to 4, got 5"),
        ({"size": 2, "length": 0}, "sequence must be from 1 to 4, got 0"),
    ],
)
def test_sequences_that_cannot_be(arguments, message):
    with pytest.raises(TaskError, match=message):
        Sequence(**arguments)
