"""Floors of different height: nobody climbs what is too high, and pictures agree with a walk along every ray."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.tasks.first_person.actions import LAB_ACTIONS, command_of, native
from gtrxl.tasks.first_person.land.heights import CLIMB, NEVER, NO_GROUND, ground_at, ways_down
from gtrxl.tasks.first_person.materials import PAINT
from gtrxl.tasks.first_person.motion import walk
from gtrxl.tasks.first_person.render import render
from gtrxl.tasks.first_person.scene import COLOURS, EYES, FREE, SHAPES, WALL_HEIGHT, Body, Objects, Scene, wall_material
from tests.tasks.first_person.test_render import rays

ROWS, COLUMNS, HEIGHT, WIDTH, WORLDS = 7, 8, 14, 20, 8
NAMES = list(LAB_ACTIONS)
SKY, THING = COLOURS.index("blue"), COLOURS.index("cyan")
FLOORS = [COLOURS.index(name) for name in ("red", "green", "yellow", "magenta", "orange")]
STAND = (3, 4)


def a_world(seed: int) -> tuple[Scene, Body]:
    """Towers of five colours, some cells without ground, a wall, and a cube on a tower."""
    random = np.random.default_rng(seed)
    ground = random.choice([-1.0, -0.4, 0.0, 0.2, 0.6, 1.5], (ROWS, COLUMNS))
    ground[random.random((ROWS, COLUMNS)) < 0.25] = NO_GROUND
    ground[STAND] = random.choice([0.0, 1.0])
    ground[2:5, 6] = 0.2
    wall = np.zeros((ROWS, COLUMNS), np.int32)
    wall[2:5, 6] = int(wall_material(COLOURS.index("white"), 0))
    cell = np.array(STAND) + random.choice([-2, 2], 2)
    ground[tuple(cell)] = 0.6
    cube = Objects.none(1)
    objects = Objects(
        place=jnp.asarray([[cell[1] + 0.5, cell[0] + 0.5]], jnp.float32),
        shape=jnp.asarray([SHAPES.index("cube")], jnp.int32),
        colour=jnp.asarray([THING], jnp.int32),
        size=cube.size,
        lift=jnp.asarray([ground[tuple(cell)]], jnp.float32),
        there=jnp.ones(1, bool),
    )
    floor = wall_material(
        jnp.asarray(random.choice(FLOORS, (ROWS, COLUMNS))), jnp.asarray(random.integers(0, 6, (ROWS, COLUMNS)))
    )
    scene = Scene(
        wall=jnp.asarray(wall), floor=floor, sky=jnp.int32(SKY), objects=objects, ground=jnp.asarray(ground, jnp.float32)
    )
    place = np.array([STAND[1], STAND[0]]) + random.uniform(0.25, 0.75, 2)
    return scene, Body(
        place=jnp.asarray(place, jnp.float32),
        heading=jnp.float32(np.arctan2(cell[0] - STAND[0], cell[1] - STAND[1]) + random.uniform(-0.7, 0.7)),
        pitch=jnp.float32(random.choice([0.0, 0.3, -0.6])),
    )


def met(scene: Scene, body: Body, ray: np.ndarray) -> int:
    """The colour that a ray meets first, from cell to cell: the front of a tower, its top, a thing, or the sky."""
    ground, wall, place = np.asarray(scene.ground), np.asarray(scene.wall), np.asarray(body.place, float)
    eye = ground[int(place[1]), int(place[0])] + EYES
    hits = [(np.inf, SKY)]
    cell, entered = np.floor(place).astype(int), 0.0
    while (cell >= 0).all() and cell[0] < COLUMNS and cell[1] < ROWS:
        ends = [((cell[axis] + (ray[axis] > 0)) - place[axis]) / ray[axis] for axis in (0, 1)]
        axis = int(ends[1] < ends[0])
        row, column = cell[1], cell[0]
        if ground[row, column] > NO_GROUND:
            number = int(wall[row, column]) or int(scene.floor[row, column])
            top = ground[row, column] + (WALL_HEIGHT if wall[row, column] != FREE else 0)
            if entered > 0 and eye + entered * ray[2] <= top:
                hits.append((entered, (number - 1) // 6))
            elif eye + ends[axis] * ray[2] <= top:
                hits.append(((top - eye) / ray[2], (number - 1) // 6))
        if len(hits) > 1:
            break
        entered = ends[axis]
        cell[axis] += 1 if ray[axis] > 0 else -1
    ahead = np.array([np.cos(body.heading), np.sin(body.heading)])
    things = scene.objects
    depth = float((np.asarray(things.place[0]) - place) @ ahead)
    if depth > 0.1:
        off = (place + depth * ray[:2] - np.asarray(things.place[0])) @ np.array([-ahead[1], ahead[0]])
        up = eye + depth * ray[2] - float(things.lift[0])
        if abs(off) < things.size[0] / 2 and 0 <= up < things.size[0]:
            hits.append((depth, THING))
    return min(hits)[1]


def test_every_pixel_shows_what_its_ray_meets_first():
    worlds = [a_world(seed) for seed in range(WORLDS)]
    see = jax.jit(jax.vmap(functools.partial(render, height=HEIGHT, width=WIDTH)))
    pictures = np.asarray(see(*jax.tree.map(lambda *leaves: jnp.stack(leaves), *worlds)))
    paints = np.array([PAINT[name] for name in COLOURS], float)
    seen: dict[int, int] = {}
    wrong = 0
    for (scene, body), picture in zip(worlds, pictures, strict=True):
        directions = rays(body, HEIGHT, WIDTH)
        for row in range(HEIGHT):
            for column in range(WIDTH):
                what = met(scene, body, directions[row, column])
                seen[what] = seen.get(what, 0) + 1
                pixel = picture[row, column].astype(float)
                if what == SKY:
                    wrong += not (pixel[2] >= pixel.max() and pixel[0] > 60)
                elif what == THING:
                    wrong += not (pixel[0] < 0.8 * min(pixel[1], pixel[2]))
                else:
                    wrong += bool(np.abs(pixel / pixel.max() - paints[what] / paints[what].max()).max() > 0.07)
    assert min(seen.get(colour, 0) for colour in (SKY, THING, *FLOORS, COLOURS.index("white"))) >= 10, seen
    # A ray along the very edge of something may go either way by rounding.
    assert wrong <= 0.004 * WORLDS * HEIGHT * WIDTH, wrong


@jax.jit
def steps(ground: jax.Array, begin: jax.Array, heading: jax.Array) -> jax.Array:
    """Where forward leads, step by step."""
    forward = command_of(jnp.asarray(native(LAB_ACTIONS))[NAMES.index("forward")])
    wall = jnp.zeros(ground.shape, jnp.int32)

    def one(body: Body, _: None):
        body = walk(wall, body, forward, frames=4, ground=ground)
        return body, body.place

    return jax.lax.scan(one, Body(place=begin, heading=heading, pitch=jnp.float32(0)), None, length=30)[1]


@pytest.mark.parametrize(("step", "passes"), [(CLIMB - 0.01, True), (CLIMB + 0.01, False), (-3.0, True), (NO_GROUND, False)])
def test_a_low_step_is_climbed_a_high_one_is_not_and_down_one_falls(step, passes):
    ground = np.zeros((5, 8), np.float32)
    ground[:, 4:] = step
    end = np.asarray(steps(ground, np.array([2.5, 2.5], np.float32), np.float32(0)))[-1]
    assert end[0] == pytest.approx(6.8 if passes else 3.8, abs=1e-3)
    assert end[1] == pytest.approx(2.5, abs=1e-3)
    if step == -3.0:
        assert float(steps(ground, end, np.float32(np.pi))[-1, 0]) == pytest.approx(4.2, abs=1e-3), "and back it is a wall"


def test_nobody_gains_height_or_loses_the_ground_whatever_is_done():
    random = np.random.default_rng(0)
    ground = jnp.asarray(random.choice([NO_GROUND, 0.0, 0.4, 0.8, 1.2], (9, 9), p=[0.2, 0.2, 0.2, 0.2, 0.2]), jnp.float32)
    wall = jnp.zeros((9, 9), jnp.int32)
    table = jnp.asarray(native(LAB_ACTIONS))

    def one(body: Body, action: jax.Array):
        body = walk(wall, body, command_of(table[action]), frames=4, ground=ground)
        return body, ground_at(ground, body.place[0], body.place[1])

    def journey(cell: jax.Array, key: jax.Array):
        body = Body(place=cell[::-1] + 0.5, heading=jnp.float32(0), pitch=jnp.float32(0))
        actions = jax.random.choice(key, jnp.array([0, 1, 2, 3, 6, 7, 12, 13]), (200,))
        return jax.lax.scan(one, body, actions)[1]

    begins = np.argwhere(np.asarray(ground) > NO_GROUND)
    begins = begins[(begins > 0).all(1) & (begins < 8).all(1)]
    heights = np.asarray(
        jax.jit(jax.vmap(journey))(jnp.asarray(begins, jnp.float32), jax.random.split(jax.random.key(0), len(begins)))
    )
    assert (heights > NO_GROUND).all()
    assert (np.diff(heights, axis=1) <= 0).all(), "every step here is too high"
    assert (heights[:, -1] < heights[:, 0]).mean() > 0.3, "and many have fallen"


def test_ways_down_are_those_that_a_search_finds():
    random = np.random.default_rng(1)
    count = jax.jit(ways_down)
    for _ in range(5):
        ground = random.choice([NO_GROUND, 0.0, 0.2, 0.6, 1.2], (6, 7), p=[0.2, 0.2, 0.2, 0.2, 0.2])
        wall = (random.random((6, 7)) < 0.1).astype(np.int32)
        target = (2, 3)
        ground[target], wall[target] = 0.2, 0
        found: dict[tuple[int, int], int] = {target: 0}
        queue: list[tuple[int, int]] = [target]
        for cell in queue:
            for shift in ((0, 1), (0, -1), (1, 0), (-1, 0)):
                other = (cell[0] + shift[0], cell[1] + shift[1])
                inside = 0 <= other[0] < 6 and 0 <= other[1] < 7
                if inside and other not in found and not wall[other] and NO_GROUND < ground[other] >= ground[cell] - CLIMB:
                    found[other] = found[cell] + 1
                    queue.append(other)
        expected = np.array([[found.get((r, c), NEVER) for c in range(7)] for r in range(6)])
        marked = jnp.zeros((6, 7), bool).at[target].set(True)
        np.testing.assert_array_equal(count(jnp.asarray(ground, jnp.float32), jnp.asarray(wall), marked), expected)
