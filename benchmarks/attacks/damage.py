"""Files of a run damaged one at a time: bits flipped, ends cut off, holes, garbage, nothing left, no file.

Two folders are damaged: one as a kill leaves it, in the middle of its updates, and one that is finished. After each damage the
run is read, its agent loaded and played, and the run gone on with, in a process that does many of them. Allowed is: everything
as it was, to the bit; one clear line; or, of what goes on, a line and an older checkpoint, and then the same rows to the bit; or,
where rows themselves were damaged, a line and the others to the bit.
"""

import contextlib
import dataclasses
import hashlib
import io
import itertools
import os
import re
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from . import tiny
from .cases import Case, Form, Outcome, Part
from .processes import in_worker

Kind = Literal["flip", "cut", "zeros", "garbage", "empty", "gone"]
KINDS: tuple[Kind, ...] = ("flip", "cut", "zeros", "garbage", "empty", "gone")
AGAIN: tuple[Kind, ...] = ("flip", "cut", "zeros", "garbage")
OFTEN: dict[str, int] = {"config.json": 8, "metrics.jsonl": 8, "result.json": 8, "card.json": 4, "state": 0, "tensorboard": 0}
"""Bits flipped beside, in each file of that kind."""
CORE = "lstm"
STOPPED_AT = 7
"""Row after which the first folder is as it would be if its process were killed."""
SECONDS = 90
"""That one case may take."""


class Planned(NamedTuple):
    """What is damaged how."""

    base: str
    file: str
    kind: Kind


class Damage(Part):
    """Every file, every kind of damage; some files more often."""

    name: ClassVar[str] = "damage"
    about: ClassVar[str] = "bits flipped, files cut, zeroed, overwritten, emptied, removed; then load, evaluate, resume"
    counts: ClassVar[dict[Form, int]] = {"full": 300, "quick": 24}
    batch: ClassVar[int] = 25

    def __init__(self, work: Path, seed: int):
        super().__init__(work, seed)
        self.programs = work

    def prepare(self) -> None:
        """Both folders, in a process of its own."""
        for record in in_worker("damage", "make", {"work": str(self.work)}, work=self.programs, seconds=200):
            if "died" in record:
                raise RuntimeError(f"the runs to be damaged could not be made: {record['died']}")

    def attack(self, numbers: list[int]) -> list[Case]:
        """In one process after the other: a case that ends its process is a fault, and the rest goes on."""
        cases: list[Case] = []
        left = list(numbers)
        while left:
            asked = {"work": str(self.work), "seed": self.seed, "numbers": left}
            for record in in_worker("damage", "damaged", asked, work=self.programs, seconds=SECONDS * len(left) + 120):
                if "died" not in record:
                    cases.append(Case(**record))
                elif len(cases) < len(numbers):
                    number = next(each for each in numbers if each not in {case.number for case in cases})
                    base, file, kind = next(itertools.islice(planned(self.work, self.seed), number, None))
                    what = _kind_of(file)
                    cases.append(Case(self.name, number, f"{kind} in {base}/{file}", "fault", record["died"][:300], file=what))
            done = {case.number for case in cases}
            left = [number for number in numbers if number not in done]
        return cases


def make(work: str, core: str = CORE) -> Iterator[dict[str, Any]]:
    """A run as a kill leaves it, and the same run finished."""
    import gtrxl

    home = Path(work)
    for name in ("stopped", "finished"):
        shutil.rmtree(home / name, ignore_errors=True)
    seen = 0

    def copy(_: Any) -> None:
        nonlocal seen
        seen += 1
        if seen == STOPPED_AT:
            shutil.copytree(home / "finished", home / "stopped")

    gtrxl.train(run=home / "finished", quiet=True, callback=copy, **tiny.settings(core, reports=12, steps=12 * 32))
    yield {"made": True}


