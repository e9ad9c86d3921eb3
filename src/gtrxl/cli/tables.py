"""Tables on a terminal or in a pipe: the same for every command."""

import io

from rich.console import Console
from rich.table import Table


def table(first: str, numbers: list[str], *texts: str) -> Table:
    """A table without lines: a first column, columns of numbers, columns of text."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    made.add_column(first, no_wrap=True)
    for name in numbers:
        made.add_column(name, justify="right", no_wrap=True)
    for name in texts:
        made.add_column(name)
    return made


def print_table(made: Table) -> None:
    """Fits the window at a terminal; in a file or a pipe nothing is cut, coloured or padded."""
    console = Console()
    if console.is_terminal:
        console.print(made)
        return
    text = io.StringIO()
    Console(width=200, file=text).print(made)
    print("\n".join(line.rstrip() for line in text.getvalue().splitlines()))
