"""Gymnasium tasks that raise, hang, end their process or return nonsense now and then: the run names them, counts and goes on.

A task that never gets anywhere ends its run, with a line that says which one and why, and a checkpoint.
"""

import shutil
import time
from pathlib import Path
from typing import ClassVar

from gtrxl.runs import metrics

from . import tiny
from .cases import Case, Form, Part
from .kills import Broken, check_alone, check_said
from .processes import BENCHMARKS, Command, Hang

HABITS = {
    "raises": "raised KeyError: 'the third door'",
    "hangs": "a call must return within 2 s",
    "exits": "its process ended with code 7",
    "nan_reward": "finite",
    "nan_observation": "finite",
    "always_raises": "raised KeyError: 'the third door'",
}
"""What a task does -> what must be said of it."""
REPORTS = 16


class Tasks(Part):
    """One run for each habit."""

    name: ClassVar[str] = "tasks"
    about: ClassVar[str] = "a Gymnasium task that raises, hangs, ends its process or returns NaN now and then"
    counts: ClassVar[dict[Form, int]] = {"full": len(HABITS), "quick": 2}

    def __init__(self, work: Path, seed: int):
        super().__init__(work, seed)
        self.programs = work

    def attack(self, numbers: list[int]) -> list[Case]:
        """Each of its own."""
        return [self._case(number) for number in numbers]

    def _case(self, number: int) -> Case:
        begun, habit = time.monotonic(), [*HABITS][number]
        folder = self.work / habit
        shutil.rmtree(folder, ignore_errors=True)
        task = f"env:attacks.tasks.{habit}"
        chosen = tiny.actors_settings(task, reports=REPORTS, fleet={"restarts": 3, "time_limit": 2.0})
        command = Command(
            ["train", *tiny.line(chosen), "--run", str(folder), "--no-board", "--from", str(BENCHMARKS)], work=self.programs
        )
        fault, restarts = "", 0
        try:
            restarts = self._judge(command, folder, habit, command.wait())
        except (Broken, Hang) as broken:
            fault = str(broken)
        finally:
            command.end()
        outcome = "fault" if fault else "said" if habit.startswith("always") else "counted"
        seconds, failures = round(time.monotonic() - begun, 1), max(restarts, 1)
        return Case(
            self.name, number, f"a task that {habit.replace('_', ' ')}", outcome, fault, attacks=failures, seconds=seconds
        )

    def _judge(self, command: Command, folder: Path, habit: str, code: int) -> int:
        """How often it failed; raises if that is not as it should be."""
        check_said(command)
        check_alone(command)
        named = [line for line in command.said.splitlines() if f"attacks.tasks:{habit}, actor" in line and HABITS[habit] in line]
        if not named:
            raise Broken(f"no line names the task and {HABITS[habit]!r}; the last is {command.said.strip()[-200:]!r}")
        if habit.startswith("always"):
            if code != 2 or tiny.result(folder)["status"] != "failed" or not tiny.checkpoints(folder):
                raise Broken(f"ended with code {code}, status {tiny.result(folder)['status']}")
            return len(named)
        named = [line for line in named if "times without a whole unroll" not in line]
        if code:
            raise Broken(f"ended with code {code}: {command.said.strip()[-300:]!r}")
        if wrong := tiny.hole(folder, reports=REPORTS) or tiny.left_over(folder):
            raise Broken(wrong)
        restarts = metrics.read(folder / "metrics.jsonl")[-1]["restarts"]
        if restarts != len(named):
            raise Broken(f"{len(named)} failures were named and {restarts} restarts counted")
        return restarts
