"""Run folders that a stranger made: they name code to import, lie about themselves, or are shaped to break who reads them.

`HOSTILE` is the one list; what config.json alone can say is in `tests/runs/hostile.py`, and is taken from there. Each entry
takes a good run's folder and the name of a module that leaves a file behind when it is imported, and spoils the folder. Then it
is loaded, played, gone on with, exported, shown and compared, in Python and by the command line. Nothing may be imported, and
every refusal is one clean line.
"""

import contextlib
import dataclasses
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from tests.runs.hostile import CODE, MARKER, config_of
from tests.runs.hostile import HOSTILE as SETTINGS

from . import tiny
from .cases import Case, Form, Part
from .damage import attempt
from .processes import in_worker

Spoil = Callable[[Path, str], None]
PICKLE = b"cos\nabort\n(tR."
"""Ends the process of who unpickles it."""
DEEP = 100_000
SECONDS = 30
"""That one call may take."""


def settings(case: dict[str, Any] | bytes) -> Spoil:
    """The settings of a case that the tests have."""

    def spoil(folder: Path, module: str) -> None:
        path = folder / "config.json"
        path.write_bytes(config_of(_unsealed(path), case, module))

    return spoil


def edit(file: str, **changes: Any) -> Spoil:
    """Settings replaced in a file of JSON; `{0}` is the module's name."""

    def spoil(folder: Path, module: str) -> None:
        path = folder / file
        filled = {name: value.format(module) if isinstance(value, str) else value for name, value in changes.items()}
        kept = _unsealed(path)
        if "algorithm" in changes:
            del kept["learner"]  # its settings are another algorithm's
        path.write_text(json.dumps(kept | filled))

    return spoil


def write(file: str, text: str | bytes) -> Spoil:
    """A file of the run with another content, in the checkpoint `*` of the last one."""

    def spoil(folder: Path, module: str) -> None:
        path = _path(folder, file)
        path.write_bytes(text if isinstance(text, bytes) else text.replace("{0}", module).encode())

    return spoil


def instead(file: str, make: Callable[[Path], Any]) -> Spoil:
    """Something else where a file should be."""

    def spoil(folder: Path, module: str) -> None:
        path = _path(folder, file)
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        make(path)

    return spoil


def beside(*names: str) -> Spoil:
    """More checkpoints, by these names, each a copy of the last."""

    def spoil(folder: Path, module: str) -> None:
        last = folder / "checkpoints" / str(tiny.checkpoints(folder)[-1])
        for name in names:
            shutil.copytree(last, folder / "checkpoints" / name)

    return spoil


def arrays(changed: Callable[[dict[str, Any]], dict[str, Any]]) -> Spoil:
    """The card of the last checkpoint with other arrays."""

    def spoil(folder: Path, module: str) -> None:
        path = _path(folder, "checkpoints/*/card.json")
        card = _unsealed(path)
        path.write_text(json.dumps(card | {"arrays": changed(card["arrays"])}))

    return spoil


def in_card(**changes: str) -> Spoil:
    """No settings but those that the checkpoints carry."""

    def spoil(folder: Path, module: str) -> None:
        settings = _unsealed(folder / "config.json") | {name: value.format(module) for name, value in changes.items()}
        for step in tiny.checkpoints(folder):
            path = folder / "checkpoints" / str(step) / "card.json"
            path.write_text(json.dumps(_unsealed(path) | {"settings": settings}))
        (folder / "config.json").unlink()

    return spoil


def _unsealed(path: Path) -> dict[str, Any]:
    """A file's object, without the digest that would tell of a change: who forges a file forges that too."""
    return {name: value for name, value in json.loads(path.read_text()).items() if name != "digest"}


def _first(of: dict[str, Any], **fields: Any) -> dict[str, Any]:
    name = next(iter(of))
    return of | {name: of[name] | fields}


