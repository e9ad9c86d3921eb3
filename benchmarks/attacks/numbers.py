"""NaN where numbers should be: in every array of weights, in what a task shows, in what it pays.

A run that has one must not go on as if nothing were: it ends as diverged or failed, says so in a line, and keeps a checkpoint in
which everything learned is finite.
"""

import contextlib
import dataclasses
import functools
import itertools
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np

from . import tiny
from .cases import Case, Form, Outcome, Part
from .damage import attempt
from .kills import check_said
from .processes import BENCHMARKS, Command, in_worker

CORES = ("gtrxl-gru", "lstm")
POISONED_AFTER = 2
"""Reports that are as they should be."""
TASKS = (
    "attacks.tasks:SickMaze:corridor=3,patience=1",
    "attacks.tasks:SickMaze:corridor=3,patience=1,infinite=1",
    "attacks.tasks:SickMaze:corridor=3,patience=1,shown=1",
    "env:attacks.tasks.always_nan",
)
"""Which are no numbers at once, in a compiled task and in a Gymnasium one."""


class Numbers(Part):
    """One array of weights after the other, for each core, then tasks."""

    name: ClassVar[str] = "numbers"
    about: ClassVar[str] = "NaN in one array of weights, an observation or a reward"
    counts: ClassVar[dict[Form, int]] = {"full": 1000, "quick": 12}
    batch: ClassVar[int] = 16

    @classmethod
    def total(cls, form: Form) -> int:
        """Each task, and each array of each core."""
        return min(cls.counts[form], len(TASKS) + len(weights()))

    def __init__(self, work: Path, seed: int):
        super().__init__(work, seed)
        self.programs = work

    def attack(self, numbers: list[int]) -> list[Case]:
        """Tasks as commands, weights in a process that does many of them."""
        cases = [task_case(self.work, number, programs=self.programs) for number in numbers if number < len(TASKS)]
        asked = {"work": str(self.work), "seed": self.seed, "numbers": [number for number in numbers if number >= len(TASKS)]}
        if not asked["numbers"]:
            return cases
        for record in in_worker("numbers", "poisoned", asked, work=self.programs, seconds=600):
            if "died" not in record:
                cases.append(Case(**record))
                continue
            done = {case.number for case in cases}
            number = next(each for each in numbers if each not in done)
            cases.append(Case(self.name, number, "NaN in weights", "fault", record["died"][:300]))
        return cases


def task_case(work: Path, number: int, *, programs: Path) -> Case:
    """A task whose numbers are none."""
    begun, task = time.monotonic(), TASKS[number]
    folder = work / f"task-{number}"
    shutil.rmtree(folder, ignore_errors=True)
    chosen = tiny.settings("lstm", task=task) if ":SickMaze" in task else tiny.actors_settings(task, fleet={"restarts": 2})
    command = Command(["train", *tiny.line(chosen), "--run", str(folder), "--no-board", "--from", str(BENCHMARKS)], work=programs)
    fault = ""
    try:
        code = command.wait()
        check_said(command)
        status = tiny.result(folder)["status"]
        line = command.said.strip().splitlines()[-1]
        if status not in ("diverged", "failed") or not code:
            fault = f"ended as {status} with code {code}"
        elif "finite" not in line and "diverged" not in line:
            fault = f"the last line does not say why: {line[:200]!r}"
        else:
            fault = _not_finite(folder)
    except Exception as error:  # whatever is missing or torn is a fault of the run's
        fault = f"{type(error).__name__}: {error}"[:300]
    finally:
        command.end()
    seconds = round(time.monotonic() - begun, 1)
    return Case("numbers", number, f"{task.partition('corridor')[0]}", "fault" if fault else "said", fault, seconds=seconds)


def poisoned(work: str, seed: int, numbers: list[int]) -> Iterator[dict[str, Any]]:
    """These cases of weights, in this process."""
    benches: dict[str, Bench] = {}
    for number in numbers:
        core, name = weights()[number - len(TASKS)]
        bench = benches.setdefault(core, Bench(Path(work), core))
        yield dataclasses.asdict(bench.case(number, bench.names.index(name), np.random.default_rng([seed, number])))


@functools.cache
def weights() -> list[tuple[str, str]]:
    """Every array of weights of every core, in turn."""
    each = [[(core, name) for name in weights_of(engine(core).shapes())] for core in CORES]
    return [one for several in itertools.zip_longest(*each) for one in several if one is not None]


