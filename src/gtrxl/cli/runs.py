"""The commands about runs: train, resume, eval, watch, export. `main.py` lists all commands."""

import contextlib
import dataclasses
import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from gtrxl.cli.numbers import Frames, FramesIfAny
from gtrxl.cli.tables import print_table, table
from gtrxl.evaluation.formats.catalogue import FORMATS

if TYPE_CHECKING:
    from gtrxl.runs.config import Config
    from gtrxl.runs.folder import Run

DIVERGED, INTERRUPTED = 3, 130
Checkpoint = Literal["best", "last"] | int
if TYPE_CHECKING:
    FormatName = str
else:
    FormatName = tyro.extras.literal_type_from_choices(FORMATS)
DEFAULT_FORMAT = next(iter(FORMATS))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Hosts:
    """Several machines for one run of a compiled task: start the same command on each, with another --host."""

    coordinator: str | None = None
    """host:port of host 0, where the others find it; any free port."""
    num_hosts: int = 1
    """How many there are."""
    host: int = 0
    """Which of them this is, from 0. Host 0 keeps the run's folder."""

    def join(self) -> None:
        """Joins the others, if there are any."""
        from gtrxl.training.multihost import hosts

        hosts.join(self.coordinator, num_hosts=self.num_hosts, host=self.host)


@dataclasses.dataclass(frozen=True, kw_only=True)
class OwnCode:
    """Code of your own that a run names: cores, tasks, algorithms, functions that make a Gymnasium task."""

    from_: Annotated[Path | None, tyro.conf.arg(name="from")] = None
    """A folder to look for that code in besides the installed packages; . is the current one."""
    trust: bool = False
    """Import the code outside of gtrxl that a run's settings name. Without it a run folder is only read as data."""

    def known(self) -> bool:
        """Whether code that is named may be imported; makes it findable."""
        if self.from_ is not None:
            from gtrxl import names

            names.search_in(str(self.from_.absolute()))
        return self.trust


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outputs:
    """What is shown and written of a run, besides its folder's own files."""

    quiet: bool = False
    """Show nothing but the end."""
    no_board: bool = False
    """Write no TensorBoard files."""
    wandb: bool = False
    """Send the metrics to Weights & Biases too (pip install 'gtrxl[wandb]')."""

    def chosen(self) -> dict[str, Any]:
        """As `gtrxl.train` and `gtrxl.resume` take them."""
        return {"quiet": self.quiet, "board": not self.no_board, "wandb": self.wandb}


@dataclasses.dataclass(frozen=True)
class Train:
    """Train an agent: `gtrxl train [TASK] [--core NAME]`. Without arguments, Grid Numpad 2x2 with GTrXL-GRU."""

    @staticmethod
    def parse(argv: Sequence[str]) -> Any:
        """The command of a line. Defaults depend on task, core, algorithm and streams, so these are looked for first."""
        from gtrxl import names
        from gtrxl.runs import settings
        from gtrxl.runs.errors import RunError
        from gtrxl.runs.presets import defaults

        def given(flag: str) -> str | None:
            for place, word in enumerate(argv):
                if word == flag and place + 1 < len(argv):
                    return argv[place + 1]
                if word.startswith(f"{flag}="):
                    return word.partition("=")[2]
            return None

        if (folder := given("--from")) is not None:
            names.search_in(str(Path(folder).absolute()))
        file = given("--config")
        chosen = {name: value for name in ("core", "algorithm", "preset") if (value := given(f"--{name}")) is not None}
        if file is not None and "preset" in chosen:
            raise RunError("--config and --preset both say where settings begin; give one of them")
        guess = (
            argv[0]
            if argv and not argv[0].startswith("-")
            else next((word for word in argv if word.startswith(("gym:", "env:"))), None)
        )
        streams = given("--streams") or ""
        while True:
            if file is None:
                begin: dict[str, Any] = chosen | ({} if guess is None else {"task": guess})
                base = defaults(**begin, streams=int(streams) if streams.isdecimal() and len(streams) < 10 else None)
            else:
                base = settings.read(Path(file), algorithm=chosen.get("algorithm"), trust="--trust" in argv)
                if "--trust" not in argv and given("--address") is None:
                    settings.ask_before_joining(base, file)
            command = _train_of(type(base.learner))
            fields = {field.name: getattr(base, field.name) for field in dataclasses.fields(base)}
            parsed = _parsed(command, argv, command(**fields))
            if file is not None or guess is not None or parsed.task == base.task:
                return parsed
            guess = parsed.task  # a task named after the options: begin again, with its defaults


