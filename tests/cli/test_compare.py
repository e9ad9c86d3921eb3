"""`gtrxl compare`: what it prints in 80 columns without colours, in JSON, and without JAX."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gtrxl.cli.main import main
from tests.report.made_up_runs import made_up_run


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for core, level in (("gtrxl-gru", 1.0), ("lstm", 0.5)):
        for seed in (0, 1):
            made_up_run(tmp_path / f"{core}-{seed}", core=core, seed=seed, level=level + 0.1 * seed)
    return tmp_path


def test_curves_with_letters_and_a_table_in_eighty_columns(runs: Path, capsys: pytest.CaptureFixture[str]):
    made_up_run(runs / "late", core="lstm", seed=2, status=None)
    assert main(["compare", str(runs)]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert (err, lines[:3]) == ("", ["all: algorithm vmpo", "", "t-maze"])
    assert max(map(len, lines)) <= 80
    drawn = [line.partition("│")[2] for line in lines if "│" in line]
    assert len(drawn) == 14
    assert all(re.search(f"[⠁-⣿]{letter}[⠁-⣿]", "".join(drawn)) for letter in "ab")
    table = [line.split() for line in lines if (line[:2] in ("a ", "b ", "  ") and "runs" in line) or line.startswith("   run")]
    assert table == [
        ["run", "core", "seed", "frames", "return", "range", "of", "100", "frames/s"],
        ["a", "2", "runs", "gtrxl-gru", "0,", "1", "40.0", "k", "1.01", "0.96", "to", "1.06", "102", "2,000"],
        ["b", "3", "runs", "lstm", "0", "to", "2", "40.0", "k", "0.53", "0.48", "to", "0.58", "6", "2,000"],
    ]
    assert "b  late: unfinished at 25 %; not in the mean" in lines
    assert lines[-1] == "settings that differ along with core: net.layers, net.width"


def test_what_all_lines_would_say_is_said_once(runs: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["compare", str(runs)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("all: algorithm vmpo, seed 0, 1, 40.0 k frames, finished\n")
    assert "   run     core       return         range  of 100  frames/s\n" in out


def test_one_run_is_shown_as_such(runs: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["compare", str(runs / "lstm-0")]) == 0
    out = capsys.readouterr().out
    assert out.startswith("core lstm, algorithm vmpo, seed 0, 40.0 k frames, finished\n\nt-maze\n")
    assert "a  lstm-0   0.481      -4     2,000" in out
    assert out.endswith("one run has nothing to be compared with; name another one beside it\n")


def test_json_has_every_run_and_what_is_left_out_is_said_aside(runs: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["compare", "--json", str(runs), str(runs / "nowhere")]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert err == f"left out: {runs / 'nowhere'} is no run: there is no such folder\n"
    assert (found["telling"], found["left_out"]) == (["core"], [err.removeprefix("left out: ").rstrip()])
    assert [group["settings"] for group in found["groups"]] == [{"core": "gtrxl-gru"}, {"core": "lstm"}]
    (first, _) = found["groups"][1]["runs"]
    assert first | {"points": [], "of_100": None, "return": None} == {
        "run": str(runs / "lstm-0"), "task": "t-maze", "core": "lstm", "algorithm": "vmpo", "seed": 0, "status": "finished",
        "frames": 40_000, "planned_frames": 40_000, "return": None, "of_100": None, "steadiness": None,
        "frames_per_second": 2000.0, "points": [],
    }  # fmt: skip
    assert len(first["points"]) == 40


def test_a_figure_is_drawn_and_its_kind_is_checked_first(runs: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["compare", str(runs), "--to", str(runs / "figure.png")]) == 0
    assert capsys.readouterr().out.endswith(f"wrote {runs / 'figure.png'}\n")
    assert (runs / "figure.png").exists()
    for arguments in ([str(runs), "--to", str(runs / "figure.gif")], [str(runs / "nowhere")], []):
        assert main(["compare", *arguments]) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert err.startswith("gtrxl: ")


def test_comparing_needs_no_jax(runs: Path):
    program = (
        "import sys; sys.modules['jax'] = None; sys.modules['equinox'] = None\n"
        "from gtrxl.cli.main import main; sys.exit(main(['compare', *sys.argv[1:]]))"
    )
    figure = str(runs / "figure.svg")
    done = subprocess.run(
        [sys.executable, "-c", program, str(runs), "--to", figure], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert Path(figure).exists()
