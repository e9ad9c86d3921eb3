"""Suites of rooms: what the plans promise, and how objects are dealt out to their places."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.tasks.first_person.level import WORDS
from gtrxl.tasks.first_person.parts.naming import HUES, THINGS, hue, sentence, thing
from gtrxl.tasks.first_person.parts.suites import FOUR, HALL, MOST_ROOMS, PAIR, ROOMS, SIX, SUITES, deal, layout
from gtrxl.tasks.first_person.rooms import paint
from gtrxl.tasks.first_person.scene import FREE, carpet
from gtrxl.tasks.words import buckets_of


@pytest.mark.parametrize("plan", [HALL, PAIR, FOUR, SIX])
def test_rooms_are_three_by_three_joined_and_hold_their_places(plan):
    free, room = SUITES.free[plan], SUITES.room[plan]
    assert [int((room == number).sum()) for number in range(ROOMS[plan])] == [9] * ROOMS[plan]
    assert free[room >= 0].all()
    assert not free[[0, -1]].any()
    assert not free[:, [0, -1]].any()
    reached = np.zeros_like(free)
    reached[tuple(SUITES.starts[plan, 0])] = True
    for _ in range(free.size):
        reached[1:-1, 1:-1] |= reached[2:, 1:-1] | reached[:-2, 1:-1] | reached[1:-1, 2:] | reached[1:-1, :-2]
        reached &= free
    np.testing.assert_array_equal(reached, free)
    for number in range(ROOMS[plan]):
        cells = [*SUITES.places[plan, number].tolist(), SUITES.starts[plan, number].tolist()]
        assert {int(room[row, column]) for row, column in cells} == {number}
        assert np.abs(np.diff(cells, axis=0)).max(1).min() >= 2, "nobody starts beside an object, nor are two beside each other"


def test_each_room_has_its_floor():
    floors = carpet(jnp.arange(MOST_ROOMS))
    wall, floor = layout(jnp.int32(SIX), wall=paint("brown", "bricks"), corridor=paint("white", "planks"), floors=floors)
    np.testing.assert_array_equal(wall == FREE, SUITES.free[SIX])
    for number in range(MOST_ROOMS):
        np.testing.assert_array_equal(floor == floors[number], SUITES.room[SIX] == number)


@pytest.mark.parametrize("plan", [HALL, FOUR, SIX])
@pytest.mark.parametrize("together", [2, 4])
def test_objects_get_different_places_and_pairs_share_a_room(plan, together):
    keys = jax.random.split(jax.random.key(0), 128)
    place, room = (np.asarray(each) for each in jax.vmap(lambda key: deal(key, jnp.int32(plan), together=together))(keys))
    count = 2 * ROOMS[plan]
    wanted = {(column + 0.5, row + 0.5) for row, column in SUITES.places[plan, : ROOMS[plan]].reshape(-1, 2).tolist()}
    for places in place[:, :count].tolist():
        assert set(map(tuple, places)) == wanted
    assert (place[:, count:] == 0).all()
    cells = np.floor(place[:, :count, ::-1]).astype(int)
    np.testing.assert_array_equal(SUITES.room[plan][cells[..., 0], cells[..., 1]], room[:, :count])
    for first in range(0, together, 2):
        assert (room[:, first] == room[:, first + 1]).all()
    for number in range(count):
        assert len({tuple(each) for each in place[:, number].tolist()}) == count, "every object can be everywhere"


def test_sentences_are_what_their_text_is():
    for number in (0, 3):
        said = sentence("pick the", hue(jnp.int32(number)), thing(jnp.int32(number + 7)), "in the room")
        text = f"Pick the {HUES[number]} {THINGS[number + 7]} in the room"
        np.testing.assert_array_equal(said, buckets_of(text, words=WORDS))
