"""Glass, places without a floor, marks over a picture, and drawings: what is seen of them and what a body feels."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.tasks.first_person.actions import Command
from gtrxl.tasks.first_person.looks import everyday, shapes
from gtrxl.tasks.first_person.looks.materials import PAINT
from gtrxl.tasks.first_person.motion import walk
from gtrxl.tasks.first_person.overlay import corner_square
from gtrxl.tasks.first_person.render import render
from gtrxl.tasks.first_person.rooms import facing, paint, room, standing
from gtrxl.tasks.first_person.scene import COLOURS, FREE, GLASS, SHAPES, Scene

AHEAD = Command(*(jnp.float32(value) for value in (0, 0, 0, 1)), fire=jnp.zeros((), bool))
SKY = COLOURS.index("blue")


@jax.jit
def seen(scene: Scene, place, heading=0.0):
    return render(scene, facing(jnp.asarray(place), heading), height=24, width=32).astype(jnp.int32)


def a_scene(wall, floor) -> Scene:
    ball = standing(jnp.array([[5.5, 2.5]]), jnp.array([0]), jnp.array([0]))
    return Scene(wall=wall, floor=floor, sky=jnp.int32(SKY), objects=ball)


def test_glass_is_looked_through_and_not_walked_through():
    wall, floor = room(3, 6, wall=paint("red", "bricks"), floor=paint("green", "checks"))
    behind = wall.at[1:4, 4].set(GLASS)
    place = jnp.array([2.5, 2.5])
    np.testing.assert_array_equal(seen(a_scene(behind, floor), place), seen(a_scene(wall, floor), place))
    free, stopped = (walk(cells, facing(place), AHEAD, frames=60).place for cells in (wall, behind))
    assert float(free[0]) > 5
    assert float(stopped[0]) == pytest.approx(3.8)


def test_where_there_is_no_floor_the_sky_shows_below():
    wall, floor = room(3, 6, wall=paint("red", "bricks"), floor=paint("green", "checks"))
    plain = seen(a_scene(wall, floor), [2.5, 2.5])
    holed = seen(a_scene(wall, floor.at[1:4, 4:].set(FREE)), [2.5, 2.5])
    changed = (plain != holed).any(-1)
    assert changed[12:].any()
    assert not changed[:12].any(), "nothing changes above the horizon"
    blue = np.asarray(holed)[np.asarray(changed)]
    assert (blue[:, 2] > blue[:, 0]).all()


@pytest.mark.parametrize("heading", np.arange(8) * np.pi / 4 + 0.1)
def test_beyond_walls_of_glass_there_is_nothing_whatever_the_size_of_the_map(heading):
    """An island of floor: cells further out do not change the picture, so nothing is read beyond the edge of the map."""
    wall, floor = room(5, 8, wall=jnp.int32(GLASS), floor=paint("green", "checks"))
    floor = jnp.zeros_like(floor).at[2:5, 2:8].set(floor[2:5, 2:8])
    small = a_scene(wall, floor)
    pad = 6
    wide = Scene(
        wall=jnp.pad(wall, pad, constant_values=GLASS),
        floor=jnp.pad(floor, pad),
        sky=small.sky,
        objects=eqx.tree_at(lambda of: of.place, small.objects, small.objects.place + pad),
    )
    one, other = seen(small, [4.5, 3.5], heading), seen(wide, [4.5 + pad, 3.5 + pad], heading)
    # The places on the floor are rounded at another distance from 0.
    assert (np.abs(one - other).max(-1) > 2).mean() < 0.01


def test_a_square_in_the_corner_has_the_colour_of_what_is_carried_and_hides_nothing_else():
    empty = jnp.full((72, 96, 3), 90, jnp.uint8)
    np.testing.assert_array_equal(corner_square(empty, jnp.int32(0), jnp.zeros((), bool)), empty)
    for name in ("red", "green", "blue", "white", "black"):
        shown = np.asarray(corner_square(empty, jnp.int32(COLOURS.index(name)), jnp.ones((), bool)))
        assert shown[5, 5].tolist() == list(PAINT[name])
        own = (shown == np.array(PAINT[name])).all(-1)
        changed = (shown != 90).any(-1)
        assert own.sum() >= 7**2
        assert 7**2 < changed.sum() <= 10**2
        assert changed[:10, :10].sum() == changed.sum()


def test_there_are_forty_everyday_things_and_no_drawing_touches_two_names():
    also = ("apple", "ball", "cake", "car", "cassette", "hat", "tv")
    sheets = everyday.sheets()
    assert len({*sheets, *also}) == 40
    assert {*sheets, *also} <= set(SHAPES)
    assert set(everyday.OWN_INKS) <= set(sheets)
    drawn = shapes.drawings()
    for name, sheet in sheets.items():
        np.testing.assert_array_equal(drawn[SHAPES.index(name)], sheet)
        assert {shapes.MIDDLE} < set(np.unique(sheet)) - {shapes.NOTHING}, "its own colour, and another ink"
        assert (sheet == shapes.MIDDLE).sum() >= 60, "enough of its own colour to name it"


def test_a_fence_lets_through_more_than_it_hides():
    fence = shapes.drawings()[SHAPES.index("fence")]
    assert 0.3 < (fence == shapes.NOTHING).mean() < 0.7
