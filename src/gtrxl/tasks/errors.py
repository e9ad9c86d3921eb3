"""One kind of error for what a task cannot take: the rule, the value, the remedy, in one line."""

import reprlib


class TaskError(ValueError):
    """A size, an action or a name that a task cannot take."""


MOST = 2**28
"""No number of a task is larger: sums of several must be whole numbers of 32 bits."""


def in_range(name: str, value: int, *, least: int, most: int | None = None, hint: str) -> None:
    """Raise unless `value` is a whole number from `least` to `most`; `hint` is the remedy."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TaskError(f"{name} must be a whole number, got {value!r}; {hint}")
    if value < least or (most is not None and value > most):
        bounds = f"at least {least}" if most is None else f"from {least} to {most}"
        raise TaskError(f"{name} must be {bounds}, got {reprlib.repr(value)}; {hint}")
    if value > MOST:
        raise TaskError(f"{name} must be at most {MOST}, got {reprlib.repr(value)}; {hint}")
