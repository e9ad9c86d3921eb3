"""T-maze: a sign at the start says which way to turn at the far end of a corridor. One thing to keep, for as long as you like.

O = 4 numbers in an observation.
"""

import dataclasses
from typing import ClassVar

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from gtrxl.envs.contract import Step, Task
from gtrxl.envs.errors import in_range

FORWARD, LEFT, RIGHT = 0, 1, 2
"""The actions."""


class MazeState(eqx.Module):
    """Which way is right, and where the agent is."""

    side: Int[Array, ""]
    """The action that is paid at the junction: LEFT or RIGHT."""

    place: Int[Array, ""]
    """Cells from the sign; the junction is the last."""

    turned: Int[Array, ""]
    """The turn taken, LEFT or RIGHT; 0 before it."""

    elapsed: Int[Array, ""]


@dataclasses.dataclass(frozen=True)
class TMaze(Task):
    """A sign, a corridor, a junction. The turn that the sign named pays 1, the other nothing; both end the episode.

    The sign is seen in the first observation alone, and the junction `corridor` steps later. Until then every action leads one
    cell on, so that nothing an agent does leaves a trace in what it sees: without memory at most half of the turns are right,
    whatever it does. At the junction `forward` waits. Sees: the sign, or that this is the corridor, or that it is the junction.
    It does not see its last action: an agent that is shown it could carry the sign in it from step to step.
    """

    corridor: int = 40
    """Steps between seeing the sign and having to turn: how far back one must remember."""

    patience: int = 10
    """Steps at the junction before the clock runs out."""

    episode_steps: int = dataclasses.field(init=False, repr=False)
    """corridor + patience."""

    name: ClassVar[str] = "t-maze"

    def __post_init__(self):
        in_range("corridor", self.corridor, least=1, hint="it is the number of steps to remember the sign for")
        in_range("patience", self.patience, least=1, hint="turning takes one step")
        object.__setattr__(self, "episode_steps", self.corridor + self.patience)

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        """Sign says left, sign says right, in the corridor, at the junction: one of them is 1."""
        return gymnasium.spaces.Box(0.0, 1.0, (4,), np.float32)

    @property
    def action_space(self) -> gymnasium.spaces.Discrete:
        """0 goes forward, 1 turns left, 2 turns right."""
        return gymnasium.spaces.Discrete(3)

    def reset(self, key: PRNGKeyArray) -> tuple[MazeState, Float[Array, " O"]]:
        """Left or right, each half of the time."""
        side = jax.random.randint(key, (), LEFT, RIGHT + 1)
        state = MazeState(side=side, place=jnp.int32(0), turned=jnp.int32(0), elapsed=jnp.int32(0))
        return state, self._observe(state)

    def step(self, state: MazeState, action: Int[Array, ""]) -> tuple[MazeState, Step]:
        """One cell on; at the junction, a turn."""
        turns = self._at_junction(state) & (action != FORWARD)
        elapsed = state.elapsed + 1
        reward = (turns & (action == state.side)).astype(jnp.float32)
        state = MazeState(
            side=state.side,
            place=jnp.minimum(state.place + 1, self.corridor),
            turned=jnp.where(turns, action, 0).astype(jnp.int32),
            elapsed=elapsed,
        )
        truncated = ~turns & (elapsed >= self.episode_steps)
        return state, Step(observation=self._observe(state), reward=reward, terminated=turns, truncated=truncated)

    def _at_junction(self, state: MazeState) -> Bool[Array, ""]:
        return state.place == self.corridor

    def _observe(self, state: MazeState) -> Float[Array, " O"]:
        sign, junction = state.place == 0, self._at_junction(state)
        seen = [sign & (state.side == LEFT), sign & (state.side == RIGHT), ~sign & ~junction, junction]
        return jnp.stack(seen).astype(jnp.float32)
