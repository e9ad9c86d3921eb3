"""Counts on the command line, as people write them: `--steps 300k`, `--steps 2M`, `--steps 1e6`.

    steps: Frames = 1_000_000

is an option that takes all of these, and shows and keeps a whole number.
"""

import decimal
from typing import Annotated, Any

import tyro

UNITS = {"k": 3, "m": 6, "g": 9, "b": 9}
"""Zeros that a letter after a number stands for; a billion may be written G or B."""
LARGEST = 10**18


class NumberError(ValueError):
    """What is no count."""


def count(text: str) -> int:
    """The whole number that is written: 300000, 300_000, 300k, 0.3M or 3e5."""
    written = text.strip()
    zeros = UNITS.get(written[-1:].lower(), 0)
    try:
        value = decimal.Decimal(written[:-1] if zeros else written)
        # Compared before it becomes an int: one of 1e999999999 would not fit in memory.
        if not value.is_finite() or abs(value) > LARGEST or (value := value.scaleb(zeros)) != value.to_integral_value():
            raise decimal.InvalidOperation
    except (decimal.InvalidOperation, decimal.Overflow):
        raise NumberError(f"a number of frames must be whole, got {text}; it is written like 300000, 300k, 2M or 1e6") from None
    return int(value)


def _spec(metavar: str) -> tyro.constructors.PrimitiveConstructorSpec[Any]:
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar=metavar,
        instance_from_str=lambda arguments: count(arguments[0]),
        is_instance=lambda value: value is None or (isinstance(value, int) and not isinstance(value, bool)),
        str_from_instance=lambda value: [str(value)],
    )


Frames = Annotated[int, _spec("INT")]
"""The type of an option that is a number of frames. For the type checker it is an int."""
FramesIfAny = Annotated[int | None, _spec("INT")]
"""The same, of an option that may be left out and is None then."""
