"""Keys for people in a first-person level: to walk, to look, and which of a level's actions come nearest to what is wished for.

A actions.
"""

import dataclasses
from collections.abc import Set

import numpy as np
from jaxtyping import Float

from gtrxl.tasks.controls import KEYS, Button, Controls
from gtrxl.tasks.first_person.actions import LOOK_PIXELS, STEPS_A_SECOND

FAST, WAIT = "fast", "wait"
_WALK = {
    button.name: button
    for button in (
        Button("turn left", "↺", KEYS["left"]),
        Button("forward", "↑", KEYS["up"]),
        Button("turn right", "↻", KEYS["right"]),
        Button("look up", "⤒", ("KeyR", "PageUp")),
        Button("step left", "←", ("KeyQ",)),
        Button("backward", "↓", KEYS["down"]),
        Button("step right", "→", ("KeyE",)),
        Button("look down", "⤓", ("KeyF", "PageDown")),
        Button(FAST, "fast", ("ShiftLeft", "ShiftRight"), changes=True),
        Button(WAIT, "wait", ("Period", "KeyX")),
    )
}
_FIRE = Button("fire", "fire", ("Space",))

_MEANING = {
    "forward": (0, 0, 0, 1, 0),
    "backward": (0, 0, 0, -1, 0),
    "turn left": (-10, 0, 0, 0, 0),
    "turn right": (10, 0, 0, 0, 0),
    "step left": (0, 0, -1, 0, 0),
    "step right": (0, 0, 1, 0, 0),
    "look up": (0, -10, 0, 0, 0),
    "look down": (0, 10, 0, 0, 0),
    "fire": (0, 0, 0, 0, 1),
    WAIT: (0, 0, 0, 0, 0),
}
"""What each button wishes for, in DeepMind Lab's native units."""
_FAST = np.array([6, 1, 1, 1, 1], np.float32)


def _wish(held: Set[str]) -> Float[np.ndarray, "5"]:
    """What buttons wish for together; opposite ones cancel."""
    row = np.array([_MEANING[name] for name in held if name != FAST], np.float32).sum(axis=0)
    return row * (_FAST if FAST in held else 1)


@dataclasses.dataclass(frozen=True)
class TableControls(Controls):
    """Of a level with a table of actions: the one that is nearest to what is wished for, equally near ones in turn."""

    table: tuple[tuple[float, ...], ...]

    def meant(self, held: Set[str], step: int) -> np.int32 | None:
        """None if the wishes cancel and no action does nothing."""
        wish, rows = _wish(held), np.array(self.table, np.float32)
        if not wish.any() and rows.any(axis=1).all():
            return None
        away = np.linalg.norm((rows - wish) / np.array([10, 10, 1, 1, 1], np.float32), axis=1)
        nearest = np.flatnonzero(np.isclose(away, away.min()))
        return np.int32(nearest[step % len(nearest)])


def table_controls(rows: Float[np.ndarray, "A 5"]) -> TableControls:
    """The buttons that some action of the table answers to."""
    buttons = {**_WALK, _FIRE.name: _FIRE}
    if not rows[:, 3].any():  # nobody walks: the keys for walking look up and down
        for name, keys in (("look up", KEYS["up"]), ("look down", KEYS["down"])):
            buttons[name] = dataclasses.replace(buttons[name], keys=keys + buttons[name].keys)

    def answered(name: str) -> bool:
        if name == FAST:
            return bool((abs(rows[:, 0]) > 10).any())
        return bool((rows == np.array(_MEANING[name], np.float32)).all(axis=1).any())

    known = tuple(button for name, button in buttons.items() if answered(name))
    return TableControls(known, STEPS_A_SECOND, 4, tuple(tuple(row) for row in rows.tolist()))


class HybridControls(Controls):
    """Of a level that takes eight numbers and a grip: a quarter of the fastest turn, or all of it."""

    @classmethod
    def usual(cls) -> "HybridControls":
        """Of walking and looking."""
        return cls(tuple(_WALK.values()), STEPS_A_SECOND, 4)

    def meant(self, held: Set[str], step: int) -> dict[str, np.ndarray]:
        """The numbers; the hand stays still."""
        look, down, strafe, move, _ = _wish(held)
        turn = look / LOOK_PIXELS if FAST in held else look / 10 / 4
        numbers = np.array([turn, -down / LOOK_PIXELS, strafe, move, 0, 0, 0, 0], np.float32)
        return {"continuous": numbers, "discrete": np.zeros(1, np.int32)}
