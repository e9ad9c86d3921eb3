"""Gymnasium tasks by name: `gym:CartPole-v1`. They live on the CPU, outside of the compiled program, and any id works.

DeepMind Lab's levels (`dmlab:rooms_watermaze`, in dmlab.py) and several tasks at once (`gym:A+gym:B`, `dmlab30`, in host_sets.py)
are host tasks too.

    task = HostTask.parse("gym:MiniGrid-MemoryS13-v0")
    lens, hand = task.spaces().lens, task.spaces().hand
    env = task.make()

`env_fn` makes a task that has no id.
"""

import contextlib
import dataclasses
import functools
import importlib
import importlib.util
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import cloudpickle
import gymnasium
import numpy as np

from gtrxl.envs.dmlab_levels import SETS
from gtrxl.envs.errors import TaskError
from gtrxl.envs.spaces import Previous, Spaces

PREFIX = "gym:"
LAB = "dmlab:"
"""How a level of DeepMind Lab begins."""
FUNCTION = "env_fn/"
"""The id of a task that a function makes begins so; the function's place follows."""

PACKAGES = {
    r"MiniGrid-|BabyAI-": ("minigrid", "minigrid"),
    r"popgym-": ("popgym", "popgym"),
    r"ALE/": ("ale_py", "ale-py"),
    r"(Endless-)?(MortarMayhem|MysteryPath|SearingSpotlights)": ("memory_gym", "memory-gym"),
}
"""Which ids begin so -> the module that registers them, and what to install."""

VELOCITIES = {
    "CartPole": (1, 3),
    "Pendulum": (2,),
    "Acrobot": (4, 5),
    "MountainCar": (1,),
    "MountainCarContinuous": (1,),
    "LunarLander": (2, 3, 5),
}
"""Where the observations of these tasks hold velocities."""


def is_host(text: str) -> bool:
    """Whether this names a task that lives on the CPU: one of Gymnasium's, of DeepMind Lab's, or several of them."""
    return text.strip().startswith((PREFIX, LAB)) or text.partition(":")[0].strip() in SETS


