"""Attacks on runs, counted: what is killed, damaged, forged or not a number, and what came of it.

    python benchmarks/faults.py                          # all of it, half an hour on 2 cores
    python benchmarks/faults.py --quick                  # a few of each, some minutes
    python benchmarks/faults.py --parts kills damage     # some parts; kills is compiled, learner and sweep
    python benchmarks/faults.py --list                   # what the parts are

Every finished case is written to the data file at once. The same command after a kill or Ctrl-C does what is left, as long as
neither the sources nor the seed have changed; otherwise it begins anew. At the end the tables of docs/reliability.md are written
from the data. Exit code 1 says that there were faults.

Other work on the machine slows it down, and nothing else: no judgement is about speed, only hanging for minutes is.
"""

import concurrent.futures
import dataclasses
import datetime
import hashlib
import json
import os
import platform
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from attacks import page
from attacks.cases import Case, Form, Part
from attacks.damage import Damage
from attacks.failing import Tasks
from attacks.fleets import Actors, Ray
from attacks.hostile import Hostile
from attacks.kills import Compiled, Learner, Sweep, Twice
from attacks.numbers import Numbers
from attacks.processes import end_earlier
from gtrxl.runs.provenance import commit

ROOT = Path(__file__).parents[1]
PARTS: dict[str, type[Part]] = {
    part.name: part for part in (Compiled, Learner, Sweep, Twice, Actors, Ray, Damage, Hostile, Numbers, Tasks)
}
Name = Literal["kills", "compiled", "learner", "sweep", "twice", "actors", "ray", "damage", "hostile", "numbers", "tasks"]


@dataclasses.dataclass(frozen=True)
class Settings:
    """What to attack, how often, and where the counts go."""

    parts: tuple[Name, ...] = ()
    """Some of them instead of all: kills (compiled, learner and sweep), twice, actors, ray, damage, hostile, numbers,
    tasks."""
    quick: bool = False
    """A few cases of each part."""
    seed: int = 0
    """Decides moments, bits and victims."""
    jobs: int = 0
    """Cases side by side, in the parts that allow it; 0 is one for each core."""
    data: Path = ROOT / "docs/data/faults.json"
    """Where the counts go."""
    work: Path | None = None
    """Where the runs go that are attacked; a folder among the temporary files if left out. What a fault was found in stays."""
    page: Path = ROOT / "docs/reliability.md"
    """Whose tables are written from the data, if it is the whole of it."""
    list_: Annotated[bool, tyro.conf.arg(name="list")] = False
    """Attack nothing: say what the parts are."""

    @property
    def form(self) -> Form:
        """How many cases there are."""
        return "quick" if self.quick else "full"

    def chosen(self) -> list[str]:
        """Parts, in their order."""
        asked = {*self.parts} | ({*page.KILLED} if "kills" in self.parts else set())
        return [name for name in PARTS if not asked or name in asked]


