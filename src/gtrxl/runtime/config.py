"""The settings of a run: one frozen record, checked when it is made, saved with the run, and read back.

`defaults(task=..., core=..., algorithm=...)` gives what is known to work; every field can be changed.
"""

import dataclasses
import json
import math
import typing
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

import tyro

from gtrxl.agent.vision import PAPER_CHANNELS, SMALL_CHANNELS
from gtrxl.cores import CORES, CoreError, Transformer
from gtrxl.cores.layers import INIT_VARIANCE
from gtrxl.envs.host import HostTask, is_host
from gtrxl.envs.sets import make_tasks, spell_tasks
from gtrxl.learner import LEARNERS, VMPO, Learner
from gtrxl.runtime.errors import RunError

L = TypeVar("L", bound=Learner)
Algorithm = Literal["vmpo", "ppo", "vtrace"]


CHANNELS: dict[str, tuple[int, ...]] = {"tiny": (8, 16, 16), "small": SMALL_CHANNELS, "paper": PAPER_CHANNELS}
"""Of the sections of the ResNet, by name."""


TRANSFORMER_SIZES = ("layers", "heads", "head_dim", "mlp", "memory", "gate_bias", "init_variance", "dtype")
"""Settings of `Net` that transformers take as they are."""


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
    """Steps a transformer looks back, besides its own."""
    gate_bias: float | None = None
    """b_g; the paper's is 2 for GRU gates, 1 for others."""
    init_variance: float = INIT_VARIANCE
    """What a transformer's new linear maps make of inputs of variance 1; with less, layers begin closer to the identity."""
    skip: bool = False
    """LSTM and GRU: skip connections and outputs side by side, as the paper's LSTM."""
    torso: int = 64
    """Width of the two tanh layers before the core."""
    channels: Literal["tiny", "small", "paper"] = "small"
    """Of the ResNet that pictures go through, section by section: 8, 16, 16; or 16, 32, 32; or the paper's 64, 128, 128."""
    hidden: int = 64
    """Hidden width of the policy's and the value's MLP."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """What the core computes in; weights stay float32."""

    def __post_init__(self):
        for name in ("torso", "hidden"):  # the core checks its own sizes
            if getattr(self, name) < 1:
                raise RunError(f"{name} must be at least 1, got {getattr(self, name)}; the default is {getattr(Net, name)}")
        if self.channels not in CHANNELS:
            raise RunError(f"channels must be one of {', '.join(CHANNELS)}, got {self.channels!r}; small learns on a CPU")
        bias = self.gate_bias
        if bias is not None and (isinstance(bias, bool) or not isinstance(bias, int | float) or not math.isfinite(bias)):
            raise RunError(f"gate_bias must be a finite number, got {bias!r}; leave it out for the paper's")

    def core_sizes(self, core: str) -> dict[str, Any]:
        """The arguments that this core takes."""
        kind = CORES[core][0]
        if kind is Transformer:
            sizes = {name: getattr(self, name) for name in TRANSFORMER_SIZES}
        else:
            sizes = {"layers": self.layers, "dtype": self.dtype} | ({"skip": self.skip} if core in ("lstm", "gru") else {})
        return {"d_model": self.width, **sizes}


@dataclasses.dataclass(frozen=True, kw_only=True)
class GymSettings:
    """Gymnasium tasks (gym:ID): what the agent is shown."""

    mask_velocity: bool = False
    """Hide the velocities of a classic control task, so that it must be remembered where things were."""
    previous: Literal["none", "action", "action+reward"] = "action"
    """What is added to every observation: nothing, the previous action, or that and the reward it brought."""
    raw_numbers: bool = False
    """Take the floats of an observation as they are, not brought to a common size by their running mean and spread."""


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
    time_limit: float = 120.0
    """Seconds that one call of a task may take before its actor is started anew."""
    restarts: int = 10
    """How often an actor is started anew without a whole unroll in between, before the run ends with its error."""
    address: str | None = None
    """Of a Ray cluster to join: `auto`, or host:port; without it --engine ray starts one on this machine."""

    def __post_init__(self):
        for name, least in {"actors": 0, "tasks": 0, "restarts": 0}.items():
            if getattr(self, name) < least:
                default = getattr(FleetSettings, name)
                raise RunError(f"{name} must be at least {least}, got {getattr(self, name)}; the default is {default}")
        if not 0 < self.time_limit < math.inf:
            raise RunError(f"time_limit must be more than 0 seconds, got {self.time_limit}; the default is 120")
        if self.address is not None and self.engine != "ray":
            raise RunError(f"address must come with engine ray, got engine {self.engine!r}; add --engine ray")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(Generic[L]):
    """Everything that decides a run. The same settings and seed on the same machine give the same numbers."""

    task: str = "grid-numpad"
    """What to learn: a name from `gtrxl tasks`, arguments after a colon: grid-numpad:size=3,episode_steps=100; several with a
    plus between them, or a set of them: lab-memory; or gym:ID, any Gymnasium task: gym:CartPole-v1."""
    core: str = "gtrxl-gru"
    """What remembers: a name from `gtrxl cores`."""
    algorithm: Algorithm = "vmpo"
    """How to learn; --learner has its settings."""
    seed: int = 0
    """Decides the first weights, the task's and the policy's random numbers."""
    steps: int = 3_000_000
    """Frames to learn from: one is one observation of one stream."""
    streams: int = 16
    """Tasks played side by side: the batch."""
    unroll: int = 32
    """Steps of each stream that one update learns from; the paper uses 95."""
    discount: float = 0.97
    """What a reward is worth one step earlier."""
    popart_step: float = 1e-4
    """How fast the statistics of PopArt follow the returns; 0 switches it off."""
    pixel_control: float = 0.0
    """Weight of the pixel-control loss, for tasks with one picture and one choice of action; the paper uses 2e-3, 0 is off."""
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
        if self.core not in CORES:
            raise CoreError(f"there is no core {self.core!r}; the cores are {', '.join(CORES)}")
        kind = LEARNERS.get(self.algorithm)
        if kind is None or not isinstance(self.learner, kind):
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
                raise RunError(f"{name} must be at least {least}, got {value}; the default is {getattr(Config, name)}")
        if self.seed >= 2**32:
            raise RunError(f"seed must be less than 2**32, got {self.seed}; JAX looks at 32 bits of it")
        if not 0 <= self.discount <= 1:
            raise RunError(f"discount must be between 0 and 1, got {self.discount}; 0.97 looks about 33 steps ahead")
        if not 0 <= self.popart_step < 1:
            raise RunError(
                f"popart_step must be at least 0 and less than 1, got {self.popart_step}; the paper uses 1e-4, 0 is off"
            )
        if not 0 <= self.pixel_control < math.inf:
            raise RunError(f"pixel_control must be at least 0, got {self.pixel_control}; the paper uses 2e-3, 0 is off")
        if self.streams % self.learner.minibatches:
            raise RunError(
                f"minibatches must divide streams, got {self.learner.minibatches} for {self.streams}; "
                f"try --streams {self.learner.minibatches * max(1, self.streams // self.learner.minibatches)}"
            )
        object.__setattr__(self, "task", self._spelled())

    def _spelled(self) -> str:
        """The task's one spelling; its engine is checked on the way."""
        engine = self.fleet.engine
        if not is_host(self.task):
            if engine not in ("auto", "device"):
                raise RunError(
                    f"engine must be device for a compiled task, got {engine!r} for {self.task}; "
                    "its Gymnasium form (gym:gtrxl/..., see `gtrxl tasks`) runs on actors"
                )
            if self.gym != GymSettings():
                raise RunError(f"mask_velocity and previous are for Gymnasium tasks, got {self.task}; write gym:ID")
            tasks = make_tasks(self.task)
            if self.streams % len(tasks):
                raise RunError(
                    f"streams must be a multiple of the {len(tasks)} tasks, got {self.streams}; "
                    f"try --streams {len(tasks) * math.ceil(self.streams / len(tasks))}"
                )
            return spell_tasks(tasks)
        if engine == "device":
            raise RunError(f"engine must be actors or ray for {self.task}, got 'device'; leave it out for actors on this machine")
        return self.host_task.name

    @property
    def host_task(self) -> HostTask:
        """The Gymnasium task, as the agent is shown it."""
        return HostTask.parse(self.task, mask_velocity=self.gym.mask_velocity, previous=self.gym.previous)


