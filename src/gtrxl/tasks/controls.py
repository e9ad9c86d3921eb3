"""Keys for people: which buttons a task has, and which of its actions the buttons that are held mean.

A task says its own with `controls()`; one with a list of actions and nothing to say about them gets a button for each.
"""

import abc
import dataclasses
from collections.abc import Set

import gymnasium
import numpy as np
from jaxtyping import PyTree

from gtrxl.tasks.errors import TaskError

KEYS = {
    "left": ("ArrowLeft", "KeyA"),
    "right": ("ArrowRight", "KeyD"),
    "up": ("ArrowUp", "KeyW"),
    "down": ("ArrowDown", "KeyS"),
    "jump": ("Space",),
}
"""The keys that players expect, as browsers call them."""
DIGITS = 9
"""A row of keys has so many numbers from 1."""
PACE = 4.0
"""Steps a second of a task that nobody hurries through."""


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
            raise TaskError(f"a button must be one of {', '.join(names)}, got {unknown[0]!r}; see the page")
        if all(names[name] for name in held):
            return None
        return self.meant(held, step)

    @abc.abstractmethod
    def meant(self, held: Set[str], step: int) -> PyTree | None:
        """Of known buttons, one of them at least."""


@dataclasses.dataclass(frozen=True)
class ChoiceControls(Controls):
    """A button for each action; of several that are held the first counts."""

    actions: tuple[int, ...]
    """The action of each button."""

    @classmethod
    def of(cls, *buttons: Button) -> "ChoiceControls":
        """The first button is action 0, and so on."""
        return cls(buttons, PACE, 4, tuple(range(len(buttons))))

    def meant(self, held: Set[str], step: int) -> np.int32:
        """The action of the first button that is held."""
        pairs = zip(self.actions, self.buttons, strict=True)
        return np.int32(next(action for action, button in pairs if button.name in held))


def numbered(space: gymnasium.Space, *, word: str = "action") -> ChoiceControls:
    """A button for each action of a space that has a list of them; the first nine have a key."""
    if not isinstance(space, gymnasium.spaces.Discrete):
        raise TaskError(f"a person plays with buttons, got the actions {space}; give the task a method `controls()`")
    numbers = range(1, int(space.n) + 1)
    return ChoiceControls.of(
        *(Button(f"{word} {i}", str(i), (f"Digit{i}", f"Numpad{i}") if i <= DIGITS else ()) for i in numbers)
    )