def _parsed(command: type[Any], argv: Sequence[str], default: Any) -> Any:
    """What tyro makes of a line. A setting that the record itself refuses is our error, said in our one line."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            # Settings keep both forms, --x and --no-x: which one is the default differs from task to task.
            return tyro.cli(command, args=argv, default=default, prog="gtrxl train")
    except SystemExit as stop:
        cause: BaseException | None = stop
        while cause is not None:
            if isinstance(cause, ValueError) and type(cause).__module__.startswith("gtrxl."):
                raise cause from None
            cause = cause.__context__
        sys.stderr.write(said.getvalue())
        raise


def _train_of(learner: type[Any]) -> type[Any]:
    from gtrxl.runs.config import Config, FleetSettings, GymSettings

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class TrainCommand(Config[learner]):
        """Train an agent to remember. Our own tasks compile into one program with acting and learning; Gymnasium tasks (gym:ID)
        are stepped by actors in processes of this machine, or on a Ray cluster, and a learner learns from what they send.
        Your own core, task or algorithm is named by its place, --core package.module:Class, with --from . for this folder.

        Shows the return as it grows, beside the scores of a random policy and of a player with a perfect memory, and ends with
        a curve. The run's folder keeps settings, metrics and checkpoints; a run that is killed continues with `gtrxl resume RUN`.
        Defaults depend on the task, the core and the algorithm: what is shown below is what would be used.
        """

        task: tyro.conf.Positional[str] = "grid-numpad"
        """What to learn: a name from `gtrxl tasks`, arguments after a colon: grid-numpad:size=3,episode_steps=100; several with a
        plus between them, or a set of them: lab-memory, lab-reactive, lab12, lab30; gym:ID, any Gymnasium task: gym:CartPole-v1;
        jax:gymnax/ID or jax:navix/ID; your own class, package.module:Class; env:package.module.function for a Gymnasium task that
        a function makes."""
        steps: Frames = 3_000_000
        """Frames to learn from: one is one observation of one stream. 300k, 2M and 1e6 are numbers too."""
        gym: tyro.conf.OmitArgPrefixes[GymSettings] = dataclasses.field(default_factory=GymSettings)
        fleet: tyro.conf.OmitArgPrefixes[FleetSettings] = dataclasses.field(default_factory=FleetSettings)
        run_: Annotated[Path | None, tyro.conf.arg(name="run")] = None
        """The run's folder; it must not contain a run. Under runs/ if left out."""
        config: Path | None = None
        """Settings to begin with: RUN/config.json of another run repeats it; other options change it."""
        preset: Literal["small", "paper"] = "small"
        """`small` learns on a laptop; `paper` has the paper's sizes and settings for the task and the core, for large machines.
        Several tasks share the streams out evenly: dmlab30 has 180 of them, where the paper has 128."""
        outputs: tyro.conf.FlagCreatePairsOff[tyro.conf.OmitArgPrefixes[Outputs]] = Outputs()
        own_code: tyro.conf.FlagCreatePairsOff[tyro.conf.OmitArgPrefixes[OwnCode]] = OwnCode()
        hosts: tyro.conf.OmitArgPrefixes[Hosts] = Hosts()

        def run(self) -> int:
            """Trains, and says how it ended."""
            from gtrxl.training import programs
            from gtrxl.training.session import train

            self.hosts.join()
            programs.keep()
            config = Config(**{field.name: getattr(self, field.name) for field in dataclasses.fields(Config)})
            if not self.outputs.quiet:
                _say_what_takes_long(config)
            return _ended(train(config, run=self.run_, **self.outputs.chosen()))

    return TrainCommand


@dataclasses.dataclass(frozen=True)
class Resume:
    """Continue a run from its last checkpoint, as if it had never stopped."""

    run_: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(name="run")]
    """The run's folder."""
    steps: FramesIfAny = None
    """Frames in all, if the run shall be longer than it was made for: 2M, 1e6."""
    devices: int | None = None
    """Devices of each host, if another number than before; 0 takes all there are."""
    checkpoint: Checkpoint = "last"
    """Where to go on from: the last checkpoint, the best, or that of an update. What is later is dropped, and done again."""
    outputs: tyro.conf.OmitArgPrefixes[Outputs] = Outputs()
    own_code: tyro.conf.OmitArgPrefixes[OwnCode] = OwnCode()
    hosts: tyro.conf.OmitArgPrefixes[Hosts] = Hosts()

    def run(self) -> int:
        """Trains on."""
        from gtrxl.training import programs
        from gtrxl.training.session import resume

        self.hosts.join()
        programs.keep()
        trust = self.own_code.known()
        if not self.outputs.quiet:
            _say_that_compiling_takes_long(self.run_, None, trust=trust)
        chosen = {"steps": self.steps, "devices": self.devices, "checkpoint": self.checkpoint}
        return _ended(resume(self.run_, trust=trust, **chosen, **self.outputs.chosen()))


