"""SIGKILL for whatever does a run, at moments that are drawn, some of them where it hurts; then the user's next command.

After a kill the user says `gtrxl resume`, or the same `gtrxl train` again if there is no run yet, or the same `gtrxl sweep`. In
the end rows and weights must be those of a run that nobody killed, to the bit; with actors, which have no fixed order, every row
must be there once.
"""

import shutil
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from gtrxl.runs.errors import RunError

from . import tiny
from .cases import Case, Form, Outcome, Part
from .processes import Command, Hang, send

MOMENTS = ("any time", "any time", "any time", "a checkpoint is written", "a row is written", "the folder is new")
MOST_KILLS = 3
"""Of one run."""


class Broken(Exception):  # noqa: N818  # the word of the sentences that report it
    """What was promised did not hold."""


class Killing(Part):
    """Chains of kills, each on a run of its own."""

    resumes: ClassVar[Sequence[str]] = ()
    """Options of `gtrxl resume`, beside the folder."""
    sound: ClassVar[Outcome] = "same"
    """What comes of it if all is well."""
    act: ClassVar[str] = "SIGKILL"

    def __init__(self, work: Path, seed: int):
        super().__init__(work, seed)
        self.programs = work
        self.lives: dict[str, float] = {}
        """Seconds that a run is under way which nobody kills, all but the very end."""

    def kinds(self) -> Sequence[str]:
        """Of runs; each has a reference."""
        raise NotImplementedError

    def chosen(self, kind: str) -> dict[str, Any]:
        """The settings of a run."""
        raise NotImplementedError

    def judge(self, folder: Path, kind: str) -> str:
        """What is wrong with a run that finished; empty if nothing."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Runs that nobody kills; the second of each finds its programs compiled, as the others will."""
        for kind in self.kinds():
            for _ in range(2):
                begun = time.monotonic()
                shutil.rmtree(self.reference(kind), ignore_errors=True)
                command = self.start(self.begins(self.reference(kind), kind))
                if code := command.wait():
                    raise RuntimeError(f"the run that nobody kills must finish, got exit code {code}: {command.said}")
                self.lives[kind] = 0.9 * (time.monotonic() - begun)

    def reference(self, kind: str) -> Path:
        """Where the run is that nobody killed."""
        return self.work / f"reference-{kind}"

    def start(self, arguments: Sequence[str]) -> Command:
        """A command of ours."""
        return Command(arguments, work=self.programs)

    def begins(self, folder: Path, kind: str) -> list[str]:
        """The command that begins a run."""
        return ["train", *tiny.line(self.chosen(kind)), "--run", str(folder), "--no-board"]

    def goes_on(self, folder: Path, kind: str) -> list[str]:
        """What a user says after a kill."""
        if not (folder / "config.json").exists():
            return self.begins(folder, kind)
        return ["resume", str(folder), "--no-board", *self.resumes]

    def attack(self, numbers: list[int]) -> list[Case]:
        """One chain each."""
        return [self._chain(number) for number in numbers]

    def strike(self, command: Command, folder: Path, moment: str, random: np.random.Generator, life: float) -> str:
        """Waits for the moment and kills; what was killed when, or nothing if it had ended before."""
        if moment == "any time":
            command.wait_until(_after(random.uniform(0.0, life)))
        elif moment == "the folder is new":
            command.wait_until(lambda: (folder / "config.json").exists())
            time.sleep(random.choice([0.0, random.uniform(0.0, 0.05)]))
        elif moment == "a checkpoint is written":
            seen: set[str] = set()
            nth = int(random.integers(1, 6))
            command.wait_until(lambda: _unfinished(folder, seen) >= nth, every=0.0002)
            time.sleep(random.uniform(0.0, 0.03))
        else:
            size, nth = _size(folder), int(random.integers(1, 6))
            command.wait_until(lambda: _size(folder) >= size + nth * 200, every=0.0002)
        return f"when {moment}" if command.kill() else ""

    def _chain(self, number: int) -> Case:
        random, begun = self.random(number), time.monotonic()
        kind = self.kinds()[number % len(self.kinds())]
        folder = self.work / f"run-{number}"
        shutil.rmtree(folder, ignore_errors=True)
        did: list[str] = []
        fault = ""
        try:
            self._killed(folder, kind, random, did)
            self._finished(folder, kind)
        except (Broken, Hang) as broken:
            fault = str(broken)
        except (RunError, OSError, KeyError, IndexError) as error:  # of what was left to be judged
            fault = f"cannot be read in the end: {type(error).__name__}: {error}"
        if not fault:
            shutil.rmtree(folder, ignore_errors=True)
        whole = self.sound if not fault else "fault"
        said = f"{kind}: {self.act} {', then '.join(did) or 'came too late'}"
        return Case(self.name, number, said, whole, fault, attacks=len(did), seconds=round(time.monotonic() - begun, 1))

    def _killed(self, folder: Path, kind: str, random: np.random.Generator, did: list[str]) -> None:
        for _ in range(random.integers(1, MOST_KILLS + 1)):
            moment = str(random.choice(MOMENTS if not did else MOMENTS[:-1]))
            command = self.start(self.goes_on(folder, kind))
            struck = self.strike(command, folder, moment, random, self.lives[kind])
            if not struck:
                check_said(command)
                return  # it had ended before, well or not: the command that finishes will tell
            did.append(struck)
            check_alone(command)
            check_said(command)
            command.close()

    def _finished(self, folder: Path, kind: str) -> None:
        command = self.start(self.goes_on(folder, kind))
        if command.wait() and not tiny.checkpoints(folder) and command.arguments[0] == "resume":
            refused = command.said.strip()
            check_said(command)
            command = self.start(self.begins(folder, kind))
            if command.wait():
                raise Broken(f"a dead end: resume says {refused[-200:]!r}, train says {command.said.strip()[-200:]!r}")
        self._check_end(command)
        check_alone(command)
        if wrong := self.judge(folder, kind) or tiny.left_over(folder):
            raise Broken(wrong)
        command.close()

    def _check_end(self, command: Command) -> None:
        code = command.wait()
        check_said(command)
        if code:
            raise Broken(f"`gtrxl {command.arguments[0]}` ended with code {code}: {command.said.strip()[-300:]!r}")


