"""A session: mistakes are said before anything takes long, a callback sees every row, and what is finished is not begun again."""

import dataclasses
from typing import Any

import pytest

import gtrxl
from gtrxl import machine
from gtrxl.runs.errors import RunError
from gtrxl.training import session
from gtrxl.training.actors import engine
from tests.training.small import NET

TINY: dict[str, Any] = {
    "task": "t-maze:corridor=3,patience=1", "core": "none", "streams": 4, "unroll": 4, "steps": 480, "reports": 3, "devices": 1,
    "net": dataclasses.asdict(NET),
}  # fmt: skip


def tiny(**changes: Any) -> dict[str, Any]:
    return TINY | changes


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """A run, and what its callback was called with."""
    rows = []
    run = gtrxl.train(run=tmp_path_factory.mktemp("session") / "run", quiet=True, board=False, callback=rows.append, **TINY)
    return run, rows


def test_a_callback_is_called_with_every_row(seen):
    run, rows = seen
    assert len(rows) == len(run.rows) == 3
    assert [row["frames"] for row in rows] == [row["frames"] for row in run.rows]
    assert all(type(row) is dict for row in rows)


def test_a_finished_run_is_not_begun_again(seen, monkeypatch, capsys):
    run, _ = seen
    monkeypatch.setattr(session, "engine_of", lambda *_: pytest.fail("nothing needs to be built"))
    again = gtrxl.resume(run.folder)
    assert (again.status, again.rows) == ("finished", run.rows)
    assert capsys.readouterr().out == f"{run.folder} is finished: nothing is left to do; --steps makes it longer\n"


def test_a_callback_that_fails_is_named_and_the_run_can_go_on(tmp_path):
    def fragile(row):
        if row["updates"] > 10:
            raise KeyError("a door")

    with pytest.raises(RunError, match=r"the callback .*fragile failed at .* KeyError: 'a door'; mend it"):
        gtrxl.train(run=tmp_path / "run", quiet=True, board=False, callback=fragile, **TINY)
    assert gtrxl.resume(tmp_path / "run", quiet=True, board=False).status == "finished"


def test_mistakes_are_said_before_there_is_a_folder(seen, tmp_path, monkeypatch):
    run, _ = seen
    monkeypatch.setattr(session, "begin", lambda *_: pytest.fail("too late"))
    with pytest.raises(RunError, match="must not hold a run yet"):
        gtrxl.train(run=run.folder, **TINY)
    monkeypatch.setattr(engine.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(RunError, match="engine ray needs Ray, and it is not installed"):
        gtrxl.train(run=tmp_path / "run", task="gym:CartPole-v1", fleet={"engine": "ray"})
    monkeypatch.undo()
    with pytest.raises(RunError, match=r"a run's state must fit into memory, got 1,\d\d\d.* GB for a machine with"):
        gtrxl.train(run=tmp_path / "run", quiet=True, net={"memory": 1_000_000, "width": 8192}, devices=1)
    with pytest.raises(RunError, match=f"devices must be at most .*, got {10 * machine.processors() + 90}"):
        gtrxl.train(run=tmp_path / "run", quiet=True, **tiny(devices=10 * machine.processors() + 90))
    assert not (tmp_path / "run").exists()


def test_a_run_that_becomes_longer_than_asked_says_so(tmp_path, capsys):
    gtrxl.train(run=tmp_path / "run", board=False, **tiny(steps=100))
    assert "100 frames were asked for; whole reports of 10 updates make it 160" in capsys.readouterr().err


def test_what_is_no_part_of_a_run_is_refused(tmp_path):
    for call in (gtrxl.resume, gtrxl.load, gtrxl.evaluate, gtrxl.watch, gtrxl.export):
        with pytest.raises(TypeError, match="unexpected argument 'cor'; a run's own parts are given as core=, algorithm="):
            call(tmp_path, cor=5)