def planned(work: Path, seed: int) -> Iterator[Planned]:
    """What is damaged how, without end: first every file in every way, and some more often; then all files again and again,
    in ways that are never twice the same. Any number of cases is spread over all files and ways."""
    files = [(base, str(path.relative_to(work / base))) for base in ("stopped", "finished") for path in _files(work / base)]
    # Of the finished run, what the stopped one has not; its checkpoints are the same kind of thing.
    files = [(base, file) for base, file in files if base == "stopped" or not file.startswith(("checkpoints", "tensorboard"))]
    random = np.random.default_rng(seed)
    cases = [Planned(base, file, kind) for base, file in files for kind in KINDS]
    for base, file in files:
        cases += [Planned(base, file, "flip")] * OFTEN[_kind_of(file)]
    while True:
        yield from (cases[place] for place in random.permutation(len(cases)))
        cases = [Planned(base, file, kind) for base, file in files for kind in AGAIN]


def damaged(work: str, seed: int, numbers: list[int]) -> Iterator[dict[str, Any]]:
    """These cases, in this process."""
    home = Path(work)
    bench = Bench(home)
    plan = list(itertools.islice(planned(home, seed), max(numbers) + 1))
    for number in numbers:
        yield dataclasses.asdict(bench.case(number, *plan[number], random=np.random.default_rng([seed, number])))


class Bench:
    """The two folders, and how they answer when nothing is wrong with them."""

    def __init__(self, home: Path):
        self.home = home
        self.case_folder = home
        self.right: dict[str, dict[str, Any]] = {}
        self.final = tiny.rows(home / "finished"), tiny.fingerprint(tiny.arrays(home / "finished"))

    def case(self, number: int, base: str, file: str, kind: Kind, *, random: np.random.Generator) -> Case:
        """One damage and its judgement."""
        begun = time.monotonic()
        if base not in self.right:
            self.right[base] = self._answers(base)
        self._copy(base)
        did = f"{kind} in {base}/{file}: {spoil(self.case_folder / file, kind, random)}"
        found = self._attempt(base)
        outcome, fault = self.judge(base, found)
        shutil.rmtree(self.case_folder, ignore_errors=True)
        seconds = round(time.monotonic() - begun, 1)
        return Case("damage", number, did, outcome, fault, file=_kind_of(file), seconds=seconds)

    def _copy(self, base: str) -> None:
        # Another name for each: a line about one folder is said once in a process.
        self.case_folder = self.home / f"case-{os.getpid()}-{time.monotonic_ns()}"
        shutil.copytree(self.home / base, self.case_folder)

    def _answers(self, base: str) -> dict[str, Any]:
        self._copy(base)
        found = self._attempt(base)
        shutil.rmtree(self.case_folder)
        for call, (_, error, _) in found.items():
            if error:
                raise RuntimeError(f"{call} of the {base} run must work before it is damaged, got {error}")
        return found

    def _attempt(self, base: str) -> dict[str, tuple[Any, str, list[str]]]:
        """What reading, showing, loading, playing and going on give: the answer, or the error, and the lines that were said."""
        import gtrxl
        from gtrxl.report.runs import read_record
        from gtrxl.runs.folder import read_run

        folder, began_at = self.case_folder, []

        def read() -> Any:
            run = read_run(folder)
            return run.status, run.rows

        def show() -> Any:
            return dataclasses.replace(read_record(folder), folder=Path())

        def load() -> Any:
            return _hash(gtrxl.load(folder).agent)

        def play() -> Any:
            return dataclasses.asdict(gtrxl.evaluate(folder, episodes=4))

        def go_on() -> Any:
            run = gtrxl.resume(folder, board=False, callback=lambda row: began_at.append(row["updates"]))
            rows = [tiny.metrics.without_clock(row) for row in run.rows]
            return run.status, rows, tiny.fingerprint(tiny.arrays(folder)), began_at[:1]

        found = {call.__name__: attempt(call) for call in (read, show, load, play, go_on)}
        here = str(folder)
        return {call: (a, error, [line.replace(here, "RUN") for line in said]) for call, (a, error, said) in found.items()}

    def judge(self, base: str, found: dict[str, tuple[Any, str, list[str]]]) -> tuple[Outcome, str]:
        """What came of it, and what is not as promised. Fewer rows, or no result yet, is what a kill may leave: reading such a
        run is right, and who goes on with it says what is lost."""
        outcome: Outcome = "same"
        new: list[str] = []
        killed = False
        for call, (answer, error, said) in found.items():
            right, _, usual = self.right[base][call]
            new += _unusual(said, usual)
            if error.startswith("!"):
                return "fault", f"{call}: {error[1:]}"
            if error:
                outcome = "said" if outcome == "same" else outcome
            elif call == "go_on":
                status, rows, weights, began = answer
                fewer = [row for row in self.final[0] if row in rows]
                if weights != self.final[1] or status != "finished" or (rows != self.final[0] and not (new and rows == fewer)):
                    what = _first_difference(rows, self.final[0]) or "the weights differ"
                    return "fault", f"go_on: a {'silent ' * (not new)}difference: {status}, {what}"
                outcome = "rows" if rows != self.final[0] else outcome
                if began != right[3]:
                    if not new:
                        return "fault", f"go_on: went on from before update {began} instead of {right[3]} without a word"
                    outcome = "older"
            elif call == "read" and answer != right and _as_a_kill_leaves_it(answer, right):
                killed = True
            elif answer != right and not (call == "show" and killed):
                if not new:
                    return "fault", f"{call}: a silent difference"
                outcome = "older"
        return outcome, ""


