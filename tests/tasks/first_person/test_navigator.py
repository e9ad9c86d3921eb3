"""The player with a map: it knows only what came into view, does not get stuck, and plays far better than chance."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.tasks import TASKS, make_task, reference_scores
from gtrxl.tasks.episodes import returns
from gtrxl.tasks.first_person.levels.explore.mazes import GoalLocations, ObstructedGoals
from gtrxl.tasks.first_person.levels.memory_maze import MemoryMaze
from gtrxl.tasks.first_person.scene import FREE, Body, cell_of
from gtrxl.tasks.players.navigator import Navigator, in_sight
from gtrxl.tasks.players.scripted import RandomPlayer, perfect_memory
from tests.tasks.first_person.walks import blind

pytestmark = pytest.mark.slow  # compiling mazes takes long

MINE = [name for name in TASKS if isinstance(make_task(name).player(), Navigator)]
DOORS = blind(ObstructedGoals, size=9, episode_steps=200)


@pytest.fixture(scope="module")
def walked():
    """What the player of a maze with doors knew before each step of 16 episodes, and the state each began with."""
    player = perfect_memory(DOORS)

    def walk(key):
        first = DOORS.reset(key)[0]

        def step(notes, _):
            after, _ = player.act(notes, None, key)
            return after, (notes, DOORS.observe(notes.state)["vector"][-1])

        return first, jax.lax.scan(step, player.begin(first), length=200)[1]

    return jax.tree.map(np.asarray, jax.jit(jax.vmap(walk))(jax.random.split(jax.random.key(0), 16)))


def test_it_finds_the_goal_in_every_episode_and_comes_back(walked):
    rewards = walked[1][1]
    found = (rewards > 0).sum(axis=1)
    assert (found >= 2).all()
    assert found.mean() > 4


def test_what_is_known_is_true_and_only_grows_between_restarts(walked):
    notes = walked[1][0]
    wall, door, epoch = notes.state.world.scene.wall, notes.state.world.own.door, notes.epoch
    assert ((wall != FREE) == notes.solid)[notes.seen].all()
    same = (epoch[:, 1:] == epoch[:, :-1])[..., None, None]
    lost = notes.seen[:, :-1] & ~notes.seen[:, 1:]
    assert not (lost & same).any()
    assert not (lost & ~door[:, 1:]).any(), "a restart is no reason to forget walls"
    assert (lost & door[:, 1:]).any(), "but doors may have changed"


def test_a_goal_is_known_from_when_it_is_in_view(walked):
    notes = walked[1][0]
    assert not notes.found[:, 0].all()
    assert (notes.found[:, 1:] >= notes.found[:, :-1]).all()
    goal = np.asarray(cell_of(jnp.asarray(notes.state.world.scene.objects.place[..., 0, :])))
    episode, time = np.indices(goal.shape[:2])
    assert notes.seen[episode, time, goal[..., 0], goal[..., 1]][notes.found[..., 0]].all()
    first = notes.found[..., 0].argmax(axis=1)
    before = np.arange(notes.found.shape[1])[None] < first[:, None]
    assert not notes.seen[episode, time, goal[..., 0], goal[..., 1]][before].any()


def test_what_it_does_depends_on_nothing_that_it_has_not_seen(walked):
    """The goal elsewhere, out of view: the first step is the same."""
    first = jax.tree.map(lambda leaf: jnp.asarray(leaf), walked[0])
    player = perfect_memory(DOORS)

    def choice(state, place):
        place = jnp.where(jnp.isfinite(place), place, state.world.scene.objects.place)
        objects = state.world.scene.objects
        moved = jax.tree.map(lambda leaf: place if leaf is objects.place else leaf, state)
        notes = player.begin(moved)
        return player.act(notes, None, jax.random.key(0))[1], notes.found[0]

    choices = jax.jit(jax.vmap(choice))
    usual, seen = choices(first, jnp.full((16, 1, 2), jnp.nan))
    # Into an outer wall, where nothing is ever seen to lie.
    elsewhere, seen_there = choices(first, jnp.full((16, 1, 2), 0.5))
    hidden = ~np.asarray(seen | seen_there)
    assert hidden.sum() >= 4
    np.testing.assert_array_equal(np.asarray(usual)[hidden], np.asarray(elsewhere)[hidden])


def test_walls_hide_what_is_behind_and_backs_have_no_eyes():
    wall = np.ones((5, 9), np.int32)
    wall[1:4, 1:8] = FREE
    wall[1:4, 5] = 1
    body = Body(place=jnp.array([3.5, 2.5]), heading=jnp.float32(0), pitch=jnp.float32(0))
    view = np.asarray(jax.jit(in_sight)(jnp.asarray(wall), body))
    expected = np.zeros((5, 9), bool)
    expected[2, 3:6] = True  # ahead, and the wall there
    expected[1:4, 4:6] = True
    np.testing.assert_array_equal(view, expected)


@pytest.mark.slow
def test_it_plays_memory_maze_with_numbers():
    task = blind(MemoryMaze, size=5, episode_steps=150)
    best = returns(task, perfect_memory(task), jax.random.key(0), episodes=16)
    assert best.min() >= 2
    assert best.mean() > 5


def test_players_by_task():
    for task in (MemoryMaze(), GoalLocations()):
        assert isinstance(perfect_memory(task), Navigator)
        assert task.told_player() is None
        assert not RandomPlayer(task).looks


@pytest.mark.parametrize("name", MINE)
def test_kept_scores_are_far_apart(name):
    scores = reference_scores(make_task(name))
    assert scores.best > scores.random + 20 * scores.random_error + 5 * scores.best_error
