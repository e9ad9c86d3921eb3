"""The passive T-maze: its rules as Ni et al. (2023) have them, told again in plain Python."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.tasks.episodes import returns
from gtrxl.tasks.others.passive_t_maze import EAST, NORTH, SOUTH, WEST, PassiveMazeState, PassiveTMaze
from gtrxl.testing import check_task
from tests.tasks.stepping import begin, run

L = 6
TASK = PassiveTMaze(corridor=L)
MOVES = {EAST: (1, 0), NORTH: (0, 1), WEST: (-1, 0), SOUTH: (0, -1)}
CELLS = {(x, 0) for x in range(L + 1)} | {(L, 1), (L, -1)}


def plain(goal: int, actions: list[int]) -> tuple[list[tuple[int, int]], list[float]]:
    """What is seen after each action, and what it pays."""
    place, seen, paid = (0, 0), [], []
    for t, action in enumerate(actions, start=1):
        x, y = (a + b for a, b in zip(place, MOVES[action], strict=True))
        place = (x, y) if (x, y) in CELLS else place
        seen.append((int(place[0] == L), place[1]))
        paid.append(float(place[1] == goal) if t == L + 1 else -1 / L if place[0] < t else 0.0)
    return seen, paid


def start(goal: int) -> PassiveMazeState:
    zero = jnp.int32(0)
    return PassiveMazeState(goal=jnp.int32(goal), x=zero, y=zero, elapsed=zero)


@pytest.mark.parametrize("goal", [1, -1])
def test_it_goes_by_the_rules(goal):
    draws = np.random.default_rng(goal + 1)
    for _ in range(60):
        # Mostly east, so that the junction is reached now and then.
        actions = draws.choice(4, L + 1, p=[0.85, 0.05, 0.05, 0.05]).tolist()
        steps = run(TASK, start(goal), jnp.array(actions, jnp.int32))[1]
        seen, paid = plain(goal, actions)
        np.testing.assert_array_equal(steps.observation, seen)
        np.testing.assert_allclose(steps.reward, paid, atol=1e-7)
        assert np.asarray(steps.terminated).tolist() == [False] * L + [True]
        assert not np.asarray(steps.truncated).any()


def test_the_sign_is_seen_once():
    state, observation = begin(TASK, jax.random.key(0))
    assert observation.tolist() == [0, int(state.goal)]
    stays = run(TASK, state, jnp.full(L + 1, WEST, jnp.int32))[1]
    assert not np.asarray(stays.observation).any(), "who waits at the start does not see it again"


def test_who_remembers_the_sign_gets_everything():
    np.testing.assert_allclose(returns(TASK, TASK.player(), jax.random.key(0), episodes=64), 1.0)


def test_it_is_a_task():
    check_task(TASK)
