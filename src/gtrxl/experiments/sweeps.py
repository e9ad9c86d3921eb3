"""Many whole runs, side by side: on this machine's cores, or over a Ray cluster.

    sweep({"gru-0": config, "gru-1": other}, "runs/gates", jobs=4)

FOLDER/NAME/              one run's folder, as `gtrxl train` makes it
FOLDER/NAME/planned.json  its settings, written before it starts
FOLDER/NAME/log.txt       what it printed
FOLDER/NAME/provenance.json  the commit and the versions that it was made with
FOLDER/NAME/lock          held by the process that works on it, and says which one that is
FOLDER/.compiled/         compiled programs, by kind of machine: runs that differ in seed and bounds alone share one

Every run is a process of its own. It takes the lock first and then looks what is left to do, so that no part of a run is
done twice, whoever asks: two sweeps of one folder, or one that was killed while its runs went on.
"""

import contextlib
import dataclasses
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from gtrxl import machine
from gtrxl.runs import lock, provenance
from gtrxl.runs import settings as configs
from gtrxl.runs.config import Config
from gtrxl.runs.errors import RunError, first_line
from gtrxl.runs.folder import Run, has_begun, read_config, read_rows, read_run
from gtrxl.runs.metrics import read_result
from gtrxl.training import programs
from gtrxl.training.actors.ray_cluster import join
from gtrxl.training.session import resume, train

TRIES = 2
"""A run that crashed is gone on with once; after that it waits for the next sweep."""
DONE = ("finished", "diverged")
PLACED = ("devices", "fleet")
"""Settings that say where a run is done: a run fills them in when it starts."""


def sweep(
    planned: Mapping[str, Config[Any]],
    folder: str | os.PathLike[str],
    *,
    engine: Literal["local", "ray"] = "local",
    jobs: int = 0,
    address: str | None = None,
    quiet: bool = False,
) -> list[Run]:
    """Does what is left of every run, `jobs` at a time, and returns all of them in the order given.

    What is finished is skipped, what was stopped or crashed goes on from its checkpoint. `jobs=0` is one for each core, with Ray
    as many as the cluster has CPUs for. A run has one device unless its settings say more. With Ray, `folder` must be one
    that all machines of the cluster see. Ctrl-C or a polite kill stops the runs with checkpoints. A run that crashes twice
    is said at the end, when the others are done.
    """
    if engine not in ("local", "ray"):
        raise RunError(f"engine of a sweep must be local or ray, got {engine!r}; local uses the cores of this machine")
    if jobs < 0:
        raise RunError(f"jobs must be at least 0, got {jobs}; 0 takes all there is room for")
    home = Path(folder).absolute()
    placed = {name: dataclasses.replace(config, devices=config.devices or 1) for name, config in planned.items()}
    for name, config in placed.items():
        _check(home, name, config)
    left = deque(name for name in planned if not _is_done(home / name))
    crashes: dict[str, str] = {}
    if left:
        workers = _Processes(jobs) if engine == "local" else _RayTasks(jobs, address)
        with contextlib.closing(workers), _a_kill_is_an_interrupt():
            for name in left:
                _plan(home / name, placed[name])
            crashes = _do(workers, home, left, say=(lambda line: None) if quiet else _say)
    if crashes:
        name, why = next(iter(crashes.items()))
        raise RunError(
            f"{len(crashes)} of {len(planned)} runs crashed {TRIES} times, the first is {name}: {why}; "
            f"see {home / name}/log.txt, then sweep again: the others are kept as they are"
        )
    return [read_run(home / name) for name in planned]


def perform(folder: str | os.PathLike[str]) -> None:
    """Does what is left of one planned run, in this process, when no other one works on it."""
    home = Path(folder)
    with lock.hold(home, wait=True), lock.lend(home):
        planned = configs.read(home / "planned.json", trust=True)  # the sweep's own, written by whoever asked for it
        if _is_done(home):
            return
        provenance.write(home)
        programs.keep(home.parent / ".compiled", worth=0.0)
        if has_begun(home):
            resume(home, board=False)
        else:  # nothing was learned yet
            train(planned, run=home, board=False)


def _check(home: Path, name: str, config: Config[Any]) -> None:
    """What cannot be done is said before a folder is made."""
    if not re.fullmatch(r"\w[\w.,=+-]*", name):
        raise RunError(
            f"the name of a run must be letters, digits and any of _.,=+- and no more, got {name!r}; it names its folder"
        )
    folder = home / name
    if (folder / "config.json").exists() or has_begun(folder):  # without the file, its checkpoints have the settings
        there, here = configs.as_dict(read_config(folder)), configs.as_dict(config)
        differ = [key for key in here if there[key] != here[key] and key not in PLACED]
        if differ:
            key = differ[0]
            raise RunError(
                f"{folder} must hold a run with the settings planned, got {key} {there[key]!r} there and {here[key]!r} here; "
                "sweep into another folder"
            )


