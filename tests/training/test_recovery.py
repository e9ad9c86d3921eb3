"""Nothing is lost: a live run is left alone, and whatever is damaged or missing, a run goes on from what there is."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gtrxl
from gtrxl.cli.main import main
from gtrxl.evaluation.loading import restore_agent
from gtrxl.experiments import sweeps
from gtrxl.runs import errors, lock, sealed, settings
from gtrxl.runs.errors import RunError, TakenError
from gtrxl.runs.metrics import read, without_clock
from gtrxl.runs.scores import recent
from tests.training.test_session import TINY
from tests.training.toy_engine import use_toy_engine

LONGER: dict[str, Any] = TINY | {"steps": 640, "reports": 4, "checkpoint_every": 1}
"""Ten updates a report; checkpoints 30 and 40 are kept at the end, and the best."""


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    """What is learned is no part of this; `test_train` has the real thing."""
    use_toy_engine(monkeypatch)
    monkeypatch.setattr(errors, "_said", set())
    monkeypatch.setattr(lock, "PATIENCE", 0.05)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        use_toy_engine(patch)
        return gtrxl.train(run=tmp_path_factory.mktemp("recovery") / "run", quiet=True, board=False, **LONGER)


@pytest.fixture
def run(whole, tmp_path):
    """A copy of a finished run."""
    shutil.copytree(whole.folder, tmp_path / "run")
    return tmp_path / "run"


def rows_of(folder):
    return [without_clock(row) for row in read(folder / "metrics.jsonl")]


def contents(folder: Path) -> dict[str, bytes]:
    """Every file but the lock."""
    files = (file for file in folder.rglob("*") if file.is_file() and file.name != "lock")
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def checkpoints(folder: Path) -> list[str]:
    return sorted(entry.name for entry in (folder / "checkpoints").iterdir())


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-5] ^= 4
    file.write_bytes(content)


def resume(folder, **given):
    return gtrxl.resume(folder, quiet=True, board=False, **given)


def test_a_live_run_is_left_alone_by_train_and_by_resume(tmp_path, capsys):
    """From inside of a run: who else would work on it hears who has it, and nothing changes."""
    folder = tmp_path / "run"
    tried = []

    def intrude(row):
        before = contents(folder)
        for call in (lambda: resume(folder), lambda: gtrxl.train(run=folder, **TINY)):
            with pytest.raises(TakenError, match=r"one process at a time .* which process \d+ on .* since .* works on") as said:
                call()
            tried.append(str(said.value))
        assert main(["resume", str(folder), "--quiet"]) == 2
        assert contents(folder) == before

    done = gtrxl.train(run=folder, quiet=True, board=False, callback=intrude, **TINY)
    assert done.status == "finished"
    assert len(tried) == 2 * len(done.rows)
    err = capsys.readouterr().err
    assert err.count("gtrxl: one process at a time works on a run") == err.count("\n") == len(done.rows)
    assert lock.holder(folder) is None
    with lock.hold(folder):
        assert resume(folder).status == "finished", "what is finished needs no lock"
        with pytest.raises(TakenError):
            resume(folder, steps=640)


def test_two_runs_that_begin_at_once_get_folders_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    other = []

    def begin(row):
        if not other:
            (Path("runs") / "t-maze-corridor3-patience1-none-seed0" / "config.json").rename("away")
            other.append(gtrxl.train(quiet=True, board=False, **TINY))
            Path("away").rename(Path("runs") / "t-maze-corridor3-patience1-none-seed0" / "config.json")

    first = gtrxl.train(quiet=True, board=False, callback=begin, **TINY)
    assert first.folder != other[0].folder
    assert rows_of(first.folder) == rows_of(other[0].folder)


def test_a_damaged_last_checkpoint_is_set_aside_for_the_one_before(whole, run, capsys):
    (run / "result.json").unlink()
    flip(run / "checkpoints" / "40" / "state.safetensors")
    done = resume(run)
    assert (done.status, rows_of(run)) == ("finished", rows_of(whole.folder))
    said = capsys.readouterr().err
    assert "are not those that were saved; it is kept as damaged-40, and the run goes on from checkpoint 30" in said
    assert said.count("\n") == 1
    assert "damaged-40" not in checkpoints(run), "there is a whole one again"
    assert restore_agent(run, "last").update == 40


@pytest.mark.parametrize("card", [b"{}", b"[]", b"\xff\xfe", b"[" * 100_000, None])
def test_a_bad_card_of_the_last_one_too(whole, run, card, capsys):
    (run / "result.json").unlink()
    file = run / "checkpoints" / "40" / "card.json"
    file.unlink() if card is None else file.write_bytes(card)
    assert restore_agent(run, "last").update == 30
    assert "checkpoint 40 cannot be read: " in (said := capsys.readouterr().err)
    assert said.endswith("; it is passed over\n")
    resume(run)
    assert rows_of(run) == rows_of(whole.folder)
    assert "it is kept as damaged-40, and the run goes on from checkpoint 30\n" in capsys.readouterr().err


def test_what_was_asked_for_by_its_number_is_not_replaced_by_another(run):
    flip(run / "checkpoints" / "30" / "state.safetensors")
    before = contents(run)
    for call in (lambda: resume(run, checkpoint=30), lambda: restore_agent(run, 30), lambda: gtrxl.export(run, which=30)):
        with pytest.raises(RunError, match=r"checkpoint 30 .* are not those that were saved; there are also .*--checkpoint"):
            call()
    assert contents(run) == before


def test_when_none_can_be_read_nothing_is_thrown_away(run):
    for entry in (run / "checkpoints").iterdir():
        flip(entry / "state.safetensors")
    before = contents(run)
    (run / "result.json").unlink()
    with pytest.raises(RunError, match=r"got none that can be read of \[.*30, 40\]: checkpoint 40 .*; train another one") as said:
        resume(run)
    assert "\n" not in str(said.value)
    assert contents(run) | {"result.json": before["result.json"]} == before


def test_a_run_goes_back_to_any_checkpoint_and_comes_to_the_same_end(whole, run, capsys):
    assert main(["resume", str(run), "--checkpoint", "30", "--quiet", "--no-board"]) == 0
    assert rows_of(run) == rows_of(whole.folder)
    assert (run / "metrics.jsonl").read_bytes() != (whole.folder / "metrics.jsonl").read_bytes(), "its clock is another"
    assert not (run / "tensorboard").exists()
    with pytest.raises(RunError, match=r"there is no checkpoint of step 7 in .*; there are \["):
        resume(run, checkpoint=7)
    seen = []
    resume(run, checkpoint="best", callback=lambda row: seen.append(row["updates"]))
    scores = {row["updates"]: recent(whole.rows[: number + 1]) for number, row in enumerate(whole.rows)}
    best = max(scores, key=lambda updates: (scores[updates], updates))
    assert seen == [updates for updates in (10, 20, 30, 40) if updates > best]
    assert rows_of(run) == rows_of(whole.folder)


def early_kill(run: Path) -> None:
    """As a kill between config.json and the first checkpoint leaves it."""
    shutil.rmtree(run / "checkpoints")
    (run / "checkpoints" / "saving-0").mkdir(parents=True)
    (run / "result.json").unlink()
    (run / "metrics.jsonl").write_text("")


def test_a_run_that_was_killed_before_its_first_checkpoint_begins_anew(whole, run):
    early_kill(run)
    with pytest.raises(RunError, match=r"no finished checkpoint .*; `gtrxl resume` begins a run that has none yet"):
        restore_agent(run)
    with pytest.raises(RunError, match="no finished checkpoint"):
        resume(run, checkpoint=30)
    assert resume(run).status == "finished"
    assert rows_of(run) == rows_of(whole.folder)


def test_its_folder_may_also_be_trained_into(run):
    early_kill(run)
    done = gtrxl.train(run=run, quiet=True, board=False, **TINY)
    assert (done.config.steps, gtrxl.read_run(run).config.steps) == (480, 480)


def test_rows_without_a_checkpoint_are_not_overwritten(run):
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(RunError, match="has no checkpoint any more; train another one with --config"):
        resume(run)
    with pytest.raises(RunError, match="must not hold a run yet"):
        gtrxl.train(run=run, **TINY)
    assert len(rows_of(run)) == 4


def test_settings_that_are_missing_are_found_in_the_checkpoints(whole, run, capsys):
    config = (run / "config.json").read_bytes()
    (run / "config.json").unlink()
    (run / "result.json").unlink()
    shutil.rmtree(run / "checkpoints" / "40")
    with pytest.raises(RunError, match=r"must not hold a run yet, got .*; `gtrxl resume .*` finds the settings of the one"):
        gtrxl.train(run=run, task="grid-numpad", quiet=True)
    assert not (run / "config.json").exists()
    assert resume(run).status == "finished"
    assert (run / "config.json").read_bytes() == config
    assert rows_of(run) == rows_of(whole.folder)
    assert capsys.readouterr().err == f"gtrxl: {run} has no config.json; its settings are taken from its checkpoints\n"


def test_settings_that_are_nowhere_are_asked_for(run):
    (run / "config.json").unlink()
    for file in (run / "checkpoints").glob("*/card.json"):
        card = sealed.read(file, remedy="none")
        del card["settings"]
        sealed.write(file, card)
    with pytest.raises(RunError, match=r"has no config\.json, and no checkpoint that holds its settings; put the file back"):
        resume(run)


def test_changed_settings_are_noticed_and_taken_if_that_was_on_purpose(run):
    file = run / "config.json"
    text = file.read_text().replace('"unroll": 4', '"unroll": 5')
    file.write_text(text)
    (run / "result.json").unlink()
    for call in (resume, gtrxl.load, gtrxl.evaluate, gtrxl.read_run):
        with pytest.raises(RunError, match=r'digest does not fit; remove the file, and .*, or remove the line "digest"') as said:
            call(run)
        assert "\n" not in str(said.value)
    file.write_text(json.dumps({name: value for name, value in json.loads(text).items() if name != "digest"}))
    assert gtrxl.read_run(run).config.unroll == 5
    file.unlink()
    assert gtrxl.read_run(run).config.unroll == 4


def test_garbage_between_rows_is_said_and_dropped(whole, run, capsys):
    lines = (run / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    (run / "metrics.jsonl").write_bytes(b"".join([lines[0], b"\xff\x00 garbage\n", lines[1].replace(b"0", b"1", 1), *lines[2:]]))
    with pytest.raises(RunError, match=r"line 2 is not: .*; remove that line, or let `gtrxl resume` do it"):
        gtrxl.read_run(run)
    done = resume(run)
    assert done.status == gtrxl.read_run(run).status == "finished"
    assert rows_of(run) == [row for number, row in enumerate(rows_of(whole.folder)) if number != 1]
    said = capsys.readouterr().err
    assert said == f"gtrxl: {run}/metrics.jsonl was damaged: lines 2, 3 moved to metrics.jsonl.damaged, the other rows are kept\n"
    assert (run / "metrics.jsonl.damaged").read_bytes().startswith(b"\xff\x00 garbage\n{")


def test_rows_that_were_cut_off_are_said(whole, run, capsys):
    content = (run / "metrics.jsonl").read_bytes()
    (run / "metrics.jsonl").write_bytes(content[: len(content) // 2])
    with pytest.raises(RunError, match=r"must have the rows until update 40, got those until \d0; the others are lost"):
        gtrxl.read_run(run)
    resume(run)
    assert "has rows until update " in (said := capsys.readouterr().err)
    assert said.endswith(" only, and the checkpoint is of update 40: those between are lost\n")
    assert gtrxl.read_run(run).rows == whole.rows[: len(read(run / "metrics.jsonl"))]


@pytest.mark.parametrize("content", [b'{"status": "fin', b"{}", b"[]", b"\xff", b"[" * 100_000])
def test_a_torn_or_foreign_result_is_one_line_and_is_written_again(whole, run, content):
    (run / "result.json").write_bytes(content)
    with pytest.raises(RunError, match=r"result\.json must .*; `gtrxl resume .*` writes it again") as said:
        gtrxl.read_run(run)
    assert "\n" not in str(said.value)
    assert resume(run).status == "finished"
    assert gtrxl.read_run(run).rows == whole.rows


def test_no_damage_to_any_file_changes_what_is_read_without_a_word(whole, run):
    """Bits and cuts, over every file: a run and its agent are what they were, or there is one line. Some can be read all the
    same: spaces, a half-written last row, a checkpoint that nobody asked for."""
    random = np.random.default_rng(0)
    agent, before = (np.asarray(restore_agent(run, which).agent) for which in (40, 30))
    files = sorted(file for file in run.rglob("*") if file.is_file() and file.name != "lock")
    assert len(files) == 3 + 2 * len(checkpoints(run))
    noticed = []
    for number in range(70):
        file = files[number % len(files)]
        content = file.read_bytes()
        damaged = bytearray(content)
        place = int(random.integers(len(content)))
        damaged[place] ^= 1 << int(random.integers(8))
        file.write_bytes(content[:place] if number % 3 == 0 else bytes(damaged))
        try:
            found, restored = gtrxl.read_run(run), restore_agent(run, "last")
        except RunError as error:
            noticed.append(str(error))
        else:
            assert (found.config, found.status, found.rows) == (whole.config, whole.status, whole.rows), file
            passed_over = file == run / "checkpoints" / "40" / "card.json" and restored.update == 30  # which is said
            assert passed_over or restored.update == 40, file
            assert np.array_equal(np.asarray(restored.agent), before if passed_over else agent), file
        file.write_bytes(content)
    assert len(noticed) > 35
    assert all("\n" not in said for said in noticed)
    assert (gtrxl.read_run(run).rows, restore_agent(run, "last").update) == (whole.rows, 40)


TORN = {
    "torn": b'{"status": ',
    "a list": b"[]",
    "other bytes": b"\xff\xfe\x00\n",
    "brackets": b"[" * 100_000,
    "nothing in it": b"{}",
}


@pytest.mark.parametrize("content", TORN.values(), ids=TORN)
def test_every_command_says_it_in_one_line(run, content, capsys):
    def lines(*words: object) -> tuple[int, list[str]]:
        code = main([str(word) for word in words])
        return code, capsys.readouterr().err.splitlines()

    def one(file: str, *commands: str) -> None:
        kept = {each: each.read_bytes() for each in run.glob(file)}
        for each in kept:
            each.write_bytes(content)
        for command in commands:
            code, said = lines(command, run, *(["--quiet"] if command == "resume" else []))
            assert (code, len(said)) == (2, 1), (command, said)
            assert said[0].startswith("gtrxl: "), said
        code, said = lines("train", "t-maze", "--run", run)
        assert (code, len(said)) == (2, 1), said
        assert "must not hold a run yet" in said[0]
        for each, before in kept.items():
            each.write_bytes(before)

    if content != b"{}":  # settings that leave everything out are settings
        one("config.json", "resume", "eval", "watch", "export", "compare")
    one("result.json", "compare")
    one("metrics.jsonl", *["compare"] if content != TORN["torn"] else [])  # a last line that is torn is as good as not there
    (run / "result.json").unlink()
    one("checkpoints/*/card.json", "resume", "eval", "watch", "export")


@pytest.mark.parametrize("damage", ["result", "rows", "checkpoint", "settings", "early kill"])
def test_a_sweep_mends_its_runs_too(whole, run, damage, monkeypatch):
    monkeypatch.setattr(sweeps.programs, "keep", lambda *_, **__: None)
    monkeypatch.setattr(sweeps.provenance, "write", lambda _: None)
    settings.write(whole.config, run / "planned.json")
    assert sweeps._is_done(run)
    if damage == "early kill":
        early_kill(run)
    elif damage == "settings":
        (run / "config.json").unlink()
    elif damage == "checkpoint":
        (run / "result.json").unlink()
        flip(run / "checkpoints" / "40" / "state.safetensors")
    else:
        file = run / {"result": "result.json", "rows": "metrics.jsonl"}[damage]
        file.write_bytes(b"\xff\n" + (file.read_bytes() if damage == "rows" else b""))
    assert not sweeps._is_done(run)
    sweeps.perform(run)
    assert sweeps._is_done(run)
    assert rows_of(run) == rows_of(whole.folder)
    assert lock.holder(run) is None
