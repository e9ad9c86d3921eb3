"""Whether a tag is that of this source's version: v0.4.0 of 0.4.0. A release must not be called what it is not.

python .ci/check_version.py v0.4.0
"""

import re
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "gtrxl" / "__init__.py"


def version() -> str:
    """As the source has it."""
    found = re.search(r'^__version__ = "([^"]+)"$', SOURCE.read_text("utf-8"), re.MULTILINE)
    if found is None:
        raise SystemExit(f'{SOURCE} must have a line __version__ = "...", got none')
    return found[1]


if __name__ == "__main__":
    tag = sys.argv[1] if len(sys.argv) > 1 else ""
    if tag != f"v{version()}":
        raise SystemExit(f"a tag must be v and the version in {SOURCE.name}, got {tag!r} and {version()!r}; change one of them")
