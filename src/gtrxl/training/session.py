"""Training from the outside: start or resume a run, report it, keep it, end it well. An engine does the updates."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium

from gtrxl import machine, names
from gtrxl.gym.task import GymTask
from gtrxl.runs import lock, settings
from gtrxl.runs.boards import Board, NoBoard, WandB
from gtrxl.runs.checkpoints import size_of
from gtrxl.runs.config import Config
from gtrxl.runs.errors import RunError, say
from gtrxl.runs.folder import Run, Status, Which, check_new, checkpoints_of, has_begun, new_folder, next_folder
from gtrxl.runs.metrics import Callback, Metrics, NoRows, Rows, read
from gtrxl.runs.presets import defaults
from gtrxl.runs.scores import recent
from gtrxl.runs.tasks import CompiledTasks, GymTasks, RunTasks
from gtrxl.runs.terminal import View, open_view
from gtrxl.training import recovery
from gtrxl.training.actors.engine import ActorsEngine
from gtrxl.training.device_engine import DeviceEngine
from gtrxl.training.engine import Engine, Row, Running
from gtrxl.training.multihost import hosts
from gtrxl.training.reporting import on_interrupt, write_result

EnvFn = Callable[[], gymnasium.Env]
OnRow = Callable[[Mapping[str, Any]], None]
OnLine = Callable[[str], None]


class Outputs(NamedTuple):
    """Where a run shows and writes what it does, besides its folder's own files."""

    quiet: bool = False
    """Nothing on the terminal."""
    board: bool = True
    """TensorBoard files."""
    wandb: bool = False
    """Weights & Biases."""
    callback: OnRow | None = None
    """Called with every row."""

    def tell(self, view: View) -> OnLine:
        """What says a line that must be known: that something was damaged is said where nothing is shown, too."""
        return say if self.quiet else view.message


SHOWN = Outputs()


@hosts.in_step()
def train(
    config: Config[Any] | None = None,
    *,
    env_fn: EnvFn | None = None,
    run: str | os.PathLike[str] | None = None,
    quiet: bool = False,
    board: bool = True,
    wandb: bool = False,
    callback: OnRow | None = None,
    **changes: Any,
) -> Run:
    """Trains an agent and returns the run. `changes` replace settings: `train(task="t-maze", net={"memory": 128})`.

    Without `config`, what is known to work for the task and core is used. Ctrl-C ends a run with a checkpoint. Besides names,
    `task` may be any `gtrxl.Task`, `core` any class or function that makes a core, called as `core(input_size, key=key,
    **core_args)`, and `algorithm` any class derived from `gtrxl.Learner`. `env_fn` makes a Gymnasium task. `callback` is called
    with every row of metrics, a dict.
    """
    if run is not None:  # what is wrong is said before anything takes long
        lock.check_free(Path(run))
        check_new(run)
    if callback is not None and not callable(callback):
        raise RunError(f"callback must be a function that takes a row, got {callback!r}; it is called with every row of metrics")
    changes = settings.named(changes)
    if env_fn is not None:
        changes["task"] = given_task(env_fn).name
    if config is None:
        config = defaults(**{name: changes[name] for name in ("task", "core", "algorithm", "streams") if name in changes})
    config = settings.change(config, changes)
    outputs = Outputs(quiet=quiet, board=board, wandb=wandb, callback=callback)
    return begin(engine_of(config, env_fn), run, outputs)


@hosts.in_step()
def resume(
    run: str | os.PathLike[str],
    *,
    steps: int | None = None,
    devices: int | None = None,
    checkpoint: Which | int = "last",
    env_fn: EnvFn | None = None,
    quiet: bool = False,
    board: bool = True,
    wandb: bool = False,
    callback: OnRow | None = None,
    trust: bool = False,
    **given: Any,
) -> Run:
    """Goes on with a run from its last checkpoint, as if it had never stopped; `steps` makes it longer than it was, `devices`
    uses another number of them on each host. `checkpoint` goes back to another one: what is later is then done again. A last
    checkpoint that is damaged is set aside for the one before it; a run that was killed before its first one begins anew.

    A run that was trained with somebody's own core, task, algorithm or `env_fn` is given it again (`core=MyCore`), or
    `trust=True` lets it import what its settings name.
    """
    folder = Path(run)
    know(env_fn, given)
    outputs = Outputs(quiet=quiet, board=board, wandb=wandb, callback=callback)

    def wanted() -> Config[Any]:
        return recovery.settings_of(folder, steps=steps, devices=devices, trust=trust)

    if hosts.count() == 1 and checkpoint == "last" and (finished := recovery.finished(folder, wanted(), trust=trust)) is not None:
        if not quiet:
            print(f"{folder} is finished: nothing is left to do; --steps makes it longer")
        return finished
    with contextlib.ExitStack() as held:

        def look() -> tuple[dict[str, Any], bool]:
            wanted()  # a folder that holds no run gets no lock
            held.enter_context(lock.hold(folder))
            return settings.as_dict(wanted()), has_begun(folder)

        chosen, begun = hosts.on_first(look)
        config = settings.change(defaults(**{name: chosen[name] for name in ("task", "core", "algorithm")}), chosen)
        engine = engine_of(config, env_fn)
        if not begun and checkpoint == "last":
            with lock.lend(folder):
                return begin(engine, folder, outputs)
        return go_on(engine, folder, outputs, checkpoint=checkpoint, changed=steps is not None or devices is not None)


