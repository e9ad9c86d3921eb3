"""Gives the source the version of a release's tag: v0.4.0 makes 0.4.0 of 0.4.0.dev0, v0.4.0rc1 makes 0.4.0rc1 of it.

python .ci/version.py v0.4.0

A tag of another version than the one the source is on its way to is refused: a release must not be called what it is not.
"""

import re
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "gtrxl" / "__init__.py"
LINE = re.compile(r'^__version__ = "((\d+\.\d+\.\d+)[^"]*)"$', re.MULTILINE)
TAG = re.compile(r"v((\d+\.\d+\.\d+)(?:(?:a|b|rc)\d+)?)")


def released(tag: str, text: str) -> str:
    """The source's first module with the tag's version in it."""
    source, found = LINE.search(text), TAG.fullmatch(tag)
    if source is None:
        raise SystemExit(f'{SOURCE.name} must have a line __version__ = "1.2.3", got none')
    if found is None or found[2] != source[2]:
        wanted = f"v{source[2]}, or that and a1, b1 or rc1, for {source[1]}"
        raise SystemExit(f"a tag must be {wanted}, got {tag!r}; change one of them")
    return f'{text[: source.start()]}__version__ = "{found[1]}"{text[source.end() :]}'


if __name__ == "__main__":
    SOURCE.write_text(released(sys.argv[1] if len(sys.argv) > 1 else "", SOURCE.read_text("utf-8")), "utf-8", newline="\n")
