"""Pictures: every task can be drawn, what changes is seen, what is secret is not, and a GIF plays what it was given."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image, ImageSequence

from gtrxl.tasks import GridNumpad, Numpad, Recall, TaskError, TMaze, episode_gif, frame
from gtrxl.tasks.drawing.pictures import episode_frames
from gtrxl.tasks.episodes import Episode
from tests.tasks.stepping import begin

each_task = pytest.mark.parametrize(
    "task",
    [GridNumpad(size=4), Numpad(size=3), TMaze(corridor=300), Recall(items=9, kinds=11, ask=1)],
    ids=lambda task: type(task).__name__,
)


@each_task
def test_every_task_can_be_drawn(task):
    state, _ = begin(task, jax.random.key(0))
    picture = frame(task, state)
    assert picture.dtype == np.uint8
    assert 240 <= picture.shape[0] <= 320
    assert 240 <= picture.shape[1] <= 320
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 20
    np.testing.assert_array_equal(picture, frame(task, state))
    captioned = frame(task, state, caption="step 1")
    assert captioned.shape[0] > picture.shape[0]
    np.testing.assert_array_equal(captioned[: len(picture)], picture)


def test_where_the_agent_is_shows():
    task = GridNumpad()
    state, _ = begin(task, jax.random.key(0))
    moved = eqx.tree_at(lambda s: s.row, state, 1 - state.row)
    assert (frame(task, state) != frame(task, moved)).any()


def test_lit_pads_show_and_the_rest_of_the_sequence_only_as_a_secret():
    task = GridNumpad()
    state, _ = begin(task, jax.random.key(0))
    lit = eqx.tree_at(lambda s: s.pads.lit, state, jnp.int32(2))
    assert (frame(task, state) != frame(task, lit)).any()
    other = eqx.tree_at(lambda s: s.pads.order, state, state.pads.order[::-1])
    np.testing.assert_array_equal(frame(task, state), frame(task, other))
    assert (frame(task, state, secret=True) != frame(task, other, secret=True)).any()


def test_a_jump_lifts_the_sphere_off_its_shadow():
    task = Numpad()
    state, _ = begin(task, jax.random.key(0))
    up = eqx.tree_at(lambda s: s.sphere.height, state, jnp.float32(0.2))
    assert (frame(task, state) != frame(task, up)).any()


def test_the_sign_shows_at_the_start_alone():
    task = TMaze(corridor=10)
    state, _ = begin(task, jax.random.key(0))
    other = eqx.tree_at(lambda s: s.side, state, 3 - state.side)
    assert (frame(task, state) != frame(task, other)).any()
    later, other_later = (eqx.tree_at(lambda s: s.place, each, jnp.int32(4)) for each in (state, other))
    np.testing.assert_array_equal(frame(task, later), frame(task, other_later))


def test_cards_that_are_not_shown_do_not_show():
    task = Recall()
    state, _ = begin(task, jax.random.key(0))
    later = eqx.tree_at(lambda s: s.elapsed, state, jnp.int32(10))
    other = eqx.tree_at(lambda s: s.cards, later, (later.cards + 1) % 4)
    np.testing.assert_array_equal(frame(task, later), frame(task, other))
    assert (frame(task, later, secret=True) != frame(task, other, secret=True)).any()


def test_a_gif_plays_its_frames(tmp_path):
    task = TMaze(corridor=4)
    state, _ = begin(task, jax.random.key(0))
    states = [eqx.tree_at(lambda s: s.place, state, jnp.int32(place)) for place in range(4)]
    frames = episode_frames(task, Episode(states, [np.array(0)] * 3, [0.0] * 3))
    episode_gif(frames, tmp_path / "walk.gif", fps=5)
    with Image.open(tmp_path / "walk.gif") as gif:
        assert len(list(ImageSequence.Iterator(gif))) == 4
        for i, original in enumerate(frames):
            gif.seek(i)
            assert gif.info["duration"] == (200 if i < 3 else 1000)
            shown = np.asarray(gif.convert("RGB"), float)
            assert abs(shown - original).mean() < 3, "a palette of few colours comes close"
    assert (tmp_path / "walk.gif").stat().st_size < 40_000


def test_nothing_to_draw_is_said(tmp_path):
    with pytest.raises(TaskError, match="at least one frame, got none"):
        episode_gif([], tmp_path / "empty.gif")