class Compiled(Killing):
    """Task, acting and learning in one program."""

    name: ClassVar[str] = "compiled"
    about: ClassVar[str] = "SIGKILL of a compiled run, then `gtrxl resume`"
    counts: ClassVar[dict[Form, int]] = {"full": 22, "quick": 3}

    def kinds(self) -> Sequence[str]:
        """Cores."""
        return tiny.CORES

    def chosen(self, kind: str) -> dict[str, Any]:
        """With this core."""
        return tiny.settings(kind)

    def judge(self, folder: Path, kind: str) -> str:
        """The same to the bit."""
        return tiny.difference(folder, self.reference(kind))


class Learner(Killing):
    """A learner with actors as processes."""

    name: ClassVar[str] = "learner"
    about: ClassVar[str] = "SIGKILL of a learner with 2 actors, then `gtrxl resume`"
    counts: ClassVar[dict[Form, int]] = {"full": 9, "quick": 1}
    sound: ClassVar[Outcome] = "whole"

    def kinds(self) -> Sequence[str]:
        """One."""
        return ("cartpole",)

    def chosen(self, kind: str) -> dict[str, Any]:
        """CartPole, an LSTM."""
        return tiny.actors_settings()

    def judge(self, folder: Path, kind: str) -> str:
        """Every row once; actors have no fixed order, so the numbers differ."""
        return tiny.hole(folder, reports=self.chosen(kind)["reports"])