PARTS = ("gym", "fleet", "net", "learner")
"""The fields of `Config` that are records themselves."""

_TRANSFORMER, _RECURRENT = Net(), Net(layers=1, width=128)


def defaults(
    *, task: str = "grid-numpad", core: str = "gtrxl-gru", algorithm: str = "vmpo", preset: str = "small"
) -> Config[Any]:
    """What is known to work for a task and a core; `paper` has the paper's sizes and settings."""
    if core not in CORES:
        raise CoreError(f"there is no core {core!r}; the cores are {', '.join(CORES)}")
    if algorithm not in LEARNERS:
        raise RunError(f"algorithm must be one of {', '.join(LEARNERS)}, got {algorithm!r}; vmpo is the paper's")
    if preset not in ("small", "paper"):
        raise RunError(f"preset must be small or paper, got {preset!r}; small learns on a laptop")
    from gtrxl.runtime import presets

    transformer = CORES[core][0] is Transformer
    if preset == "paper":
        return presets.paper(task=task, core=core, algorithm=algorithm, transformer=transformer)
    net = _TRANSFORMER if transformer else _RECURRENT
    streams = presets.fitting(Config.streams, task=task, algorithm=algorithm)
    config: Config[Any] = Config(
        task=task,
        core=core,
        algorithm=algorithm,  # pyright: ignore[reportArgumentType]
        streams=streams,
        net=net,
        learner=LEARNERS[algorithm](),
    )
    return presets.small(config)


