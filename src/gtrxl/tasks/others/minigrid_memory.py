"""MiniGrid's Memory: look at an object in a small room, then go to the same object at the far end of a hallway.

N cells along a side, V = 7 cells along a side of what is seen, O numbers in an observation.

Places are (x, y): x is counted from the west, y from the north.
"""

import dataclasses
import functools

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree, UInt8

from gtrxl.tasks.contract import Step, Task
from gtrxl.tasks.defaults import TaskDefaults
from gtrxl.tasks.drawing import canvas as c
from gtrxl.tasks.drawing.canvas import SIDE, Canvas
from gtrxl.tasks.errors import TaskError, in_range
from gtrxl.tasks.others.deck import PPO_OF_GAMES
from gtrxl.tasks.players.player import Player

LEFT, RIGHT, FORWARD = 0, 1, 2
"""The actions that do something; MiniGrid's other four have no effect here."""
ACTIONS = 7
EAST, SOUTH, WEST, NORTH = 0, 1, 2, 3
"""Where the agent looks."""
AHEAD = np.array([(1, 0), (0, 1), (-1, 0), (0, -1)])
UNSEEN, EMPTY, WALL, KEY, BALL = range(5)
"""What a cell shows."""
CODES = 5
V = 7
EYE = (V // 2, V - 1)
"""Where the agent stands in what it sees: at the bottom, in the middle."""


class CorridorState(eqx.Module):
    """Where the agent is, and which objects are where."""

    place: Int[Array, " 2"]
    heading: Int[Array, ""]

    shown: Int[Array, ""]
    """The object in the room, KEY or BALL."""

    north: Int[Array, ""]
    """The object at the hallway's northern end; the other one is at the southern end."""

    elapsed: Int[Array, ""]

    action: Int[Array, ""]
    """The last one; -1 before the first."""


@dataclasses.dataclass(frozen=True)
class MiniGridMemory(Task):
    """A room in the west with a key or a ball, a hallway to the east, and at its end a key and a ball, one to each side.

    Beside the object that was in the room an episode pays 1 - 0.9 x (the share of its steps that were needed), beside the other
    one nothing; both end it. The agent begins anywhere in the room or the hallway and looks east. It sees the 7 x 7 cells before
    it, but not through walls; the way it looks; and its last action. Half of all ends are right without memory. MiniGrid's
    MemoryS7 is a size of 7, S13 of 13.
    """

    size: int = 7

    episode_steps: int = dataclasses.field(init=False, repr=False)
    """5 N x N."""

    def __post_init__(self):
        in_range("size", self.size, least=7, most=63, hint="MiniGrid has 7, 9, 11 and 13")
        if self.size % 2 == 0:
            raise TaskError(f"size must be odd, got {self.size}; the hallway is in the middle")
        object.__setattr__(self, "episode_steps", 5 * self.size**2)

    @property
    def middle(self) -> int:
        """The hallway's y."""
        return self.size // 2

    @property
    def end(self) -> int:
        """The x of the cells to which the hallway leads."""
        return self.size - 2

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        """What each of the cells shows, one-hot; the heading and the last action, one-hot."""
        return gymnasium.spaces.Box(0.0, 1.0, (V * V * CODES + 4 + ACTIONS,), np.float32)

    @property
    def action_space(self) -> gymnasium.spaces.Discrete:
        """Turn left, turn right, forward, and four that do nothing here."""
        return gymnasium.spaces.Discrete(ACTIONS)

    def reset(self, key: PRNGKeyArray) -> tuple[CorridorState, Float[Array, " O"]]:
        """Somewhere on the way, with either object in either place."""
        where, shown, north = jax.random.split(key, 3)
        x = jax.random.randint(where, (), 1, self.end)
        state = CorridorState(
            place=jnp.stack([x, jnp.full_like(x, self.middle)]),
            heading=jnp.int32(EAST),
            shown=jax.random.randint(shown, (), KEY, BALL + 1),
            north=jax.random.randint(north, (), KEY, BALL + 1),
            elapsed=jnp.int32(0),
            action=jnp.int32(-1),
        )
        return state, self._observe(state)

    def step(self, state: CorridorState, action: Int[Array, ""]) -> tuple[CorridorState, Step]:
        """A turn, or a cell onwards where there is one."""
        turned = state.heading + jnp.where(action == RIGHT, 1, 0) - jnp.where(action == LEFT, 1, 0)
        before = state.place + jnp.asarray(AHEAD)[state.heading]
        goes = (action == FORWARD) & jnp.asarray(_free(self.size))[tuple(before)]
        state = CorridorState(
            place=jnp.where(goes, before, state.place).astype(jnp.int32),
            heading=turned % 4,
            shown=state.shown,
            north=state.north,
            elapsed=state.elapsed + 1,
            action=action.astype(jnp.int32),
        )
        side = jnp.where(state.place[0] == self.end, state.place[1] - self.middle, 0)
        right = side == jnp.where(state.north == state.shown, -1, 1)
        paid = jnp.where(right, 1 - 0.9 * state.elapsed / self.episode_steps, 0.0)
        over = (state.elapsed >= self.episode_steps) & (side == 0)
        return state, Step(observation=self._observe(state), reward=paid, terminated=side != 0, truncated=over)

    def player(self) -> "MiniGridMemoryPlayer":
        """Looks into the room, then goes to the same object."""
        return MiniGridMemoryPlayer()

    def defaults(self) -> TaskDefaults:
        """A walk along the hallway and back is shorter than its memory. V-MPO soon goes straight to the end, and never learns to
        look into the room first (docs/log.md)."""
        return TaskDefaults(memory=64, steps=1_000_000, discount=0.99, algorithm="ppo", with_ppo=PPO_OF_GAMES)

    def draw(self, state: CorridorState, *, observation: PyTree = None, secret: bool = False) -> UInt8[np.ndarray, "H W 3"]:
        """From above; the object that is looked for is in the room."""
        canvas, cell = Canvas(SIDE, SIDE), SIDE / self.size
        for (x, y), code in np.ndenumerate(_cells(self.size, int(state.shown), int(state.north))):
            centre = ((x + 0.5) * cell, (y + 0.5) * cell)
            canvas.box(centre, (cell, cell), fill=c.WALL if code == WALL else c.PAD, edge=c.EDGE, line=1)
            if code == BALL:
                canvas.disc(centre, 0.32 * cell, fill=c.RIGHT)
            elif code == KEY:
                canvas.disc((centre[0], centre[1] - 0.2 * cell), 0.16 * cell, fill=c.RIGHT)
                canvas.box((centre[0], centre[1] + 0.12 * cell), (0.12 * cell, 0.5 * cell), fill=c.RIGHT)
        here, ahead = (np.asarray(state.place) + 0.5) * cell, AHEAD[int(state.heading)] * cell
        across = ahead[::-1] * (1, -1)
        canvas.shape(
            [tuple(here + at) for at in (0.4 * ahead, 0.3 * across - 0.3 * ahead, -0.3 * across - 0.3 * ahead)], fill=c.AGENT
        )
        return canvas.pixels()

    def _observe(self, state: CorridorState) -> Float[Array, " O"]:
        cells = jnp.asarray(_views(self.size))[
            state.shown - KEY, state.north - KEY, state.heading, state.place[0], state.place[1]
        ]
        shown = jax.nn.one_hot(cells, CODES).reshape(-1)
        return jnp.concatenate([shown, jax.nn.one_hot(state.heading, 4), jax.nn.one_hot(state.action, ACTIONS)])


@functools.lru_cache(maxsize=64)
def _cells(size: int, shown: int, north: int) -> Int[np.ndarray, "N N"]:
    """What is where: a hall of walls with a room of 4 x 3 cells cut into its west, the hallway, and its ends."""
    cells, middle, end = np.full((size, size), EMPTY), size // 2, size - 2
    cells[[0, -1]] = cells[:, [0, -1]] = WALL
    cells[1:5, [middle - 2, middle + 2]] = WALL
    cells[4 : end - 1, [middle - 1, middle + 1]] = WALL
    cells[end - 1, np.arange(size) != middle] = WALL
    cells[end + 1] = WALL
    cells[1, middle - 1] = shown
    cells[end, middle - 2], cells[end, middle + 2] = north, KEY + BALL - north
    return cells


@functools.lru_cache(maxsize=16)
def _free(size: int) -> Bool[np.ndarray, "N N"]:
    """Cells that one can walk on."""
    return _cells(size, KEY, KEY) == EMPTY


@functools.lru_cache(maxsize=16)
def _views(size: int) -> UInt8[np.ndarray, "2 2 4 N N V V"]:
    """What is seen, by objects, heading and place."""
    views = np.zeros((2, 2, 4, size, size, V, V), np.uint8)
    free = np.argwhere(_free(size))
    for shown, north, heading in np.ndindex(2, 2, 4):
        cells = _cells(size, shown + KEY, north + KEY)
        for place in free:
            views[shown, north, heading, *place] = seen(cells, place, heading)
    return views


def seen(cells: Int[np.ndarray, "N N"], place: Int[np.ndarray, " 2"], heading: int) -> Int[np.ndarray, "V V"]:
    """The cells before an eye, as it sees them: the first index goes to its right, the second one towards it."""
    ahead, right = AHEAD[heading], AHEAD[(heading + 1) % 4]
    across, back = np.meshgrid(np.arange(V) - EYE[0], EYE[1] - np.arange(V), indexing="ij")
    places = place + across[..., None] * right + back[..., None] * ahead
    inside = ((places >= 0) & (places < cells.shape)).all(-1)
    xs, ys = np.moveaxis(np.where(inside[..., None], places, 0), -1, 0)
    view = np.where(inside, cells[xs, ys], WALL)
    return np.where(_lit(view != WALL), view, UNSEEN)


def _lit(clear: Bool[np.ndarray, "V V"]) -> Bool[np.ndarray, "V V"]:
    """Which cells are seen, by MiniGrid's rule: row by row away from the eye, light goes from each clear cell to its neighbour in
    the row, first all to the right, then all to the left; and to the next row, straight on and aslant to that side."""
    lit = np.zeros((V, V), bool)
    lit[EYE] = True
    for row in reversed(range(V)):
        for turn, columns in ((1, range(V - 1)), (-1, reversed(range(1, V)))):
            for column in columns:
                if lit[column, row] and clear[column, row]:
                    lit[column + turn, row] = True
                    if row:
                        lit[[column, column + turn], row - 1] = True
    return lit


class SearchNotes(eqx.Module):
    """What a player of MiniGrid's Memory remembers."""

    sought: Int[Array, ""]
    """KEY or BALL; 0 before it was seen."""

    turned: Bool[Array, ""]
    """It has come to the end of the hallway, and looks to the side it chose."""


@dataclasses.dataclass(frozen=True)
class MiniGridMemoryPlayer(Player):
    """Goes west until it sees the object in the room, then east, then to the object that is the same."""

    def begin(self, state: CorridorState) -> SearchNotes:
        """Nothing."""
        return SearchNotes(sought=jnp.int32(0), turned=jnp.bool_(False))

    def act(self, notes: SearchNotes, observation: Float[Array, " O"], key: PRNGKeyArray) -> tuple[SearchNotes, Int[Array, ""]]:
        """By what is seen and where it looks."""
        cells = jnp.argmax(observation[: V * V * CODES].reshape(V, V, CODES), -1)
        heading = jnp.argmax(observation[V * V * CODES :][:4])
        objects = jnp.max(jnp.where(cells >= KEY, cells, 0))
        sought = jnp.where((notes.sought == 0) & (heading == WEST), objects, notes.sought).astype(jnp.int32)
        arrived = (sought > 0) & (heading == EAST) & (cells[EYE[0], EYE[1] - 1] == WALL)
        to_side = jnp.where(jnp.any(cells[: EYE[0], EYE[1]] == sought), LEFT, RIGHT)
        onwards = jnp.where(sought == 0, heading == WEST, heading == EAST) | notes.turned
        action = jnp.where(arrived, to_side, jnp.where(onwards, FORWARD, LEFT)).astype(jnp.int32)
        return SearchNotes(sought=sought, turned=notes.turned | arrived), action
