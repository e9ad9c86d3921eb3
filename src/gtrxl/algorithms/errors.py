"""One kind of error for bad settings and inputs: the rule, the value, the remedy, in one line."""

import math
import reprlib

MOST = 10**9


class LearnerError(ValueError):
    """A setting or an input that a learner cannot take."""


def between(name: str, value: float, *, least: float, most: float = math.inf, hint: str) -> None:
    """Raise unless `value` is a finite number in [least, most]; `hint` is the remedy."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise LearnerError(f"{name} must be a finite number, got {value!r}; {hint}")
    if not least <= value <= most:
        rule = f"at least {least:g}" if most == math.inf else f"between {least:g} and {most:g}"
        raise LearnerError(f"{name} must be {rule}, got {value:g}; {hint}")


def positive(name: str, value: float, *, hint: str) -> None:
    """Raise unless `value` is a finite number above zero; `hint` is the remedy."""
    between(name, value, least=0.0, hint=hint)
    if value == 0:
        raise LearnerError(f"{name} must be above 0, got {value:g}; {hint}")


def count(name: str, value: int, *, hint: str) -> None:
    """Raise unless `value` is a whole number of at least one, and no more than could ever be counted; `hint` is the remedy."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise LearnerError(f"{name} must be a whole number, got {value!r}; {hint}")
    if value < 1:
        raise LearnerError(f"{name} must be at least 1, got {value}; {hint}")
    if value > MOST:
        raise LearnerError(f"{name} must be at most {MOST}, got {reprlib.repr(value)}; {hint}")
