"""What docs/pytorch.md shows runs as it stands, and its names are there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import gtrxl.torch
from tests.cores.building import NAMES

PAGE = (Path(__file__).parents[2] / "docs" / "pytorch.md").read_text()
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_page_begins_with_a_program_and_names_what_there_is():
    assert PAGE.split("\n\n", 1)[1].startswith("```python\n")
    assert all(f"`{name}`" in PAGE for name in NAMES)
    for name in re.findall(r"gtrxl\.torch\.(\w+)", PAGE):
        assert name in gtrxl.torch.__all__


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_runs_as_it_stands(program, tmp_path):
    given = {**os.environ, "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(words, cwd=tmp_path, env=given, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    if "remembered" in program:
        assert int(done.stdout.split("%")[0]) > 90
