"""MiniGrid's Memory against MiniGrid's own: from the same start, the same cells, rewards and ends, step by step."""

import importlib.util
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.tasks.episodes import returns
from gtrxl.tasks.errors import TaskError
from gtrxl.tasks.others.minigrid_memory import (
    ACTIONS,
    AHEAD,
    BALL,
    CODES,
    EAST,
    EMPTY,
    FORWARD,
    KEY,
    LEFT,
    RIGHT,
    UNSEEN,
    WALL,
    CorridorState,
    MiniGridMemory,
    V,
)
from gtrxl.testing import check_task
from tests.tasks.stepping import begin, run

needs_minigrid = pytest.mark.skipif(importlib.util.find_spec("minigrid") is None, reason="needs minigrid")
THINGS = {"key": KEY, "ball": BALL}


def start(*, x: int, task: MiniGridMemory, shown: int = KEY, north: int = KEY) -> CorridorState:
    return CorridorState(
        place=jnp.array([x, task.middle], jnp.int32),
        heading=jnp.int32(EAST),
        shown=jnp.int32(shown),
        north=jnp.int32(north),
        elapsed=jnp.int32(0),
        action=jnp.int32(-1),
    )


def cells(observations) -> np.ndarray:
    """What each cell shows, of observations [..., O]."""
    shown = np.asarray(observations)[..., : V * V * CODES]
    return shown.reshape(*shown.shape[:-1], V, V, CODES).argmax(-1)


def theirs(size: int) -> Any:
    import gymnasium
    import minigrid  # noqa: F401

    return gymnasium.make(f"MiniGrid-MemoryS{size}-v0").unwrapped


def of_theirs(observation) -> np.ndarray:
    """Their numbers of objects as ours; whatever is there has the colour that it always has."""
    from minigrid.core.constants import COLOR_TO_IDX, OBJECT_TO_IDX

    codes = {"unseen": UNSEEN, "empty": EMPTY, "wall": WALL, **THINGS}
    colours = {"unseen": "red", "empty": "red", "wall": "grey", "key": "green", "ball": "green"}
    ours = np.full((V, V), -1)
    for name, code in codes.items():
        here = observation["image"][..., 0] == OBJECT_TO_IDX[name]
        ours[here] = code
        assert (observation["image"][here] == (OBJECT_TO_IDX[name], COLOR_TO_IDX[colours[name]], 0)).all()
    return ours


@needs_minigrid
@pytest.mark.parametrize("size", [7, 13])
@pytest.mark.parametrize("seed", range(4))
def test_step_by_step_it_is_minigrids_task(size, seed):
    task, env = MiniGridMemory(size=size), theirs(size)
    first, _ = env.reset(seed=seed)
    assert (env.width, env.max_steps, env.action_space.n) == (size, task.episode_steps, ACTIONS)
    assert env.agent_pos[1] == task.middle
    state = start(
        x=int(env.agent_pos[0]),
        task=task,
        shown=THINGS[env.grid.get(1, task.middle - 1).type],
        north=THINGS[env.grid.get(task.end, task.middle - 2).type],
    )
    draws = np.random.default_rng(seed)
    # Mostly onwards, so that all of the hall is seen; then nothing, until the clock has run out.
    actions = draws.choice(ACTIONS, task.episode_steps, p=[0.15, 0.15, 0.58, 0.03, 0.03, 0.03, 0.03])
    if seed % 2:
        actions[np.isin(actions, FORWARD)] = LEFT
    states, steps = run(task, state, jnp.array(actions, jnp.int32))
    np.testing.assert_array_equal(cells(task._observe(state)), of_theirs(first))
    shown = cells(steps.observation)
    for t, action in enumerate(actions):
        observation, reward, terminated, truncated, _ = env.step(int(action))
        np.testing.assert_array_equal(shown[t], of_theirs(observation), err_msg=f"step {t}")
        assert tuple(states.place[t]) == tuple(env.agent_pos)
        assert int(states.heading[t]) == observation["direction"]
        tail = np.asarray(steps.observation[t])[V * V * CODES :]
        np.testing.assert_array_equal(np.flatnonzero(tail), [observation["direction"], 4 + action])
        assert float(steps.reward[t]) == pytest.approx(reward, abs=1e-6), f"step {t}"
        assert bool(steps.terminated[t]) == terminated, f"step {t}"
        assert bool(steps.truncated[t]) == (truncated and not terminated), f"step {t}"
        if terminated or truncated:
            return
    pytest.fail("the episode should have ended")