class _Late(BaseException):
    """A call takes far too long."""


def attempt(call: Callable[[], Any], *, seconds: int = SECONDS) -> tuple[Any, str, list[str]]:
    """What a call returns, what it raises, and the lines that it says. An error that a user would not see as one line begins
    with an exclamation mark."""
    said = io.StringIO()

    def late(*_: Any) -> None:
        raise _Late

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    answer, error = None, ""
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            answer = call()
    except _Late:
        error = f"!did not return within {seconds} s"
    except BaseException as raised:
        error = one_line(raised)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return answer, error, said.getvalue().splitlines()


def one_line(error: BaseException) -> str:
    """What the command line would say; with an exclamation mark if that is a traceback, or not one clean line."""
    text = str(error)
    ours = isinstance(error, OSError) or (isinstance(error, ValueError) and type(error).__module__.startswith("gtrxl."))
    if not ours:
        return f"!a traceback of {type(error).__name__}: {text.splitlines()[0][:200] if text else ''}"
    if not text or any(not sign.isprintable() for sign in text):
        return f"!not one clean line: {text[:200]!r}"
    return text


def spoil(path: Path, kind: Kind, random: np.random.Generator) -> str:
    """Damages a file; says how."""
    data = bytearray(path.read_bytes())
    size = len(data)
    if kind == "gone":
        path.unlink()
        return "removed"
    if kind == "empty" or not size:
        path.write_bytes(b"" if size else b"\0")
        return "emptied" if size else "one byte where there was none"
    at = int(random.integers(size))
    if kind == "flip":
        bit = int(random.integers(8))
        data[at] ^= 1 << bit
        said = f"bit {bit} of byte {at} of {size}"
    elif kind == "cut":
        del data[at:]
        said = f"{at} of {size} bytes are left"
    else:
        length = min(int(random.integers(1, 65)) if kind == "zeros" else 16, size - at)
        data[at : at + length] = bytes(length) if kind == "zeros" else random.bytes(length)
        said = f"{length} bytes from {at} of {size}"
    path.write_bytes(data)
    return said


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "lock")


def _kind_of(file: str) -> str:
    name = Path(file).name
    if name in OFTEN:
        return name
    return "tensorboard" if file.startswith("tensorboard") else "state"


def _hash(tree: Any) -> str:
    import equinox as eqx
    import jax

    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(eqx.filter(tree, eqx.is_array)):
        array = np.asarray(leaf)
        digest.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
    return digest.hexdigest()


USUAL = re.compile(r"\s*\d+ %|.* with .*, seed \d+, into")


def _unusual(said: list[str], usual: list[str]) -> list[str]:
    """Lines that are not said of a run that is as it should be."""
    return [line for line in said if line.strip() and line not in usual and not USUAL.match(line)]


def _as_a_kill_leaves_it(answer: Any, right: Any) -> bool:
    status, rows = answer
    return status == "stopped" and rows == right[1][: len(rows)]


def _first_difference(mine: list[Any], right: list[Any]) -> str:
    if len(mine) != len(right):
        return f"{len(mine)} rows where {len(right)} are due"
    return next((f"row {n}" for n, (a, b) in enumerate(zip(mine, right, strict=True)) if a != b), "")
