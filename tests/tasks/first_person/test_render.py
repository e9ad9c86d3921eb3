"""Pictures against a slow ray tracer, written from the meaning of a scene: one ray for each pixel, one cell after another."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.tasks.first_person import shapes
from gtrxl.tasks.first_person.camera import Camera
from gtrxl.tasks.first_person.materials import PAINT
from gtrxl.tasks.first_person.render import ENTRIES, _paint, facade, render
from gtrxl.tasks.first_person.scene import COLOURS, DOOR, EYES, PATTERNS, SHAPES, WALL_HEIGHT, Body, Objects, Scene, wall_material

HEIGHT, WIDTH, ROWS, COLUMNS, OBJECTS, WORLDS = 16, 24, 8, 10, 7, 12
FLOOR, SKY = COLOURS.index("green"), COLOURS.index("blue")
WALLS = [COLOURS.index(name) for name in ("red", "orange", "brown")]
PAINTED = [COLOURS.index(name) for name in ("cyan", "magenta", "white", "purple")]
DRAWINGS, INKS = shapes.drawings(), shapes.inks()


def a_world(seed: int, rows: int = ROWS, columns: int = COLUMNS) -> tuple[Scene, Body]:
    """Walls in warm colours, a green floor, a blue sky, objects in other colours: on the floor, lifted, pads, one not there."""
    random = np.random.default_rng(seed)
    solid = random.random((rows, columns)) < 0.2
    solid[0] = solid[-1] = solid[:, 0] = solid[:, -1] = True
    stand = (rows // 2, columns // 2)
    solid[stand] = False
    paint = wall_material(
        jnp.asarray(random.choice(WALLS, solid.shape)), jnp.asarray(random.integers(0, len(PATTERNS), solid.shape))
    )
    objects = Objects(
        place=jnp.asarray(random.uniform(1, [columns - 1, rows - 1], (OBJECTS, 2)), jnp.float32),
        shape=jnp.asarray([SHAPES.index("pad"), *random.choice(len(SHAPES), OBJECTS - 1)], jnp.int32),
        colour=jnp.asarray(random.choice(PAINTED, OBJECTS), jnp.int32),
        size=jnp.asarray(random.uniform(0.4, 1.2, OBJECTS), jnp.float32),
        lift=jnp.asarray(random.choice([0.0, 0.0, 0.3, 1.1], OBJECTS), jnp.float32),
        there=jnp.asarray(np.arange(OBJECTS) < OBJECTS - 1),
    )
    scene = Scene(
        wall=jnp.where(jnp.asarray(solid), paint, 0),
        floor=jnp.broadcast_to(wall_material(FLOOR, 3), solid.shape),
        sky=jnp.int32(SKY),
        objects=objects,
    )
    place = np.array([stand[1], stand[0]]) + random.uniform(0.2, 0.8, 2)
    body = Body(
        place=jnp.asarray(place, jnp.float32),
        heading=jnp.float32(random.uniform(0, 2 * np.pi)),
        pitch=jnp.float32(random.choice([0.0, 0.3, -0.4])),
    )
    return scene, body


def stacked(worlds):
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *worlds)


def small(scene, body):
    return render(scene, body, height=HEIGHT, width=WIDTH)


@pytest.fixture(scope="module")
def worlds():
    return stacked([a_world(seed) for seed in range(WORLDS)])


@pytest.fixture(scope="module")
def pictures(worlds):
    return np.asarray(jax.jit(jax.vmap(small))(*worlds))


def rays(body: Body, height: int, width: int) -> np.ndarray:
    """Directions [H, W, 3] in x, y and height, 1 long along the line of sight; 90 degrees from the left edge to the right."""
    ahead = np.array([np.cos(body.heading), np.sin(body.heading)])
    right = np.array([-ahead[1], ahead[0]])
    found = np.zeros((height, width, 3))
    for row in range(height):
        for column in range(width):
            flat = ahead + ((column + 0.5) / width * 2 - 1) * right
            found[row, column] = *flat, (height / 2 - row - 0.5) * 2 / width + np.tan(body.pitch)
    return found


def first_wall(wall: np.ndarray, place: np.ndarray, ray: np.ndarray) -> tuple[float, int]:
    """Depth and material of the first wall, going from cell to cell."""
    cell = np.floor(place).astype(int)
    step = np.where(ray[:2] > 0, 1, -1)
    with np.errstate(divide="ignore"):
        following = np.abs((cell + (ray[:2] > 0) - place) / ray[:2])
        further = np.abs(1 / ray[:2])
    while True:
        axis = int(following[1] < following[0])
        depth = following[axis]
        cell[axis] += step[axis]
        following[axis] += further[axis]
        if wall[cell[1], cell[0]]:
            return depth, int(wall[cell[1], cell[0]])


def traced(scene: Scene, body: Body, ray: np.ndarray) -> tuple[str, int, int]:
    """What a ray meets: its kind, the object's number and ink, or the wall's material."""
    place, objects = np.asarray(body.place, float), jax.tree.map(np.asarray, scene.objects)
    depth, material = first_wall(np.asarray(scene.wall), place, ray)
    hits = []
    at_wall = EYES + depth * ray[2]
    if 0 <= at_wall <= WALL_HEIGHT:
        hits.append((depth, "wall", material, 0))
    if at_wall < 0:
        depth = EYES / -ray[2]
        hits.append((depth, "floor", 0, 0))
        spot = place + depth * ray[:2]
        for number in np.flatnonzero(objects.there & (objects.shape == SHAPES.index("pad"))):
            off = np.abs(spot - objects.place[number]).max() / (objects.size[number] / 2)
            if off < 1:
                hits[-1] = (depth, "object", number, shapes.MIDDLE if off < 0.8 else shapes.DARK)
    ahead = np.array([np.cos(body.heading), np.sin(body.heading)])
    for number in np.flatnonzero(objects.there & (objects.shape != SHAPES.index("pad"))):
        depth = float((objects.place[number] - place) @ ahead)
        if depth < 0.1:
            continue
        spot = place + depth * ray[:2] - objects.place[number]
        u = spot @ [-ahead[1], ahead[0]] / objects.size[number] + 0.5
        v = (EYES + depth * ray[2] - objects.lift[number]) / objects.size[number]
        if 0 <= u < 1 and 0 <= v < 1 and (ink := DRAWINGS[objects.shape[number], int(v * 32), int(u * 32)]):
            hits.append((depth, "object", number, int(ink)))
    return min(hits)[1:] if hits else ("sky", 0, 0)


def looks_like(pixel: np.ndarray, scene: Scene, body: Body, what: tuple[str, int, int]) -> bool:
    """Whether a pixel has the colour of what its ray meets."""
    kind, number, ink = what
    red, green, blue = pixel.astype(float)
    if kind == "sky":
        return blue > max(red, green)
    if kind == "floor":
        return green > 1.5 * max(red, blue)
    if kind == "wall":
        own = np.array(PAINT[COLOURS[(number - 1) // len(PATTERNS)]], float)
        return bool(np.abs(pixel / pixel.max() - own / own.max()).max() < 0.06)
    objects = scene.objects
    own, *added = INKS[int(objects.shape[number]), ink]
    expected = np.array(PAINT[COLOURS[int(objects.colour[number])]]) * own + added
    light = (pixel / np.maximum(expected, 1)).max()
    return light < 1.01 and bool(np.abs(pixel - expected * light).max() < 3)


def test_every_pixel_shows_what_its_ray_meets(worlds, pictures):
    kinds: dict[str, int] = {}
    wrong = 0
    for index in range(WORLDS):
        scene, body = jax.tree.map(lambda leaf: np.asarray(leaf[index]), worlds)
        directions = rays(body, HEIGHT, WIDTH)
        for row in range(HEIGHT):
            for column in range(WIDTH):
                what = traced(scene, body, directions[row, column])
                kinds[what[0]] = kinds.get(what[0], 0) + 1
                wrong += not looks_like(pictures[index, row, column], scene, body, what)
    assert set(kinds) == {"sky", "floor", "wall", "object"}
    assert min(kinds.values()) > 200, kinds
    # A ray along the very edge of something may go either way by rounding.
    assert wrong <= 0.001 * WORLDS * HEIGHT * WIDTH


@pytest.mark.parametrize(("rows", "columns"), [(ROWS, COLUMNS), (40, 35)])
def test_walls_are_as_deep_and_of_the_material_that_a_walk_along_the_ray_finds(rows, columns):
    see = jax.jit(lambda wall, body: facade(wall, Camera.of(body, height=8, width=32)))
    for seed in range(6):
        scene, body = a_world(100 + seed, rows, columns)
        found = see(scene.wall, body)
        for column, ray in enumerate(rays(body, 1, 32)[0]):
            depth, material = first_wall(np.asarray(scene.wall), np.asarray(body.place, float), ray)
            assert np.isclose(found.depth[column], depth, rtol=1e-4)
            assert found.entry[column] == ENTRIES[material]


def test_a_picture_is_the_same_alone_and_in_a_batch_of_any_size(worlds, pictures):
    alone = jax.jit(small)
    for index in range(WORLDS):
        assert np.array_equal(alone(*jax.tree.map(lambda leaf: leaf[index], worlds)), pictures[index])
    # One scene, many bodies; and twice mapped.
    scene, bodies = jax.tree.map(lambda leaf: leaf[0], worlds[0]), worlds[1]
    pairs = jax.tree.map(lambda leaf: leaf.reshape(2, -1, *leaf.shape[1:]), bodies)
    twice = jax.jit(jax.vmap(jax.vmap(small, (None, 0)), (None, 0)))(scene, pairs)
    assert np.array_equal(twice[0, 0], pictures[0])


def test_worlds_painted_all_at_once_as_on_a_gpu_look_the_same(worlds, pictures):
    together = jax.jit(jax.vmap(functools.partial(_paint, height=HEIGHT, width=WIDTH)))(*worlds)
    differ = (np.asarray(together) != pictures).any(-1)
    assert differ.mean() < 0.002


def in_the_open(objects: Objects, heading: float = 0.0) -> tuple[Scene, Body]:
    wall = np.pad(np.zeros((7, 9), np.int32), 1, constant_values=int(wall_material(COLOURS.index("white"), 0)))
    scene = Scene(wall=jnp.asarray(wall), floor=jnp.asarray(wall * 0 + wall[0, 0]), sky=jnp.int32(SKY), objects=objects)
    return scene, Body(place=jnp.array([2.0, 4.5]), heading=jnp.float32(heading), pitch=jnp.float32(0))


@pytest.fixture(scope="module")
def large():
    return jax.jit(jax.vmap(functools.partial(render, height=72, width=96)))


def test_all_shapes_and_all_colours_can_be_told_apart_at_three_cells(large):
    def one(shape: int, colour: int) -> tuple[Scene, Body]:
        objects = Objects.none(1)
        fields = (jnp.array([[5.0, 4.5]]), jnp.array([shape], jnp.int32), jnp.array([colour], jnp.int32), jnp.ones(1, bool))
        return in_the_open(Objects(fields[0], fields[1], fields[2], objects.size, objects.lift, fields[3]))

    shown = np.asarray(large(*stacked([one(shape, 1) for shape in range(len(SHAPES))]))).astype(int)
    empty = np.asarray(large(*stacked([in_the_open(Objects.none(1))] * len(SHAPES))))[0].astype(int)
    for number, picture in enumerate(shown):
        assert (np.abs(picture - empty).max(-1) > 30).sum() >= 12, SHAPES[number]
        for other in range(number):
            # Of the 64 pixels or so that an object covers.
            assert (np.abs(picture - shown[other]).max(-1) > 30).sum() >= 8, (SHAPES[number], SHAPES[other])
    shown = np.asarray(large(*stacked([one(SHAPES.index("cube"), i % len(COLOURS)) for i in range(len(SHAPES))]))).astype(int)
    for number in range(len(COLOURS)):
        for other in range(number):
            assert (np.abs(shown[number] - shown[other]).max(-1) > 40).sum() >= 30, (COLOURS[number], COLOURS[other])


def test_looking_down_shows_more_floor_and_a_door_looks_like_no_wall():
    scene, body = in_the_open(Objects.none(0))
    see = jax.jit(small)
    floor = [int(_floor(see(scene, Body(body.place, body.heading, jnp.float32(pitch))))) for pitch in (-0.9, 0.0, 0.9)]
    assert floor[0] == HEIGHT * WIDTH > floor[1] > floor[2] == 0
    assert ENTRIES[DOOR] not in ENTRIES[:DOOR]
    assert len(set(ENTRIES.tolist())) == DOOR + 1 + len(COLOURS), "each carpet has its own; glass shows as little as what is free"


def _floor(picture) -> int:
    """Pixels of the floor: grey, and darker than the walls."""
    red, blue = np.asarray(picture)[..., 0].astype(int), np.asarray(picture)[..., 2].astype(int)
    return ((red < 135) & (blue <= red)).sum()
