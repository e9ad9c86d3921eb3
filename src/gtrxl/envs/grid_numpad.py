"""Grid Numpad: the paper's Numpad with one move per step between neighbouring pads. The memory problem alone.

P pads, O numbers in an observation.
"""

import dataclasses
from typing import ClassVar

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from gtrxl.envs.contract import Step, Task
from gtrxl.envs.errors import in_range
from gtrxl.envs.pads import Pads, Sequence

MOVES = np.array([(0, 0), (-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0), (1, 1)], np.int32)
"""Action -> (rows, columns): stay, and the eight moves of a king."""


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

    name: ClassVar[str] = "grid-numpad"

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

    def _observe(self, state: GridState, action: Float[Array, " A"], reward: Float[Array, ""]) -> Float[Array, " O"]:
        place = _one_hot(state.row * self.size + state.column, self.size**2)
        return jnp.concatenate([place, state.pads.lights(), action, reward[None]])


def _one_hot(index: Int[Array, ""], size: int) -> Float[Array, " size"]:
    return (jnp.arange(size) == index).astype(jnp.float32)
