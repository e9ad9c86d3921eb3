"""T-maze: a sign at the start says which way to turn at the far end of a corridor. One thing to keep, for as long as you like.

O = 4 numbers in an observation, H rows and W columns of a picture.
"""

import dataclasses

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree, UInt8

from gtrxl.tasks.contract import Step, Task
from gtrxl.tasks.controls import KEYS, Button, ChoiceControls
from gtrxl.tasks.defaults import TaskDefaults, looking_back
from gtrxl.tasks.drawing import canvas as c
from gtrxl.tasks.drawing.canvas import SIDE, Canvas
from gtrxl.tasks.errors import in_range
from gtrxl.tasks.players.player import Player

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

    def player(self) -> "TMazePlayer":
        """Remembers the sign."""
        return TMazePlayer(self)

    def defaults(self) -> TaskDefaults:
        """Cores without a window learn only what an unroll spans: theirs holds an episode, where that is affordable."""
        spanning = looking_back(self.episode_steps)
        return TaskDefaults(memory=spanning, recurrent={"learning_rate": 1e-3}, recurrent_unroll=spanning)

    def controls(self) -> ChoiceControls:
        """As it is drawn, the corridor leads to the right."""
        return ChoiceControls.of(
            Button("forward", "→", KEYS["right"]),
            Button("turn left", "↑", KEYS["up"]),
            Button("turn right", "↓", KEYS["down"]),
        )

    def interest(self, state: MazeState) -> float:
        """The sign."""
        return float(state.place == 0)

    def draw(self, state: MazeState, *, observation: PyTree = None, secret: bool = False) -> UInt8[np.ndarray, "H W 3"]:
        """The maze from above; the sign is bright while the agent sees it."""
        canvas = Canvas(SIDE, SIDE)
        left, right, middle, wide, arm = 32.0, SIDE - 36.0, SIDE / 2, 32.0, 84.0
        floor = "#e4dece"
        for grown, colour in ((8, c.WALL), (0, floor)):
            canvas.box(((left + right) / 2, middle), (right - left + wide + grown, wide + grown), fill=colour, round=4)
            canvas.box((right, middle), (wide + grown, 2 * arm + wide + grown), fill=colour, round=4)
        cell = (right - left) / self.corridor
        if cell >= 4:
            for i in range(1, self.corridor):
                x = left + (i - 0.5) * cell + cell / 2
                canvas.line([(x, middle + 8), (x, middle + 11)], fill=c.EDGE, line=1)

        place, side, turned = int(state.place), int(state.side), int(state.turned)
        for each in (LEFT, RIGHT):
            end = (right, middle + (-arm if each == LEFT else arm))
            if turned == each:
                canvas.glow(end, 24, fill=c.RIGHT if turned == side else c.WRONG, strength=0.7)
            elif not turned:
                canvas.text(end, "?", size=20, fill=c.FAINT)

        seen = place == 0
        sign = (left, middle - 58)
        canvas.line([(left, middle - 40), (left, middle - 20)], fill=c.WALL, line=4)
        canvas.box(sign, (44, 40), fill=c.LIGHT if seen else c.PAD, edge=c.LIGHT_EDGE if seen else c.EDGE, round=6)
        if seen or secret or turned:
            _arrow(canvas, sign, up=side == LEFT, fill="#7a4b00" if seen else c.FAINT)
        else:
            canvas.text(sign, "…", size=18, fill=c.FAINT)

        x = left + place * cell
        y = middle + {0: 0.0, LEFT: -arm, RIGHT: arm}[turned]
        canvas.glow((x, y + 5), 12, fill="#000000", strength=0.3)
        canvas.ball((x, y), 12)
        if turned:
            word, colour = ("correct", c.RIGHT) if turned == side else ("wrong", c.WRONG)
            canvas.text((right - 66, y), word, size=18, fill=colour)
        canvas.text((left - 14, middle + 42), f"{place} of {self.corridor} cells", size=13, fill=c.INK, anchor="lm")
        return canvas.pixels()

    def _at_junction(self, state: MazeState) -> Bool[Array, ""]:
        return state.place == self.corridor

    def _observe(self, state: MazeState) -> Float[Array, " O"]:
        sign, junction = state.place == 0, self._at_junction(state)
        seen = [sign & (state.side == LEFT), sign & (state.side == RIGHT), ~sign & ~junction, junction]
        return jnp.stack(seen).astype(jnp.float32)


def _arrow(canvas: Canvas, centre: c.Point, *, up: bool, fill: str) -> None:
    x, y = centre
    tip = -13 if up else 13
    canvas.line([(x, y - tip), (x, y + tip * 0.3)], fill=fill, line=5)
    canvas.shape([(x, y + tip), (x - 10, y + tip * 0.1), (x + 10, y + tip * 0.1)], fill=fill)


class SignNotes(eqx.Module):
    """What a player of the T-maze remembers."""

    side: Int[Array, ""]
    """LEFT or RIGHT; 0 before the sign was seen."""


@dataclasses.dataclass(frozen=True)
class TMazePlayer(Player):
    """Remembers the sign."""

    task: TMaze

    def begin(self, state: MazeState) -> SignNotes:
        """Nothing."""
        return SignNotes(side=jnp.int32(0))

    def act(self, notes: SignNotes, observation: Float[Array, " O"], key: PRNGKeyArray) -> tuple[SignNotes, Int[Array, ""]]:
        """Forward, and at the junction as the sign said."""
        left, right, _, junction = observation
        side = jnp.where(left > 0, LEFT, jnp.where(right > 0, RIGHT, notes.side)).astype(jnp.int32)
        return SignNotes(side=side), jnp.where(junction > 0, side, 0)
