"""A report as a whole: from rows to a page, its data, and the words at the terminal."""

import csv
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gtrxl.report.errors import ReportError
from gtrxl.report.page import report
from tests.report.made_up import row, rows, write

LEVELS = {"GTrXL (GRU)": (40, 42, 41, 43, 40), "LSTM": (20, 22, 21, 25, 19), "TrXL": (2, 3, 2, 1, 2)}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """A page of every kind of figure; its text; what was said."""
    home = tmp_path_factory.mktemp("report")
    write(home, list(rows(LEVELS)), name="gates")
    ranked = [*rows(LEVELS, set="sensitivity"), row("TrXL-I", set="sensitivity", status="diverged", diverged_at_frames=5000)]
    write(home, [*ranked, row("TrXL-I", 1, set="sensitivity", status="under way")], name="sensitivity")
    write(home, list(rows({"b_g = 2": (9, 8, 9), "b_g = 0": (4, 5, 3)}, set="identity-init")), name="identity")
    sizes = [
        each | {"run": f"{each['run']}.{n}"} for n in (2, 3) for each in rows(LEVELS, set="numpad", goal=f"{n} x {n}", dial=n)
    ]
    write(home, sizes, name="numpad")
    far = [
        each | {"run": f"{each['run']}.{n}"}
        for n in (8, 16)
        for each in rows({"GTrXL (GRU), memory 64": (1, 1, 0.99), "LSTM": (1, 0.5, 0.6)}, set="horizon", goal=f"{n}", dial=n)
    ]
    write(home, far, name="horizon")
    page, said = report(home)
    return page, page.read_text(), said


def test_every_experiment_with_runs_has_its_figure_table_and_data(made: tuple[Path, str, str]):
    page, text, said = made
    for name in ("gates", "params", "numpad", "sensitivity", "divergence", "draws", "identity-init", "horizon"):
        assert f'id="{name}-quick"' in text
        assert f"gtrxl reproduce {name} --scale quick" in text
        assert f"{name} (quick)" in said
        data = list(csv.reader((page.parent / "report" / f"{name}-quick.csv").read_text().splitlines()))
        assert len(data) > 2
        assert all(len(each) == len(data[0]) for each in data)
    assert text.count("<svg") >= 9


def test_the_page_needs_nothing_beside_it(made: tuple[Path, str, str]):
    _, text, _ = made
    named = re.findall(r"""(?:src|href)=["']([^"']+)""", re.sub(r"xmlns(:xlink)?=\"[^\"]+\"", "", text))
    outside = [each for each in named if not each.startswith(("#", "report/"))]
    assert outside == []
    assert "<script" not in text


def test_what_holds_is_said_beside_the_papers_numbers(made: tuple[Path, str, str]):
    _, text, said = made
    assert "Holds: GTrXL (GRU) above LSTM" in said
    assert "117.6 ± 0.3" in text
    assert "TrXL-I.01 (under way, 100%)" in said


def test_divergence_counts_the_runs_that_ended_so(made: tuple[Path, str, str]):
    _, _, said = made
    assert re.search(r"TrXL-I\s+1\s+1\s+100\s+16", said)
    assert re.search(r"GTrXL \(GRU\)\s+5\s+0\s+0\s+0", said)


@pytest.mark.slow
def test_the_same_rows_give_the_same_page(made: tuple[Path, str, str], tmp_path: Path):
    page, text, _ = made
    again, _ = report(page.parent, tmp_path / "report.html")
    assert again.read_text() == text


def test_nothing_to_report_is_one_line(tmp_path: Path):
    with pytest.raises(ReportError, match="must hold rows of runs that have ended, got none"):
        report(tmp_path)
    with pytest.raises(ReportError, match="there is no folder"):
        report(tmp_path / "nowhere")


def test_a_report_needs_no_jax(tmp_path: Path):
    write(tmp_path, list(rows(LEVELS)), name="gates")
    program = (
        "import sys; sys.modules['jax'] = None; sys.modules['equinox'] = None\n"
        "from gtrxl.cli import main; sys.exit(main(['report', sys.argv[1]]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "report.html").exists()
