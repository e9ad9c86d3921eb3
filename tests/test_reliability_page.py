"""The tables of docs/reliability.md are those of docs/data/faults.json, and the counts are what the page promises."""

import json
from pathlib import Path

import pytest
from benchmarks.attacks import page
from benchmarks.attacks.cases import Case

ROOT = Path(__file__).parents[1]
DATA = json.loads((ROOT / "docs/data/faults.json").read_text())


def test_the_tables_are_those_of_the_data():
    assert f"{page.BEGIN}\n\n{page.tables(DATA)}\n\n{page.END}" in (ROOT / "docs/reliability.md").read_text()


@pytest.mark.parametrize("what", page.PROMISED)
def test_there_are_as_many_attacks_as_are_promised(what):
    parts, least = page.PROMISED[what]
    assert page.attacks(DATA, *parts) >= least, f"{what}: run benchmarks/faults.py without --quick"


def test_no_attack_found_a_fault():
    assert not [f"{case['part']} {case['number']}: {case['did']}: {case['fault']}" for case in page.faults(DATA)]


def test_the_tables_go_between_the_marks_of_a_page(tmp_path):
    cases = [
        Case("damage", 0, "flip in config.json", "said", file="config.json"),
        Case("damage", 1, "a | in `card.json`", "fault", "a silent difference", file="card.json"),
    ]
    told = {"made_by": "x", "date": "2026-01-01", "commit": "abc", "machine": "2 CPU cores", "minutes": 1.0}
    data = {**told, "parts": {"damage": "bits"}, "cases": [vars(case) for case in cases]}
    file = tmp_path / "page.md"
    file.write_text(f"before\n{page.BEGIN}\nstale\n{page.END}\nafter\n")
    page.write(file, data)
    page.write(file, data)
    written = file.read_text()
    assert written.startswith("before\n")
    assert written.endswith("\nafter\n")
    assert "stale" not in written
    assert written.count("| bits | 2 | 2 | 1 refused or ended with one clear line | 1 |") == 1
    assert "| card.json | 1 | 0 | 0 | 0 | 0 | 1 |" in written
    assert "- damage 1: a in card.json: a silent difference" in written or "- damage 1: a  in card.json" in written
    file.write_text("no marks\n")
    with pytest.raises(ValueError, match="must have the lines"):
        page.write(file, data)