def know(env_fn: EnvFn | None, given: Mapping[str, Any]) -> None:
    """Makes what the user hands over known by its place: `core=MyCore`, `algorithm=MyLearner`, `task=MyTask()`."""
    if others := sorted(set(given) - {"core", "algorithm", "task"}):
        raise TypeError(f"unexpected argument {others[0]!r}; a run's own parts are given as core=, algorithm= and task=")
    settings.named(given)
    if env_fn is not None:
        given_task(env_fn)


def given_task(env_fn: EnvFn, **shown: Any) -> GymTask:
    """The task that a function makes; from here on this process knows the function by its place."""
    if hasattr(env_fn, "__qualname__"):
        names.place_of(env_fn)
    return GymTask.of(env_fn, **shown)


def tasks_of(config: Config[Any], env_fn: EnvFn | None = None) -> RunTasks:
    """What these settings learn; `env_fn` makes it if it is given."""
    if env_fn is None:
        return config.tasks
    return GymTasks(given_task(env_fn, mask_velocity=config.gym.mask_velocity, previous=config.gym.previous))


def engine_of(config: Config[Any], env_fn: EnvFn | None = None) -> Engine:
    """What does the updates of these settings."""
    tasks = tasks_of(config, env_fn)
    if isinstance(tasks, CompiledTasks):
        return DeviceEngine(config, tasks)
    assert isinstance(tasks, GymTasks)
    return ActorsEngine(config, tasks)


def begin(engine: Engine, run: str | os.PathLike[str] | None = None, outputs: Outputs = SHOWN) -> Run:
    """A new run, from its first update. What cannot work is said before there is a folder."""
    config = engine.config
    _check_memory(engine)
    with contextlib.ExitStack() as held, _view(engine, next_folder(config, run), outputs) as view:
        view.doing("making the agent")
        state = engine.start()

        def write() -> str:
            folder = held.enter_context(new_folder(config, run))
            keeping = checkpoints_of(folder, expected_bytes=size_of(state))  # an unwritable or full disk is said here
            settings.write(config, folder / "config.json")
            Rows(folder / "metrics.jsonl").close()
            keeping.save(0, state, settings=settings.as_dict(config))
            return str(folder)

        folder = Path(hosts.on_first(write))
        return _Session(engine, folder, outputs, view).go(engine.placed(state))


def go_on(
    engine: Engine, folder: Path, outputs: Outputs = SHOWN, *, checkpoint: Which | int = "last", changed: bool = False
) -> Run:
    """A run from a checkpoint; whose settings were changed has them written again."""
    state: Any = None

    def read_back() -> None:
        nonlocal state
        keeping = checkpoints_of(folder, expected_bytes=size_of(engine.shapes()))
        state = recovery.restored(engine, keeping, checkpoint, outputs.tell(view))
        if changed or not (folder / "config.json").exists():
            settings.write(engine.config, folder / "config.json")
        recovery.mend_rows(folder, int(state.updates), outputs.tell(view))

    with _view(engine, folder, outputs) as view:
        view.doing("reading the last checkpoint")
        hosts.on_first(read_back)
        # Other hosts hold any state of that shape: host 0's becomes everyone's.
        state = engine.placed(engine.start() if state is None else state)
        return _Session(engine, folder, outputs, view).go(state)


def _view(engine: Engine, folder: Path, outputs: Outputs) -> View:
    """What is shown of a run while it is under way."""
    if not hosts.is_first():
        return hosts.Aside()
    config = engine.config
    return open_view(
        title=f"{config.task} with {config.core}, seed {config.seed}, into {folder}",
        total_frames=config.last_update * config.frames_per_update,
        lines=engine.tasks.scales.lines,
        quiet=outputs.quiet,
    )


