"""Platforms in the sky, drawn by a key: one way that leads down to the goal, and others that end one step too low.

M platforms a side at most; S sides of a platform, R = C = 2 M + 1 cells.

Platforms stand at the cells with odd row and odd column; a bridge joins two of them that follow each other on a way, at the
height of the lower one. Heights are whole numbers, as the letters of DeepMind Lab's maps.

A way is the cheapest one through platforms with random costs: so it winds, and never crosses itself.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

START, HIGHEST, LOWEST = 26, 21, 8
"""The height of the first platform; no other is higher than the second number, none is lower than the third."""
NOTHING = 0
"""The height where no platform is."""
FALLS = 0.3
"""How likely the main way goes down at each platform, by 1 or by 2."""
WILD = 6.0
"""The most that a platform's random cost is, where an ordinary one costs 1."""
TRIES = 4
"""Times as many ways are tried as are wanted: some do not fit."""
_SHIFTS = np.array([(0, 1), (0, -1), (1, 0), (-1, 0)])


class Sizes(NamedTuple):
    """What a difficulty makes of a maze."""

    side: Int[Array, ""]
    """Platforms along a side, L."""
    ways: Int[Array, ""]
    more: Int[Array, ""]
    """Steps that a way may have more than the straight one."""


class Platforms(eqx.Module):
    """A maze of platforms."""

    height: Int[Array, "M M"]
    """`NOTHING` where there is none."""
    right: Bool[Array, "M M"]
    """A bridge to the platform on the right."""
    down: Bool[Array, "M M"]
    """A bridge to the one in the row below."""
    start: Int[Array, "2"]
    goal: Int[Array, "2"]
    ways: Int[Array, ""]
    """How many there are, the right one with them."""


def most_platforms() -> int:
    """Along a side, at the highest difficulty."""
    return 10


def sizes(difficulty: Float[Array, ""]) -> Sizes:
    """For a difficulty from 0 to 1."""
    side = 4 + jnp.round(6 * difficulty).astype(jnp.int32)
    more = jnp.floor(side * (0.3 + difficulty)).astype(jnp.int32)
    return Sizes(side=side, ways=1 + jnp.round(7 * difficulty).astype(jnp.int32), more=jnp.where(more == 1, 2, more))


def lay(key: PRNGKeyArray, difficulty: Float[Array, ""]) -> Platforms:
    """A maze: its ends, the way between them, then as many others as fit, at most so many as the difficulty says."""
    ends_key, main_key, others_key = jax.random.split(key, 3)
    side, wanted, more = sizes(difficulty)
    start, goal = _ends(ends_key, side)
    blank = jnp.zeros((most_platforms(), most_platforms()), jnp.int32)
    maze = Platforms(
        height=blank.at[start[0], start[1]].set(START),
        right=blank > 0,
        down=blank > 0,
        start=start,
        goal=goal,
        ways=jnp.int32(0),
    )

    # The wilder the costs, the longer the way; with none it is the straight one, which is always short enough.
    def unfinished(carry: tuple[Int[Array, ""], Platforms]) -> Bool[Array, ""]:
        return carry[1].ways == 0

    def try_main(carry: tuple[Int[Array, ""], Platforms]) -> tuple[Int[Array, ""], Platforms]:
        number, maze = carry
        wild = WILD * jnp.maximum(1 - number / 8, 0.0)
        return number + 1, _main_way(jax.random.fold_in(main_key, number), maze, side, more, wild)

    _, maze = jax.lax.while_loop(unfinished, try_main, (jnp.int32(0), maze))

    def too_few(carry: tuple[Int[Array, ""], Platforms]) -> Bool[Array, ""]:
        return (carry[1].ways < wanted) & (carry[0] < TRIES * wanted)

    def try_other(carry: tuple[Int[Array, ""], Platforms]) -> tuple[Int[Array, ""], Platforms]:
        number, maze = carry
        return number + 1, _dead_end(jax.random.fold_in(others_key, number), maze, side, more)

    return jax.lax.while_loop(too_few, try_other, (jnp.int32(0), maze))[1]