_row = '{"frames": 1, "updates": 1, "seconds": 0.1, "episodes": 1, "return_mean": %s}\n'
NAMED: dict[str, Spoil] = {
    "a function that ends the process": edit("config.json", task="env:os.abort"),
    "a key twice": write("config.json", '{"core": "lstm", "core": "{0}:Core"}'),
    "a core, in a checkpoint's card": in_card(core="{0}:Core"),
    "a task, in a checkpoint's card": in_card(task="env:{0}.make"),
}
FORGED: dict[str, Spoil] = NAMED | {
    "a result nested deeply": write("result.json", "[" * DEEP + "]" * DEEP),
    "a row nested deeply": write("metrics.jsonl", '{"updates": ' + "[" * DEEP + "]" * DEEP + "}\n"),
    "a card nested deeply": write("checkpoints/*/card.json", "[" * DEEP + "]" * DEEP),
    "a row with a number of 5,000 digits": write("metrics.jsonl", '{"updates": ' + "9" * 5000 + "}\n"),
    "a task with line ends and colours": edit("config.json", task="t-maze\n\x1b[31mgtrxl: all is well\x1b[0m"),
    "a status with colours": edit("result.json", status="\x1b]0;owned\x07finished"),
    "a status that is a list": edit("result.json", status=["finished"]),
    "a result that is a list": write("result.json", "[]"),
    "settings in another encoding": write("config.json", '{"core": "lstm"}'.encode("utf-16")),
    "settings that are a folder": instead("config.json", Path.mkdir),
    "settings that point at themselves": instead("config.json", lambda path: path.symlink_to(path.name)),
    "settings that are a pipe": instead("config.json", os.mkfifo),
    "rows that are a pipe": instead("metrics.jsonl", os.mkfifo),
    "rows of the wrong kinds": write("metrics.jsonl", '{"updates": "many", "frames": null, "seconds": []}\n'),
    "returns that are words": write("metrics.jsonl", _row % '"high"'),
    "rows without a name": write("metrics.jsonl", "[1, 2]\n" * 3),
    "a card that is a list": write("checkpoints/*/card.json", "[]"),
    "a card that is empty": write("checkpoints/*/card.json", "{}"),
    "a card that promises terabytes": arrays(lambda of: _first(of, shape=[2**40])),
    "a card with a negative shape": arrays(lambda of: _first(of, shape=[-1])),
    "a card with a type of its own": arrays(lambda of: _first(of, dtype="object")),
    "a card that names other files": arrays(lambda of: {f"../../../{name}": fields for name, fields in of.items()}),
    "a card whose arrays are words": arrays(lambda of: dict.fromkeys(of, "float32")),
    "checkpoints with odd names": beside("00099999", "\u0663\u0663\u0663\u0663", "-1", "1e9"),
    "a checkpoint of the far future": beside("9" * 40),
    "arrays that are an empty file": instead("checkpoints/*/state*", Path.touch),
    "arrays that are a pickle": instead("checkpoints/*/state*", lambda path: path.write_bytes(PICKLE)),
    "arrays that are another folder": instead("checkpoints/*/state*", lambda path: path.symlink_to(path.parent)),
    "more devices than any machine has": edit("config.json", devices=10**6),
    "a memory of terabytes": edit("config.json", net={"memory": 10**10}),
}
"""What is wrong with the files of a run -> what makes it so."""
NAMES_CODE = {*NAMED, *(f"settings: {name}" for name in CODE)}
"""Would import, or run, what the folder names."""
HOSTILE: dict[str, Spoil] = FORGED | {f"settings: {name}": settings(case) for name, case in [*SETTINGS]}
"""All of them."""


class Hostile(Part):
    """Every entry of the list."""

    name: ClassVar[str] = "hostile"
    about: ClassVar[str] = "run folders that a stranger made, loaded, played, resumed, exported, compared"
    counts: ClassVar[dict[Form, int]] = {"full": len(HOSTILE), "quick": len(HOSTILE)}
    batch: ClassVar[int] = 20

    def __init__(self, work: Path, seed: int):
        super().__init__(work, seed)
        self.programs = work

    def prepare(self) -> None:
        """A good run."""
        for record in in_worker("hostile", "make", {"work": str(self.work)}, work=self.programs, seconds=200):
            if "died" in record:
                raise RuntimeError(f"the run to be spoiled could not be made: {record['died']}")

    def attack(self, numbers: list[int]) -> list[Case]:
        """In one process after the other: what ends its process is a fault, and the rest goes on."""
        cases: list[Case] = []
        left = list(numbers)
        while left:
            asked = {"work": str(self.work), "numbers": left}
            for record in in_worker("hostile", "spoiled", asked, work=self.programs, seconds=SECONDS * 8 * len(left)):
                if "died" not in record:
                    cases.append(Case(**record))
                elif len(cases) < len(numbers):
                    number = next(each for each in numbers if each not in {case.number for case in cases})
                    cases.append(Case(self.name, number, [*HOSTILE][number], "fault", record["died"][:300]))
            done = {case.number for case in cases}
            left = [number for number in numbers if number not in done]
        return cases