def _check_memory(engine: Engine) -> None:
    """Raises if the state alone is more than this machine has room for."""
    needed, there = size_of(engine.shapes()), machine.memory_bytes()
    if there is not None and needed > there:
        raise RunError(
            f"a run's state must fit into memory, got {needed / 1e9:,.1f} GB for a machine with {there / 1e9:,.1f} GB; "
            "make --net.memory, --net.width or --streams smaller"
        )


class _Session:
    """One sitting of a run: from a state to its end, a stop, a divergence or a failure."""

    def __init__(self, engine: Engine, folder: Path, outputs: Outputs, view: View):
        self.engine, self.folder, self.outputs, self.view = engine, folder, outputs, view
        self.config = engine.config
        self.writes = hosts.is_first()
        self.before: list[Row] = read(folder / "metrics.jsonl") if self.writes else []
        self.reported = list(self.before)

    def go(self, state: Any) -> Run:
        """From report to report, with checkpoints."""
        config, scales = self.config, self.engine.tasks.scales
        done, last = int(state.updates), config.last_update
        status: Status = "finished"
        error: str | None = None
        view = self.view
        with on_interrupt(view, when=self.engine.stops) as interrupted, self._writers(done) as writers:
            if self.writes:
                (self.folder / "result.json").unlink(missing_ok=True)
            for row in self.before:
                view.report(row)
            if last * config.frames_per_update > 1.05 * config.steps:
                view.message(
                    f"{config.steps:,} frames were asked for; whole reports of {config.updates_per_report} updates make it "
                    f"{last * config.frames_per_update:,}"
                )
            if done < last:
                view.doing(self.engine.begins)
                with self.engine.running(state, before=self.before, say=view.message) as running:
                    state, status, said = self._learn(state, running, writers, interrupted.is_set)
                error = said if status == "failed" else None
                if said:
                    view.message(said)
            else:
                view.message("nothing left to do")
        rows = read(self.folder / "metrics.jsonl") if self.writes else self.reported
        run = Run(folder=self.folder, config=config, status=status, rows=rows)
        if self.writes:
            score, diverged = scales.of_100(run.mean_return), int(state.diverged)
            write_result(self.folder, status, rows, normalised=score, diverged=diverged, error=error)
        if error is not None:
            raise RunError(error)
        return run

    def _learn(self, state: Any, running: Running, writers: Metrics, stop: Callable[[], bool]) -> tuple[Any, Status, str]:
        """To the last update or whatever comes before it: the state, how it ended, and what is to be said of that."""
        config, folder = self.config, self.folder
        every, last = config.updates_per_report, config.last_update
        seconds = self.before[-1]["seconds"] if self.before else 0.0
        begun = mark = time.monotonic()
        done = int(state.updates)
        while True:
            number, first = done // every + 1, done
            state, row, failed = running.advance(state, until=number * every, stop=stop)
            done, diverged, now = int(state.updates), int(state.diverged), time.monotonic()
            if row is not None:
                pace = (done - first) * config.frames_per_update / (now - mark)
                row |= {"seconds": seconds + now - begun, "frames_per_second": pace}
                writers.write(row)
                self.reported.append(row)
                self.view.report(row)
            mark = now
            if diverged >= 0:
                return state, "diverged", f"diverged: not finite after update {diverged}; the last good checkpoint is kept"
            stopped = hosts.anyone(stop())
            ends = done >= last or done < number * every or stopped
            if ends or number % config.checkpoint_every == 0:
                self._save(state, done, score=recent(self.reported))
            if failed is not None:
                return state, "failed", f"{failed}; the checkpoint of update {done} is kept in {folder}"
            if done >= last:
                return state, "finished", ""
            if ends:
                return state, "stopped", f"stopped with a checkpoint; go on by `gtrxl resume {folder}`"

    def _save(self, state: Any, update: int, *, score: float | None) -> None:
        whole = self.engine.whole(state)
        told = settings.as_dict(self.config)
        hosts.on_first(lambda: checkpoints_of(self.folder).save(update, whole, score=score, settings=told))

    @contextlib.contextmanager
    def _writers(self, done: int) -> Iterator[Metrics]:
        """What takes every row; host 0's alone."""
        if not self.writes:
            yield Metrics(NoRows(), NoBoard())
            return
        outputs, resume_at = self.outputs, done * self.config.frames_per_update if done else None
        writers: list[Any] = []
        if outputs.board:
            writers.append(Board(self.folder / "tensorboard", resume_at=resume_at, say=outputs.tell(self.view)))
        if outputs.wandb:
            writers.append(WandB(self.folder, settings=settings.as_dict(self.config)))
        if outputs.callback is not None:
            writers.append(Callback(outputs.callback))
        made = Metrics(Rows(self.folder / "metrics.jsonl"), *writers)
        try:
            yield made
        finally:
            made.close()
