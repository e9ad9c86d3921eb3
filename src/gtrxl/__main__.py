"""`python -m gtrxl` is the command `gtrxl`."""

import sys
from pathlib import Path

import gtrxl


def _as_the_command() -> None:
    """`python -m` looks for modules in the working directory before all others, where a stranger's run may lie, and beside it a
    file that is called as a package we need. The command `gtrxl` does not look there; `--from .` does."""
    first = Path(sys.path[0] or ".").resolve()
    if not sys.flags.safe_path and first == Path.cwd().resolve() and first not in Path(gtrxl.__file__).resolve().parents:
        del sys.path[0]


if __name__ == "__main__":
    _as_the_command()
    from gtrxl.cli.main import main

    sys.exit(main())
