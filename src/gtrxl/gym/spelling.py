"""The names of other people's tasks: `ID:key=value,key=value`, where a value is JSON or plain text."""

import json
import re
from collections.abc import Iterator
from typing import Any

from gtrxl.tasks.errors import TaskError

Arguments = tuple[tuple[str, Any], ...]
"""What follows an id, in the order in which it was written."""


def taken_apart(text: str, prefix: str, *, example: str) -> tuple[str, Arguments]:
    """The id and the arguments of a task's name."""
    found = re.fullmatch(r"([^=]*?)(?::(\s*\w+\s*=.*))?", text.strip()[len(prefix) :].strip(), re.DOTALL)
    if found is None:
        raise TaskError(f"arguments come after the id and a colon, got {text!r}; for example {example!r}")
    return found[1].strip(), tuple(_arguments(found[2])) if found[2] else ()


def spelled(arguments: Arguments) -> str:
    """Arguments as they follow an id; nothing for none."""
    return ":" * bool(arguments) + ",".join(f"{key}={_spell(key, value)}" for key, value in arguments)


def _arguments(text: str) -> Iterator[tuple[str, Any]]:
    """key=value with commas between; a value is JSON, or else plain text up to the next comma."""
    seen = set()
    while text:
        found = re.match(r"\s*(\w+)\s*=\s*", text)
        if found is None:
            raise TaskError(
                f"a Gymnasium task takes key=value with commas between, got {text!r}; for example 'render_mode=rgb_array'"
            )
        key, text = found[1], text[found.end() :]
        if key in seen:
            raise TaskError(f"a Gymnasium task takes each argument once, got {key!r} twice; leave one out")
        seen.add(key)
        try:
            value, end = json.JSONDecoder().raw_decode(text)
            whole = not text[end:].strip() or text[end:].lstrip().startswith(",")
        except (ValueError, RecursionError):  # no JSON, or too many digits, or too deep: then it is text
            value, end, whole = None, 0, False
        rest = text[end:].lstrip() if whole else text[text.index(",") :] if "," in text else ""
        if not whole:
            value = text[: len(text) - len(rest)].strip()
        if rest == ",":
            raise TaskError("a Gymnasium task takes key=value with commas between, got a comma at the end; leave it out")
        text = rest[1:]
        yield key, value


def _spell(key: str, value: Any) -> str:
    if isinstance(value, str) and value and list(_arguments(f"{key}={value}")) == [(key, value)]:
        return value
    try:
        return json.dumps(value, separators=(",", ":"))
    except (TypeError, RecursionError):
        raise TaskError(f"{key} must be what JSON can hold, got {value!r}; give env_fn instead") from None
