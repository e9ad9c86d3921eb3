"""Memory Maze: the apple stays, the body is moved, landmarks tell places apart, and hybrid actions do what they say."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.tasks import TaskError, make_task
from gtrxl.tasks.first_person.levels.memory_maze import CONTINUOUS, DISCRETE, MemoryMaze, layout
from gtrxl.tasks.first_person.scene import BRIGHT, COLOURS, PATTERNS, WALL_HEIGHT
from tests.tasks.first_person.walks import blind, journey, moved

TASK = blind(MemoryMaze, size=9)
STEPS = 20


def hybrid(*, grip: int = 0, **numbers: float) -> dict[str, jax.Array]:
    """An action from what differs from zero: look, up, strafe, move, or hand."""
    order = ("look", "up", "strafe", "move", "hand")
    values = [numbers.get(name, 0.0) for name in order] + [0.0] * 3
    return {CONTINUOUS: jnp.asarray(values, jnp.float32), DISCRETE: jnp.asarray([grip], jnp.int32)}


def play(key: jax.Array):
    """An episode that begins on the apple."""
    return journey(TASK, key, steps=STEPS, visits=1)


@pytest.fixture(scope="module")
def keys():
    return jax.random.split(jax.random.key(5), 256)


@pytest.fixture(scope="module")
def together(keys):
    """256 episodes side by side."""
    return jax.tree.map(np.asarray, jax.jit(jax.vmap(play))(keys))


def test_the_apple_pays_one_and_stays_while_the_body_is_put_elsewhere(together):
    assert (together.reward[:, 0] == 1).all()
    first, after = together.before.world, jax.tree.map(lambda leaf: leaf[:, 0], together.after.world)
    place = together.after.world.scene.objects.place
    np.testing.assert_array_equal(place, np.broadcast_to(first.scene.objects.place[:, :1], place.shape))
    assert together.after.world.scene.objects.there.all()
    apple, body = np.floor(place[:, 0, 0, ::-1]), np.floor(after.body.place[:, ::-1])
    assert (np.abs(apple - body).max(axis=1) >= 2).all()
    blocked, _ = layout(TASK.size)
    assert not blocked[tuple(body.astype(int).T)].any()
    assert len({tuple(cell) for cell in body}) > 32
    assert len(np.unique(np.round(after.body.heading, 3))) > 128


def test_elsewhere_nothing_is_paid_and_nobody_is_moved(together):
    assert ((together.reward == 0) | (together.reward == 1)).all()
    jump = np.linalg.norm(together.after.world.body.place - together.before.world.body.place, axis=-1) > 0.21
    np.testing.assert_array_equal(jump[:, 1:], together.reward[:, 1:] == 1)


def test_places_for_the_apple_are_between_blocks_and_all_are_used(together):
    blocked, between = layout(TASK.size)
    apples = np.floor(together.before.world.scene.objects.place[:, 0, 0, ::-1]).astype(int)
    assert between[apples[:, 0], apples[:, 1]].all()
    assert len({tuple(cell) for cell in apples}) > between.sum() * 0.9
    for row, column in np.argwhere(between):
        aside = blocked[row, column - 1] and blocked[row, column + 1]
        ahead = blocked[row - 1, column] and blocked[row + 1, column]
        assert aside != ahead
        assert not blocked[row, column]


@pytest.mark.parametrize("size", [3, 5, 9, 13, 15])
def test_the_room_looks_the_same_from_every_side(size):
    """So blocks tell nothing of where one is; and one can go everywhere."""
    blocked, between = layout(size)
    for cells in (blocked, between):
        np.testing.assert_array_equal(cells, np.rot90(cells))
        np.testing.assert_array_equal(cells, cells.T)
    reached = np.zeros_like(blocked)
    reached[1, 1] = True
    for _ in range(blocked.size):
        near = np.roll(reached, 1, 0) | np.roll(reached, -1, 0) | np.roll(reached, 1, 1) | np.roll(reached, -1, 1)
        reached |= near & ~blocked
    np.testing.assert_array_equal(reached, ~blocked)


def test_the_apple_has_a_colour_of_its_own(together):
    """Not that of outer walls, blocks or floor."""
    scene = jax.tree.map(lambda leaf: leaf[:, 0], together.before.world.scene)
    materials = np.stack([scene.wall[:, 0, 0], scene.wall[:, 2, 2], scene.floor[:, 1, 1]], axis=1)
    apple = scene.objects.colour[:, :1]
    assert (apple != (materials - 1) // len(PATTERNS)).all()
    assert (apple == COLOURS.index("red")).mean() > 0.6


def test_landmarks_stand_above_the_walls_and_differ(together):
    objects = jax.tree.map(lambda leaf: leaf[:, 0], together.before.world.scene.objects)
    assert (objects.lift[:, 1:] >= WALL_HEIGHT).all()
    for shapes, colours in zip(objects.shape[:, 1:], objects.colour[:, 1:], strict=True):
        assert len(set(shapes)) == len(set(colours)) == 8
    assert len({shapes.tobytes() for shapes in objects.shape}) > 32
    assert set(np.unique(objects.colour[:, 1:])) == set(range(BRIGHT))


def test_numbers_move_as_they_are_named(together):
    """In the chamber, where there is room on all sides."""
    state = moved(jax.tree.map(lambda leaf: jnp.asarray(leaf[0, 0]), together.before), jnp.full(2, 5.5))
    one_step = jax.jit(TASK.advance)
    heading = float(state.world.body.heading)
    ahead = np.array([np.cos(heading), np.sin(heading)])
    right = np.array([-ahead[1], ahead[0]])

    def after(**numbers):
        body = one_step(state, hybrid(**numbers))[0].world.body
        return np.asarray(body.place) - 5.5, float(body.heading) - heading, float(body.pitch)

    np.testing.assert_allclose(after(move=1.0)[0], 0.2 * ahead, atol=1e-5)
    np.testing.assert_allclose(after(move=-0.5)[0], -0.1 * ahead, atol=1e-5)
    np.testing.assert_allclose(after(strafe=1.0)[0], 0.2 * right, atol=1e-5)
    np.testing.assert_allclose(after(move=7.0)[0], 0.2 * ahead, atol=1e-5, err_msg="cut off")
    assert np.rad2deg(after(look=1.0)[1]) % 360 == pytest.approx(26.4, abs=1e-3)
    assert np.rad2deg(after(up=0.5)[2]) == pytest.approx(13.2, abs=1e-3)
    place, turned, pitch = after(hand=1.0, grip=1)
    assert [*place, turned, pitch] == [0, 0, 0, 0], "there is no hand"
    shown = one_step(state, hybrid(move=-3.0, hand=0.25, grip=1))[0].action
    assert shown.tolist() == [0, 0, 0, -1, 0.25, 0, 0, 0, 1]


def test_what_is_seen_fits_its_space():
    task = MemoryMaze(size=9, height=16, width=24)
    observation = jax.jit(task.reset)(jax.random.key(0))[1]
    assert task.observation_space.contains(jax.tree.map(np.asarray, observation))
    assert observation["vector"].shape == (10,)
    assert task.action_space.contains({CONTINUOUS: np.zeros(8, np.float32), DISCRETE: np.array([1])})


def test_an_episode_is_the_same_alone_and_among_256(keys, together):
    alone = jax.jit(play)
    for number in (0, 137):
        for one, many in zip(jax.tree.leaves(alone(keys[number])), jax.tree.leaves(together), strict=True):
            np.testing.assert_array_equal(one, many[number])


def test_dials():
    assert make_task("memory-maze") == MemoryMaze() == MemoryMaze(size=13, episode_steps=900)
    simple = make_task("memory-maze:size=5,simple_actions=1")
    assert simple.action_space == gymnasium.spaces.Discrete(15)
    assert MemoryMaze(simple_actions=1).shown == 15
    with pytest.raises(TaskError, match="size must be odd, got 8"):
        MemoryMaze(size=8)
    with pytest.raises(TaskError, match="size must be from 3 to 31, got 1"):
        MemoryMaze(size=1)
    with pytest.raises(TaskError, match="simple_actions must be from 0 to 1, got 2"):
        MemoryMaze(simple_actions=2)
