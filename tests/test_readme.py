"""What the README shows is true: its example runs, and the table it prints is what the command prints."""

import re
from pathlib import Path

from gtrxl.cli import main

README = (Path(__file__).parent.parent / "README.md").read_text()


def test_the_example_runs():
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names = {}
    exec(example, names)
    assert names["ys"].shape == (95, 64)
    assert names["y"].shape == (names["core"].output_size,)


def test_the_parameter_table_is_the_one_printed(capsys):
    assert main(["params"]) == 0
    printed = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines() if line.strip()]
    (table,) = re.findall(r"```\n(model .*?)```", README, re.DOTALL)
    shown = [" ".join(line.split()) for line in table.splitlines()]
    assert len(shown) == 10
    assert shown == printed[: len(shown)]
