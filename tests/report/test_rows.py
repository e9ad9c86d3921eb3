"""Reading rows: what cannot be used is named and left out, never averaged and never a stack trace."""

import json
from pathlib import Path
from typing import Any

import pytest

from gtrxl.report.rows import NEEDED, OPTIONAL, normalised, read, score, usable
from gtrxl.report.sections import sections
from tests.report.made_up import row, write


def test_good_rows_come_back_as_they_were(tmp_path: Path):
    made = [row(number=n) for n in range(3)]
    write(tmp_path, made)
    found = read(tmp_path)
    assert list(found.rows) == made
    assert found.problems == ()


def test_folders_of_runs_are_not_looked_into(tmp_path: Path):
    """Runs that are under way make and remove folders there at any moment."""
    write(tmp_path, [row()])
    write(tmp_path / "some" / "runs", [row(number=1)], name="lstm.00")
    write(tmp_path / "runs", [row(number=2)], name="kept")
    assert sorted(each["draw"] for each in read(tmp_path).rows) == [0, 2], "a folder that is only called runs is another matter"


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
        (json.dumps(row(curve=[1, 2, 3])), "curve"),
        (json.dumps(row(curve=[[1, 2, 3, 4, 5, 6]])), "curve"),
        (json.dumps(row(curve=[["1", "2", "3"]])), "curve"),
        (json.dumps(row(curve=[[1, None, 3]])), "curve"),
        (json.dumps(row(curve=[[10**400, 2, 3]])), "curve"),
        (json.dumps(row(curve=[[2, 1.0, 3], [1, 1.0, 3]])), "must go on in frames"),
        (json.dumps(row(curve=[[2, 1.0, -3]])), "0 episodes"),
        (json.dumps(row(splits=[1])), "splits must be dict"),
        (json.dumps(row(splits={"memory": [[1, 2]]})), "its curve of 'memory' must have the numbers"),
        (json.dumps(row(planned_frames=0)), "planned_frames must be at least 1"),
        (json.dumps(row(frames=10**400)), "frames must be finite"),
        (json.dumps(row(set="atari")), "set must be one of"),
        (json.dumps(row(scale="../x")), "scale must be one of"),
        (json.dumps(row("Mamba")), "model 'Mamba' is none of gates's"),
        (json.dumps(row(dial="4")), "dial must be int or float"),
        (json.dumps(row(seconds=float("inf"))), "seconds must be finite"),
        (json.dumps(row(diverged_at_frames="early")), "diverged_at_frames must be int"),
        (json.dumps(row(scores=[1, 2])), "scores must be dict"),
        (json.dumps(row(scores={"random": None})), "'random' of its scores must be a number"),
        (json.dumps(row(bounds={"eps_alpha": 0})), "'eps_alpha' of its bounds must be a positive number"),
        (json.dumps(row(commits="abc")), "commits must be list"),
        (json.dumps(row(config=7)), "config must be dict"),
        ("[" * 100_000, "not a whole line"),
        ("\x00\ufffd\u2028", "not a whole line"),
    ],
    ids=lambda each: str(each)[-30:] if len(str(each)) > 60 else None,
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


def test_one_place_in_an_experiment_counts_once_whatever_its_runs_are_called(tmp_path: Path):
    write(tmp_path, [row(), row(run="the same by another name", level=99.0), row(goal="elsewhere", run="no problem")])
    found = read(tmp_path)
    assert [each["run"] for each in found.rows] == ["LSTM.00", "no problem"]
    assert "run the same by another name is in some/rows.jsonl already; counted once" in found.problems[0]


@pytest.mark.parametrize("content", [bytes(range(256)), b"\x89PNG\r\n\x1a\n\x00\x00", b"\xff\xfe{}", b"", b"\n \n"])
def test_files_that_are_not_rows_are_named(tmp_path: Path, content: bytes):
    write(tmp_path, [row()], name="good")
    (tmp_path / "rows.jsonl").write_bytes(content)
    found = read(tmp_path)
    assert len(found.rows) == 1
    assert all(problem.startswith("rows.jsonl") for problem in found.problems)
    assert found.problems


