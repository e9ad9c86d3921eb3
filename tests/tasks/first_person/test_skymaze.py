"""Skymaze: one way leads down to the goal, all others are dead ends, and the goal alone pays."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.tasks.errors import TaskError
from gtrxl.tasks.first_person.actions import LAB_ACTIONS
from gtrxl.tasks.first_person.land.heights import NEVER, NO_GROUND, ways_down
from gtrxl.tasks.first_person.levels.skymaze.irreversible import STEP, IrreversiblePath
from gtrxl.tasks.first_person.levels.skymaze.platforms import HIGHEST, LOWEST, START, sizes
from tests.tasks.first_person.playing import blind, built, moved, played, same_alone_and_in_a_batch, start

SIDES = ((0, 1), (0, -1), (1, 0), (-1, 0))
ANY = blind(IrreversiblePath, least=0, most=100, height=8, width=16)
STEPS = 130
FORWARD = jnp.int32(list(LAB_ACTIONS).index("forward"))


step = jax.jit(IrreversiblePath.advance, static_argnums=0)


@pytest.fixture(scope="module")
def worlds():
    """64 mazes of every difficulty."""
    return built(ANY, jax.random.key(0))


@pytest.fixture(scope="module")
def letters(worlds):
    ground = np.asarray(worlds.scene.ground)
    return np.where(ground > NO_GROUND, np.round(ground / STEP), 0).astype(int)


def ends(worlds, number: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """The cells of start and goal."""
    places = np.asarray(worlds.body.place)[number], np.asarray(worlds.scene.objects.place)[number, 0]
    start, goal = ((int(y), int(x)) for x, y in places)
    return start, goal


def reached(maze: np.ndarray, begin: tuple[int, int]) -> set[tuple[int, int]]:
    """Where one can get to without climbing."""
    found, queue = {begin}, [begin]
    for row, column in queue:
        for down, right in SIDES:
            cell = (row + down, column + right)
            if cell not in found and 0 < maze[cell] <= maze[row, column]:
                found.add(cell)
                queue.append(cell)
    return found


@pytest.mark.parametrize(
    ("difficulty", "expected"), [(0.0, (4, 1, 2)), (0.5, (7, 5, 5)), (0.9, (9, 7, 10)), (0.999, (10, 8, 12))]
)
def test_the_sizes_are_those_of_the_original(difficulty, expected):
    assert tuple(int(number) for number in sizes(jnp.float32(difficulty))) == expected


def test_every_maze_is_solved_by_one_way_alone_and_all_others_are_dead_ends(worlds, letters):
    targets = np.zeros(letters.shape, bool)
    for number in range(64):
        targets[number][ends(worlds, number)[1]] = True
    every = np.asarray(jax.jit(jax.vmap(ways_down))(worlds.scene.ground, worlds.scene.wall, targets))
    for number in range(64):
        maze, away, (begin, goal) = letters[number], every[number], ends(worlds, number)
        assert goal in reached(maze, begin)
        assert away[begin] < NEVER
        # Take any step of the way away, and nothing leads to the goal any more.
        cell = begin
        while cell != goal:
            cell = min(((cell[0] + r, cell[1] + c) for r, c in SIDES), key=lambda other: away[other])
            without = maze.copy()
            without[cell] = 0
            assert goal not in reached(without, begin)


def test_every_wrong_way_ends_one_letter_below_a_platform(worlds, letters):
    for number in range(64):
        maze, ways = letters[number], int(worlds.own.ways[number])
        lower = 0  # bridges whose upper end is one letter higher and cannot be reached over them
        rows, columns = maze.shape
        for row in range(1, rows - 1):
            for column in range(1, columns - 1):
                if maze[row, column] and (row % 2) != (column % 2):
                    one, other = (
                        (maze[row, column - 1], maze[row, column + 1])
                        if row % 2
                        else (maze[row - 1, column], maze[row + 1, column])
                    )
                    assert maze[row, column] == min(one, other) > 0
                    lower += abs(one - other) == 1
        assert lower >= ways - 1
    wanted = jax.vmap(sizes)(worlds.own.difficulty).ways
    assert (worlds.own.ways <= wanted).all()
    assert (worlds.own.ways == wanted).mean() > 0.9


def test_heights_and_ends_are_as_the_rules_say(worlds, letters):
    sides = np.asarray(jax.vmap(sizes)(worlds.own.difficulty).side)
    for number in range(64):
        maze, (begin, goal) = letters[number], ends(worlds, number)
        side = int(sides[number])
        assert maze[begin] == START == maze.max()
        others = maze[(maze > 0) & (maze != START)]
        assert others.min() >= LOWEST
        assert others.max() <= HIGHEST
        assert (maze == START).sum() == 1
        assert np.argwhere(maze).max() <= 2 * side - 1, "inside of its grid"
        rows = [(cell[0] - 1) // 2 for cell in (begin, goal)]
        assert rows[0] < max(side // 3, 1)
        assert rows[1] >= side - max(side // 3, 1)
        assert all(1 <= (cell[1] - 1) // 2 <= side - 2 for cell in (begin, goal))


def test_the_goal_pays_a_hundred_and_ends_and_nothing_else_does():
    state = start(ANY, jax.random.key(3))
    _, reward, terminated, _ = step(ANY, state, FORWARD)
    assert float(reward) == 0
    assert not terminated
    there = moved(state, state.world.scene.objects.place[0])
    _, reward, terminated, truncated = step(ANY, there, FORWARD)
    assert float(reward) == 100
    assert terminated
    assert not truncated


@pytest.mark.slow
def test_the_player_finds_every_goal():
    batch = played(ANY, STEPS)
    assert (batch.rewards.max(1) == 100).all()
    same_alone_and_in_a_batch(ANY, batch, steps=STEPS)


def test_one_who_falls_into_a_dead_end_is_lost(worlds, letters):
    """From some platform that can be reached the goal cannot be: there is something to choose."""
    lost = 0
    for number in range(64):
        begin, goal = ends(worlds, number)
        lost += any(goal not in reached(letters[number], cell) for cell in reached(letters[number], begin))
    assert lost > 40


@pytest.mark.parametrize(("arguments", "line"), [
    ({"least": -1}, "least must be from 0 to 100, got -1; a difficulty"),
    ({"most": 101}, "most must be from 0 to 100, got 101"),
    ({"least": 50, "most": 40}, "most must be at least `least` \\(50\\), got 40"),
])  # fmt: skip
def test_what_cannot_be_is_said(arguments, line):
    with pytest.raises(TaskError, match=line):
        IrreversiblePath(**arguments)
