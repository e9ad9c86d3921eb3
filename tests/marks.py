"""Cases for which the default command has no time."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def few(cases: Iterable[Any], *, keep: Callable[[int, Any], bool]) -> list[Any]:
    """The cases as parameters, those that are not kept for the slow tests; `keep` is asked with the number and the case."""
    found = []
    for number, case in enumerate(cases):
        values = case if isinstance(case, tuple) else (case,)
        found.append(pytest.param(*values, marks=() if keep(number, case) else pytest.mark.slow))
    return found
