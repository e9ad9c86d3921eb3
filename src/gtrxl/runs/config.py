"""The settings of a run: one frozen record, checked when it is made.

A core, a task and an algorithm are named: ours by a short name, anyone's by its place, `package.module:Class`.
`presets.defaults` gives what is known to work; `settings` changes, writes and reads.
"""

import dataclasses
import json
import math
import reprlib
from typing import Annotated, Any, Generic, Literal, TypeVar

import tyro

from gtrxl.algorithms import LEARNERS, VMPO, Learner
from gtrxl.algorithms.catalogue import learner_class
from gtrxl.cores.catalogue import CORES, core_arguments
from gtrxl.networks.policies import FIRST_SCALE
from gtrxl.networks.vision import PAPER_CHANNELS, SMALL_CHANNELS
from gtrxl.runs import tasks
from gtrxl.runs.errors import RunError
from gtrxl.runs.tasks import RunTasks

L = TypeVar("L", bound=Learner)

CHANNELS: dict[str, tuple[int, ...]] = {"tiny": (8, 16, 16), "small": SMALL_CHANNELS, "paper": PAPER_CHANNELS}
"""Of the sections of the ResNet, by name."""


MOST_LAYERS, MOST, MOST_STEPS, LONGEST_CALL, LONGEST_WORD, LONGEST_NOISE = 1024, 2**20, 10**15, 10**7, 100, 1024
"""What is larger than any machine that there is can only be a mistake, or meant to hang who reads it."""


