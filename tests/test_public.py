"""Other people's tasks: the plan's commands are commands, finished runs are not repeated, the page has the table of the data."""

import json
import pathlib

import gymnasium
import pytest
from benchmarks import public
from benchmarks.proof_of_memory import LIMIT, ProofOfMemory
from gymnasium.utils.env_checker import check_env

from gtrxl.tasks import make_task

PAGE = pathlib.Path("docs/public.md").read_text()
RECORDS = public.load(pathlib.Path("docs/data/public.json"))


def test_the_page_has_the_table_of_the_data():
    assert public.table(RECORDS.values()) in PAGE


def test_every_record_is_of_a_run_of_the_plan():
    goals = {goal.name: goal for goal in public.GOALS}
    assert RECORDS
    for (name, core, seed), row in RECORDS.items():
        assert row["command"] == " ".join(goals[name].command(core, seed)).replace(str(public.HERE), "benchmarks")
        assert row["episodes"] == public.EPISODES
        assert row["status"] == "finished"


def test_compiled_tasks_of_the_plan_exist_and_names_are_used_once():
    names = [goal.name for goal in public.GOALS]
    assert len(set(names)) == len(names)
    for goal in public.GOALS:
        if not goal.task.startswith(("gym:", "env:")):
            for task in (*goal.task.split("+"), *([goal.played] if goal.played else [])):
                make_task(task)


def test_all_tasks_have_a_first_seed_before_any_has_a_second():
    plan = public.chosen(public.Settings(only=("classic", "ProofofMemory")))
    assert [run.seed for run in plan] == [0] * 8 + [1] * 8 + [2] * 8
    with pytest.raises(SystemExit, match="only must be among"):
        public.chosen(public.Settings(only=("chess",)))


def test_what_is_done_is_not_done_again_and_what_was_stopped_goes_on(tmp_path, monkeypatch):
    called = []

    class Done:
        returncode, stdout = 0, b"{}"

    monkeypatch.setattr(public, "_call", lambda words, **_: called.append(words[:2]) or Done())
    settings = public.Settings(runs=tmp_path)
    run = public.Run(public.GOALS[0], "lstm", 0)
    folder = run.folder(settings)
    public.make(run, settings)
    assert called == [["gtrxl", "train"], ["gtrxl", "eval"], ["gtrxl", "eval"]]  # with chance and without
    (folder / "config.json").write_text("{}")
    (folder / "result.json").write_text(json.dumps({"status": "stopped"}))
    (folder / "eval.json").unlink()
    assert public.record(run, folder) is None
    public.make(run, settings)
    assert called[3:] == [["gtrxl", "resume"], ["gtrxl", "eval"]]
    (folder / "result.json").write_text(json.dumps({"status": "finished"}))
    public.make(run, settings)
    assert len(called) == 5


def test_proof_of_memory_shows_the_goals_first_and_pays_at_the_good_one():
    env = ProofOfMemory()
    for seed in range(12):
        seen, _ = env.reset(seed=seed)
        goal, start = seen[2], seen[1]
        assert (seen[0], abs(goal)) == (-goal, 1)
        moves = round(5 * abs(goal - start))
        steps = [env.step(int(goal > 0)) for _ in range(2 + moves)]
        assert [bool(seen[0] or seen[2]) for seen, *_ in steps] == [True] * 2 + [False] * moves
        assert [seen[1] == start for seen, *_ in steps] == [True] * 2 + [False] * moves
        assert [step[2:4] for step in steps] == [(False, False)] * (1 + moves) + [(True, False)]
        assert sum(reward for _, reward, *_ in steps) == pytest.approx(1.6 - 0.1 * (moves - 1))


def test_proof_of_memory_is_a_gymnasium_task_and_its_clock_runs_out():
    check_env(ProofOfMemory(), skip_render_check=True)
    env: gymnasium.Env = ProofOfMemory()
    env.reset(seed=0)
    ends = [env.step(step % 2)[2:4] for step in range(LIMIT)]
    assert ends == [(False, False)] * (LIMIT - 1) + [(False, True)]
