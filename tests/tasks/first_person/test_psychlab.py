"""Visuomotor mapping: the cross, the image, four buttons, rounds that grow, and a screen that shows what the gaze is on."""

import dataclasses

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.tasks.errors import TaskError
from gtrxl.tasks.first_person.actions import LAB_ACTIONS, MAPPING_ACTIONS
from gtrxl.tasks.first_person.level import LevelState
from gtrxl.tasks.first_person.levels.psychlab.screen import FARTHEST, Pixels, angles_of, gaze_of
from gtrxl.tasks.first_person.levels.psychlab.visuomotor import (
    ANSWER,
    BUTTONS,
    CHOICE,
    CROSS,
    POOL,
    REVEAL,
    VisuomotorMapping,
    images,
)
from tests.tasks.first_person.playing import one_step, played, same_alone_and_in_a_batch, start

NAMES = list(MAPPING_ACTIONS)
STILL = jnp.int32(NAMES.index("nothing"))
STEPS = 130
TASK = VisuomotorMapping(images=3, trials=8, height=24, width=32)
DARK, GREEN, RED, DULL_GREEN, DULL_RED = (60, 60, 90), (70, 235, 70), (235, 70, 70), (80, 170, 80), (170, 80, 80)


def gazing(state: LevelState, where) -> LevelState:
    x, y = np.deg2rad(angles_of(jnp.asarray(where, jnp.float32)))
    return eqx.tree_at(lambda of: (of.world.body.heading, of.world.body.pitch), state, (jnp.float32(x), jnp.float32(y)))


def after_fixation(key: int = 0) -> LevelState:
    state = start(TASK, jax.random.key(key))
    assert int(state.world.own.phase) == CROSS
    return one_step(TASK, gazing(state, (0, 0)), STILL)[0]


def answered(state: LevelState, *, right: bool) -> tuple[LevelState, float]:
    """One whole trial from the cross on."""
    state, _ = one_step(TASK, gazing(state, (0, 0)), STILL)
    own = state.world.own
    button = (int(own.right[own.current]) + (0 if right else 1)) % 4
    state, reward = one_step(TASK, gazing(state, BUTTONS[button]), STILL)
    for _ in range(REVEAL):
        state, nothing = one_step(TASK, state, STILL)
        assert float(nothing) == 0
    return state, float(reward)


look = jax.jit(lambda world: TASK.picture(world, height=72, width=96))


def colour_of_button(state: LevelState, number: int) -> tuple[int, ...]:
    """A pixel of a button beside the mark of the gaze, seen while looking straight at it."""
    picture = np.asarray(look(gazing(state, BUTTONS[number]).world))
    return tuple(picture[36 - 2, 48 - 2].tolist())


def test_the_image_appears_once_the_cross_was_looked_at():
    state = start(TASK, jax.random.key(0))
    for _ in range(3):
        state, _ = one_step(TASK, gazing(state, (15, 0)), STILL)
    assert int(state.world.own.phase) == CROSS
    assert int(after_fixation().world.own.phase) == CHOICE


@pytest.mark.parametrize("right", [True, False])
def test_the_right_button_pays_one_a_wrong_one_nothing_and_both_end_the_trial(right):
    state, reward = answered(start(TASK, jax.random.key(0)), right=right)
    assert reward == float(right)
    assert int(state.world.own.phase) == CROSS
    assert int(state.world.own.done) == 1


def test_looking_at_nothing_answers_nothing():
    state = after_fixation()
    for where in ((10, 0), (15, 15), (0, -12)):
        state, reward = one_step(TASK, gazing(state, where), STILL)
        assert float(reward) == 0
        assert int(state.world.own.phase) == CHOICE


def test_a_new_image_is_told_by_green_and_red_later_ones_are_dark_and_answers_are_shown():
    state = after_fixation()
    own = state.world.own
    right = int(own.right[own.current])
    for number in range(4):
        assert colour_of_button(state, number) == (DULL_GREEN if number == right else DULL_RED)
        met = eqx.tree_at(lambda of: of.world.own.met, state, jnp.ones(TASK.images, bool))
        assert colour_of_button(met, number) == DARK
    after, _ = one_step(TASK, gazing(state, BUTTONS[(right + 1) % 4]), STILL)
    assert int(after.world.own.phase) == ANSWER
    for number in range(4):
        assert colour_of_button(after, number) == (GREEN if number == right else RED)


def test_a_dark_choice_looks_the_same_whatever_is_right():
    state = eqx.tree_at(lambda of: of.world.own.met, after_fixation(), jnp.ones(TASK.images, bool))
    others = [eqx.tree_at(lambda of: of.world.own.right, state, jnp.full(3, button, jnp.int32)) for button in range(4)]
    pictures = [np.asarray(look(other.world)) for other in others]
    assert all((picture == pictures[0]).all() for picture in pictures)


def test_rounds_grow_after_no_mistake_and_stay_after_one():
    state = start(TASK, jax.random.key(0))
    sizes = []
    for right in (True, True, True, True, False, True):
        state, _ = answered(state, right=right)
        sizes.append(int(state.world.own.size))
    assert sizes == [2, 2, 3, 3, 3, 3]
    assert bool(state.world.own.met.all())
    assert sorted(state.world.own.order.tolist()) == [0, 1, 2]
    assert int(state.world.own.place) == 0, "a round with a mistake is over too"
    assert bool(state.world.own.perfect)


