"""Walking: never into a wall, along walls, round corners, no faster than a step; touching; and lines of sight."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gtrxl.tasks.first_person.actions import LAB_ACTIONS, LAB_PACE, OWN_PACE, Command, command_of, native
from gtrxl.tasks.first_person.motion import sees, touching, walk
from gtrxl.tasks.first_person.scene import RADIUS, Body, Objects

ROWS, COLUMNS, STEPS = 7, 9, 60
CELLS_PER_FRAME, HIGHEST = 3.2 / 60, 88.0
"""Seen of DeepMind Lab."""


def body_at(x: float, y: float, heading: float = 0.0) -> Body:
    return Body(place=jnp.array([x, y], jnp.float32), heading=jnp.float32(heading), pitch=jnp.float32(0))


def a_map(seed: int, share: float = 0.35) -> np.ndarray:
    """Walls around, and at random inside; a free cell in the middle."""
    wall = (np.random.default_rng(seed).random((ROWS, COLUMNS)) < share).astype(np.int32)
    wall[0] = wall[-1] = wall[:, 0] = wall[:, -1] = 1
    wall[ROWS // 2, COLUMNS // 2] = 0
    return wall


def commands(look: np.ndarray, move: np.ndarray, strafe: np.ndarray) -> Command:
    return Command(
        look_right=jnp.asarray(look, jnp.float32),
        look_up=jnp.asarray(look / 2, jnp.float32),
        strafe=jnp.asarray(strafe, jnp.float32),
        move=jnp.asarray(move, jnp.float32),
        fire=jnp.zeros(len(look), bool),
    )


@jax.jit
def journey(wall, body, command):
    """Where one is after each of STEPS steps of 4 frames."""

    def step(body, command):
        body = walk(wall, body, command, frames=4)
        return body, body

    return jax.lax.scan(step, body, command)[1]


def distance_to_walls(wall: np.ndarray, place: np.ndarray) -> float:
    cells = np.argwhere(wall != 0)[:, ::-1].astype(float)
    nearest = np.clip(place[None, :], cells, cells + 1)
    return float(np.linalg.norm(place[None, :] - nearest, axis=1).min())


@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.2, 1.0]))
def test_no_walk_from_a_free_place_comes_nearer_to_a_wall_than_the_radius(seed, turning):
    random = np.random.default_rng(seed)
    wall = a_map(seed)
    # Long runs in one direction press into every kind of corner.
    hold = random.integers(1, 25)
    draws = random.uniform(-1, 1, (3, STEPS)).repeat(hold, 1)[:, :STEPS]
    path = journey(
        jnp.asarray(wall),
        body_at(COLUMNS / 2, ROWS / 2, random.uniform(0, 6)),
        commands(turning * 7 * draws[0], np.sign(draws[1]), draws[2]),
    )
    places = np.asarray(path.place)
    assert min(distance_to_walls(wall, place) for place in places) >= RADIUS - 1e-4
    steps = np.linalg.norm(np.diff(places, axis=0), axis=1)
    # Round a corner, what one is pushed out by adds a little to what one walked.
    assert steps.max() <= 1.02 * 4 * CELLS_PER_FRAME
    assert (np.abs(np.asarray(path.pitch)) <= np.deg2rad(HIGHEST) + 1e-6).all()


def straight(wall, body, steps: int, *, move: float = 1.0, strafe: float = 0.0):
    still = np.zeros(STEPS)
    going = (np.arange(STEPS) < steps).astype(float)
    return np.asarray(journey(jnp.asarray(wall, jnp.int32), body, commands(still, move * going, strafe * going)).place)


EMPTY = np.pad(np.zeros((ROWS - 2, COLUMNS - 2), np.int32), 1, constant_values=1)


def test_free_walking_goes_as_far_as_the_speed_says_and_no_farther_on_the_diagonal():
    ahead = straight(EMPTY, body_at(2.0, 3.5), 10)[-1]
    assert np.allclose(ahead, [2.0 + 40 * CELLS_PER_FRAME, 3.5], atol=1e-4)
    aside = straight(EMPTY, body_at(2.0, 2.0), 10, move=0.0, strafe=1.0)[-1]
    assert np.allclose(aside, [2.0, 2.0 + 40 * CELLS_PER_FRAME], atol=1e-4)
    both = straight(EMPTY, body_at(2.0, 2.0), 10, strafe=1.0)[-1]
    assert np.allclose(np.linalg.norm(both - 2.0), 40 * CELLS_PER_FRAME, atol=1e-4)


def test_one_slides_along_a_wall_with_the_part_of_the_speed_that_is_along_it():
    path = straight(EMPTY, body_at(2.0, 1.0 + RADIUS, heading=-np.pi / 4), 10)
    assert np.allclose(path[:, 1], 1.0 + RADIUS, atol=1e-4)
    assert np.isclose(path[-1, 0], 2.0 + 40 * CELLS_PER_FRAME * np.cos(np.pi / 4), atol=1e-3)


@pytest.mark.parametrize("offset", [0.02, 0.1, 0.19])
def test_one_slides_round_a_corner_instead_of_sticking_to_it(offset):
    wall = EMPTY.copy()
    wall[3, 4] = 1
    path = straight(wall, body_at(2.5, 3.0 - offset), STEPS)
    assert path[-1, 0] > 5.2


def test_a_wall_ahead_stops_one_at_the_radius_and_lets_one_go_back():
    path = straight(EMPTY, body_at(6.5, 3.5), STEPS)
    assert np.allclose(path[-1], [COLUMNS - 1 - RADIUS, 3.5], atol=1e-4)
    back = straight(EMPTY, body_at(*path[-1]), 5, move=-1.0)
    assert np.allclose(back[-1], [COLUMNS - 1 - RADIUS - 20 * CELLS_PER_FRAME, 3.5], atol=1e-3)


def test_looking_right_turns_from_east_to_south_and_looking_up_lifts_the_eyes():
    rows = native(LAB_ACTIONS)
    names = list(LAB_ACTIONS)
    step = jax.jit(lambda body, row: walk(jnp.asarray(EMPTY), body, command_of(row), frames=4))
    right = step(body_at(3.0, 3.0), jnp.asarray(rows[names.index("large look right")]))
    assert np.isclose(right.heading, np.deg2rad(4 * 60 * 0.1056), atol=1e-5)
    assert np.sin(right.heading) > 0
    up = step(right, jnp.asarray(rows[names.index("look up")]))
    assert np.isclose(up.pitch, np.deg2rad(4 * 10 * 0.1056), atol=1e-6)
    left = step(body_at(3.0, 3.0), jnp.asarray(rows[names.index("small look left")]))
    assert np.isclose(left.heading, 2 * np.pi - np.deg2rad(4.224), atol=1e-5)


def test_a_slower_pace_walks_turns_and_looks_up_less():
    """Memory Maze and two small rooms have one of their own."""
    assert (LAB_PACE.cells, LAB_PACE.highest) == (CELLS_PER_FRAME, HIGHEST)
    command = Command(*(jnp.float32(number) for number in (0.0, 90.0, 0.0, 1.0)), fire=jnp.zeros((), bool))
    for pace, cells, highest in ((LAB_PACE, 0.2133, 88), (OWN_PACE, 0.2, 60)):
        after = walk(jnp.asarray(EMPTY), body_at(3.0, 3.5), command, frames=4, pace=pace)
        assert np.allclose(after.place, [3 + cells, 3.5], atol=1e-4)
        assert np.isclose(np.rad2deg(after.pitch), highest, atol=1e-3)
        right = command_of(jnp.asarray(native(LAB_ACTIONS))[7], pace)
        assert np.isclose(right.look_right, 60 * (0.1056 if pace is LAB_PACE else 0.11), atol=1e-5)


def test_what_is_touched_is_there_and_within_reach():
    objects = Objects(
        place=jnp.array([[3.0, 3.0], [3.4, 3.0], [3.5, 3.0], [3.4, 3.0], [3.0, 3.47]]),
        shape=jnp.zeros(5, jnp.int32),
        colour=jnp.zeros(5, jnp.int32),
        size=jnp.full(5, 0.5),
        lift=jnp.zeros(5),
        there=jnp.array([True, True, True, False, True]),
    )
    body = body_at(3.0, 3.0)
    assert touching(body, objects).tolist() == [True, True, False, False, False]
    assert touching(body, objects, reach=0.1).tolist() == [True, True, True, False, True]


def test_a_line_of_sight_agrees_with_points_along_it():
    random = np.random.default_rng(3)
    look = jax.jit(jax.vmap(sees, (None, 0, 0)))
    told = 0
    for seed in range(4):
        wall = a_map(seed, share=0.2)
        ends = random.uniform(0.3, [COLUMNS - 0.3, ROWS - 0.3], (200, 2, 2)).astype(np.float32)
        found = np.asarray(look(jnp.asarray(wall), jnp.asarray(ends[:, 0]), jnp.asarray(ends[:, 1])))
        for (start, end), free in zip(ends, found, strict=True):
            points = start + np.linspace(0, 1, 4000)[:, None] * (end - start)
            inside = wall[np.floor(points[:, 1]).astype(int), np.floor(points[:, 0]).astype(int)] != 0
            # A line that cuts less than two points off a corner may be missed by the points.
            if inside.sum() in (0, 1, 2) and not free:
                continue
            assert free == (not inside.any())
            told += free
    assert told > 100


def test_a_line_through_the_corner_that_two_walls_share_is_not_free():
    wall = EMPTY.copy()
    wall[2, 3] = wall[3, 2] = 1
    assert not sees(jnp.asarray(wall), jnp.array([2.5, 2.5]), jnp.array([3.5, 3.5]))
    assert sees(jnp.asarray(wall), jnp.array([3.5, 3.5]), jnp.array([6.5, 3.5]))
    assert sees(jnp.asarray(wall), jnp.array([3.5, 3.5]), jnp.array([3.5, 3.5]))
