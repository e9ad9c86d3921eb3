"""Reading rows: what cannot be used is named and left out, never averaged and never a stack trace."""

import json
from pathlib import Path

import pytest

from gtrxl.report.rows import normalised, read, score, usable
from tests.report.made_up import row, write


def test_good_rows_come_back_as_they_were(tmp_path: Path):
    made = [row(number=n) for n in range(3)]
    write(tmp_path, made)
    found = read(tmp_path)
    assert list(found.rows) == made
    assert found.problems == ()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"set": "gates", "sca', "not a whole line"),
        ("[1, 2]", "must be an object"),
        (json.dumps({name: value for name, value in row().items() if name != "model"}), "has no 'model'"),
        (json.dumps(row(frames="many")), "frames must be int"),
        (json.dumps(row(draw=True)), "draw must be int"),
        (json.dumps(row(curve=[[1, 2]])), "curve"),
        (json.dumps(row(curve=[[1, "a", 2]])), "curve"),
        (json.dumps(row(curve=[[1, float("nan"), 2]])), "not finite"),
    ],
)
def test_a_row_that_cannot_be_used_is_named_and_the_others_are_kept(tmp_path: Path, line: str, said: str):
    file = write(tmp_path, [row(number=1)])
    file.write_text(file.read_text() + line + "\n")
    found = read(tmp_path)
    assert [each["draw"] for each in found.rows] == [1]
    assert len(found.problems) == 1
    assert said in found.problems[0]
    assert "line 2" in found.problems[0]


def test_a_run_that_is_there_twice_counts_once_and_is_named(tmp_path: Path):
    write(tmp_path, [row()], name="a")
    write(tmp_path, [row(level=99.0)], name="b")
    found = read(tmp_path)
    assert len(found.rows) == 1
    assert "counted once" in found.problems[0]


def test_binary_rubbish_is_not_a_stack_trace(tmp_path: Path):
    (tmp_path / "rows.jsonl").write_bytes(bytes(range(256)))
    assert read(tmp_path).rows == ()


def test_runs_under_way_are_not_averaged():
    ended, left = usable([row(), row(number=1, status="under way", frames=25_000)])
    assert len(ended) == 1
    assert left == ["LSTM.01 (under way, 25%)"]


def test_a_score_is_over_the_last_episodes_before_a_share_of_the_budget():
    made = row(curve=[[10, 1.0, 100], [20, 2.0, 100], [30, 3.0, 100], [40, 5.0, 100]], planned_frames=40)
    assert score(made) == 4.0
    assert score(made, episodes=100) == 5.0
    assert score(made, share=0.5) == 1.5
    assert score(made, share=0.1) is None


def test_a_run_scores_nothing_after_it_has_diverged():
    made = row(level=10.0, status="diverged", diverged_at_frames=60_000)
    assert (score(made, share=0.5) or 0) > 5
    assert score(made) == 0.0


def test_scores_of_100():
    assert normalised(row(), 25.0) == 50.0
    assert normalised(row(scores=None), 25.0) is None
    assert normalised(row(scores={"random": 1.0, "perfect memory": 1.0}), 25.0) is None
