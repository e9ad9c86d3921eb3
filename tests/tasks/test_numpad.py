"""Numpad case by case: what presses a pad and what does not, and what holds under any actions.

N pads on a side, T steps.
"""

import dataclasses
import functools

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gtrxl.tasks.errors import TaskError
from gtrxl.tasks.numpad.numpad import CONTROL_STEP, PAD_RADIUS, PAD_SPACING, Numpad, drive_to
from gtrxl.tasks.numpad.sphere import JUMP, TOP_SPEED, at_rest, moving

TASK = Numpad(size=2, episode_steps=500)
WIDE = Numpad(size=3, sequence=3)
"""Its middle row is pads 3, 4 and 5."""
NOTHING = (0.0, 0.0, -1.0)
JUMPS = (0.0, 0.0, 1.0)
RIGHT = (1.0, 0.0, -1.0)
LEFT = (-1.0, 0.0, -1.0)

_reset = jax.jit(Numpad.reset, static_argnums=0)
_step = jax.jit(Numpad.step, static_argnums=0)


@functools.partial(jax.jit, static_argnums=0)
def _episode(task, key, actions):
    """Observations [T + 1, O], states and steps [T] under given actions."""
    first, observation = task.reset(key)

    def one(state, action):
        state, step = task.step(state, action)
        return state, (state, step)

    _, (states, steps) = jax.lax.scan(one, first, actions)
    return jnp.concatenate([observation[None], steps.observation]), states, steps


def _with_order(task, *pads):
    """A state at rest in the platform's middle whose hidden sequence begins with these pads."""
    state, _ = _reset(task, jax.random.key(0))
    order = np.full(task.size**2, -1, np.int8)
    order[list(pads)] = np.arange(len(pads))
    return dataclasses.replace(
        state,
        pads=dataclasses.replace(state.pads, order=jnp.asarray(order)),
        sphere=at_rest(jnp.zeros(2)),
        held=jnp.array(task.size == 3),
    )


def _at(task, state, place, velocity=(0, 0, 0), height=0.0):
    """The same state with the sphere elsewhere; rolling without slipping if it moves. It holds no pad."""
    position, velocity = jnp.array([*place, height], jnp.float32), jnp.array(velocity, jnp.float32)
    return dataclasses.replace(
        state, sphere=moving(position=position, velocity=velocity, roll=velocity[:2]), held=jnp.zeros((), bool)
    )


def _run(task, state, *actions):
    """Rewards and lights [P] after each action."""
    rewards, lights = [], []
    for action in actions:
        state, step = _step(task, state, jnp.array(action, jnp.float32))
        rewards.append(float(step.reward))
        lights.append(np.asarray(state.pads.lights()))
    return state, rewards, lights


def _centre(task, pad):
    return tuple(float(x) for x in task.pad_centres[pad])


# --- What presses a pad ---


def test_rolling_into_the_disc_presses_once_and_staying_does_not_press_again():
    state = _with_order(TASK, 0, 1, 2, 3)
    x, y = _centre(TASK, 0)
    state = _at(TASK, state, (x + PAD_RADIUS + 0.02, y), velocity=(-1, 0, 0))
    state, rewards, lights = _run(TASK, state, *[NOTHING] * 2, RIGHT, *[NOTHING] * 17)
    assert rewards == [1.0] + [0.0] * 19
    assert bool(state.held)
    np.testing.assert_array_equal(lights, np.tile([[1, 0, 0, 0]], (20, 1)))


def test_it_counts_within_the_pads_radius_of_the_centre():
    state = _with_order(TASK, 0, 1, 2, 3)
    x, y = _centre(TASK, 0)
    for gap, pays in ((-0.001, 1.0), (0.001, 0.0)):
        beside = _at(TASK, state, (x + (PAD_RADIUS + gap) * np.sqrt(0.5), y + (PAD_RADIUS + gap) * np.sqrt(0.5)))
        _, rewards, _ = _run(TASK, beside, NOTHING)
        assert rewards == [pays]


def test_landing_in_the_disc_presses():
    state = _at(TASK, _with_order(TASK, 0, 1, 2, 3), _centre(TASK, 0), height=0.1)
    _, rewards, _ = _run(TASK, state, *[NOTHING] * 5)
    assert sum(rewards) == 1
    assert rewards[0] == 0  # still in the air


def test_a_jump_on_the_spot_presses_again_and_so_clears():
    state = _at(TASK, _with_order(TASK, 0, 1, 2, 3), _centre(TASK, 0))
    state, rewards, lights = _run(TASK, state, NOTHING, JUMPS, *[NOTHING] * 10)
    assert sum(rewards) == 1
    assert lights[5][0] == 1  # in the air
    assert lights[-1].sum() == 0


def test_leaving_and_coming_back_presses_again():
    x, y = _centre(TASK, 0)
    state = _at(TASK, _with_order(TASK, 0, 1, 2, 3), (x, y))
    state, _, lights = _run(TASK, state, *[RIGHT] * 4, *[LEFT] * 7)
    assert lights[3][0] == 1
    assert lights[-1].sum() == 0


