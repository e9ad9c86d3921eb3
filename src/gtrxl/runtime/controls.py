"""Keys for people: which buttons a task has, and which of its actions the buttons that are held mean.

A actions.
"""

import abc
import dataclasses
from collections.abc import Set

import gymnasium
import numpy as np
from jaxtyping import Float, PyTree

from gtrxl.envs.contract import Task
from gtrxl.envs.first_person.actions import LOOK_PIXELS, native
from gtrxl.envs.first_person.level import REPEAT, Level
from gtrxl.envs.grid_numpad import MOVES, GridNumpad
from gtrxl.envs.numpad import Numpad
from gtrxl.envs.t_maze import TMaze
from gtrxl.runtime.errors import RunError

STEPS_A_SECOND = 60 / REPEAT
"""Of the first-person tasks."""


@dataclasses.dataclass(frozen=True)
class Button:
    """Something to hold down: a name, a sign to show, and the keys that stand for it as browsers call them."""

    name: str
    sign: str
    keys: tuple[str, ...]
    changes: bool = False
    """Changes what others do; alone it does nothing."""


@dataclasses.dataclass(frozen=True)
class Controls(abc.ABC):
    """The buttons of a task."""

    buttons: tuple[Button, ...]
    pace: float
    """Steps a second while buttons are held."""
    columns: int
    """In which the buttons lie on a phone."""

    def action(self, held: Set[str], *, step: int) -> PyTree | None:
        """What the buttons mean in step number `step`; None if they mean nothing, for example left and right at once."""
        names = {button.name: button.changes for button in self.buttons}
        if unknown := sorted(set(held) - set(names)):
            raise RunError(f"a button must be one of {', '.join(names)}, got {unknown[0]!r}; see the page")
        if all(names[name] for name in held):
            return None
        return self._meant(held, step)

    @abc.abstractmethod
    def _meant(self, held: Set[str], step: int) -> PyTree | None:
        """Of known buttons, one of them at least."""


def controls_of(task: Task) -> Controls:
    """The buttons of a task of the catalogue."""
    if isinstance(task, Level):
        if isinstance(task.action_space, gymnasium.spaces.Dict):
            return HybridControls(tuple(_WALK.values()), STEPS_A_SECOND, 4)
        return _table_controls(native(task.actions))
    if isinstance(task, Numpad):
        signs = {"left": "←", "up": "↑", "right": "→", "down": "↓", "jump": "jump"}
        return PushControls(tuple(Button(name, sign, _KEYS[name]) for name, sign in signs.items()), 20.0, 3)
    space = task.action_space
    if not isinstance(space, gymnasium.spaces.Discrete):
        raise RunError(f"a person can play tasks with buttons, got the actions {space}; see `gtrxl tasks`")
    if isinstance(task, TMaze):
        buttons = (  # as it is drawn, the corridor leads to the right
            Button("forward", "→", _KEYS["right"]),
            Button("turn left", "↑", _KEYS["up"]),
            Button("turn right", "↓", _KEYS["down"]),
        )
    elif isinstance(task, GridNumpad):
        buttons = tuple(Button(_ARROWS[row][column], _ARROWS[row][column], _PADS[row][column]) for row, column in MOVES + 1)
        places = sorted(range(len(MOVES)), key=lambda i: tuple(MOVES[i]))
        return ChoiceControls(tuple(buttons[i] for i in places), 4.0, 3, tuple(places))
    else:
        buttons = tuple(Button(f"answer {i + 1}", str(i + 1), (f"Digit{i + 1}", f"Numpad{i + 1}")) for i in range(int(space.n)))
    return ChoiceControls(buttons, 4.0, 4, tuple(range(len(buttons))))


_KEYS = {
    "left": ("ArrowLeft", "KeyA"),
    "right": ("ArrowRight", "KeyD"),
    "up": ("ArrowUp", "KeyW"),
    "down": ("ArrowDown", "KeyS"),
    "jump": ("Space",),
}
_ARROWS = ("↖↑↗", "←·→", "↙↓↘")
_PADS = (
    (("KeyQ", "Numpad7"), ("KeyW", "ArrowUp", "Numpad8"), ("KeyE", "Numpad9")),
    (("KeyA", "ArrowLeft", "Numpad4"), ("Period", "Numpad5"), ("KeyD", "ArrowRight", "Numpad6")),
    (("KeyZ", "KeyY", "Numpad1"), ("KeyS", "ArrowDown", "KeyX", "Numpad2"), ("KeyC", "Numpad3")),
)

FAST, WAIT = "fast", "wait"
_WALK = {
    button.name: button
    for button in (
        Button("turn left", "↺", _KEYS["left"]),
        Button("forward", "↑", _KEYS["up"]),
        Button("turn right", "↻", _KEYS["right"]),
        Button("look up", "⤒", ("KeyR", "PageUp")),
        Button("step left", "←", ("KeyQ",)),
        Button("backward", "↓", _KEYS["down"]),
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

    def _meant(self, held: Set[str], step: int) -> np.int32 | None:
        wish, rows = _wish(held), np.array(self.table, np.float32)
        if not wish.any() and rows.any(axis=1).all():
            return None
        away = np.linalg.norm((rows - wish) / np.array([10, 10, 1, 1, 1], np.float32), axis=1)
        nearest = np.flatnonzero(np.isclose(away, away.min()))
        return np.int32(nearest[step % len(nearest)])


def _table_controls(rows: Float[np.ndarray, "A 5"]) -> TableControls:
    """The buttons that some action of the table answers to."""
    buttons = {**_WALK, _FIRE.name: _FIRE}
    if not rows[:, 3].any():  # nobody walks: the keys for walking look up and down
        for name, keys in (("look up", _KEYS["up"]), ("look down", _KEYS["down"])):
            buttons[name] = dataclasses.replace(buttons[name], keys=keys + buttons[name].keys)

    def answered(name: str) -> bool:
        if name == FAST:
            return bool((abs(rows[:, 0]) > 10).any())
        return bool((rows == np.array(_MEANING[name], np.float32)).all(axis=1).any())

    known = tuple(button for name, button in buttons.items() if answered(name))
    return TableControls(known, STEPS_A_SECOND, 4, tuple(tuple(row) for row in rows.tolist()))


class HybridControls(Controls):
    """Of a level that takes eight numbers and a grip: a quarter of the fastest turn, or all of it."""

    def _meant(self, held: Set[str], step: int) -> dict[str, np.ndarray]:
        look, down, strafe, move, _ = _wish(held)
        turn = look / LOOK_PIXELS if FAST in held else look / 10 / 4
        numbers = np.array([turn, -down / LOOK_PIXELS, strafe, move, 0, 0, 0, 0], np.float32)
        return {"continuous": numbers, "discrete": np.zeros(1, np.int32)}


class PushControls(Controls):
    """Of Numpad: pushes and a jump."""

    def _meant(self, held: Set[str], step: int) -> np.ndarray:
        def towards(plus: str, minus: str) -> int:
            return (plus in held) - (minus in held)

        return np.array([towards("right", "left"), towards("down", "up"), 1 if "jump" in held else -1], np.float32)


@dataclasses.dataclass(frozen=True)
class ChoiceControls(Controls):
    """A button for each action; of several that are held the first counts."""

    actions: tuple[int, ...]
    """The action of each button."""

    def _meant(self, held: Set[str], step: int) -> np.int32:
        pairs = zip(self.actions, self.buttons, strict=True)
        return np.int32(next(action for action, button in pairs if button.name in held))
