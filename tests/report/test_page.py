"""A report as a whole: from rows to a page, its data, and the words at the terminal."""

import csv
import io
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image

from gtrxl.report.errors import ReportError
from gtrxl.report.page import report
from tests.browser import CHROMIUM, Browser
from tests.report.made_up import everything, rows, write

EXPERIMENTS = (
    *("final", "gates", "params", "numpad", "sensitivity", "divergence", "draws", "identity-init", "depth", "rates", "avm"),
    *("horizon", "sphere"),
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """A page of every kind of figure; its text; what was said."""
    home = tmp_path_factory.mktemp("report")
    everything(home)
    page, said = report(home)
    return page, page.read_text(), said


def test_every_experiment_with_runs_has_its_figure_table_and_data(made: tuple[Path, str, str]):
    page, text, said = made
    for name in EXPERIMENTS:
        assert f'id="{name}-quick"' in text
        assert f"gtrxl reproduce {name} --scale quick" in text
        assert f"{name} (quick)" in said
        data = list(csv.reader((page.parent / "report" / f"{name}-quick.csv").read_text().splitlines()))
        assert len(data) > 2
        assert all(len(each) == len(data[0]) for each in data)
        ElementTree.fromstring((page.parent / "report" / f"{name}-quick.svg").read_text())  # whole, and nothing but SVG
    assert (
        text.count("<svg") == text.count("</svg>") == 8 * 1 + 3 * 3 + 4 + 3
    )  # ranks and splits have 3 panels, numpad and depth have one more than sizes


def test_depth_and_rates_count_what_diverged_and_what_was_kept(made: tuple[Path, str, str]):
    page, _, said = made
    depth, rates = (said.partition(f"\n{name} (quick)")[2].partition("\n\n")[0] for name in ("depth", "rates"))
    assert "GTrXL (GRU) above GTrXL (Output) on 52 x 52" in depth.partition("Holds: ")[2].partition("Too few")[0]
    assert "0.90 (3 arrived)" in depth
    assert any(line.split()[:4] == ["TrXL-I", "1", "1", "0"] for line in rates.splitlines()), rates
    data = list(csv.DictReader((page.parent / "report" / "rates-quick.csv").read_text().splitlines()))
    assert [each["return"] for each in data if each["model"] == "TrXL-I"] == ["0.0"]
    assert sorted({float(each["learning rate"]) for each in data}) == pytest.approx([1e-3, 3e-3, 9e-3, 3e-2])


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


def test_a_set_of_levels_is_shown_whole_and_by_split(made: tuple[Path, str, str]):
    page, _, said = made
    scores = {}
    for levels in ("lab12", "memory levels", "reactive levels"):
        found = re.search(rf"{levels}\s+GTrXL \(GRU\)\s+3\s+([\d.]+)", said)
        assert found, said
        scores[levels] = float(found[1])
        assert f"GTrXL (GRU) above LSTM on {levels}" in said
    assert scores["memory levels"] == pytest.approx(scores["lab12"] / 2, abs=0.2)
    assert scores["reactive levels"] == pytest.approx(scores["lab12"] * 1.5, abs=0.2)
    data = list(csv.DictReader((page.parent / "report" / "final-quick.csv").read_text().splitlines()))
    assert {each["task"] for each in data} == {"lab12", "lab12 (memory)", "lab12 (reactive)"}


def test_divergence_counts_the_runs_that_ended_so(made: tuple[Path, str, str]):
    _, _, said = made
    assert re.search(r"TrXL-I\s+1\s+1\s+100\s+16", said)
    assert re.search(r"GTrXL \(GRU\)\s+3\s+0\s+0\s+0", said)


def test_runs_that_are_not_there_are_named(made: tuple[Path, str, str]):
    _, text, said = made
    assert "Not run yet: 2 of 10: GTrXL (Output) (draws 0, 1)." in said
    assert "gates/rows.jsonl, line 28: not a whole line of JSON; left out" in text


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
    write(tmp_path, list(rows({"GTrXL (GRU)": (4, 5, 6), "LSTM": (1, 2, 3)})), name="gates")
    program = (
        "import sys; sys.modules['jax'] = None; sys.modules['equinox'] = None\n"
        "from gtrxl.cli.main import main; sys.exit(main(['report', sys.argv[1]]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "report.html").exists()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine: `apt-get install chromium` runs this test")
    with Browser() as opened:
        yield opened


OUTSIDE = """[...document.querySelectorAll('body *:not(svg *)')]
  .filter(e => !e.closest('.scroll > *, code') && e.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
  .map(e => e.outerHTML.slice(0, 80))"""
CUT_OFF = """[...document.querySelectorAll('svg text')].filter(e => {
    const a = e.getBoundingClientRect(), b = e.closest('svg').getBoundingClientRect();
    return a.left < b.left - 1 || a.right > b.right + 1 || a.top < b.top - 2 || a.bottom > b.bottom + 2 || a.height < 7;
  }).map(e => e.textContent)"""
FIGURES = """[...document.querySelectorAll('article')].map(e => [e.id, [...e.querySelectorAll('svg')].map(
    s => [s.getBoundingClientRect().width, s.getBoundingClientRect().height])])"""


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1280])
def test_a_real_browser_shows_all_of_it(browser: Browser, made: tuple[Path, str, str], *, width: int, dark: bool):
    """No complaints, nothing from elsewhere, every figure drawn, nothing cut off, nothing wider than the page."""
    browser.size(width, 800, phone=width < 600, dark=dark)
    browser.complaints.clear()
    browser.requests.clear()
    browser.open(made[0].as_uri())
    browser.wait("document.readyState === 'complete'")
    assert browser.value("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
    assert browser.value("document.documentElement.clientWidth") in (width, width - 15)  # beside the bar of a desktop
    assert browser.value(OUTSIDE) == []
    assert browser.value(CUT_OFF) == []
    figures = dict(browser.value(FIGURES))
    assert {f"{name}-quick" for name in EXPERIMENTS} == set(figures)
    assert all(sizes and min(map(min, sizes)) > 150 for sizes in figures.values())
    ink = browser.value("getComputedStyle(document.querySelector('svg text')).fill")
    assert ink == browser.value("getComputedStyle(document.body).color")
    shades = Image.open(io.BytesIO(browser.picture())).convert("L").histogram()
    assert (shades.index(max(shades)) < 60) == dark  # most of it is paper
    assert browser.complaints == []
    assert browser.requests == [made[0].as_uri()]


def test_a_figure_alone_has_its_panels_beside_each_other(browser: Browser, made: tuple[Path, str, str]):
    browser.size(1280, 900)
    browser.open((made[0].parent / "report" / "numpad-quick.svg").as_uri())
    browser.wait("document.readyState === 'complete'")
    boxes = browser.value("""[...document.querySelectorAll('svg')].map(e => e.getBoundingClientRect())
      .map(b => [b.left, b.top, b.right, b.bottom].map(Math.round))""")
    (left, top, right, bottom), *panels = boxes
    assert len(panels) == 4
    assert all(left <= x and top <= y and u <= right and v <= bottom for x, y, u, v in panels)
    for number, (x, y, u, v) in enumerate(panels):
        assert all(a >= u or b >= v or c <= x or d <= y for a, b, c, d in panels[:number])
    assert browser.complaints == []