@dataclasses.dataclass(frozen=True)
class Eval:
    """Play whole episodes with a trained agent, on seeds that training never saw, and print the mean return."""

    run_: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(name="run")]
    """The run's folder, or an agent that was exported: NAME.safetensors, zoo:NAME (`gtrxl zoo`), hf:owner/name."""
    episodes: int | None = None
    """How many episodes of each task; 256 if left out, of tasks with pictures 32."""
    seed: int = 0
    """Decides the episodes."""
    checkpoint: Checkpoint = "best"
    """Which agent: of the best report, of the last checkpoint, or of an update that there is a checkpoint of."""
    greedy: bool = False
    """Take the likeliest action instead of drawing one."""
    task: str | None = None
    """Another task with the same spaces, for example a longer corridor: t-maze:corridor=100; or one of several it learned."""
    json: bool = False
    """Print one JSON object instead."""
    own_code: tyro.conf.OmitArgPrefixes[OwnCode] = OwnCode()

    def run(self) -> None:
        """Plays and prints."""
        from gtrxl.evaluation.evaluate import evaluate
        from gtrxl.training import programs

        programs.keep()
        trust = self.own_code.known()
        _say_that_compiling_takes_long(self.run_, self.task, trust=trust)
        said = evaluate(
            self.run_,
            episodes=self.episodes,
            seed=self.seed,
            which=self.checkpoint,
            greedy=self.greedy,
            task=self.task,
            trust=trust,
        )
        if self.json:
            print(json.dumps(dataclasses.asdict(said)))
            return
        low, high = said.interval
        interval = f"95 % interval {low:.2f} to {high:.2f}"
        if said.tasks is not None:
            best = "human" if said.best_is == "human" else "best"
            made = table("task", ["return", "95 %", "random", best, "of 100", "episodes"])
            for name, of in said.tasks.items():
                numbers = (of.mean_return, (of.interval[1] - of.interval[0]) / 2, of.random, of.best, of.normalised)
                made.add_row(name, *("" if number is None else f"{number:.2f}" for number in numbers), str(of.episodes))
            print_table(made)
            what = "mean return" if said.normalised is None else "mean score of 100"
            print(f"{said.task}: {what} {said.mean_return:.2f} ({interval}) over {len(said.tasks)} tasks")
            for split, found in (said.human_normalised or {}).items():
                print(f"human-normalised, {split}: mean {found['mean']:.1f}, capped at 100 {found['capped']:.1f}")
            return
        print(f"{said.task}: mean return {said.mean_return:.2f} ({interval}) over {said.episodes} episodes")
        if said.normalised is None:
            print("no random score is known" if said.random is None else f"random {said.random:.2f}")
        else:
            print(f"random {said.random:.2f}, {said.best_is} {said.best:.2f}: {said.normalised:.1f} of 100")


@dataclasses.dataclass(frozen=True)
class Watch:
    """Draw an episode of a trained agent: a GIF, or a folder of PNG frames."""

    run_: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(name="run")]
    """The run's folder, or an agent that was exported: NAME.safetensors, zoo:NAME (`gtrxl zoo`), hf:owner/name."""
    to: Path | None = None
    """A file that ends in .gif, or a folder for frames; RUN/episode.gif, or NAME.gif of an exported agent, if left out."""
    seed: int = 0
    """Decides the episode."""
    checkpoint: Checkpoint = "best"
    """Which agent: of the best report, of the last checkpoint, or of an update that there is a checkpoint of."""
    greedy: bool = False
    """Take the likeliest action instead of drawing one."""
    secret: bool = False
    """Also show what is hidden from the agent."""
    fps: float = 8.0
    """Frames a second of the GIF."""
    task: str | None = None
    """Which task, of several that were trained, or another with the same spaces; the first if left out."""
    own_code: tyro.conf.OmitArgPrefixes[OwnCode] = OwnCode()

    def run(self) -> None:
        """Plays, draws, writes."""
        from gtrxl.evaluation.watch import watch
        from gtrxl.training import programs

        programs.keep()
        trust = self.own_code.known()
        _say_that_compiling_takes_long(self.run_, self.task, trust=trust)
        path, score, steps = watch(
            self.run_,
            self.to,
            seed=self.seed,
            which=self.checkpoint,
            greedy=self.greedy,
            secret=self.secret,
            fps=self.fps,
            task=self.task,
            trust=trust,
        )
        print(f"wrote {path}: {steps} steps, return {score:g}")


