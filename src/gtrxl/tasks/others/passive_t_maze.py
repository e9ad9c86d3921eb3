"""The passive T-maze of Ni et al. (2023, "When Do Transformers Shine in RL?"): walk on without delay, then turn as the sign said.

L cells of corridor, O = 2 numbers in an observation.
"""

import dataclasses

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from gtrxl.tasks.contract import Step, Task
from gtrxl.tasks.defaults import TaskDefaults, looking_back
from gtrxl.tasks.errors import in_range
from gtrxl.tasks.players.player import Player

EAST, NORTH, WEST, SOUTH = 0, 1, 2, 3
"""The actions."""


class PassiveMazeState(eqx.Module):
    """Which arm pays, and where the agent is."""

    goal: Int[Array, ""]
    """1 is the north arm, -1 the south arm."""

    x: Int[Array, ""]
    """Cells from the start; the junction is L."""

    y: Int[Array, ""]
    """1 and -1 in the arms, 0 before them."""

    elapsed: Int[Array, ""]


@dataclasses.dataclass(frozen=True)
class PassiveTMaze(Task):
    """A corridor of L cells with an arm to each side at its end; an episode has L + 1 steps, just enough to get into an arm.

    The first observation shows which arm pays, as 1 or -1; nothing else ever does. The last step pays 1 in that arm. Every other
    step costs 1 / L if the agent is behind time, that is, has ever done anything but walk east; a move into a wall leads nowhere.
    Sees: whether it is at the junction or in an arm, and the sign at first, later the arm it is in. The best return is 1, without
    memory 0.5. `t-maze` is the same question without the walk: there every action leads on, and the agent may wait and turn.
    """

    corridor: int = 50
    """L: how far back one must remember."""

    episode_steps: int = dataclasses.field(init=False, repr=False)
    """L + 1."""

    def __post_init__(self):
        in_range("corridor", self.corridor, least=1, hint="its authors have 1 to 1,500")
        object.__setattr__(self, "episode_steps", self.corridor + 1)

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        """At the junction or beyond: 1; the sign, or the arm: 1 or -1."""
        return gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)

    @property
    def action_space(self) -> gymnasium.spaces.Discrete:
        """East, north, west, south."""
        return gymnasium.spaces.Discrete(4)

    def reset(self, key: PRNGKeyArray) -> tuple[PassiveMazeState, Float[Array, " O"]]:
        """North or south, each half of the time."""
        goal = 2 * jax.random.randint(key, (), 0, 2) - 1
        state = PassiveMazeState(goal=goal, x=jnp.int32(0), y=jnp.int32(0), elapsed=jnp.int32(0))
        return state, self._observe(state)

    def step(self, state: PassiveMazeState, action: Int[Array, ""]) -> tuple[PassiveMazeState, Step]:
        """One cell, where there is one."""
        x = state.x + jnp.where(action == EAST, 1, 0) - jnp.where(action == WEST, 1, 0)
        y = state.y + jnp.where(action == NORTH, 1, 0) - jnp.where(action == SOUTH, 1, 0)
        is_corridor = (y == 0) & (x >= 0) & (x <= self.corridor)
        is_arm = (jnp.abs(y) == 1) & (x == self.corridor)
        free = is_corridor | is_arm
        state = PassiveMazeState(
            goal=state.goal,
            x=jnp.where(free, x, state.x).astype(jnp.int32),
            y=jnp.where(free, y, state.y).astype(jnp.int32),
            elapsed=state.elapsed + 1,
        )
        ends = state.elapsed >= self.episode_steps
        paid = (state.y == state.goal).astype(jnp.float32)
        late = (state.x < state.elapsed).astype(jnp.float32) / self.corridor
        reward = jnp.where(ends, paid, -late)
        return state, Step(observation=self._observe(state), reward=reward, terminated=ends, truncated=jnp.zeros((), bool))

    def player(self) -> "PassiveTMazePlayer":
        """Remembers the sign."""
        return PassiveTMazePlayer()

    def defaults(self) -> TaskDefaults:
        """Far enough to see the end from the start."""
        return TaskDefaults(memory=looking_back(self.episode_steps), discount=0.99)

    def _observe(self, state: PassiveMazeState) -> Float[Array, " O"]:
        arrived = state.x == self.corridor
        shown = jnp.where(state.elapsed == 0, state.goal, jnp.where(arrived, state.y, 0))
        return jnp.stack([arrived, shown]).astype(jnp.float32)


class ArmNotes(eqx.Module):
    """What a player of the passive T-maze remembers."""

    goal: Int[Array, ""]
    """1 or -1; 0 before the sign was seen."""


@dataclasses.dataclass(frozen=True)
class PassiveTMazePlayer(Player):
    """Remembers the sign."""

    def begin(self, state: PassiveMazeState) -> ArmNotes:
        """Nothing."""
        return ArmNotes(goal=jnp.int32(0))

    def act(self, notes: ArmNotes, observation: Float[Array, " O"], key: PRNGKeyArray) -> tuple[ArmNotes, Int[Array, ""]]:
        """East, and at the junction as the sign said."""
        goal = jnp.where(notes.goal == 0, observation[1].astype(jnp.int32), notes.goal)
        turn = jnp.where(goal > 0, NORTH, SOUTH)
        return ArmNotes(goal=goal), jnp.where(observation[0] > 0, turn, EAST).astype(jnp.int32)