def test_what_is_no_file_or_has_no_rows_yet_is_named(tmp_path: Path):
    write(tmp_path, [row()], name="good")
    (tmp_path / "good" / "runs" / "lstm.00").mkdir(parents=True)
    (tmp_path / "gates" / "quick" / "runs" / "lstm.00").mkdir(parents=True)
    (tmp_path / "folder" / "rows.jsonl").mkdir(parents=True)
    found = read(tmp_path)
    assert len(found.rows) == 1
    assert sorted(problem.split()[0] for problem in found.problems) == ["folder/rows.jsonl", "gates/quick/runs"]


def test_optional_parts_may_be_missing_or_null(tmp_path: Path):
    bare = {name: value for name, value in row().items() if name in NEEDED}
    write(tmp_path, [bare, row(number=1) | dict.fromkeys(OPTIONAL)])
    assert len(read(tmp_path).rows) == 2
    gates, params = sections(read(tmp_path))
    assert (len(gates.table), gates.left_out) == (2, ())
    assert (len(params.table), params.left_out[0]) == (1, "LSTM.00 (how many parameters is not known)")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"planned_frames": 50_000}, "planned_frames 50000, most runs of LSTM have 100000"),
        ({"task": "t-maze"}, "task 't-maze', most runs of LSTM have 'grid-numpad'"),
        ({"config": {"seed": 9, "net": {"width": 8}}}, "net.width 8, most runs of LSTM have 16"),
    ],
)
def test_runs_with_other_settings_than_most_are_not_averaged_with_them(change: dict[str, Any], said: str):
    alike = [
        row(number=n, config={"seed": n, "devices": n, "learner": {"eps_alpha": n}, "net": {"width": 16, "new": 1}})
        for n in range(3)
    ]
    ended, left = usable([row(number=7, **change | {"config": change.get("config", alike[0]["config"])}), *alike])
    assert ended == alike
    assert left == [f"LSTM.07 ({said})"]


def test_a_setting_that_came_to_be_between_two_runs_is_no_difference():
    before = [row(number=n, config={"gym": {"noise_steps": 1}, "net": {"width": 16}}) for n in range(3)]
    after = [row(number=7, config={"gym": {"noise_steps": 1, "widest_noise": 0.0}, "net": {"width": 16, "new": 1}, "newer": 2})]
    assert usable([*before, *after]) == ([*before, *after], [])
    other = row(number=8, config={"gym": {"noise_steps": 16, "widest_noise": 0.0}})
    assert usable([*before, other]) == (before, ["LSTM.08 (gym.noise_steps 16, most runs of LSTM have 1)"])


def test_a_run_without_an_episode_is_named_and_in_no_average(tmp_path: Path):
    write(tmp_path, [row(), row(number=1, curve=[])])
    for section in sections(read(tmp_path)):
        assert section.left_out == ("LSTM.01 (no episode ended)",)
        assert section.table[1][section.table[0].index("runs")] == "1"


def test_runs_of_which_none_has_an_episode_make_a_section_that_says_so(tmp_path: Path):
    models = {"gates": "LSTM", "sensitivity": "TrXL", "numpad": "LSTM", "horizon": "LSTM"}
    write(tmp_path, [row(model, set=runs, curve=[], scores=None, bounds=None) for runs, model in models.items()])
    made = {section.experiment.id: section for section in sections(read(tmp_path))}
    assert set(made) == {"gates", "params", "numpad", "sensitivity", "divergence", "draws", "horizon"}
    for name, section in made.items():
        assert section.picture.alone().endswith("</svg>\n")
        assert (section.left_out == ()) == (name in ("divergence", "draws"))


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
    assert score({**made, "diverged_at_frames": None, "frames": 60_000}) == 0.0  # when is not said: at its end


def test_scores_of_100():
    assert normalised(row(), 25.0) == 50.0
    assert normalised(row(scores=None), 25.0) is None
    assert normalised(row(scores={"random": 1.0, "perfect memory": 1.0}), 25.0) is None