@dataclasses.dataclass(frozen=True)
class Export:
    """Write a trained agent as a file for others, with a small JSON card: its weights, or one step of it as a program."""

    run_: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(name="run")]
    """The run's folder, or an agent that was exported: NAME.safetensors, zoo:NAME (`gtrxl zoo`), hf:owner/name."""
    to: Path | None = None
    """The file to write; RUN/agent.safetensors, or what the format's files end in, if left out."""
    format: FormatName = DEFAULT_FORMAT
    """safetensors: the weights. Of one step: stablehlo, a program for CPU, CUDA and TPU, which jax.export reads; torch, one that
    torch.export reads; onnx, a graph for onnxruntime, also in a browser."""
    checkpoint: Checkpoint = "best"
    """Which agent: of the best report, of the last checkpoint, or of an update that there is a checkpoint of."""
    own_code: tyro.conf.OmitArgPrefixes[OwnCode] = OwnCode()

    def run(self) -> None:
        """Writes both files."""
        from gtrxl.evaluation.export import export

        written, card = export(self.run_, self.to, format=self.format, which=self.checkpoint, trust=self.own_code.known())
        print(f"wrote {written} and {card}")


def _say_that_compiling_takes_long(run: Path, task: str | None, *, trust: bool) -> None:
    """The same before a run that there is; `task` is played instead of its own."""
    from gtrxl.evaluation.loading import settings_of
    from gtrxl.training.multihost import hosts

    if hosts.is_first():  # others need not have the run's folder
        config = settings_of(run, trust=trust)
        _say_what_takes_long(config if task is None else dataclasses.replace(config, task=task))


def _say_what_takes_long(config: "Config[Any]") -> None:
    """A line before a program with pictures is compiled, on stderr: nothing else is to be seen for a minute or more."""
    from gtrxl.training.multihost import hosts

    if hosts.is_first() and config.tasks.compiles_long:
        print(f"{config.task}: compiling what is seen takes a minute, a set of levels some minutes", file=sys.stderr, flush=True)


def _ended(run: "Run") -> int:
    """Says how a run ended: the curve, the scores to compare with, what to do next."""
    from gtrxl.training.multihost import hosts

    if not hosts.is_first():
        print(f"host {hosts.number()} of {hosts.count()}: {run.status}; the run is in {run.folder} on host 0")
        return {"finished": 0, "stopped": INTERRUPTED, "diverged": DIVERGED}.get(run.status, 1)
    from gtrxl.runs.curves import amount, curve
    from gtrxl.runs.scores import late_tasks
    from gtrxl.runs.terminal import can_draw, duration

    scales = run.config.tasks.scales
    levels = scales.lines
    points = [(row["frames"], row["return_mean"]) for row in run.rows if row["return_mean"] is not None]
    if can_draw(sys.stdout) and points:
        print(curve(points, levels, width=78, height=16))
    each = late_tasks(run.rows)
    if run.mean_return is not None:
        last = run.rows[-1]
        compared = ", ".join(f"{name} {score:.2f}" for name, score in levels.items())
        score = scales.of_100(run.mean_return)
        said = "" if score is None else f" ({compared}): {score:z.0f} of 100"
        what = f"mean score of {len(each)} tasks" if each and score is not None else "return"
        print(f"{what} {run.mean_return:.2f} late in {amount(last['frames'])} frames, {duration(last['seconds'])}{said}")
    if each:
        made = table("task, late in training", ["return", "of 100", "episodes"])
        for name, of in each.items():
            numbers = ("" if of[field] is None else f"{of[field]:.2f}" for field in ("return_mean", "normalised"))
            made.add_row(name, *numbers, str(of["episodes"]))
        print_table(made)
    if run.status == "diverged":
        print(
            f"diverged: a loss, gradient or weight was not finite; the last good checkpoint is in {run.folder}", file=sys.stderr
        )
        return DIVERGED
    if run.status == "stopped":
        print(f"stopped; `gtrxl resume {run.folder}` goes on")
        return INTERRUPTED
    print(f"in {run.folder}; `gtrxl eval {run.folder}` plays new episodes, `gtrxl watch {run.folder}` draws one")
    return 0