def engine(core: str) -> Any:
    """What does the updates of a short run."""
    import gtrxl
    from gtrxl.runs import settings
    from gtrxl.training.session import engine_of

    chosen = tiny.settings(core, reports=5, steps=5 * tiny.STREAMS * tiny.UNROLL * tiny.PERIOD)
    return engine_of(settings.change(gtrxl.defaults(task=chosen["task"], core=core), chosen))


class Bench:
    """Runs of one core, poisoned one array at a time."""

    def __init__(self, home: Path, core: str):
        home.mkdir(parents=True, exist_ok=True)
        self.folder = home / f"run-{core}-{time.monotonic_ns()}"
        self.core = core
        self.engine = engine(core)
        self.names = weights_of(self.engine.shapes())

    def case(self, number: int, which: int, random: np.random.Generator) -> Case:
        """NaN in one place of one array, and the judgement."""
        from gtrxl.training.engine import Engine
        from gtrxl.training.session import Outputs, begin

        started = time.monotonic()
        shutil.rmtree(self.folder, ignore_errors=True)
        sick = _Poisoned(self.engine, which, random)
        run, error, said = attempt(lambda: begin(cast(Engine, sick), self.folder, Outputs(board=False)))
        outcome, fault = self._judge(run, error, said)
        shutil.rmtree(self.folder, ignore_errors=True)
        seconds = round(time.monotonic() - started, 1)
        return Case("numbers", number, f"{self.core}: NaN in {self.names[which]}", outcome, fault, seconds=seconds)

    def _judge(self, run: Any, error: str, said: list[str]) -> tuple[Outcome, str]:
        if error.startswith("!"):
            return "fault", error[1:]
        status = tiny.result(self.folder)["status"]
        if not error and run.status != "diverged":
            return "fault", f"went on to the end as {status}, with NaN in its weights"
        if not any("finite" in line for line in [*said, error]):
            return "fault", f"it is not said that something is not finite: {said[-1:]}"
        wrong = _not_finite(self.folder)
        return ("fault", wrong) if wrong else ("said", "")


class _Poisoned:
    """An engine that does as another does, until NaN gets into one of its weights."""

    def __init__(self, engine: Any, which: int, random: np.random.Generator):
        self._engine, self._which, self._random = engine, which, random

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    @contextlib.contextmanager
    def running(self, state: Any, **told: Any) -> Iterator[Any]:
        """Poisons the state before one of the reports."""
        with self._engine.running(state, **told) as running:
            reports = 0

            def advance(state: Any, **until: Any) -> Any:
                nonlocal reports
                reports += 1
                return running.advance(self._sick(state) if reports == POISONED_AFTER + 1 else state, **until)

            yield _Advancing(advance)

    def _sick(self, state: Any) -> Any:
        import equinox as eqx
        import jax

        agent = state.trained.agent
        leaves, structure = jax.tree.flatten(agent)
        place = [n for n, leaf in enumerate(leaves) if _is_weight(leaf)][self._which]
        array = np.array(leaves[place])
        array.reshape(-1)[self._random.integers(array.size)] = np.nan
        leaves[place] = jax.device_put(array, leaves[place].sharding)
        return eqx.tree_at(lambda of: of.trained.agent, state, jax.tree.unflatten(structure, leaves))


class _Advancing:
    """What a session calls."""

    def __init__(self, advance: Any):
        self.advance = advance


def weights_of(state: Any) -> list[str]:
    """The names of all arrays of weights of an agent that learns."""
    import jax

    leaves = jax.tree_util.tree_leaves_with_path(state.trained.agent)
    return [jax.tree_util.keystr(path) for path, leaf in leaves if _is_weight(leaf)]


def _is_weight(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") and np.issubdtype(np.dtype(leaf.dtype), np.floating) and bool(np.prod(leaf.shape, dtype=int))


def _not_finite(folder: Path) -> str:
    """What is not finite in the last checkpoint of all that was learned; empty if all is."""
    learned = {name: array for name, array in tiny.arrays(folder).items() if "trained" in name and array.dtype.kind == "f"}
    bad = [name for name, array in learned.items() if not np.isfinite(array).all()]
    return f"the last checkpoint is not finite: {bad[0]}" if bad else ""