def make(work: str) -> Iterator[dict[str, Any]]:
    """A good run, finished."""
    import gtrxl

    good = Path(work) / "good"
    shutil.rmtree(good, ignore_errors=True)
    gtrxl.train(run=good, quiet=True, board=False, **tiny.settings("lstm", reports=2, steps=64))
    yield {"made": True}


def spoiled(work: str, numbers: list[int]) -> Iterator[dict[str, Any]]:
    """These cases, in this process."""
    for number in numbers:
        yield dataclasses.asdict(case(Path(work), number))


def case(work: Path, number: int) -> Case:
    """One folder and its judgement."""
    begun = time.monotonic()
    what = [*HOSTILE][number]
    home = work / f"case-{number}-{time.monotonic_ns()}"
    folder = home / "run"
    shutil.copytree(work / "good", folder)
    module = f"strange_{time.monotonic_ns()}"
    (home / f"{module}.py").write_text(MARKER)
    (folder / f"{module}.py").write_text(MARKER)
    HOSTILE[what](folder, module)
    with _inside(home):
        errors = _open(folder)
    fault = next((f"{call}: {error[1:]}" for call, error in errors.items() if error.startswith("!")), "")
    if {module, "antigravity"} & sys.modules.keys() or any(home.rglob("imported")):
        fault = "what the folder names was imported"
    elif what in NAMES_CODE and not fault and not all(errors[call] for call in ("load", "evaluate", "resume")):
        fault = f"was not refused: {[call for call, error in errors.items() if not error]}"
    sys.modules.pop(module, None)
    shutil.rmtree(home, ignore_errors=True)
    refused = any(errors.values())
    outcome = "fault" if fault else "said" if refused else "harmless"
    return Case("hostile", number, what, outcome, fault, seconds=round(time.monotonic() - begun, 1))


def _open(folder: Path) -> dict[str, str]:
    """All that one does with a run, and what each raised."""
    import gtrxl
    from gtrxl.cli import main as cli
    from gtrxl.report.runs import read_record
    from gtrxl.runs.folder import read_run

    def said(*arguments: str) -> Callable[[], Any]:
        def call() -> None:
            if cli.main([*arguments]):
                raise _Refused  # with a line on stderr, which is looked at below

        return call

    calls: dict[str, Callable[[], Any]] = {
        "load": lambda: gtrxl.load(folder),
        "evaluate": lambda: gtrxl.evaluate(folder, episodes=2),
        "export": lambda: gtrxl.export(folder),
        "read": lambda: read_run(folder),
        "record": lambda: read_record(folder),
        "gtrxl compare": said("compare", str(folder)),
        "gtrxl train --config": said("train", "--config", str(folder / "config.json"), "--steps=32", f"--run={folder}-2"),
        "resume": lambda: gtrxl.resume(folder, board=False),
        "gtrxl eval": said("eval", str(folder), "--episodes=2"),
    }
    errors = {}
    for name, call in calls.items():
        _, error, lines = attempt(call, seconds=SECONDS)
        if error.startswith("!a traceback of _Refused"):
            told = [line for line in lines if line.startswith("gtrxl: ")]
            clean = len(told) == 1 and told[0].isprintable() and not any("Traceback" in line for line in lines)
            error = told[0] if clean else f"!not one clean line: {lines[-3:]!r}"
        errors[name] = error
        if error.startswith("!"):
            break  # one fault is enough; another call of what hangs would take as long again
    return errors


class _Refused(Exception):  # noqa: N818
    """The command line said no."""


@contextlib.contextmanager
def _inside(home: Path) -> Iterator[None]:
    """With a stranger's folder as the working directory, and on the path as `python -m` has it."""
    before, path = Path.cwd(), sys.path[:]
    os.chdir(home)
    sys.path.insert(0, str(home))
    try:
        yield
    finally:
        os.chdir(before)
        sys.path[:] = path


def _path(folder: Path, file: str) -> Path:
    """A file of a run; the first star is the last checkpoint, a second one any ending."""
    file = file.replace("*", str(tiny.checkpoints(folder)[-1]), 1) if "*" in file else file
    return next(folder.glob(file)) if "*" in file else folder / file
