"""T-maze: the sign is seen once, the junction a corridor later, and nothing between them can carry the sign."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.tasks.errors import TaskError
from gtrxl.tasks.t_maze import FORWARD, LEFT, RIGHT, MazeState, TMaze
from tests.tasks.stepping import begin, run

TASK = TMaze(corridor=5, patience=3)


def start(side: int) -> MazeState:
    zero = jnp.int32(0)
    return MazeState(side=jnp.int32(side), place=zero, turned=zero, elapsed=zero)


def walk(side: int, actions: list[int]):
    return run(TASK, start(side), jnp.array([*actions, *[FORWARD] * (8 - len(actions))], jnp.int32))[1]


def test_the_sign_is_seen_first_and_the_junction_a_corridor_later():
    state, observation = begin(TASK, jax.random.key(0))
    assert observation.tolist() == [float(int(state.side) == LEFT), float(int(state.side) == RIGHT), 0, 0]
    seen = np.asarray(walk(LEFT, []).observation)
    assert (seen[:4] == [0, 0, 1, 0]).all()
    assert (seen[4:] == [0, 0, 0, 1]).all(), "the fifth step of a corridor of 5 arrives"


@pytest.mark.parametrize(("side", "turn", "reward"), [(LEFT, LEFT, 1), (LEFT, RIGHT, 0), (RIGHT, RIGHT, 1), (RIGHT, LEFT, 0)])
def test_a_turn_at_the_junction_ends_the_episode_and_pays_if_it_is_right(side, turn, reward):
    steps = walk(side, [FORWARD] * 5 + [turn])
    assert np.asarray(steps.reward)[:6].tolist() == [0, 0, 0, 0, 0, reward]
    assert np.asarray(steps.terminated)[:6].tolist() == [False] * 5 + [True]
    assert not np.asarray(steps.truncated)[:6].any()


def test_turning_in_the_corridor_goes_on_and_pays_nothing():
    steps = walk(LEFT, [LEFT] * 5)
    assert not np.asarray(steps.terminated)[:5].any()
    assert not np.asarray(steps.reward)[:5].any()
    assert np.asarray(steps.observation)[4].tolist() == [0, 0, 0, 1]


def test_waiting_at_the_junction_is_truncated():
    steps = walk(LEFT, [])
    assert np.asarray(steps.truncated).tolist() == [False] * 7 + [True]
    assert not np.asarray(steps.terminated).any()


def test_a_turn_at_the_last_moment_terminates_and_does_not_truncate():
    steps = walk(RIGHT, [FORWARD] * 7 + [RIGHT])
    assert bool(steps.terminated[7])
    assert not bool(steps.truncated[7])
    assert float(steps.reward[7]) == 1


def test_whatever_is_done_nothing_that_is_seen_tells_the_side_again():
    for actions in itertools.product([FORWARD, LEFT, RIGHT], repeat=3):
        left, right = (np.asarray(walk(side, [*actions, *actions[:2]]).observation)[:5] for side in (LEFT, RIGHT))
        np.testing.assert_array_equal(left, right)


def test_no_policy_without_memory_beats_chance():
    """All 81 maps from what is seen to an action; the best of them are right on exactly half of the sides."""
    policies = jnp.array(list(itertools.product(range(3), repeat=4)), jnp.int32)

    def success(policy: jax.Array, side: jax.Array) -> jax.Array:
        def body(carry, _):
            state, observation, alive, total = carry
            state, step = TASK.step(state, policy[jnp.argmax(observation)])
            total = total + jnp.where(alive, step.reward, 0.0)
            return (state, step.observation, alive & ~(step.terminated | step.truncated), total), None

        state = eqx.tree_at(lambda s: s.side, start(LEFT), side)
        first = jnp.stack([side == LEFT, side == RIGHT, jnp.zeros((), bool), jnp.zeros((), bool)]).astype(jnp.float32)
        return jax.lax.scan(body, (state, first, jnp.ones((), bool), jnp.float32(0)), length=TASK.episode_steps)[0][3]

    both = jax.jit(jax.vmap(jax.vmap(success, (None, 0)), (0, None)))(policies, jnp.array([LEFT, RIGHT], jnp.int32))
    mean = np.asarray(both).mean(axis=1)
    assert mean.max() == 0.5
    assert (mean[np.asarray(policies)[:, 3] != FORWARD] == 0.5).all()


def test_both_sides_come_up():
    states, _ = jax.jit(jax.vmap(TASK.reset))(jax.random.split(jax.random.key(0), 1000))
    assert 430 < int((states.side == LEFT).sum()) < 570
    assert set(np.unique(states.side)) == {LEFT, RIGHT}


@pytest.mark.parametrize(
    ("arguments", "message"), [({"corridor": 0}, "corridor must be at least 1"), ({"patience": 0}, "patience must")]
)
def test_mazes_that_cannot_be(arguments, message):
    with pytest.raises(TaskError, match=message):
        TMaze(**arguments)


def test_the_usual_corridor_is_longer_than_an_unroll_of_32():
    assert TMaze().corridor > 32
    assert TMaze(corridor=100).episode_steps > 100