@dataclasses.dataclass(frozen=True)
class HostTask:
    """A Gymnasium task: its id and the arguments of `gymnasium.make`, or a function that makes it; what the agent is shown of it.

    It can be sent to other processes, also when `env_fn` is a lambda.
    """

    id: str
    arguments: tuple[tuple[str, Any], ...] = ()
    mask_velocity: bool = False
    """Velocities of a classic control task read 0."""
    previous: Previous = "action"
    """What is added to every observation."""
    env_fn: Callable[[], gymnasium.Env] | None = None
    """Makes the task instead of `gymnasium.make`; `id` is then only its name."""

    prefix: ClassVar[str] = PREFIX
    """How its name begins."""
    alone: ClassVar[bool] = False
    """A process can hold only one of it."""

    def __post_init__(self):
        if not self.id or "=" in self.id:
            raise TaskError(f"a Gymnasium task needs an id, got {PREFIX + self.id!r}; for example 'gym:CartPole-v1'")
        if self.previous not in ("none", "action", "action+reward"):
            raise TaskError(f"previous must be none, action or action+reward, got {self.previous!r}; the default is action")
        if self.env_fn is not None and self.arguments:
            raise TaskError(f"env_fn takes no arguments, got {dict(self.arguments)}; let the function fill them in")

    @classmethod
    def parse(cls, text: str, *, mask_velocity: bool = False, previous: Previous = "action") -> "HostTask":
        """`gym:ID`, `gym:ID:key=value,key=value` (JSON, or plain text) or Gymnasium's own `gym:module:ID`; or what `is_host`
        takes besides: `dmlab:LEVEL`, the name of a set, several with + between."""
        if not is_host(text):
            raise TaskError(f"a Gymnasium task is written gym:ID, got {text!r}; for example 'gym:CartPole-v1'")
        from gtrxl.envs import host_sets

        if host_sets.is_several(text):
            return host_sets.HostSet.named(text, mask_velocity=mask_velocity, previous=previous)
        if text.strip().startswith(LAB):
            from gtrxl.envs.dmlab import LabTask

            return LabTask.named(text, mask_velocity=mask_velocity, previous=previous)
        id, arguments = taken_apart(text, PREFIX, example="gym:CartPole-v1:sutton_barto_reward=true")
        return cls(id, arguments, mask_velocity=mask_velocity, previous=previous)

    @classmethod
    def of(cls, env_fn: Callable[[], gymnasium.Env], *, mask_velocity: bool = False, previous: Previous = "action") -> "HostTask":
        """A task that a function makes. Its name says where the function is, so that a run can find it again."""
        if not callable(env_fn):
            raise TaskError(
                f"env_fn must be a function that makes a gymnasium.Env, got {env_fn!r}; give the function, not its result"
            )
        place = f"{getattr(env_fn, '__module__', '?')}.{getattr(env_fn, '__qualname__', type(env_fn).__name__)}"
        return cls(FUNCTION + place, mask_velocity=mask_velocity, previous=previous, env_fn=env_fn)

    @property
    def name(self) -> str:
        """The text that `parse` takes back."""
        return self.prefix + self.id + spelled(self.arguments)

    @property
    def tasks(self) -> tuple["HostTask", ...]:
        """The tasks that this stands for: itself, or those of a set."""
        return (self,)

    def held_out(self) -> "HostTask":
        """What a trained agent is scored on: the task itself, unless there are levels kept for that."""
        return self

    @property
    def scale(self) -> tuple[float, float] | None:
        """The mean returns of a random policy and of a human, where they were published."""
        return None

    def make(self, *, render_mode: str | None = None) -> gymnasium.Env:
        """The environment, with what belongs around it; whatever stops it is said in one line."""
        shown = {} if render_mode is None else {"render_mode": render_mode}
        function = _found(self.id) if self.env_fn is None and self.id.startswith(FUNCTION) else self.env_fn
        if function is not None:
            env = guarded(self.name, function)
            if not isinstance(env, gymnasium.Env):
                raise TaskError(f"env_fn must give a gymnasium.Env, got {type(env).__name__}; shimmy converts tasks of old gym")
        else:
            self._register()
            arguments = {**dict(self.arguments), **shown}
            # Gymnasium's checker warns once and then looks away; the lens checks every step.
            env = guarded(self.name, lambda: gymnasium.make(self.id, disable_env_checker=True, **arguments))
        known = env.spec.id if env.spec is not None else self.id
        if function is None and known.startswith(("MiniGrid-", "BabyAI-")):
            env = _minigrid(env)
        return MaskVelocity(env, _velocities(known)) if self.mask_velocity else env

    def spaces(self) -> Spaces:
        """How an agent sees and acts on it; makes one environment and closes it again."""
        env = self.make()
        try:
            return Spaces.of(env, previous=self.previous)
        finally:
            env.close()

    def _register(self) -> None:
        """Imports the package that this id comes from."""
        if self.id in gymnasium.registry or ":" in self.id:
            return
        for begin, (module, install) in PACKAGES.items():
            if re.match(begin, self.id):
                if importlib.util.find_spec(module) is None:
                    raise TaskError(f"{self.name} needs the package {module}, got none installed; pip install {install}")
                guarded(self.name, lambda: importlib.import_module(module))

    def __hash__(self) -> int:
        return hash((self.name, self.mask_velocity, self.previous, self.env_fn))

    def __reduce__(self) -> tuple[Any, ...]:
        fields = (self.id, self.arguments, self.mask_velocity, self.previous)
        return _unpickled, (*fields, None if self.env_fn is None else cloudpickle.dumps(self.env_fn))


def _found(id: str) -> Callable[[], gymnasium.Env]:
    """The function that a task was made by, at the place that its name says."""
    place = id.removeprefix(FUNCTION)
    parts = place.split(".")
    for end in range(len(parts) - 1, 0, -1):
        with contextlib.suppress(ImportError, AttributeError):
            return functools.reduce(getattr, parts[end:], importlib.import_module(".".join(parts[:end])))
    raise TaskError(f"this task is made by a function, {place} cannot be imported here; give the function again as env_fn")


class MaskVelocity(gymnasium.ObservationWrapper):
    """A task whose velocities read 0, so that they must be told from what was seen before."""

    def __init__(self, env: gymnasium.Env, places: tuple[int, ...]):
        super().__init__(env)
        self._places = list(places)

    def observation(self, observation: Any) -> np.ndarray:
        """The observation with zeros at its velocities."""
        masked = np.array(observation)
        masked[self._places] = 0
        return masked


class _Without(gymnasium.ObservationWrapper):
    """A task with one entry of its Dict observations left out."""

    def __init__(self, env: gymnasium.Env, key: str):
        super().__init__(env)
        assert isinstance(env.observation_space, gymnasium.spaces.Dict)
        self._key = key
        kept = {name: space for name, space in env.observation_space.spaces.items() if name != key}
        self.observation_space = gymnasium.spaces.Dict(kept)

    def observation(self, observation: Any) -> Any:
        """The rest."""
        return {name: value for name, value in observation.items() if name != self._key}


