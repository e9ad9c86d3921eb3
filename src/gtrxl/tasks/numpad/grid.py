"""Grid Numpad: the paper's Numpad with one move per step between neighbouring pads. The memory problem alone.

P pads, O numbers in an observation, A moves, H rows and W columns of a picture.
"""

import dataclasses
import functools

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree, UInt8

from gtrxl.tasks.contract import Step, Task
from gtrxl.tasks.controls import PACE, Button, ChoiceControls
from gtrxl.tasks.defaults import TaskDefaults, looking_back
from gtrxl.tasks.drawing import canvas as c
from gtrxl.tasks.drawing.canvas import SIDE, Canvas
from gtrxl.tasks.errors import in_range
from gtrxl.tasks.numpad.explorer import Explorer, SequenceNotes
from gtrxl.tasks.numpad.pads import Pads, Sequence, draw_number
from gtrxl.tasks.players.player import Player

MOVES = np.array([(0, 0), (-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0), (1, 1)], np.int32)
"""Action -> (rows, columns): stay, and the eight moves of a king."""
_ARROWS = ("↖↑↗", "←·→", "↙↓↘")
_KEYS = (
    (("KeyQ", "Numpad7"), ("KeyW", "ArrowUp", "Numpad8"), ("KeyE", "Numpad9")),
    (("KeyA", "ArrowLeft", "Numpad4"), ("Period", "Numpad5"), ("KeyD", "ArrowRight", "Numpad6")),
    (("KeyZ", "KeyY", "Numpad1"), ("KeyS", "ArrowDown", "KeyX", "Numpad2"), ("KeyC", "Numpad3")),
)


class GridState(eqx.Module):
    """Where the agent is, and the pads."""

    pads: Pads
    row: Int[Array, ""]
    column: Int[Array, ""]
    elapsed: Int[Array, ""]


