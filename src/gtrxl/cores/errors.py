"""One kind of error for bad sizes, inputs and names: the rule, the value, the remedy, in one line."""


class CoreError(ValueError):
    """A size, an input or a name that a core cannot take."""


def at_least(name: str, value: int, *, least: int, hint: str) -> None:
    """Raise unless `value` is a whole number no smaller than `least`; `hint` is the remedy."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise CoreError(f"{name} must be a whole number, got {value!r}; {hint}")
    if value < least:
        raise CoreError(f"{name} must be at least {least}, got {value}; {hint}")