def _minigrid(env: gymnasium.Env) -> gymnasium.Env:
    """Cells as one-hot numbers; without the mission where it is always the same."""
    from minigrid.core.mission import MissionSpace  # pyright: ignore[reportMissingImports]
    from minigrid.wrappers import OneHotPartialObsWrapper  # pyright: ignore[reportMissingImports]

    space = env.observation_space
    if not isinstance(space, gymnasium.spaces.Dict) or "image" not in space.spaces:
        return env
    mission = space.spaces.get("mission")
    env = OneHotPartialObsWrapper(env)
    # The missions of BabyAI are a kind of their own, which has no placeholders but differs from episode to episode.
    return _Without(env, "mission") if type(mission) is MissionSpace and mission.ordered_placeholders is None else env


def _velocities(task: str) -> tuple[int, ...]:
    base = re.sub(r"-v\d+$", "", task.rpartition(":")[2])
    if base not in VELOCITIES:
        raise TaskError(f"mask_velocity must come with one of {', '.join(VELOCITIES)}, got {task!r}; leave it out for this task")
    return VELOCITIES[base]


def guarded(name: str, make: Callable[[], Any]) -> Any:
    """What `make` gives; whatever it raises becomes one line."""
    try:
        return make()
    except TaskError:
        raise
    except gymnasium.error.DependencyNotInstalled as error:
        raise TaskError(f"{name} needs a package that is not installed: {_line(error)}") from error
    except gymnasium.error.DeprecatedEnv as error:
        raise TaskError(f"{name} is no longer made by Gymnasium: {_line(error)}") from error
    except ModuleNotFoundError as error:
        raise TaskError(f"{name} cannot be made: {_line(error)}; pip install what is missing, or check the name") from error
    except gymnasium.error.UnregisteredEnv as error:
        raise TaskError(
            f"a Gymnasium task must be registered, got {name}: {_line(error)}; "
            "gym:module:ID imports a module that registers it, gymnasium.pprint_registry() lists what there is"
        ) from error
    except Exception as error:
        raise TaskError(f"{name} cannot be made: {type(error).__name__}: {_line(error)}; check its arguments") from error


def _line(error: Exception) -> str:
    plain = re.sub(r"\x1b\[[\d;]*m", "", str(error))  # Gymnasium colours what it says
    return " ".join(plain.split())[:300]


def taken_apart(text: str, prefix: str, *, example: str) -> tuple[str, tuple[tuple[str, Any], ...]]:
    """The id and the arguments of a task's name."""
    found = re.fullmatch(r"([^=]*?)(?::(\s*\w+\s*=.*))?", text.strip()[len(prefix) :].strip(), re.DOTALL)
    if found is None:
        raise TaskError(f"arguments come after the id and a colon, got {text!r}; for example {example!r}")
    return found[1].strip(), tuple(_arguments(found[2])) if found[2] else ()


def spelled(arguments: tuple[tuple[str, Any], ...]) -> str:
    """Arguments as they follow an id; nothing for none."""
    return ":" * bool(arguments) + ",".join(f"{key}={_spell(key, value)}" for key, value in arguments)


def _arguments(text: str) -> Iterator[tuple[str, Any]]:
    """key=value with commas between; a value is JSON, or else plain text up to the next comma."""
    seen = set()
    while text:
        found = re.match(r"\s*(\w+)\s*=\s*", text)
        if found is None:
            raise TaskError(
                f"a Gymnasium task takes key=value with commas between, got {text!r}; for example 'render_mode=rgb_array'"
            )
        key, text = found[1], text[found.end() :]
        if key in seen:
            raise TaskError(f"a Gymnasium task takes each argument once, got {key!r} twice; leave one out")
        seen.add(key)
        try:
            value, end = json.JSONDecoder().raw_decode(text)
            whole = not text[end:].strip() or text[end:].lstrip().startswith(",")
        except json.JSONDecodeError:
            value, end, whole = None, 0, False
        rest = text[end:].lstrip() if whole else text[text.index(",") :] if "," in text else ""
        if not whole:
            value = text[: len(text) - len(rest)].strip()
        if rest == ",":
            raise TaskError("a Gymnasium task takes key=value with commas between, got a comma at the end; leave it out")
        text = rest[1:]
        yield key, value


def _spell(key: str, value: Any) -> str:
    if isinstance(value, str) and value and list(_arguments(f"{key}={value}")) == [(key, value)]:
        return value
    try:
        return json.dumps(value, separators=(",", ":"))
    except TypeError:
        raise TaskError(f"{key} must be what JSON can hold, got {value!r}; give env_fn instead") from None


def _unpickled(id: str, arguments: tuple, mask_velocity: bool, previous: Previous, env_fn: bytes | None) -> HostTask:
    made = None if env_fn is None else cloudpickle.loads(env_fn)
    return HostTask(id, arguments, mask_velocity=mask_velocity, previous=previous, env_fn=made)