@needs_minigrid
@pytest.mark.parametrize("shown", [KEY, BALL])
@pytest.mark.parametrize("north", [KEY, BALL])
@pytest.mark.parametrize("way", [LEFT, RIGHT])
def test_the_same_object_is_paid_and_the_other_one_is_not(shown, north, way):
    task = MiniGridMemory(size=9)
    x = 2
    actions = [FORWARD] * (task.end - x) + [way, FORWARD]
    steps = run(task, start(x=x, task=task, shown=shown, north=north), jnp.array(actions, jnp.int32))[1]
    right = (way == LEFT) == (shown == north)
    assert np.asarray(steps.terminated).tolist() == [False] * (len(actions) - 1) + [True]
    assert float(steps.reward[-1]) == pytest.approx(1 - 0.9 * len(actions) / 405 if right else 0.0)
    assert not np.asarray(steps.reward[:-1]).any()


@needs_minigrid
def test_episodes_begin_as_minigrids_do():
    """Anywhere from the room's first cell to the hallway's last, all objects in all places."""
    task, env = MiniGridMemory(size=7), theirs(7)
    ours = jax.vmap(lambda key: task.reset(key)[0])(jax.random.split(jax.random.key(0), 400))
    found = {(int(x), int(a), int(b)) for (x, _), a, b in zip(ours.place, ours.shown, ours.north, strict=True)}
    there = set()
    for seed in range(150):
        env.reset(seed=seed)
        there.add((int(env.agent_pos[0]), THINGS[env.grid.get(1, 2).type], THINGS[env.grid.get(5, 1).type]))
    assert found == there == {(x, a, b) for x in range(1, 5) for a in THINGS.values() for b in THINGS.values()}


def test_who_remembers_the_object_finds_it_always_and_soon():
    for size in (7, 13):
        task = MiniGridMemory(size=size)
        found = returns(task, task.player(), jax.random.key(0), episodes=64)
        assert found.min() > 1 - 0.9 * 4 * size / task.episode_steps


def test_walls_hide_what_is_behind_them():
    task = MiniGridMemory(size=13)
    state, observation = begin(task, jax.random.key(1))
    back = run(task, start(x=9, task=task), jnp.array([LEFT, LEFT], jnp.int32))[1]
    assert not np.isin(cells(back.observation[-1]), (KEY, BALL)).any(), "the room is too far away"
    assert (cells(observation) == UNSEEN).any()
    assert AHEAD[int(state.heading)].tolist() == [1, 0]


def test_it_is_a_task_and_can_be_drawn():
    task = MiniGridMemory()
    check_task(task)
    state, _ = begin(task, jax.random.key(1))
    picture = task.draw(jax.tree.map(np.asarray, state))
    assert picture.dtype == np.uint8
    moved = task.draw(jax.tree.map(lambda x: np.asarray(x[0]), run(task, state, jnp.array([RIGHT], jnp.int32))[0]))
    assert (picture != moved).any()


@pytest.mark.parametrize(("size", "said"), [(5, "size must be from 7 to 63"), (8, "size must be odd, got 8")])
def test_what_cannot_be_is_refused_in_a_line(size, said):
    with pytest.raises(TaskError, match=said) as told:
        MiniGridMemory(size=size)
    assert "\n" not in str(told.value)
