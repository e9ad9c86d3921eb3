"""Pixel control: rewards and targets against a slow version, nothing across the end of an episode. B streams, T steps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.algorithms import LearnerError, pixel_control

B, T, H, W, A, CELL = 3, 7, 8, 12, 4, 4
rewards = jax.jit(pixel_control.rewards)
errors = jax.jit(pixel_control.errors, static_argnames=("cell", "discount"))


def a_batch(seed=0):
    """Pictures, action values, actions; one stream ends by the clock, one for good, one not at all."""
    random = np.random.default_rng(seed)
    images = random.integers(0, 256, (B, T + 1, H, W, 3), np.uint8)
    q = random.standard_normal((B, T + 1, H // CELL, W // CELL, A)).astype(np.float32)
    action = random.integers(0, A, (B, T)).astype(np.int32)
    valid, terminated = np.ones((B, T), bool), np.zeros((B, T), bool)
    valid[0, 3] = False  # cut by the clock after step 2: step 3 is the last observation
    valid[1, 5], terminated[1, 4] = False, True
    return images, q, action, terminated, valid


def slow_reward(before, after):
    found = np.zeros((H // CELL, W // CELL))
    for row in range(H // CELL):
        for column in range(W // CELL):
            part = np.s_[row * CELL : (row + 1) * CELL, column * CELL : (column + 1) * CELL]
            found[row, column] = np.mean(np.abs(before[part] / 255 - after[part] / 255))
    return found


def slow_errors(images, q, action, terminated, valid, discount=0.9):
    """By the definition, step by step from the end."""
    found = np.zeros((B, T))
    for b in range(B):
        following = q[b, T].max(axis=-1)
        for t in reversed(range(T)):
            if not valid[b, t]:
                following = q[b, t].max(axis=-1)
                continue
            target = slow_reward(images[b, t], images[b, t + 1]) + discount * (not terminated[b, t]) * following
            found[b, t] = 0.5 * np.sum((q[b, t, :, :, action[b, t]] - target) ** 2)
            following = target
    return found


def test_errors_are_those_of_the_slow_version():
    images, q, action, terminated, valid = a_batch()
    ours = errors(q=q, action=action, images=images, terminated=terminated, valid=valid)
    np.testing.assert_allclose(ours, slow_errors(images, q, action, terminated, valid), rtol=1e-4)


def test_rewards_are_between_no_change_and_black_to_white():
    black, white = (np.full((2, H, W, 3), shade, np.uint8) for shade in (0, 255))
    np.testing.assert_array_equal(rewards(black, black), 0)
    np.testing.assert_array_equal(rewards(black, white), 1)
    np.testing.assert_array_equal(rewards(white, black), 1)
    one = black.copy()
    one[:, 5, 6, 1] = 51  # a fifth, in one colour of one pixel of cell (1, 1)
    expected = np.zeros((2, H // CELL, W // CELL))
    expected[:, 1, 1] = 0.2 / (CELL * CELL * 3)
    np.testing.assert_allclose(rewards(black, one), expected, rtol=1e-6)


@pytest.mark.parametrize(("stream", "last"), [(0, 3), (1, 5)])
def test_nothing_crosses_the_end_of_an_episode(stream, last):
    """What comes after an episode's last observation changes no error before it; and the jump to it is no reward."""
    images, q, action, terminated, valid = a_batch()
    told = {"action": action, "terminated": terminated, "valid": valid}
    before = errors(q=q, images=images, **told)
    images[stream, last + 1 :], q[stream, last + 1 :] = 0, 100.0
    after = errors(q=q, images=images, **told)
    np.testing.assert_array_equal(after[stream, : last + 1], before[stream, : last + 1])
    assert before[stream, last] == 0
    assert not np.allclose(after[stream, last + 1 :], before[stream, last + 1 :])


def test_the_last_observation_of_an_episode_cut_by_the_clock_goes_on_and_of_one_that_ended_does_not():
    images, q, action, terminated, valid = a_batch()
    told = {"action": action, "images": images, "terminated": terminated, "valid": valid}
    before, more = errors(q=q, **told), q.copy()
    more[0, 3] += 1.0
    more[1, 5] += 1.0
    after = errors(q=more, **told)
    assert np.all(np.abs(after - before)[0, :3] > 1e-3)
    np.testing.assert_array_equal(after[1], before[1])


def test_only_the_value_of_the_action_taken_is_learned():
    images, q, action, terminated, valid = a_batch()
    told = {"action": action, "images": images, "terminated": terminated, "valid": valid}
    slope = np.asarray(jax.grad(lambda q: jnp.sum(errors(q=q, **told)))(q))
    assert not slope[:, -1].any(), "targets have no gradient"
    taken = np.take_along_axis(slope[:, :-1], action[:, :, None, None, None], axis=-1)
    assert np.all((taken != 0) == valid[:, :, None, None, None])
    np.testing.assert_allclose(np.abs(slope).sum(), np.abs(taken).sum(), rtol=1e-6)


def test_pictures_are_whole_cells():
    with pytest.raises(LearnerError, match="a picture must be whole cells of 4 x 4 pixels, got 6 x 8; change its size"):
        rewards(np.zeros((6, 8, 3), np.uint8), np.zeros((6, 8, 3), np.uint8))