class Sweep(Killing):
    """Several runs at a time: the sweep, one of its runs, or all of them are killed."""

    name: ClassVar[str] = "sweep"
    about: ClassVar[str] = "SIGKILL of a sweep, of one of its runs, or of all, then the same command"
    counts: ClassVar[dict[Form, int]] = {"full": 7, "quick": 1}
    RUNS: ClassVar[Sequence[str]] = ("core=none,seed=0", "core=lstm,seed=0")

    def kinds(self) -> Sequence[str]:
        """One."""
        return ("two",)

    def begins(self, folder: Path, kind: str) -> list[str]:
        """Two runs side by side."""
        chosen = tiny.settings("none")
        del chosen["core"], chosen["devices"]
        places = ["--vary", "core=none,lstm", "--seeds", "1", "--jobs", "2", "--out", str(folder), "--quiet"]
        return ["sweep", *tiny.line(chosen), *places]

    def goes_on(self, folder: Path, kind: str) -> list[str]:
        """The same command."""
        return self.begins(folder, kind)

    def strike(self, command: Command, folder: Path, moment: str, random: np.random.Generator, life: float) -> str:
        """At any time: the sweep itself, one of its runs, or all."""
        command.wait_until(_after(random.uniform(0.0, life)))
        runs = [pid for pid, line in command.others().items() if "perform" in line]
        whom = str(random.choice(["sweep", "run", "all"]))
        if whom == "run" and runs:
            killed = send(int(random.choice(runs)), signal.SIGKILL)
            self._check_end(command)  # the sweep goes on with the run by itself
            return "one of its runs" if killed else ""
        if not command.kill():
            return ""
        if whom != "all":
            return "the sweep alone"
        for pid in runs:
            send(pid, signal.SIGKILL)
        return "all of it"

    def _killed(self, folder: Path, kind: str, random: np.random.Generator, did: list[str]) -> None:
        # Runs outlive a sweep that was killed, by design: the next one waits for their locks.
        for _ in range(random.integers(1, MOST_KILLS)):
            command = self.start(self.begins(folder, kind))
            struck = self.strike(command, folder, "any time", random, self.lives[kind])
            if not struck:
                self._check_end(command)
                return
            did.append(struck)
            check_said(command)

    def judge(self, folder: Path, kind: str) -> str:
        """Each the same to the bit."""
        for run in self.RUNS:
            wrong = tiny.difference(folder / run, self.reference(kind) / run) or tiny.left_over(folder / run)
            if wrong:
                return f"{run}: {wrong}"
            if "Traceback" in (folder / run / "log.txt").read_text():
                return f"{run}: its log has a traceback"
        return ""

    def _finished(self, folder: Path, kind: str) -> None:
        command = self.start(self.begins(folder, kind))
        self._check_end(command)
        check_alone(command)
        if wrong := self.judge(folder, kind):
            raise Broken(wrong)


class Twice(Killing):
    """A run that is under way, and somebody who goes on with it, or begins it, at the same time."""

    name: ClassVar[str] = "twice"
    about: ClassVar[str] = "`gtrxl resume` and `gtrxl train --run` on a run that is under way"
    counts: ClassVar[dict[Form, int]] = {"full": 4, "quick": 1}
    act: ClassVar[str] = "a second"
    LONG: ClassVar[int] = 300
    """Reports: the run is under way while the other command starts."""

    def kinds(self) -> Sequence[str]:
        """One."""
        return ("lstm",)

    def chosen(self, kind: str) -> dict[str, Any]:
        """A longer run."""
        return tiny.settings(kind, reports=self.LONG, steps=self.LONG * tiny.STREAMS * tiny.UNROLL * tiny.PERIOD)

    def judge(self, folder: Path, kind: str) -> str:
        """The same to the bit."""
        return tiny.difference(folder, self.reference(kind))

    def _killed(self, folder: Path, kind: str, random: np.random.Generator, did: list[str]) -> None:
        first = self.start(self.begins(folder, kind))
        try:
            first.wait_until(lambda: _size(folder) > int(random.integers(1, 5000)))
            for what, line in (("resume", ["resume", str(folder), "--no-board"]), ("train", self.begins(folder, kind))):
                second = self.start(line)
                code = second.wait()
                if first.process.poll() is not None:
                    break  # it had ended meanwhile, and nothing is shown
                did.append(f"`{what}` while it is under way")
                check_said(second)
                told = second.said.strip().splitlines()[-1:]
                if code != 2 or not told or (what == "resume" and f"process {first.pid}" not in told[0]):
                    raise Broken(f"a second `{what}` ended with code {code} and says {told}; process {first.pid} is at work")
            self._check_end(first)
        finally:
            first.end()


def check_alone(command: Command) -> None:
    """Raises if something outlived a command that has ended."""
    if left := command.outlived_by():
        raise Broken(f"outlived by {len(left)} processes, one of them {next(iter(left.values()))[:120]}")


def check_said(command: Command) -> None:
    """Raises if there is a traceback among what it said."""
    if "Traceback" in (said := command.said):
        raise Broken(f"a traceback: {said.strip().splitlines()[-1][:300]}")


def _after(seconds: float) -> Callable[[], bool]:
    due = time.monotonic() + seconds
    return lambda: time.monotonic() >= due


def _unfinished(folder: Path, seen: set[str]) -> int:
    """How many checkpoints have been seen in the middle of being written."""
    try:
        seen |= {entry.name for entry in (folder / "checkpoints").iterdir() if entry.name.startswith("saving-")}
    except OSError:
        return len(seen)
    return len(seen)


def _size(folder: Path) -> int:
    try:
        return (folder / "metrics.jsonl").stat().st_size
    except OSError:
        return 0
