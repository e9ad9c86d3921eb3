"""Players that are written by hand: one with a perfect memory for each task, one that is told the secret, one that is random.

    notes = player.begin(state)                            what it knows before the first step
    notes, action = player.act(notes, observation, key)    sees what an agent sees, and remembers all of it

P pads, O numbers in an observation, C places on a grid.
"""

import abc
import dataclasses
import functools
from typing import Any, ClassVar

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from gtrxl.envs.contract import State, Task
from gtrxl.envs.errors import TaskError
from gtrxl.envs.explorer import Explorer, Notes
from gtrxl.envs.grid_numpad import MOVES, GridNumpad
from gtrxl.envs.numpad import PAD_RADIUS, PAD_SPACING, Numpad, NumpadState, drive_to
from gtrxl.envs.pads import Pads
from gtrxl.envs.recall import Recall
from gtrxl.envs.sphere import JUMP, TOP_HEIGHT, TOP_SPEED, moving
from gtrxl.envs.t_maze import LEFT, RIGHT, TMaze


class Player(abc.ABC):
    """Plays one stream. Frozen and pure, so that whole episodes compile."""

    looks: ClassVar[bool] = True
    """Whether it needs the observation. For one that does not, no pictures are drawn and `act` is given None."""

    @abc.abstractmethod
    def begin(self, state: State) -> Any:
        """Notes before the first step. Only a player that is told the secret looks at the state."""

    @abc.abstractmethod
    def act(self, notes: Any, observation: PyTree, key: PRNGKeyArray) -> tuple[Any, PyTree]:
        """An action, and what to remember."""


@dataclasses.dataclass(frozen=True)
class RandomPlayer(Player):
    """Every action as likely as every other, whatever it sees."""

    task: Task

    looks: ClassVar[bool] = False

    def begin(self, state: State) -> None:
        """Nothing."""

    def act(self, notes: None, observation: PyTree, key: PRNGKeyArray) -> tuple[None, PyTree]:
        """One of the actions, or a vector in [-1, 1], or a dict of both."""
        return None, random_action(self.task, key)


def random_action(task: Task, key: PRNGKeyArray) -> PyTree:
    """Drawn uniformly from the actions of a task."""
    return _drawn(task.action_space, key)


def _drawn(space: gymnasium.Space, key: PRNGKeyArray) -> PyTree:
    if isinstance(space, gymnasium.spaces.Dict):
        keys = jax.random.split(key, len(space.spaces))
        return {name: _drawn(part, each) for (name, part), each in zip(space.spaces.items(), keys, strict=True)}
    if isinstance(space, gymnasium.spaces.Discrete):
        return jax.random.randint(key, (), 0, int(space.n))
    if isinstance(space, gymnasium.spaces.MultiDiscrete):
        return jax.random.randint(key, space.shape, 0, jnp.asarray(space.nvec, jnp.int32))
    assert space.shape is not None
    return jax.random.uniform(key, space.shape, minval=-1.0, maxval=1.0)


class GridNotes(eqx.Module):
    """What a player of Grid Numpad remembers: what it learnt, and what it last saw."""

    learnt: Notes
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

    def begin(self, state: State) -> GridNotes:
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


class RollNotes(eqx.Module):
    """What a player of Numpad remembers: what it learnt, and what it last saw."""

    learnt: Notes
    held: Bool[Array, ""]
    """Whether it touched a pad."""
    lit: Int[Array, ""]
    target: Int[Array, ""]
    """The pad it is on its way to; -1 before the first step."""


@dataclasses.dataclass(frozen=True)
class NumpadPlayer(Player):
    """Chooses its pads like the player of Grid Numpad, and rolls there."""

    task: Numpad
    told: bool = False
    """Whether it is told the sequence at the start."""

    @property
    def explorer(self) -> Explorer:
        """What chooses the pads."""
        return Explorer(self.task.hidden)

    def begin(self, state: State) -> RollNotes:
        """Nothing, or the sequence."""
        learnt = self.explorer.told(state.pads) if self.told else self.explorer.begin()
        held = jnp.ones((), bool)  # what it lies on at first is not pressed
        return RollNotes(learnt=learnt, held=held, lit=jnp.int32(0), target=jnp.int32(-1))

    def act(self, notes: RollNotes, observation: Float[Array, " O"], key: PRNGKeyArray) -> tuple[RollNotes, Float[Array, "3"]]:
        """Drives towards the pad it wants."""
        pads, centres = self.task.size**2, jnp.asarray(self.task.pad_centres)
        half_width = self.task.half_width
        position = observation[0:3] * np.array([half_width, half_width, TOP_HEIGHT], np.float32)
        velocity = observation[3:6] * np.array([TOP_SPEED, TOP_SPEED, JUMP], np.float32)
        sphere = moving(position=position, velocity=velocity, roll=observation[9:11] * TOP_SPEED)
        away = jnp.linalg.norm(centres - position[None, :2], axis=1)
        here, held = jnp.argmin(away).astype(jnp.int32), sphere.grounded & (jnp.min(away) <= PAD_RADIUS)
        lit, reward = jnp.sum(observation[11 : 11 + pads]).astype(jnp.int32), observation[-1]
        pressed = (held & ~notes.held) | (reward > 0) | ((lit == 0) & (notes.lit > 0))
        learnt = self.explorer.learn(notes.learnt, lit=notes.lit, pad=here, pressed=pressed, reward=reward)
        # On its way it sticks to its choice: another pad may come nearer than the one it wants.
        choice = self.explorer.next_pad(learnt, lit=lit, costs=jnp.asarray(_rolls(self.task)), here=here)
        target = jnp.where(pressed | (notes.target < 0), choice, notes.target)
        # All that driving needs is seen; what is hidden stays out.
        blank = Pads(order=jnp.full(pads, -1, jnp.int8), lit=lit, paid=lit)
        state = NumpadState(pads=blank, sphere=sphere, held=held, elapsed=jnp.int32(0))
        action = drive_to(self.task, state, centres[target])
        return RollNotes(learnt=learnt, held=held, lit=lit, target=target), action


