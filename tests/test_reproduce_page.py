"""What docs/reproduce.md says of the experiments is what the catalogue and the committed rows have."""

import re
from pathlib import Path

from gtrxl.cli.main import main
from gtrxl.experiments.catalogue import EXPERIMENTS, SCALES
from gtrxl.report.rows import read
from gtrxl.report.sections import sections

HOME = Path(__file__).parent.parent
PAGE = (HOME / "docs" / "reproduce.md").read_text()


def test_every_experiment_is_told_with_its_place_in_the_paper_and_its_runs():
    section = PAGE.partition("## Experiments and scales")[2].partition("\n## ")[0]
    told = [[cell.strip(" `") for cell in line.split("|")[1:-1]] for line in section.splitlines() if line.count("|") == 5]
    assert [(name, source, runs) for name, source, _, runs in told[2:]] == [
        (each.id, each.source, each.runs) for each in EXPERIMENTS.values()
    ]


def test_every_scale_is_told():
    assert all(f"\n- `{scale}`:" in PAGE for scale in SCALES)


def test_what_the_results_are_said_to_show_is_what_their_rows_say():
    found = read(HOME / "results")
    assert found.problems == ()
    made = sections(found)
    assert {each.experiment.id for each in made} == set(EXPERIMENTS) - {
        "final",
        "avm",
        "sphere",
        "gates-3x3",
        "rivals",
        "rivals-rates",
    }
    words = " ".join(PAGE.split())
    for each in made:
        assert each.left_out == (), each.name
        assert f"gtrxl reproduce {each.experiment.id} --scale {each.scale}" in words, each.name
        assert " ".join(each.verdict.split()) in words, each.name
        assert f"](../results/report/{each.name}.svg)" in PAGE, each.name
        assert (HOME / "results" / "report" / f"{each.name}.svg").exists(), each.name


def test_the_parameter_table_is_the_one_printed(capsys):
    assert main(["params"]) == 0
    printed = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines() if line.strip()]
    (table,) = re.findall(r"```\n(model .*?)```", PAGE, re.DOTALL)
    shown = [" ".join(line.split()) for line in table.splitlines()]
    assert len(shown) == 11
    assert shown == printed[: len(shown)]
