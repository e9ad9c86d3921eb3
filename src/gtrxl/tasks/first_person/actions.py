"""What a first-person agent can do: the paper's 15 actions, its 5 for visuomotor mapping, and Memory Maze's hybrid ones.

A command says what to do in each of the frames that an action is repeated for, in DeepMind Lab's native units.
"""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

REPEAT = 4
"""Frames that an action is repeated for; there are 60 in a second."""
STEPS_A_SECOND = 60 / REPEAT


class Pace(NamedTuple):
    """How fast one is."""

    degrees: float
    """How far a look of one pixel for one frame turns."""
    cells: float
    """How far a step goes in one frame."""
    highest: float
    """Degrees that one can look up or down."""


LAB_PACE = Pace(degrees=0.1056, cells=3.2 / 60, highest=88.0)
"""DeepMind Lab's: 3.2 cells a second."""
OWN_PACE = Pace(degrees=0.11, cells=0.05, highest=60.0)
"""Memory Maze's, whose original is not public: 3 cells a second."""

LAB_ACTIONS = {
    "forward": (0, 0, 0, 1, 0),
    "backward": (0, 0, 0, -1, 0),
    "strafe left": (0, 0, -1, 0, 0),
    "strafe right": (0, 0, 1, 0, 0),
    "small look left": (-10, 0, 0, 0, 0),
    "small look right": (10, 0, 0, 0, 0),
    "large look left": (-60, 0, 0, 0, 0),
    "large look right": (60, 0, 0, 0, 0),
    "look down": (0, 10, 0, 0, 0),
    "look up": (0, -10, 0, 0, 0),
    "forward, small look left": (-10, 0, 0, 1, 0),
    "forward, small look right": (10, 0, 0, 1, 0),
    "forward, large look left": (-60, 0, 0, 1, 0),
    "forward, large look right": (60, 0, 0, 1, 0),
    "fire": (0, 0, 0, 0, 1),
}
"""The paper's table: look left/right and down/up in pixels a frame, strafe, move, fire."""

MAPPING_ACTIONS = {
    "small look left": (-10, 0, 0, 0, 0),
    "small look right": (10, 0, 0, 0, 0),
    "look down": (0, 10, 0, 0, 0),
    "look up": (0, -10, 0, 0, 0),
    "nothing": (0, 0, 0, 0, 0),
}
"""The paper's reduced set for arbitrary visuomotor mapping."""

HYBRID_NUMBERS = (
    "LOOK_LEFT_RIGHT",
    "LOOK_DOWN_UP",
    "STRAFE_LEFT_RIGHT",
    "MOVE_BACK_FORWARD",
    "HAND_ROTATE_AROUND_RIGHT",
    "HAND_ROTATE_AROUND_UP",
    "HAND_ROTATE_AROUND_FORWARD",
    "HAND_PUSH_PULL",
)
"""Memory Maze's continuous actions, each in [-1, 1] here (the paper's HAND_PUSH_PULL is ten times that). There is no hand in this
world: what moves it is taken and does nothing."""
LOOK_PIXELS = 60.0
"""What a LOOK of 1 is, in pixels a frame."""


class Command(eqx.Module):
    """What to do in each frame of a step."""

    look_right: Float[Array, "*s"]
    """Degrees a frame."""
    look_up: Float[Array, "*s"]
    """Degrees a frame."""
    strafe: Float[Array, "*s"]
    """To the right; 1 is full speed."""
    move: Float[Array, "*s"]
    """Forward."""
    fire: Bool[Array, "*s"]


def native(table: dict[str, tuple[int, ...]]) -> Float[np.ndarray, "A 5"]:
    """The rows of a table, by number of the action."""
    return np.array(list(table.values()), np.float32)


def command_of(row: Float[Array, "*s 5"], pace: Pace = LAB_PACE) -> Command:
    """A native action, as a command."""
    return Command(
        look_right=row[..., 0] * pace.degrees,
        look_up=-row[..., 1] * pace.degrees,
        strafe=row[..., 2],
        move=row[..., 3],
        fire=row[..., 4] > 0,
    )


def hybrid_command(numbers: Float[Array, "*s 8"], grip: Int[Array, "*s"], pace: Pace = OWN_PACE) -> Command:
    """Memory Maze's action, as a command. What is outside [-1, 1] is cut off; the hand's five numbers and its grip do nothing."""
    del grip
    numbers = jnp.clip(numbers, -1.0, 1.0)
    return Command(
        look_right=numbers[..., 0] * LOOK_PIXELS * pace.degrees,
        look_up=numbers[..., 1] * LOOK_PIXELS * pace.degrees,
        strafe=numbers[..., 2],
        move=numbers[..., 3],
        fire=jnp.zeros(numbers.shape[:-1], bool),
    )
