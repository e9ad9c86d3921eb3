"""Pictures of first-person tasks: what people are shown is what the agent sees; the world from above is a secret."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.tasks import frame
from gtrxl.tasks.drawing.contact_sheet import _telling
from gtrxl.tasks.drawing.plan import read
from gtrxl.tasks.episodes import Episode
from gtrxl.tasks.first_person import level
from gtrxl.tasks.first_person.level import WORDS
from gtrxl.tasks.first_person.levels.rooms.watermaze import Watermaze
from gtrxl.tasks.words import BUCKETS, VOCABULARY, buckets_of

TASK = Watermaze(height=16, width=24)


@pytest.fixture(scope="module")
def begun():
    """A state, and what the agent sees of it."""
    return jax.jit(TASK.reset)(jax.random.key(0))


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(level, "VIEW", (16, 24))


def test_people_see_what_the_agent_sees(begun):
    state, observation = begun
    np.testing.assert_array_equal(frame(TASK, state), observation["image"])
    np.testing.assert_array_equal(TASK.view(state, height=16, width=24), observation["image"])


def test_the_secret_is_the_world_from_above(begun):
    state, _ = begun
    open_, secret = frame(TASK, state), frame(TASK, state, secret=True)
    assert secret.shape == (16, 24 + 16, 3)
    np.testing.assert_array_equal(secret[:, :24], open_)
    captioned = frame(TASK, state, caption="step 3", secret=True)
    np.testing.assert_array_equal(captioned[:16], secret)
    assert len(captioned) > 16


def test_the_hidden_platform_the_body_and_its_way_show_from_above_alone(begun):
    state, _ = begun
    before = TASK.plan(state, side=64)
    objects = state.world.scene.objects
    hidden = np.flatnonzero(~np.asarray(objects.there))
    assert len(hidden) == 1, "the platform"
    middle = jnp.array([6.5, 6.5])
    other = eqx.tree_at(lambda s: s.world.scene.objects.place, state, objects.place.at[hidden[0]].set(middle))
    assert (TASK.plan(other, side=64) != before).any()
    np.testing.assert_array_equal(frame(TASK, other), frame(TASK, state))
    turned = eqx.tree_at(lambda s: s.world.body.heading, state, state.world.body.heading + 2)
    assert (TASK.plan(turned, side=64) != before).any()
    walked = np.array([[3.5, 6.5], [4.0, 6.5], [4.5, 6.5]])
    assert (TASK.plan(state, side=64, path=walked) != before).any()
    put = walked * np.array([[1, 1], [2, 1], [1, 1]])  # no two places belong together: nobody walked
    np.testing.assert_array_equal(TASK.plan(state, side=64, path=put), before)


def test_instructions_are_read_back():
    text = "pick up the red cake"
    assert read(buckets_of(text, words=WORDS)) == text
    assert read(buckets_of("", words=WORDS)) == ""
    known = {int(buckets_of(word, words=1)[0]) for word in VOCABULARY}
    unknown = next(number for number in range(BUCKETS) if number not in known)
    assert read(np.array([unknown, *buckets_of("hat", words=1)])) == "… hat"


def test_an_instruction_is_under_the_picture(begun):
    state, _ = begun
    assert TASK.instruction(state) == ""
    told = eqx.tree_at(lambda s: s.world.instruction, state, jnp.asarray(buckets_of("cake", words=WORDS)))
    assert TASK.instruction(told) == "cake"
    assert (frame(TASK, told, caption="step 3") != frame(TASK, state, caption="step 3")).any()


@pytest.mark.parametrize("paid", [[], [5], [50, 51, 52], list(range(0, 300, 40))])
def test_a_strip_shows_moments_of_the_whole_episode_in_their_order(paid):
    rewards = [1.0 if t in paid else 0.0 for t in range(300)]
    chosen = _telling(Episode([None] * 301, [None] * 300, rewards))
    assert chosen[0] == 0
    assert chosen == sorted(set(chosen))
    assert len(chosen) == 5
    assert 200 < chosen[-1] <= 300