@dataclasses.dataclass(frozen=True)
class GridNumpad(Task):
    """N x N pads and a hidden sequence. Moving onto its next pad lights it and pays 1; onto another clears all lights.

    A number pays once in a pass; the whole sequence lit, the lights go out and it can be done again. Staying, or moving against
    the edge, presses nothing. Sees: where it is, which pads are lit, its last action and reward.
    """

    size: int = 2
    """Pads on a side."""

    sequence: int | None = None
    """Numbers in the hidden sequence; all N * N when left out."""

    episode_steps: int = 50
    """Steps in an episode."""

    def __post_init__(self):
        in_range("episode_steps", self.episode_steps, least=1, hint="an episode has at least one step")
        _ = self.hidden

    @property
    def hidden(self) -> Sequence:
        """The sequences that can be hidden."""
        return Sequence(size=self.size, length=self.size**2 if self.sequence is None else self.sequence)

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        """Position [P], lights [P], last action [9], all one-hot or 0/1; last reward."""
        return gymnasium.spaces.Box(0.0, 1.0, (2 * self.size**2 + len(MOVES) + 1,), np.float32)

    @property
    def action_space(self) -> gymnasium.spaces.Discrete:
        """0 stays; 1 to 8 are the moves of a king, row by row from the upper left."""
        return gymnasium.spaces.Discrete(len(MOVES))

    def reset(self, key: PRNGKeyArray) -> tuple[GridState, Float[Array, " O"]]:
        """A hidden sequence and a start, both drawn uniformly."""
        sequence_key, start_key = jax.random.split(key)
        start = jax.random.randint(start_key, (), 0, self.size**2)
        row, column = jnp.divmod(start, self.size)
        state = GridState(pads=self.hidden.draw(sequence_key), row=row, column=column, elapsed=jnp.int32(0))
        return state, self._observe(state, jnp.zeros(len(MOVES)), jnp.float32(0))

    def step(self, state: GridState, action: Int[Array, ""]) -> tuple[GridState, Step]:
        """Moves, and presses the pad it comes onto."""
        move = jnp.asarray(MOVES)[action]
        row, column = state.row + move[0], state.column + move[1]
        inside = (row >= 0) & (row < self.size) & (column >= 0) & (column < self.size)
        moved = inside & (action != 0)
        row, column = jnp.where(inside, row, state.row), jnp.where(inside, column, state.column)
        pads, reward = self.hidden.press(state.pads, row * self.size + column, moved)
        state = GridState(pads=pads, row=row, column=column, elapsed=state.elapsed + 1)
        observation = self._observe(state, _one_hot(action, len(MOVES)), reward)
        return state, Step(
            observation=observation,
            reward=reward,
            terminated=jnp.zeros((), bool),
            truncated=state.elapsed >= self.episode_steps,
        )

    def player(self) -> "GridNumpadPlayer":
        """Finds the sequence by deduction."""
        return GridNumpadPlayer(self)

    def told_player(self) -> "GridNumpadPlayer":
        """Knows the sequence."""
        return GridNumpadPlayer(self, told=True)

    def defaults(self) -> TaskDefaults:
        """More of everything for more pads."""
        memory = looking_back(self.episode_steps)
        if self.size == 2:
            # At a rate of 1e-3 it is learned as soon, and two runs of seven fell by a tenth for a while (docs/log.md).
            # With gradients limited ten seeds of ten keep what they have solved, without it eight do.
            quick = {"eps_eta": 0.2, "eps_alpha": 0.02, "alpha_init": 0.3, "learning_rate": 5e-4, "max_surge": 1.5}
            return TaskDefaults(memory, steps=3_000_000, vmpo=quick, recurrent={"learning_rate": 2e-3})
        # The first policy is held back until the values mean something: on 2 x 2 pads that only costs time.
        patient = {"eps_eta": 0.5, "eps_alpha": 0.03, "alpha_init": 5.0, "max_surge": 1.5}
        return TaskDefaults(memory, steps=30_000_000, streams=32, vmpo=patient)

    def controls(self) -> ChoiceControls:
        """A block of nine keys."""
        buttons = [Button(_ARROWS[row][column], _ARROWS[row][column], _KEYS[row][column]) for row, column in MOVES + 1]
        places = sorted(range(len(MOVES)), key=lambda i: tuple(MOVES[i]))
        return ChoiceControls(tuple(buttons[i] for i in places), PACE, 3, tuple(places))

    def interest(self, state: GridState) -> float:
        """Many lights."""
        return float(state.pads.lit)

    def draw(self, state: GridState, *, observation: PyTree = None, secret: bool = False) -> UInt8[np.ndarray, "H W 3"]:
        """The pads from above."""
        canvas = Canvas(SIDE, SIDE)
        cell = (SIDE - 24) / self.size
        pad = 0.84 * cell
        centres = [(12 + cell * (0.5 + i % self.size), 12 + cell * (0.5 + i // self.size)) for i in range(self.size**2)]
        lights = np.asarray(state.pads.order >= 0) & np.asarray(state.pads.order < state.pads.lit)
        for centre, lit in zip(centres, lights, strict=True):
            if lit:
                canvas.glow(centre, 0.53 * cell, fill=c.LIGHT, strength=0.8)
        for i, (centre, lit) in enumerate(zip(centres, lights, strict=True)):
            fill, edge = (c.LIGHT, c.LIGHT_EDGE) if lit else (c.PAD, c.EDGE)
            canvas.box(centre, (pad, pad), fill=fill, edge=edge, line=2, round=0.14 * cell)
            corner = (centre[0] - 0.36 * cell, centre[1] - 0.28 * cell)
            draw_number(canvas, state.pads, i, corner, size=max(12, 0.16 * cell), secret=secret, anchor="lm")
        x, y = centres[int(state.row) * self.size + int(state.column)]
        canvas.glow((x, y + 0.08 * cell), 0.2 * cell, fill="#000000", strength=0.3)
        canvas.ball((x, y), 0.2 * cell)
        return canvas.pixels()

    def _observe(self, state: GridState, action: Float[Array, " A"], reward: Float[Array, ""]) -> Float[Array, " O"]:
        place = _one_hot(state.row * self.size + state.column, self.size**2)
        return jnp.concatenate([place, state.pads.lights(), action, reward[None]])


def _one_hot(index: Int[Array, ""], size: int) -> Float[Array, " size"]:
    return (jnp.arange(size) == index).astype(jnp.float32)


class GridNotes(eqx.Module):
    """What a player of Grid Numpad remembers: what it learnt, and what it last saw."""

    learnt: SequenceNotes
    place: Int[Array, ""]
    """-1 before the first step."""
    lit: Int[Array, ""]


@dataclasses.dataclass(frozen=True)
class GridNumpadPlayer(Player):
    """Explores by deduction, remembers everything, and repeats the sequence by the shortest way."""

    task: GridNumpad
    told: bool = False
    """Whether it is told the sequence at the start."""

    @property
    def explorer(self) -> Explorer:
        """What chooses the pads."""
        return Explorer(self.task.hidden)

    def begin(self, state: GridState) -> GridNotes:
        """Nothing, or the sequence."""
        learnt = self.explorer.told(state.pads) if self.told else self.explorer.begin()
        return GridNotes(learnt=learnt, place=jnp.int32(-1), lit=jnp.int32(0))

    def act(self, notes: GridNotes, observation: Float[Array, " O"], key: PRNGKeyArray) -> tuple[GridNotes, Int[Array, ""]]:
        """A step towards the pad it wants."""
        pads = self.task.size**2
        place = jnp.argmax(observation[:pads]).astype(jnp.int32)
        lit = jnp.sum(observation[pads : 2 * pads]).astype(jnp.int32)
        pressed = (notes.place >= 0) & (place != notes.place)
        learnt = self.explorer.learn(notes.learnt, lit=notes.lit, pad=place, pressed=pressed, reward=observation[-1])
        ways = jnp.asarray(_ways(self.task.size))
        target = self.explorer.next_pad(learnt, lit=lit, costs=ways, here=place)
        # To press the pad it stands on it must leave and come back; any neighbour will do, for then nothing is lit.
        after = jnp.asarray(_destinations(self.task.size))[place]
        left = jnp.where(after == target, 0.0, ways[after, target])
        action = jnp.argmin(jnp.where(after == place, jnp.inf, left))
        return GridNotes(learnt=learnt, place=place, lit=lit), action


@functools.cache
def _ways(size: int) -> Float[np.ndarray, "P P"]:
    """Moves from each pad to each pad; two to itself, since it must be left first."""
    row, column = np.divmod(np.arange(size * size), size)
    apart = np.maximum(np.abs(row[:, None] - row), np.abs(column[:, None] - column))
    return np.where(apart == 0, 2, apart).astype(np.float32)


@functools.cache
def _destinations(size: int) -> Int[np.ndarray, "P A"]:
    """Where each move leads from each pad; the pad itself if it leads nowhere."""
    row, column = np.divmod(np.arange(size * size), size)
    rows, columns = row[:, None] + MOVES[:, 0], column[:, None] + MOVES[:, 1]
    inside = (rows >= 0) & (rows < size) & (columns >= 0) & (columns < size)
    return np.where(inside, rows * size + columns, np.arange(size * size)[:, None])