def cells(platforms: Platforms, *, step: float, nothing: float) -> Float[Array, "R C"]:
    """The maze as heights of cells: `step` is the size of one letter, `nothing` the height where there is no platform."""
    count = platforms.height.shape[0]
    high = platforms.height
    lower_right = jnp.minimum(high[:, :-1], high[:, 1:])
    lower_down = jnp.minimum(high[:-1], high[1:])
    letters = jnp.zeros((2 * count + 1, 2 * count + 1), jnp.int32)
    letters = letters.at[1::2, 1::2].set(high)
    letters = letters.at[1::2, 2:-1:2].set(jnp.where(platforms.right[:, :-1], lower_right, NOTHING))
    letters = letters.at[2:-1:2, 1::2].set(jnp.where(platforms.down[:-1], lower_down, NOTHING))
    return jnp.where(letters == NOTHING, nothing, letters * step)


def cell_of_platform(platform: Int[Array, "2"]) -> Int[Array, "2"]:
    """The cell that a platform stands in."""
    return 2 * platform + 1


def _ends(key: PRNGKeyArray, side: Int[Array, ""]) -> tuple[Int[Array, "2"], Int[Array, "2"]]:
    """Start in the first third of the rows, goal in the last, neither in an outer column; L - 3 or L - 2 apart, or as near to
    that as there is."""
    count = most_platforms()
    row, column = (jnp.asarray(each.ravel(), jnp.int32) for each in np.indices((count, count)))
    third = jnp.maximum(side // 3, 1)
    within = (column >= 1) & (column <= side - 2)
    first, last = within & (row < third), within & (row >= side - third) & (row < side)
    apart = jnp.abs(row[:, None] - row[None]) + jnp.abs(column[:, None] - column[None])
    off = jnp.maximum(jnp.maximum(side - 3 - apart, apart - (side - 2)), 0).astype(jnp.float32)
    drawn = jax.random.uniform(key, apart.shape) + off + 1e3 * ~(first[:, None] & last[None])
    pair = jnp.argmin(drawn)
    ends = jnp.stack([pair // count**2, pair % count**2])
    start, goal = jnp.stack([ends // count, ends % count], 1)
    return start, goal


class _Routes(NamedTuple):
    """The cheapest ways from one platform."""

    cost: Float[Array, "M M"]
    before: Int[Array, "M M"]
    """Which of the four sides one comes from."""


def _routes(own: Float[Array, "M M"], begin: Int[Array, "2"], *, through: Bool[Array, "M M"]) -> _Routes:
    """To every platform, over places that may be gone through."""
    count = own.shape[0]
    here = jnp.zeros_like(through).at[begin[0], begin[1]].set(True)

    def costs(now: Float[Array, "M M"]) -> Float[Array, "S M M"]:
        around = jnp.pad(jnp.where(through | here, now, jnp.inf), 1, constant_values=jnp.inf)
        return jnp.stack([around[1 - r : 1 - r + count, 1 - c : 1 - c + count] for r, c in _SHIFTS.tolist()])

    def relax(carry: tuple[Float[Array, "M M"], Bool[Array, ""]]) -> tuple[Float[Array, "M M"], Bool[Array, ""]]:
        now, _ = carry
        best = jnp.where(here, 0.0, jnp.min(costs(now), 0) + own)
        return best, jnp.any(best != now)

    cost, _ = jax.lax.while_loop(lambda carry: carry[1], relax, (jnp.where(here, 0.0, jnp.inf), jnp.ones((), bool)))
    return _Routes(cost=cost, before=jnp.argmin(costs(cost), 0).astype(jnp.int32))


def _traced(routes: _Routes, begin: Int[Array, "2"], end: Int[Array, "2"]) -> tuple[Int[Array, "M M"], Int[Array, ""]]:
    """How many steps from its beginning each platform of a way is (-1 elsewhere), and how many steps the way has."""
    count = routes.cost.shape[0]
    shifts = jnp.asarray(_SHIFTS)

    def back(carry: tuple[Int[Array, "2"], Int[Array, ""], Int[Array, "M M"]]):
        at, number, left = carry
        return at - shifts[routes.before[at[0], at[1]]], number + 1, left.at[at[0], at[1]].set(number)

    def on(carry: tuple[Int[Array, "2"], Int[Array, ""], Int[Array, "M M"]]) -> Bool[Array, ""]:
        return jnp.any(carry[0] != begin) & (carry[1] < count**2)

    _, steps, left = jax.lax.while_loop(on, back, (end, jnp.int32(0), jnp.full((count, count), -1, jnp.int32)))
    left = left.at[begin[0], begin[1]].set(steps)
    return jnp.where(left < 0, -1, steps - left), steps


def _built(
    maze: Platforms, order: Int[Array, "M M"], height: Int[Array, "M M"], routes: _Routes, *, fits: Bool[Array, ""]
) -> Platforms:
    """The maze with a way in it, if it fits."""
    on = fits & (order > 0)
    came = [on & (routes.before == number) for number in range(len(_SHIFTS))]
    # Came from the left: the bridge is the left one's. Came from the right: it is its own. So with rows.
    right = jnp.roll(came[0], -1, axis=1) | came[1]
    down = jnp.roll(came[2], -1, axis=0) | came[3]
    return Platforms(
        height=jnp.where(on & (maze.height == NOTHING), height, maze.height),
        right=maze.right | right,
        down=maze.down | down,
        start=maze.start,
        goal=maze.goal,
        ways=maze.ways + fits,
    )


def _costs(key: PRNGKeyArray, wild: Float[Array, ""], side: Int[Array, ""]) -> Float[Array, "M M"]:
    """Of each platform of a maze of this side; no way leads over the others."""
    line = jnp.arange(most_platforms())
    inside = (line[:, None] < side) & (line[None] < side)
    return jnp.where(inside, 1 + wild * jax.random.uniform(key, inside.shape), jnp.inf)


def _main_way(
    key: PRNGKeyArray, maze: Platforms, side: Int[Array, ""], more: Int[Array, ""], wild: Float[Array, ""]
) -> Platforms:
    """The way to the goal, if it is short enough."""
    cost_key, fall_key, far_key = jax.random.split(key, 3)
    routes = _routes(_costs(cost_key, wild, side), maze.start, through=jnp.ones_like(maze.right))
    order, steps = _traced(routes, maze.start, maze.goal)
    falls = jax.random.bernoulli(fall_key, FALLS, (order.size,)) * jax.random.randint(far_key, (order.size,), 1, 3)
    fallen = jnp.cumsum(falls.at[0].set(0))
    height = jnp.maximum(HIGHEST - fallen[jnp.maximum(order - 1, 0)], LOWEST)
    straight = jnp.sum(jnp.abs(maze.goal - maze.start))
    return _built(maze, order, height.astype(jnp.int32), routes, fits=steps <= straight + more)


def _dead_end(key: PRNGKeyArray, maze: Platforms, side: Int[Array, ""], more: Int[Array, ""]) -> Platforms:
    """A way from one known platform towards another that ends one step below it, if one fits."""
    begin_key, cost_key, end_key = jax.random.split(key, 3)
    count = most_platforms()
    known = maze.height != NOTHING

    def drawn(key: PRNGKeyArray, among: Bool[Array, "M M"]) -> Int[Array, "2"]:
        number = jnp.argmax(jnp.where(among, jax.random.uniform(key, among.shape), -1.0))
        return jnp.stack([number // count, number % count]).astype(jnp.int32)

    begin = drawn(begin_key, known & ~_at(maze.goal))
    high = maze.height[begin[0], begin[1]]
    routes = _routes(_costs(cost_key, jnp.float32(WILD), side), begin, through=~known)
    # Its last platform is one step below the end, and below the beginning too: else one could go it from its end.
    can_end = known & (maze.height <= high) & (maze.height - 1 >= LOWEST) & jnp.isfinite(routes.cost) & ~_at(maze.start)
    # Where only a bridge is between the two there is no platform to end on.
    far = jnp.abs(jnp.arange(count)[:, None] - begin[0]) + jnp.abs(jnp.arange(count)[None] - begin[1])
    from_beside = (jnp.asarray(_SHIFTS)[routes.before] == _indices() - begin[None, None]).all(-1) & (far == 1)
    can_end &= (far > 0) & ~from_beside
    end = drawn(end_key, can_end)
    order, steps = _traced(routes, begin, end)
    last = maze.height[end[0], end[1]] - 1
    fallen = jnp.round((high - last) * order / jnp.maximum(steps - 1, 1)).astype(jnp.int32)
    height = jnp.clip(high - fallen, last, HIGHEST)
    fits = jnp.any(can_end) & (steps >= 2) & (steps <= jnp.sum(jnp.abs(end - begin)) + more)
    return _built(maze, order, height, routes, fits=fits)


def _indices() -> Int[Array, "M M 2"]:
    return jnp.asarray(np.moveaxis(np.indices((most_platforms(), most_platforms())), 0, -1), jnp.int32)


def _at(platform: Int[Array, "2"]) -> Bool[Array, "M M"]:
    return jnp.all(_indices() == platform[None, None], -1)