def test_the_episode_ends_after_its_trials():
    state = eqx.tree_at(lambda of: of.world.own.done, start(TASK, jax.random.key(0)), jnp.int32(TASK.trials - 1))
    before, _ = answered(state, right=True)
    assert int(before.world.own.done) == TASK.trials
    step = jax.jit(TASK.advance)
    assert bool(step(before, STILL)[2])
    fresh = start(TASK, jax.random.key(0))
    assert not bool(step(fresh, STILL)[2])


def test_the_gaze_moves_and_stops_at_the_end_of_the_screen():
    state = gazing(start(TASK, jax.random.key(0)), (0, 0))
    for name, axis, sign in (("small look right", 0, 1), ("small look left", 0, -1), ("look up", 1, 1), ("look down", 1, -1)):
        moved, _ = one_step(TASK, state, jnp.int32(NAMES.index(name)))
        gaze = np.rad2deg([float(moved.world.body.heading), float(moved.world.body.pitch)])
        assert gaze[axis] == pytest.approx(4.224 * sign, abs=1e-3)
        assert gaze[1 - axis] == 0
    far, _ = one_step(TASK, gazing(state, (33, 0)), jnp.int32(NAMES.index("small look right")))
    assert np.rad2deg(float(far.world.body.heading)) == pytest.approx(FARTHEST, abs=1e-3)


def test_images_are_told_apart_by_their_colours():
    found = images()
    assert (
        len(
            {
                frozenset([(tuple(each), int((picture == each).all(-1).sum())) for each in picture.reshape(-1, 3)])
                for picture in found
            }
        )
        > 1
    )
    flat = found.reshape(POOL, -1)
    apart = (flat[:, None] != flat[None]).sum(-1)
    assert (apart + 1000 * np.eye(POOL) >= 12).all()


def test_the_player_knows_every_answer():
    rewards = played(TASK, STEPS).rewards
    assert (rewards.sum(1) >= TASK.trials).all(), "eight trials in 130 steps"


def test_the_usual_fifteen_actions_work_too():
    lab = dataclasses.replace(TASK, reduced=0)
    assert lab.action_space == gymnasium.spaces.Discrete(len(LAB_ACTIONS))
    assert TASK.action_space == gymnasium.spaces.Discrete(len(MAPPING_ACTIONS))
    assert lab.reset(jax.random.key(0))[1]["vector"].shape == (16,)
    forward, left = (lab.command(jnp.int32(list(LAB_ACTIONS).index(name))) for name in ("forward", "small look left"))
    world = start(TASK, jax.random.key(0)).world
    assert float(lab.move(world, forward).heading) == float(world.body.heading)
    assert float(lab.move(world, left).heading) < float(world.body.heading)


def test_a_pixel_shows_the_place_where_its_ray_meets_the_screen():
    """By matrices of rotation, in NumPy."""
    random = np.random.default_rng(0)
    state = start(TASK, jax.random.key(0))
    for heading, pitch in random.uniform(-0.5, 0.5, (8, 2)).astype(np.float32):
        body = eqx.tree_at(lambda of: (of.heading, of.pitch), state.world.body, (jnp.float32(heading), jnp.float32(pitch)))
        pixels = Pixels.seen(body, field=96.0, height=24, width=32)
        up = np.array([[1, 0, 0], [0, np.cos(pitch), np.sin(pitch)], [0, -np.sin(pitch), np.cos(pitch)]])
        aside = np.array([[np.cos(heading), 0, np.sin(heading)], [0, 1, 0], [-np.sin(heading), 0, np.cos(heading)]])
        for row, column in random.integers(0, 24, (10, 2)):
            ray = aside @ up @ np.array([(column + 0.5 - 16) * 3, (12 - row - 0.5) * 3, 180 / np.pi])
            met = ray / ray[2] * 180 / np.pi
            np.testing.assert_allclose([pixels.x[row, column], pixels.y[row, column]], met[:2], rtol=1e-3, atol=1e-2)
        gaze = np.asarray(gaze_of(body))
        middle = np.array([np.mean(each[11:13, 15:17]) for each in (pixels.x, pixels.y)])
        np.testing.assert_allclose(gaze, middle, atol=0.3)
        np.testing.assert_allclose(angles_of(jnp.asarray(gaze)), np.rad2deg([heading, pitch]), atol=1e-3)


@pytest.mark.parametrize(("height", "width"), [(24, 32), (25, 33), (36, 48), (72, 96)])
def test_where_one_looks_is_marked_at_every_size(height, width):
    picture = np.asarray(TASK.picture(start(TASK, jax.random.key(0)).world, height=height, width=width))
    rows, columns = (slice((side - 1) // 2, side // 2 + 1) for side in (height, width))
    assert (picture[rows, columns] == TASK.mark).all()


def test_an_episode_is_the_same_alone_and_in_a_batch():
    same_alone_and_in_a_batch(TASK, played(TASK, STEPS), steps=STEPS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"images": 0}, "images must be from 1 to 64, got 0"),
        ({"reduced": 2}, "reduced must be from 0 to 1, got 2"),
        ({"trials": 0}, "trials must be"),
    ],
)
def test_bad_settings_are_refused_in_one_line(arguments, message):
    with pytest.raises(TaskError, match=message) as caught:
        VisuomotorMapping(**arguments)
    assert "; " in str(caught.value)
