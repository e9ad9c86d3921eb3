"""`python -m gtrxl` is the command `gtrxl`."""

import sys

from gtrxl.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