class Book:
    """The data file: every case that is done, written whole after each."""

    def __init__(self, settings: Settings):
        self.file = settings.data
        self.head = {"seed": settings.seed, "form": settings.form, "sources": sources()}
        self.cases: list[Case] = []
        self.seconds = 0.0
        self.since = time.monotonic()
        self.carried = self._earlier()

    def _earlier(self) -> bool:
        """Takes over what an earlier run of the same sources, seed and form has done."""
        if not self.file.exists():
            return False
        before = json.loads(self.file.read_text())
        if any(before.get(name) != value for name, value in self.head.items()):
            return False
        self.cases = [Case(**case) for case in before["cases"]]
        self.seconds = 60 * before["minutes"]
        return bool(self.cases)

    def left(self, part: type[Part], form: Form) -> list[int]:
        """The numbers of a part that are not done."""
        done = {case.number for case in self.cases if case.part == part.name}
        return [number for number in range(part.total(form)) if number not in done]

    def add(self, cases: list[Case]) -> None:
        """Writes them down."""
        order = list(PARTS)
        self.cases = sorted([*self.cases, *cases], key=lambda case: (order.index(case.part), case.number))
        self.write()

    def write(self) -> dict[str, Any]:
        """The file, at once or not at all; one case a line."""
        minutes = (self.seconds + time.monotonic() - self.since) / 60
        asked = " --quick" if self.head["form"] == "quick" else ""
        data = {
            "made_by": f"python benchmarks/faults.py{asked}" + (f" --seed {self.head['seed']}" if self.head["seed"] else ""),
            "date": datetime.date.today().isoformat(),
            "commit": commit(),
            "machine": f"{os.cpu_count()} CPU cores, Python {platform.python_version()}",
            "minutes": round(minutes, 2),
            **self.head,
            "parts": {name: part.about for name, part in PARTS.items() if any(case.part == name for case in self.cases)},
        }
        lines = ",\n".join(f"  {json.dumps(dataclasses.asdict(case))}" for case in self.cases)
        whole = self.file.with_name(self.file.name + ".part")
        whole.parent.mkdir(parents=True, exist_ok=True)
        whole.write_text(f'{json.dumps(data, indent=1)[:-2]},\n "cases": [\n{lines}\n ]\n}}\n')
        whole.replace(self.file)
        return json.loads(self.file.read_text())


def sources() -> str:
    """A fingerprint of all that decides what comes out: the package, and these attacks."""
    digest = hashlib.sha256()
    package = [path for kind in ("*.py", "*.cc") for path in (ROOT / "src").rglob(kind)]
    for path in sorted([*package, *(ROOT / "benchmarks/attacks").glob("*.py")]):
        digest.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def do(part: Part, numbers: list[int], book: Book, jobs: int) -> None:
    """The cases of a part that are left, some side by side."""
    total = len(numbers)
    say(f"{part.name}: {part.about}; {total} cases")
    part.prepare()
    batches = [numbers[at : at + part.batch] for at in range(0, total, part.batch)]
    done = 0
    if part.alone:  # in this thread: what it starts asks for signals
        for batch in batches:
            done += tell(part, part.attack(batch), book)
            say(f"  {done} of {total}")
        return
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        waiting = [pool.submit(part.attack, batch) for batch in batches]
        try:
            for ready in concurrent.futures.as_completed(waiting):
                done += tell(part, ready.result(), book)
                say(f"  {done} of {total}")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def tell(part: Part, cases: list[Case], book: Book) -> int:
    """Writes cases down, and says what came of them; how many there were."""
    book.add(cases)
    for case in cases:
        if part.batch == 1 or case.fault:
            say(f"  {case.number} {case.did}: {case.outcome}{f': {case.fault}' if case.fault else ''}")
    return len(cases)


def say(line: str) -> None:
    """To the terminal."""
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)


def main(settings: Settings) -> int:
    """Does what is left, counts, writes."""
    if settings.list_:
        for name, part in PARTS.items():
            print(f"{name:10} {part.total(settings.form):4d} cases  {part.about}")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    book = Book(settings)
    if book.carried:
        say(f"{len(book.cases)} cases are done already, in {book.file}")
    work = settings.work or Path(tempfile.gettempdir()) / f"gtrxl-faults-{book.head['sources']}-{settings.seed}"
    work.mkdir(parents=True, exist_ok=True)
    if ended := end_earlier(work):
        say(f"ended {ended} processes of an earlier run of this script")
    try:
        for name in settings.chosen():
            if left := book.left(PARTS[name], settings.form):
                do(PARTS[name](work, settings.seed), left, book, settings.jobs or os.cpu_count() or 1)
    finally:
        end_earlier(work)
    data = book.write()
    print(page.tables(data))
    if not settings.parts:
        page.write(settings.page, data)
        say(f"wrote {settings.data} and {settings.page}")
    if page.faults(data):
        say(f"what the faults were found in stays in {work}")
        return 1
    shutil.rmtree(work, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Settings, description=__doc__, config=(tyro.conf.FlagCreatePairsOff,))))