def _not_beyond(record: Any, most: int, *names: str) -> None:
    for name in names:
        if getattr(record, name) > most:
            said = reprlib.repr(getattr(record, name))  # it may have thousands of digits
            raise RunError(f"{name} must be at most {most}, got {said}; no machine has room for more")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Net:
    """Sizes of the network. What a core has no use for (memory of an LSTM) is ignored by it."""

    layers: int = 2
    """Layers of the core; the paper's transformers have 12."""
    width: int = 64
    """Width of the core (d_model); the paper's transformers have 512."""
    heads: int = 4
    """Attention heads."""
    head_dim: int = 16
    """Width of a head."""
    mlp: int = 64
    """Hidden width of each layer's MLP."""
    memory: int = 64
    """Steps a transformer looks back, besides its own; rows of merlin's memory."""
    gate_bias: float | Literal["depth"] | None = None
    """b_g; the paper's is 2 for GRU gates, 1 for others; `depth` grows with the layers, so that as much of the stream passes the
    whole stack as passes four layers at the paper's."""
    init_variance: float = 1.0
    """Variance of a transformer's new weights times their fan-in: 1 keeps the size of what goes in, less begins closer to the
    identity."""
    skip: bool = False
    """LSTM and GRU: skip connections and outputs side by side, as the paper's LSTM."""
    torso: int = 64
    """Width of the two tanh layers before the core."""
    channels: Literal["tiny", "small", "paper"] = "small"
    """Of the ResNet that pictures go through, section by section: 8, 16, 16; or 16, 32, 32; or the paper's 64, 128, 128."""
    output_norm: bool = True
    """Policy and value see the core's output at unit size (a layer norm without parameters); the paper has none."""
    hidden: int = 64
    """Hidden width of the policy's and the value's MLP."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """What the core computes in; weights stay float32."""

    def __post_init__(self):
        for name in ("torso", "hidden"):  # the core checks its own sizes
            if getattr(self, name) < 1:
                raise RunError(f"{name} must be at least 1, got {getattr(self, name)}; the default is {getattr(Net, name)}")
        _not_beyond(self, MOST_LAYERS, "layers")
        _not_beyond(self, MOST, "width", "heads", "head_dim", "mlp", "memory", "torso", "hidden")
        if self.channels not in CHANNELS:
            raise RunError(f"channels must be one of {', '.join(CHANNELS)}, got {self.channels!r}; small learns on a CPU")
        bias = self.gate_bias
        number = isinstance(bias, int | float) and not isinstance(bias, bool) and math.isfinite(bias)
        if not number and bias not in (None, "depth"):
            raise RunError(f"gate_bias must be a finite number or 'depth', got {bias!r}; leave it out for the paper's")

    def core_sizes(self, core: str) -> dict[str, Any]:
        """Those of these settings that the core takes, by the names of its arguments."""
        sizes = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)} | {"d_model": self.width}
        return {name: sizes[name] for name in core_arguments(core) if name in sizes}


@dataclasses.dataclass(frozen=True, kw_only=True)
class GymSettings:
    """Gymnasium tasks (gym:ID): what the agent is shown, and how it tries things."""

    mask_velocity: bool = False
    """Hide the velocities of a classic control task, so that it must be remembered where things were."""
    previous: Literal["none", "action", "action+reward"] = "action"
    """What is added to every observation: nothing, the previous action, or that and the reward it brought."""
    raw_numbers: bool = False
    """Take the floats of an observation as they are, not brought to a common size by their running mean and spread."""
    noise_steps: int = 1
    """Steps that the noise of continuous actions lasts in training, so that trying things goes somewhere; 1 draws it anew each
    time."""
    widest_noise: float = 0.0
    """The widest spread of continuous actions, where these go from -1 to 1, so that no agent comes to live by its noise; 0 sets
    no bound."""

    def __post_init__(self):
        if self.widest_noise and not FIRST_SCALE < self.widest_noise < math.inf:
            raise RunError(
                f"widest_noise must be 0 or above {FIRST_SCALE}, with which it begins, got {self.widest_noise}; 1 is wide"
            )
        if self.noise_steps < 1:
            raise RunError(f"noise_steps must be at least 1, got {self.noise_steps}; 1 draws noise anew at every step")
        _not_beyond(self, LONGEST_NOISE, "noise_steps")


@dataclasses.dataclass(frozen=True, kw_only=True)
class FleetSettings:
    """Where tasks are stepped: inside the compiled program, or by actors that feed a learner."""

    engine: Literal["auto", "device", "actors", "ray"] = "auto"
    """`device`: task and learning in one compiled program; `actors`: Gymnasium tasks in processes of this machine; `ray`: the
    same on a cluster; `auto`: what the task needs."""
    actors: int = 0
    """Processes that step tasks; 0 is one for each core of this machine."""
    tasks: Annotated[int, tyro.conf.arg(name="tasks-per-actor")] = 0
    """Tasks that each actor steps side by side; 0 shares the streams out among the actors."""
    ahead: int = 1
    """Batches that actors play ahead while the learner learns: 1 is faster, and what is learned from is one target period older;
    0 waits for new weights."""
    time_limit: float = 120.0
    """Seconds that one call of a task may take before its actor is restarted."""
    restarts: int = 10
    """How often an actor is restarted without a whole unroll in between, before the run ends with its error; twice as often with
    unrolls in between, of which 20 make up for a failure. A task that cannot be made ends it the second time."""
    address: str | None = None
    """Of a Ray cluster to join: `auto`, or host:port; without it --engine ray starts one on this machine."""

    def __post_init__(self):
        for name, least in {"actors": 0, "tasks": 0, "restarts": 0}.items():
            if getattr(self, name) < least:
                default = getattr(FleetSettings, name)
                raise RunError(f"{name} must be at least {least}, got {getattr(self, name)}; the default is {default}")
        _not_beyond(self, MOST, "actors", "tasks", "restarts")
        if self.ahead not in (0, 1):
            raise RunError(
                f"ahead must be 0 or 1, got {reprlib.repr(self.ahead)}; what is older than one target period is not learned from"
            )
        if not 0 < self.time_limit < math.inf:
            raise RunError(f"time_limit must be more than 0 seconds, got {self.time_limit}; the default is 120")
        _not_beyond(self, LONGEST_CALL, "time_limit")
        if self.address is not None and self.engine != "ray":
            raise RunError(f"address must come with engine ray, got engine {self.engine!r}; add --engine ray")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(Generic[L]):
    """Everything that decides a run. The same settings and seed on the same machine give the same numbers."""

    task: str = "grid-numpad"
    """What to learn: a name from `gtrxl tasks`, arguments after a colon: grid-numpad:size=3,episode_steps=100; several with a
    plus between them, or a set of them: lab-memory; gym:ID, any Gymnasium task: gym:CartPole-v1; jax:gymnax/ID; your own class,
    package.module:Class; or a function that makes a Gymnasium task, env:package.module.function."""
    core: str = "gtrxl-gru"
    """What remembers: a name from `gtrxl cores`, or your own: package.module:Class."""
    core_args: tuple[str, ...] = ()
    """What your own core is made with besides --net's sizes: key=value, as many as you like."""
    algorithm: str = "vmpo"
    """How to learn: vmpo, ppo (the default of Gymnasium tasks), vtrace, or your own: package.module:Class; --learner has its
    settings."""
    seed: int = 0
    """Decides the first weights, the task's and the policy's random numbers."""
    steps: int = 3_000_000
    """Frames to learn from: one is one observation of one stream."""
    streams: int = 16
    """Tasks played side by side: the batch."""
    unroll: int = 32
    """Steps of each stream that one update learns from; the paper uses 95."""
    discount: float = 0.97
    """How much a reward counts one step earlier: 0.97 looks about 33 steps ahead."""
    final_rate: float = 0.1
    """Share of the learning rate that is left when the run ends; it falls to it evenly. 1 keeps it as it is."""
    popart_step: float = 1e-4
    """How fast the statistics of PopArt follow the returns; 0 switches it off."""
    pixel_control: float = 0.0
    """Weight of the pixel-control loss, for tasks with one picture and one choice of action; the paper uses 2e-3, 0 is off."""
    prediction_weight: float = 1.0
    """Weight of what the core itself predicts (merlin); of no use to cores that predict nothing, 0 is off."""
    devices: int = 0
    """Devices to spread the streams over; 0 takes all there are, on a CPU its cores. The number changes rounding only."""
    reports: int = 100
    """Rows of metrics in the whole run, about."""
    checkpoint_every: int = 5
    """Reports between two checkpoints; the last report always has one."""
    gym: GymSettings = dataclasses.field(default_factory=GymSettings)
    fleet: FleetSettings = dataclasses.field(default_factory=FleetSettings)
    net: Net = dataclasses.field(default_factory=Net)
    learner: L = dataclasses.field(default_factory=VMPO)  # pyright: ignore[reportAssignmentType]
    """Settings of the algorithm."""

    def __post_init__(self):
        core_arguments(self.core)  # says what there is if there is no such core
        self.core_arguments()
        if not isinstance(self.learner, learner_class(self.algorithm)):
            raise RunError(
                f"algorithm must be one of {', '.join(LEARNERS)} and its learner's settings with it, "
                f"got {self.algorithm!r} and {type(self.learner).__name__}; defaults(algorithm=...) gives both"
            )
        for name, least in {
            "steps": 1,
            "streams": 1,
            "unroll": 1,
            "devices": 0,
            "reports": 1,
            "checkpoint_every": 1,
            "seed": 0,
        }.items():
            value = getattr(self, name)
            if value < least:
                usual = f"the default is {getattr(Config, name)}"
                remedy = "leave it out for what the task is known to need" if name in ("steps", "streams", "unroll") else usual
                raise RunError(f"{name} must be at least {least}, got {value}; {remedy}")
        _not_beyond(self, MOST, "streams", "unroll", "devices", "reports", "checkpoint_every")
        _not_beyond(self, MOST_STEPS, "steps")
        if self.seed >= 2**32:
            raise RunError(f"seed must be less than 2**32, got {reprlib.repr(self.seed)}; JAX looks at 32 bits of it")
        if not 0 <= self.discount <= 1:
            raise RunError(f"discount must be between 0 and 1, got {self.discount}; 0.97 looks about 33 steps ahead")
        if not 0 <= self.final_rate <= 1:
            raise RunError(f"final_rate must be between 0 and 1, got {self.final_rate}; 1 keeps the learning rate as it is")
        if not 0 <= self.popart_step < 1:
            raise RunError(
                f"popart_step must be at least 0 and less than 1, got {self.popart_step}; the paper uses 1e-4, 0 is off"
            )
        if not 0 <= self.pixel_control < math.inf:
            raise RunError(f"pixel_control must be at least 0, got {self.pixel_control}; the paper uses 2e-3, 0 is off")
        if not 0 <= self.prediction_weight < math.inf:
            raise RunError(f"prediction_weight must be at least 0, got {self.prediction_weight}; 1 is usual, 0 is off")
        if self.streams % self.learner.minibatches:
            raise RunError(
                f"minibatches must divide streams, got {self.learner.minibatches} for {self.streams}; "
                f"try --streams {self.learner.minibatches * max(1, self.streams // self.learner.minibatches)}"
            )
        object.__setattr__(self, "task", self._spelled())

    @property
    def tasks(self) -> RunTasks:
        """What is learned, as the agent is shown it."""
        return tasks.run_tasks(self.task, mask_velocity=self.gym.mask_velocity, previous=self.gym.previous)

    def core_arguments(self) -> dict[str, Any]:
        """What the core is made with: the sizes that it takes, and `core_args`."""
        given = dict(map(_argument, self.core_args))
        if self.core in CORES:  # ours take numbers and words; somebody's own may take anything
            for name, value in given.items():
                _check_argument(self.core, name, value)
        return self.net.core_sizes(self.core) | given

    @property
    def frames_per_update(self) -> int:
        """Observations that one update learns from."""
        return self.streams * self.unroll

    @property
    def updates_per_report(self) -> int:
        """Whole target periods, so that a report always finds acting and online network the same."""
        period = self.learner.target_period
        return period * max(1, round(self.steps / (self.reports * self.streams * self.unroll * period)))

    @property
    def last_update(self) -> int:
        """The update that the run ends with: whole reports, not fewer frames than were asked for."""
        every = self.updates_per_report
        return every * math.ceil(self.steps / (self.frames_per_update * every))

    def _spelled(self) -> str:
        """The task's one spelling; its engine is checked on the way."""
        engine, learned = self.fleet.engine, self.tasks
        if learned.compiled:
            if engine not in ("auto", "device"):
                raise RunError(
                    f"engine must be device for a compiled task, got {engine!r} for {self.task}; "
                    "its Gymnasium form (gym:gtrxl/..., see `gtrxl tasks`) runs on actors"
                )
            if self.gym != GymSettings():
                raise RunError(f"mask_velocity and previous are for Gymnasium tasks, got {self.task}; write gym:ID")
            if self.streams % len(learned):
                raise RunError(
                    f"streams must be a multiple of the {len(learned)} tasks, got {self.streams}; "
                    f"try --streams {len(learned) * math.ceil(self.streams / len(learned))}"
                )
        elif engine == "device":
            raise RunError(f"engine must be actors or ray for {self.task}, got 'device'; leave it out for actors on this machine")
        return learned.name


PARTS = ("gym", "fleet", "net", "learner")
"""The fields of `Config` that are records themselves."""


def _argument(text: str) -> tuple[str, Any]:
    """key=value, the value as JSON or else as it stands."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip().isidentifier():
        raise RunError(f"core_args must be key=value, got {reprlib.repr(text)}; for example --core-args width=64 depth=2")
    if key.strip() in ("input_size", "key"):
        raise RunError(f"core_args must leave {key.strip()} to the agent, got {reprlib.repr(text)}; leave it out")
    try:
        return key.strip(), json.loads(value)
    except (ValueError, RecursionError):
        return key.strip(), value


def _check_argument(core: str, name: str, value: Any) -> None:
    """Raises for what none of our cores can take."""
    most = LONGEST_WORD if isinstance(value, str) else MOST_LAYERS if name == "layers" else MOST
    size = len(value) if isinstance(value, str) else abs(value) if isinstance(value, int | float) else 0
    if size > most or not isinstance(value, int | float | str | None):
        said = f"{name}={reprlib.repr(value)}"
        raise RunError(f"core_args of {core} must be words, or numbers of at most {most}, got {said}; leave it out")
