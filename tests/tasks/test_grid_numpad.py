"""Grid Numpad: what a move does, what is seen, and when it ends. The rules of pressing are in test_pads."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.tasks.errors import TaskError
from gtrxl.tasks.numpad.grid import MOVES, GridNumpad, GridState
from gtrxl.tasks.numpad.pads import Pads
from tests.tasks.stepping import begin, run

STAY, UP_LEFT, UP, UP_RIGHT, LEFT, RIGHT, DOWN_LEFT, DOWN, DOWN_RIGHT = range(9)
TASK = GridNumpad(size=3, sequence=4, episode_steps=12)
ORDER = [-1, -1, -1, -1, 0, 1, -1, 3, 2]
"""The sequence 4 (the middle), 5, 8, 7."""


def walk(start: int, moves: list[int]) -> tuple[GridState, np.ndarray, np.ndarray, np.ndarray]:
    pads = Pads(order=jnp.array(ORDER, jnp.int8), lit=jnp.int32(0), paid=jnp.int32(0))
    state = GridState(pads=pads, row=jnp.int32(start // 3), column=jnp.int32(start % 3), elapsed=jnp.int32(0))
    states, steps = run(TASK, state, jnp.array([*moves, *[STAY] * (12 - len(moves))], jnp.int32))
    assert not np.asarray(steps.terminated).any()
    return states, np.asarray(steps.observation), np.asarray(steps.reward), np.asarray(steps.truncated)


@pytest.mark.parametrize(
    ("start", "moves", "rewards"),
    [
        pytest.param(0, [DOWN_RIGHT, RIGHT, DOWN, LEFT], [1, 1, 1, 1], id="along the sequence"),
        pytest.param(4, [STAY, STAY], [0, 0], id="staying presses nothing, not even the first pad"),
        pytest.param(4, [UP, DOWN], [0, 1], id="the first pad counts when it is come back to"),
        pytest.param(0, [DOWN_RIGHT, RIGHT, RIGHT, DOWN], [1, 1, 0, 1], id="a move against the edge presses and clears nothing"),
        pytest.param(
            0, [DOWN_RIGHT, UP_LEFT, DOWN_RIGHT, RIGHT], [1, 0, 0, 1], id="an error, and the way back along the sequence"
        ),
        pytest.param(
            0, [DOWN_RIGHT, RIGHT, DOWN, LEFT, UP, RIGHT], [1, 1, 1, 1, 1, 1], id="the sequence can be done again and again"
        ),
    ],
)
def test_moves(start, moves, rewards):
    assert walk(start, moves)[2].tolist() == [*rewards, *[0] * (12 - len(rewards))]


@pytest.mark.parametrize("action", range(9))
def test_a_move_leads_one_pad_on_or_nowhere(action):
    row, column = MOVES[action]
    states, *_ = walk(4, [action, action, action])
    rows, columns = np.asarray(states.row)[:3], np.asarray(states.column)[:3]
    assert (rows[0], columns[0]) == (1 + row, 1 + column)
    assert (rows[1:] == rows[0]).all(), "the next pad is outside"
    assert (columns[1:] == columns[0]).all()


def test_it_sees_place_lights_action_and_reward():
    _, observation, _, _ = walk(0, [DOWN_RIGHT, RIGHT, STAY])
    place, lights, action, reward = np.split(observation, [9, 18, 27], axis=1)
    assert np.argmax(place[:3], axis=1).tolist() == [4, 5, 5]
    assert [set(np.flatnonzero(row)) for row in lights[:3]] == [{4}, {4, 5}, {4, 5}]
    assert np.argmax(action[:3], axis=1).tolist() == [DOWN_RIGHT, RIGHT, STAY]
    assert reward[:3, 0].tolist() == [1, 1, 0]
    assert (place.sum(axis=1) == 1).all()
    assert (action.sum(axis=1) == 1).all()


def test_the_first_observation_has_a_place_and_nothing_else():
    state, observation = begin(TASK, jax.random.key(3))
    assert np.flatnonzero(observation).tolist() == [int(state.row) * 3 + int(state.column)]


def test_the_observation_does_not_tell_the_sequence():
    """Two worlds with other sequences look the same until a press tells them apart."""
    state, observation = begin(TASK, jax.random.key(0))
    other = eqx.tree_at(lambda s: s.pads.order, state, jnp.roll(state.pads.order, 1))
    seen = [run(TASK, each, jnp.zeros(12, jnp.int32))[1].observation for each in (state, other)]
    np.testing.assert_array_equal(*seen)
    assert observation.shape == (28,)


def test_the_clock_truncates():
    *_, truncated = walk(0, [])
    assert np.flatnonzero(truncated).tolist() == [11]


def test_starts_are_everywhere():
    states, _ = jax.jit(jax.vmap(TASK.reset))(jax.random.split(jax.random.key(1), 200))
    assert {(int(r), int(c)) for r, c in zip(states.row, states.column, strict=True)} == {
        (r, c) for r in range(3) for c in range(3)
    }


def test_no_steps_is_no_episode():
    with pytest.raises(TaskError, match="episode_steps must be at least 1, got 0"):
        GridNumpad(episode_steps=0)
