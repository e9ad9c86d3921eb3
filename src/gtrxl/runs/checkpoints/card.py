"""What a checkpoint says of itself: card.json, beside its arrays."""

import dataclasses
import math
from pathlib import Path
from typing import Any, NamedTuple

from gtrxl.runs import sealed
from gtrxl.runs.errors import DamagedError, RunError

FILE = "card.json"


class Array(NamedTuple):
    """What the card says of one array. `key` is the random generator's name if it holds random keys; the hash is of its
    numbers, and None in checkpoints that are older than hashes."""

    shape: list[int]
    dtype: str
    key: str | None
    hash: str | None = None

    @property
    def size(self) -> int:
        """Elements."""
        return math.prod(self.shape)

    def is_like(self, other: "Array | None") -> bool:
        """Whether the other can take its place, whatever the numbers."""
        return other is not None and self[:3] == other[:3]

    def __str__(self) -> str:
        return f"{self.dtype}{self.shape}"


@dataclasses.dataclass(frozen=True)
class Card:
    """The step, the score, the arrays by name, and the settings of the run that it is of, where they are known."""

    step: int
    score: float | None
    arrays: dict[str, Array]
    settings: dict[str, Any] | None = None

    def write(self, home: Path) -> None:
        """Into the folder of the checkpoint."""
        arrays = {name: array._asdict() for name, array in self.arrays.items()}
        data: dict[str, Any] = {"step": self.step, "score": self.score, "arrays": arrays}
        sealed.write(home / FILE, data if self.settings is None else data | {"settings": self.settings}, indent=None)

    @classmethod
    def read(cls, home: Path) -> "Card":
        """Of the checkpoint in a folder, which is named by its step. DamagedError if it says what no checkpoint does."""
        step = int(home.name)
        try:
            found = sealed.read(home / FILE, remedy="it cannot be mended")
        except RunError as error:
            raise DamagedError(f"checkpoint {step} cannot be read: {str(error).partition('; ')[0]}") from error
        wrong = _wrong(found, step)
        if wrong:
            raise DamagedError(f"checkpoint {step} cannot be read: {home / FILE}: {wrong}")
        arrays = {name: Array(**fields) for name, fields in found["arrays"].items()}
        return cls(step, found["score"], arrays, found.get("settings"))


def _wrong(found: dict[str, Any], step: int) -> str | None:
    """What is wrong with the content of a card."""
    if found.get("step") != step or isinstance(found["step"], bool):
        return f"its step must be {step}, got {found.get('step')!r:.40}"
    score = found.get("score", "none")
    if score is not None and (isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score)):
        return f"its score must be a number or null, got {score!r:.40}"
    if not isinstance(found.get("settings", {}), dict):
        return "its settings must be an object"
    if others := set(found) - {"step", "score", "settings", "arrays"}:
        return f"it must say nothing else, got {min(others)!r:.40}"
    arrays = found.get("arrays")
    if not isinstance(arrays, dict):
        return f"its arrays must be an object, got {type(arrays).__name__}"
    return next((f"what it says of {name:.60} is no array's" for name, fields in arrays.items() if not _is_array(fields)), None)


def _is_array(fields: Any) -> bool:
    if not isinstance(fields, dict) or not {"shape", "dtype", "key"} <= set(fields) <= set(Array._fields):
        return False
    shape = fields["shape"]
    if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape):
        return False
    return isinstance(fields["dtype"], str) and all(isinstance(fields.get(name), str | None) for name in ("key", "hash"))