def _plan(folder: Path, config: Config[Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    configs.write(config, folder / "planned.json")


def _is_done(folder: Path) -> bool:
    """Whether nothing is left to do, nor to mend: a result or a row that is damaged is the run's own to put right."""
    with contextlib.suppress(RunError):
        result = read_result(folder)
        read_rows(folder, result)
        return (folder / "config.json").exists() and result.get("status") in DONE
    return False


def _next(home: Path, left: deque[str]) -> str:
    """Takes the first run that nobody works on; where others work on all of them, the first one, which waits for its lock."""
    name = next((name for name in left if lock.holder(home / name) is None), left[0])
    left.remove(name)
    return name


@runtime_checkable
class _Workers(Protocol):
    """Where runs are done."""

    jobs: int

    def start(self, folder: Path) -> Any: ...

    def ended(self, handle: Any) -> str | None:
        """None while it is under way, then why it crashed, or nothing."""
        ...

    def stop(self, handle: Any) -> None: ...

    def close(self) -> None: ...


@contextlib.contextmanager
def _a_kill_is_an_interrupt() -> Iterator[None]:
    """SIGTERM as Ctrl-C: runs are processes of their own, and would go on without us."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, old)


def _do(workers: _Workers, home: Path, left: deque[str], *, say: Any) -> dict[str, str]:
    """Every run that is left; returns why some crashed for good."""
    crashes: dict[str, str] = {}
    tries: Counter[str] = Counter()
    under_way: dict[str, Any] = {}
    try:
        while left or under_way:
            while left and len(under_way) < workers.jobs:
                name = _next(home, left)
                tries[name] += 1
                under_way[name] = workers.start(home / name)
            for name, why in [(name, workers.ended(handle)) for name, handle in under_way.items()]:
                if why is None:
                    continue
                del under_way[name]
                if not why:
                    say(f"{name} {read_run(home / name).status}; {len(left) + len(under_way)} to go")
                elif tries[name] < TRIES:
                    say(f"{name} crashed: {why}; going on with it")
                    left.append(name)
                else:
                    say(f"{name} crashed again: {why}")
                    crashes[name] = why
            time.sleep(0.1)
    except BaseException:
        for handle in under_way.values():
            workers.stop(handle)
        while any(workers.ended(handle) is None for handle in under_way.values()):
            time.sleep(0.1)
        raise
    return crashes


class _Processes:
    """Runs as processes of this machine. Several at a time have a share of its processors each: threads that wait for each other
    on all of them cost CPU time (docs/log.md)."""

    def __init__(self, jobs: int):
        self.jobs = jobs or machine.processors()
        self._shares = machine.shares(self.jobs)
        self._taken: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, folder: Path) -> subprocess.Popen[bytes]:
        program = (  # first the processors: whatever starts threads asks how many there are
            "import sys; from gtrxl import machine; machine.keep_to([int(n) for n in sys.argv[2:]]); "
            "from gtrxl.experiments.sweeps import perform; perform(sys.argv[1])"
        )
        share = next(n for n in range(self.jobs) if n not in self._taken or self._taken[n].poll() is not None)
        with (folder / "log.txt").open("a", encoding="utf-8") as log:
            self._taken[share] = subprocess.Popen(
                [sys.executable, "-c", program, str(folder), *map(str, self._shares[share])],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Of its own: Ctrl-C comes to us, and we pass it on once.
                start_new_session=True,
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),  # the same on Windows
            )
        return self._taken[share]

    def ended(self, handle: subprocess.Popen[bytes]) -> str | None:
        code = handle.poll()
        if code is None or code == 0:
            return None if code is None else ""
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

    def stop(self, handle: subprocess.Popen[bytes]) -> None:
        handle.send_signal(getattr(signal, "CTRL_BREAK_EVENT", signal.SIGINT))  # the first is Windows's

    def close(self) -> None:
        pass


class _RayTasks:
    """Runs as tasks of a Ray cluster, one process each."""

    def __init__(self, jobs: int, address: str | None):
        self.cluster = join(address, cpus=jobs or machine.processors())
        self.jobs = jobs or sys.maxsize  # Ray starts as many as it has room for
        ray = self.cluster.ray
        # What is tried again is decided here, for both engines alike.
        self.task = ray.remote(num_cpus=1, max_retries=0, max_calls=1, scheduling_strategy="SPREAD")(_logged)

    def start(self, folder: Path) -> Any:
        return self.task.remote(str(folder))

    def ended(self, handle: Any) -> str | None:
        ray = self.cluster.ray
        if not ray.wait([handle], timeout=0)[0]:
            return None
        try:
            return ray.get(handle, timeout=60)
        except ray.exceptions.TaskCancelledError:
            return ""
        except ray.exceptions.RayError as error:
            return first_line(error)

    def stop(self, handle: Any) -> None:
        self.cluster.ray.cancel(handle, force=False)

    def close(self) -> None:
        self.cluster.close()


def _logged(folder: str) -> str:
    """`perform` on a machine of the cluster, what it prints written into the run's folder; returns why it failed, or nothing."""
    import traceback

    log = (Path(folder) / "log.txt").open("a", encoding="utf-8")
    with log, contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
        try:
            perform(folder)
        except Exception as error:
            traceback.print_exc()
            return first_line(error)
    return ""


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