def test_a_jump_clears_the_pad_in_the_middle_and_a_roll_does_not():
    """On 3 x 3 from the left of pad 4 to its right."""
    state = _with_order(WIDE, 3, 5, 4)
    start = _at(WIDE, state, (-PAD_SPACING / 2, 0), velocity=(1.5, 0, 0))
    lit = dataclasses.replace(start, pads=dataclasses.replace(start.pads, lit=jnp.int32(1), paid=jnp.int32(1)))

    over, rewards, lights = _run(WIDE, lit, (0.6, 0.0, 1.0), *[(0.6, 0.0, -1.0)] * 9)
    assert over.sphere.x > PAD_SPACING - PAD_RADIUS
    assert lights[6][3] == 1
    assert sum(rewards) == 1  # landed on pad 5, the next

    _, rewards, lights = _run(WIDE, lit, *[(0.6, 0.0, -1.0)] * 10)
    assert sum(rewards) == 0
    assert lights[-1].sum() == 0


def test_a_pad_under_the_start_is_not_pressed():
    starts = (_reset(TASK, jax.random.key(seed))[0] for seed in range(200))
    pad = np.array(_centre(TASK, 0))
    state = next(state for state in starts if np.linalg.norm(state.sphere.position[:2] - pad) < PAD_RADIUS)
    _, rewards, lights = _run(TASK, state, *[NOTHING] * 3)
    assert sum(rewards) == 0
    assert np.sum(lights) == 0


# --- The rules of the sequence, with the sphere put on one pad after the other ---


def _visit(task, state, pads):
    rewards = []
    for pad in pads:
        state, paid, _ = _run(task, _at(task, state, _centre(task, pad)), NOTHING)
        rewards += paid
    return state, rewards


def test_the_next_pad_pays_a_wrong_one_clears_and_a_number_pays_once_in_a_pass():
    state = _with_order(TASK, 2, 0, 1, 3)
    state, rewards = _visit(TASK, state, [2, 0, 3, 2, 0, 1])
    assert rewards == [1, 1, 0, 0, 0, 1]
    np.testing.assert_array_equal(state.pads.lights(), [1, 1, 1, 0])


def test_completion_puts_out_the_lights_and_pays_again():
    state, rewards = _visit(TASK, _with_order(TASK, 2, 0, 1, 3), [2, 0, 1, 3, 2, 0, 1, 3, 2])
    assert rewards == [1] * 9
    np.testing.assert_array_equal(state.pads.lights(), [0, 0, 1, 0])


# --- Under any actions ---

ACTIONS = np.random.default_rng(0).uniform(-1, 1, (500, 3)).astype(np.float32)


def test_the_observation_says_what_happened():
    observations, states, steps = _episode(TASK, jax.random.key(3), jnp.asarray(ACTIONS))
    observations = np.asarray(observations)
    velocity = np.asarray(jax.vmap(lambda s: s.sphere.velocity)(states))
    position = np.asarray(jax.vmap(lambda s: s.sphere.position)(states))
    np.testing.assert_allclose(observations[1:, :2] * TASK.half_width, position[:, :2], atol=1e-6)
    np.testing.assert_allclose(observations[1:, 3:6] * [TOP_SPEED, TOP_SPEED, JUMP], velocity, atol=1e-5)
    changes = np.diff(velocity, axis=0, prepend=np.zeros((1, 3))) / JUMP
    np.testing.assert_allclose(observations[1:, 6:9], changes, atol=1e-5)
    np.testing.assert_array_equal(observations[1:, 11:15], jax.vmap(lambda s: s.pads.lights())(states))
    np.testing.assert_array_equal(observations[1:, 15:18], ACTIONS)
    np.testing.assert_array_equal(observations[1:, 18], steps.reward)
    assert observations[:, 11:15].max() == 1
    assert (observations[0, [2, 3, 4, 5, 6, 7, 8, 9, 10, 15, 16, 17, 18]] == 0).all()


def test_it_ends_by_the_clock_and_only_then():
    _, _, steps = _episode(TASK, jax.random.key(3), jnp.asarray(ACTIONS))
    np.testing.assert_array_equal(steps.truncated, np.arange(1, 501) >= 500)
    assert not np.any(steps.terminated)


def test_key_and_actions_determine_the_episode():
    once, again = (_episode(TASK, jax.random.key(3), jnp.asarray(ACTIONS))[0] for _ in range(2))
    other = _episode(TASK, jax.random.key(4), jnp.asarray(ACTIONS))[0]
    np.testing.assert_array_equal(once, again)
    assert not np.array_equal(once, other)


