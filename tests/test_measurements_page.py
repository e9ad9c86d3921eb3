"""The tables of docs/measurements.md are those of docs/data/cores.json and docs/data/torso.json."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_tables_are_those_of_the_data():
    program = [sys.executable, "benchmarks/cores_page.py", "docs/data/cores.json"]
    printed = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True).stdout
    page = (ROOT / "docs/measurements.md").read_text()
    assert printed.count("## ") == 6
    for section in printed.split("\n## "):
        assert section.strip() in page, f"docs/measurements.md lacks: {section.splitlines()[0]}"


def test_the_tables_of_the_torso_are_those_of_the_data():
    program = [sys.executable, "benchmarks/torso_page.py", "docs/data/torso.json"]
    printed = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True).stdout
    assert printed.count("| small, 24 x 32 |") == 2
    assert printed.strip() in (ROOT / "docs/measurements.md").read_text()
