"""What docs/reproduce.md says of the experiments is what the catalogue has."""

from pathlib import Path

from gtrxl.experiments.catalogue import EXPERIMENTS, SCALES

PAGE = (Path(__file__).parent.parent / "docs" / "reproduce.md").read_text()


def test_every_experiment_is_told_with_its_place_in_the_paper_and_its_runs():
    told = [[cell.strip(" `") for cell in line.split("|")[1:-1]] for line in PAGE.splitlines() if line.count("|") == 5]
    assert [(name, source, runs) for name, source, _, runs in told[2:]] == [
        (each.id, each.source, each.runs) for each in EXPERIMENTS.values()
    ]


def test_every_scale_is_told():
    assert all(f"\n- `{scale}`:" in PAGE for scale in SCALES)