@functools.cache
def _rolls(task: Numpad) -> Float[np.ndarray, "P P"]:
    """About how long it takes from each pad to each pad, in spacings; to itself it takes a jump."""
    centres = task.pad_centres
    apart = np.linalg.norm(centres[:, None] - centres, axis=-1) / PAD_SPACING
    return np.where(apart == 0, 1.5, apart).astype(np.float32)


class SignNotes(eqx.Module):
    """What a player of the T-maze remembers."""

    side: Int[Array, ""]
    """LEFT or RIGHT; 0 before the sign was seen."""


@dataclasses.dataclass(frozen=True)
class TMazePlayer(Player):
    """Remembers the sign."""

    task: TMaze

    def begin(self, state: State) -> SignNotes:
        """Nothing."""
        return SignNotes(side=jnp.int32(0))

    def act(self, notes: SignNotes, observation: Float[Array, " O"], key: PRNGKeyArray) -> tuple[SignNotes, Int[Array, ""]]:
        """Forward, and at the junction as the sign said."""
        left, right, _, junction = observation
        side = jnp.where(left > 0, LEFT, jnp.where(right > 0, RIGHT, notes.side)).astype(jnp.int32)
        return SignNotes(side=side), jnp.where(junction > 0, side, 0)


class CardNotes(eqx.Module):
    """What a player of Recall remembers."""

    cards: Int[Array, " N"]
    """The kind of each card that was shown."""


@dataclasses.dataclass(frozen=True)
class RecallPlayer(Player):
    """Remembers the cards."""

    task: Recall

    def begin(self, state: State) -> CardNotes:
        """Nothing."""
        return CardNotes(cards=jnp.zeros(self.task.items, jnp.int32))

    def act(self, notes: CardNotes, observation: Float[Array, " O"], key: PRNGKeyArray) -> tuple[CardNotes, Int[Array, ""]]:
        """Names the card that is asked for."""
        kind, place = observation[: self.task.kinds], observation[self.task.kinds :]
        shown: Bool[Array, ""] = jnp.any(kind > 0)
        cards = jnp.where((place > 0) & shown, jnp.argmax(kind), notes.cards)
        return CardNotes(cards=cards), cards[jnp.argmax(place)]


def perfect_memory(task: Task) -> Player:
    """The player with a perfect memory: it sees what an agent sees and knows the rules, and forgets nothing."""
    return _player(task, told=False)


def told(task: Task) -> Player | None:
    """The player that is told the hidden sequence at the start; None where there is nothing to explore."""
    return None if isinstance(task, TMaze | Recall) or _first_person(task) else _player(task, told=True)


def _player(task: Task, *, told: bool) -> Player:
    if isinstance(task, GridNumpad):
        return GridNumpadPlayer(task, told=told)
    if isinstance(task, Numpad):
        return NumpadPlayer(task, told=told)
    if isinstance(task, TMaze):
        return TMazePlayer(task)
    if isinstance(task, Recall):
        return RecallPlayer(task)
    if _first_person(task):
        # These players know this file, so they are looked for when they are asked for.
        from gtrxl.envs.first_person.explore import Explore
        from gtrxl.envs.first_person.memory_maze import MemoryMaze
        from gtrxl.envs.first_person.navigator import navigator
        from gtrxl.envs.first_person.room_players import room_player

        if isinstance(task, MemoryMaze | Explore):
            return navigator(task)
        player = room_player(task)
        if player is not None:
            return player
    raise TaskError(f"a player is written for the tasks of the catalogue, got {task!r}; write your own `Player` for it")


def _first_person(task: Task) -> bool:
    return type(task).__module__.startswith("gtrxl.envs.first_person")