@settings(max_examples=12)
@given(st.integers(0, 2**31 - 1), st.sampled_from([0.3, 1.0, 40.0]))
def test_observations_stay_in_their_bounds_and_are_finite(seed, scale):
    actions = np.random.default_rng(seed).normal(0, scale, (25, 1, 3)).astype(np.float32)
    actions = np.broadcast_to(actions, (25, 20, 3)).reshape(500, 3)  # long pushes reach top speed and rim
    observations, states, _ = _episode(TASK, jax.random.key(seed), jnp.asarray(actions))
    observations = np.asarray(observations)
    space = TASK.observation_space
    assert np.isfinite(observations).all()
    assert (space.low <= observations).all()
    assert (observations <= space.high).all()
    assert np.abs(np.stack([states.sphere.x, states.sphere.y])).max() <= np.float32(TASK.reach)


def test_actions_are_clipped_and_bad_numbers_do_nothing():
    wild = ACTIONS * 1000
    wild[7], wild[8], wild[9] = np.inf, -np.inf, np.nan
    tame = np.clip(np.nan_to_num(wild), -1, 1)
    once, again = (_episode(TASK, jax.random.key(3), jnp.asarray(actions))[0] for actions in (wild, tame))
    np.testing.assert_array_equal(once, again)
    assert np.isfinite(once).all()


def test_many_at_once_are_each_alone():
    keys = jax.random.split(jax.random.key(5), 4)
    actions = jnp.asarray(ACTIONS).reshape(4, 125, 3)
    many = jax.vmap(functools.partial(_episode, TASK))(keys, actions)[0]
    alone = np.stack([_episode(TASK, key, jnp.tile(each, (4, 1)))[0][:126] for key, each in zip(keys, actions, strict=True)])
    np.testing.assert_allclose(many, alone, atol=2e-4)


def test_the_start_is_anywhere_and_the_sequence_any():
    states, _ = jax.jit(jax.vmap(functools.partial(Numpad.reset, TASK)))(jax.random.split(jax.random.key(0), 2000))
    x = np.asarray(states.sphere.x)
    assert x.min() < -0.95 * TASK.reach
    assert x.max() > 0.95 * TASK.reach
    assert len(np.unique(np.asarray(states.pads.order), axis=0)) == 24  # every order of 2 x 2 is a king's path


# --- Driving ---


@functools.partial(jax.jit, static_argnums=0)
def _drive(task, key, targets):
    """Pads pressed [T], or -1, on the way to one target after the other."""
    start, _ = task.reset(key)
    centres = jnp.asarray(task.pad_centres)

    def one(carry, _):
        state, done = carry
        before = state.held
        state, _ = task.step(state, drive_to(task, state, centres[targets[done]]))
        near = jnp.argmin(jnp.sum((centres - state.sphere.position[None, :2]) ** 2, axis=1))
        pressed = jnp.where(state.held & ~before, near, -1)
        return (state, done + (pressed == targets[done])), pressed

    return jax.lax.scan(one, (start, jnp.int32(0)), None, length=task.episode_steps)[1]


@pytest.mark.parametrize(("size", "least"), [(2, 45), (3, 30), (4, 22)])
def test_the_driver_presses_the_pads_it_is_told_and_hardly_another(size, least):
    task = Numpad(size=size, sequence=2)
    keys = jax.random.split(jax.random.key(1), 16)
    targets = jax.random.randint(jax.random.key(2), (16, 100), 0, size**2)
    pressed = np.asarray(jax.vmap(functools.partial(_drive, task))(keys, targets))
    wrong = 0
    for presses, wanted in zip(pressed, np.asarray(targets), strict=True):
        presses, done = presses[presses >= 0], 0
        for pad in presses:
            right = pad == wanted[done]
            done, wrong = done + right, wrong + (not right)
        assert done >= least
    assert wrong <= 2


# --- Sizes and spaces ---


def test_pads_lie_on_the_platform_and_apart():
    for size in (2, 3, 4):
        task = Numpad(size=size, sequence=1)
        centres = task.pad_centres
        assert np.abs(centres).max() + PAD_RADIUS < task.half_width
        assert np.abs(centres).max() < task.reach
        apart = np.linalg.norm(centres[:, None] - centres, axis=-1) + 9 * np.eye(size**2)
        # One step of the task presses one pad at most.
        assert apart.min() - 2 * PAD_RADIUS > np.sqrt(2) * TOP_SPEED * CONTROL_STEP


def test_spaces():
    for size in (2, 3, 4):
        task = Numpad(size=size, sequence=2)
        _, observation = _reset(task, jax.random.key(0))
        assert task.observation_space.shape == observation.shape == (15 + size**2,)
        assert task.observation_space.contains(np.asarray(observation))
        assert task.action_space == gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"size": 5}, "size must be from 2 to 4, got 5"),
        ({"sequence": 5}, "sequence must be from 1 to 4, got 5"),
        ({"episode_steps": 0}, "episode_steps must be at least 1, got 0"),
    ],
)
def test_what_it_cannot_be_is_said(arguments, said):
    with pytest.raises(TaskError, match=said):
        Numpad(**arguments)