def as_dict(config: Config[Any]) -> dict[str, Any]:
    """The settings as plain data, in the order of their fields."""
    return dataclasses.asdict(config)


def write(config: Config[Any], path: Path) -> None:
    """A readable file that `read` takes back."""
    path.write_text(json.dumps(as_dict(config), indent=2) + "\n")


def read(path: Path, *, algorithm: str | None = None) -> Config[Any]:
    """The settings of a file that `write` made, or that was written by hand: what it leaves out has its default.

    With another `algorithm` than the file's, the learner's settings are that algorithm's defaults and all others the file's.
    """
    try:
        data = json.loads(Path(path).read_text())
    except FileNotFoundError:
        raise RunError(f"there is no file {path}; a run keeps its settings in RUN/config.json") from None
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror or error}; a run keeps its settings in RUN/config.json") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise RunError(f"{path} must be JSON, got {error}; RUN/config.json of any run shows the form") from None
    if not isinstance(data, dict):
        raise RunError(f"{path} must hold one JSON object, got {type(data).__name__}; RUN/config.json of any run shows the form")
    if algorithm is not None and algorithm != data.get("algorithm", Config.algorithm):
        data = {name: value for name, value in data.items() if name != "learner"} | {"algorithm": algorithm}
    first = {name: data[name] for name in ("task", "core", "algorithm") if name in data}
    for name, value in first.items():
        if not isinstance(value, str):
            raise RunError(f"{name} in {path} must be str, got {value!r}; the default is {getattr(Config, name)!r}")
    return change(defaults(**first), data, where=str(path))


def change(config: Config[Any], changes: dict[str, Any], *, where: str = "the settings") -> Config[Any]:
    """The settings with some replaced; `net`, `learner`, `gym` and `fleet` may be given as dicts of what to replace in them."""
    replaced = _typed(config, changes, where)
    for part in PARTS:
        if isinstance(changes.get(part), dict):
            current = getattr(config, part)
            replaced[part] = dataclasses.replace(current, **_typed(current, changes[part], f"{part} in {where}"))
    return dataclasses.replace(config, **replaced)


def _typed(record: Any, changes: dict[str, Any], where: str) -> dict[str, Any]:
    fields = {field.name: field for field in dataclasses.fields(record)}
    hints = typing.get_type_hints(type(record))
    typed: dict[str, Any] = {}
    for name, value in changes.items():
        if name not in fields:
            raise RunError(f"{where} must name settings there are, got {name!r}; there are {', '.join(fields)}")
        wanted = hints[name]
        if name in PARTS:
            if isinstance(value, dict):
                continue
            if not dataclasses.is_dataclass(value):
                raise RunError(f"{name} in {where} must be settings by name, got {value!r}; {{}} changes none of them")
        if wanted is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        simple = {int: int, float: float, str: str, bool: bool}.get(wanted)
        if simple is not None and (not isinstance(value, simple) or (isinstance(value, bool) and simple is not bool)):
            raise RunError(
                f"{name} in {where} must be {simple.__name__}, got {value!r}; the default is {getattr(record, name)!r}"
            )
        typed[name] = value
    return typed
