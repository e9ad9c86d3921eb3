"""Gymnasium tasks by name: `gym:CartPole-v1`. They live on the CPU, outside of the compiled program, and any id works.

DeepMind Lab's levels (`dmlab:rooms_watermaze`, in dmlab/) and several tasks at once (`gym:A+gym:B`, `dmlab30`, in sets.py) are
Gymnasium tasks too; by_name.py knows all kinds.

    task = by_name.parse("gym:MiniGrid-MemoryS13-v0")
    lens, hand = task.spaces().lens, task.spaces().hand
    env = task.make()

`env_fn` makes a task that has no id.
"""

import dataclasses
import importlib
import importlib.util
import re
import types
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import cloudpickle
import gymnasium

from gtrxl import names
from gtrxl.gym.env_function import EnvFn, can_be_imported, found, place_of, spelled_out
from gtrxl.gym.errors import guarded
from gtrxl.gym.spaces import Previous, Spaces
from gtrxl.gym.spaces.views import OneHotCells, Viewed, WithoutVelocities, raw_space, views_of
from gtrxl.gym.spelling import Arguments, spelled, taken_apart
from gtrxl.tasks.defaults import TaskDefaults
from gtrxl.tasks.errors import TaskError
from gtrxl.tasks.scale import Scale

PREFIX = "gym:"
ENV = "env:"
"""How the name of a task begins that a function makes; the function's place follows."""
FUNCTION = "env_fn/"
"""How its id begins, and how its name went on in older runs: `gym:env_fn/module.function`."""

PACKAGES = {
    r"MiniGrid-|BabyAI-": ("minigrid", "minigrid"),
    r"popgym-": ("popgym", "popgym"),
    r"ALE/": ("ale_py", "ale-py"),
    r"(Endless-)?(MortarMayhem|MysteryPath|SearingSpotlights)": ("memory_gym", "memory-gym"),
}
"""Which ids begin so -> the module that registers them, and what to install."""
KNOWN = {"gtrxl", "gymnasium", *(module for module, _ in PACKAGES.values())}
"""Modules that ids come from as a matter of course."""


UNKNOWN = types.MappingProxyType({"eps_eta": 0.1, "eps_alpha": 0.05, "alpha_init": 0.3, "lam": 0.95})
"""V-MPO for a task that nothing is known about."""
WITH_PPO: Mapping[str, Any] = types.MappingProxyType(
    {
        "streams": 8,
        "unroll": 128,
        "discount": 0.99,
        "final_rate": 0.0,
        "popart_step": 3e-4,
        "learner": {"learning_rate": 3e-4, "adam_epsilon": 1e-5, "epochs": 10, "entropy_cost": 0.003},
        "fleet": {"ahead": 0},
    }
)
"""PPO for a task that nothing is known about: much is learned from few frames, which are what takes time here."""
KNOWN_IDS: Mapping[str, Mapping[str, Any]] = types.MappingProxyType(
    {
        r"Pendulum-": {"discount": 0.95, "learner": {"entropy_cost": 0.01, "clip": 0.1, "learning_rate": 5e-4}},
        r"MountainCarContinuous-": {
            "popart_step": 1e-4,
            "learner": {"entropy_cost": 0.01, "least_spread": 0.5},
            "gym": {"noise_steps": 16},
        },
    }
)
"""Which ids begin so -> what is learned better with other settings of PPO (docs/log.md has the runs that found them)."""


def with_ppo(id: str) -> Mapping[str, Any]:
    """Settings of PPO for an id, as `TaskDefaults` has them."""
    known = next((own for begin, own in KNOWN_IDS.items() if re.match(begin, id)), {})
    parts = {name: {**WITH_PPO.get(name, {}), **own} for name, own in known.items() if isinstance(own, Mapping)}
    return {**WITH_PPO, **known, **parts}


@dataclasses.dataclass(frozen=True)
class GymTask:
    """A Gymnasium task: its id and the arguments of `gymnasium.make`, or a function that makes it; what the agent is shown of it.

    It can be sent to other processes, also when `env_fn` is a lambda.
    """

    id: str
    arguments: Arguments = ()
    mask_velocity: bool = False
    """Velocities of a classic control task read 0."""
    previous: Previous = "action"
    """What is added to every observation."""
    env_fn: EnvFn | None = None
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
    def named(cls, text: str, *, mask_velocity: bool = False, previous: Previous = "action") -> "GymTask":
        """`gym:ID`, `gym:ID:key=value,key=value` (JSON, or plain text), Gymnasium's own `gym:module:ID`, or the
        place of a function that makes it: `env:package.module.function`."""
        shown: dict[str, Any] = {"mask_velocity": mask_velocity, "previous": previous}
        for begin in (ENV, PREFIX + FUNCTION):
            if text.strip().startswith(begin):
                return cls(FUNCTION + spelled_out(text.strip().removeprefix(begin)), **shown)
        id, arguments = taken_apart(text, PREFIX, example="gym:CartPole-v1:sutton_barto_reward=true")
        return cls(id, arguments, **shown)

    @classmethod
    def of(cls, env_fn: EnvFn, *, mask_velocity: bool = False, previous: Previous = "action") -> "GymTask":
        """A task that a function makes. Its name says where the function is, so that a run can find it again."""
        place = place_of(env_fn)
        return cls(FUNCTION + place, mask_velocity=mask_velocity, previous=previous, env_fn=env_fn)

    @property
    def name(self) -> str:
        """The text that `by_name.parse` takes back."""
        if self.place is not None:
            return ENV + self.place
        return self.prefix + self.id + spelled(self.arguments)

    @property
    def place(self) -> str | None:
        """Where the function is that makes it, `package.module:function`; None for a task with an id."""
        return self.id.removeprefix(FUNCTION) if self.id.startswith(FUNCTION) else None

    @property
    def foreign(self) -> tuple[str, ...]:
        """What making it imports, or calls, and only its name knows of. Nothing is imported to find out.

        A function is foreign wherever it is: of a package that we know there are many that nobody wants called. Of modules that
        register ids those are known that ids come from as a matter of course, and no parts of them. An argument may name code,
        too: `gym:gtrxl/TMaze-v0:task=package.module:Class`.
        """
        if self.env_fn is not None:
            return ()
        if self.place is not None:
            return (self.place,) if can_be_imported(self.place) and not names.is_given(self.place) else ()
        module, colon, _ = self.id.rpartition(":")
        modules = [module] if colon else [module for begin, (module, _) in PACKAGES.items() if re.match(begin, self.id)]
        strange = [module for module in modules if module not in KNOWN or names.is_here(module)]
        return (*strange, *(text for _, value in self.arguments for text in _texts(value) if ":" in text))

    @property
    def tasks(self) -> tuple["GymTask", ...]:
        """The tasks that this stands for: itself, or those of a set."""
        return (self,)

    def defaults(self) -> TaskDefaults:
        """Settings for a task that nothing is known about."""
        return TaskDefaults(steps=500_000, memory=64, vmpo=UNKNOWN, algorithm="ppo", with_ppo=with_ppo(self.id))

    def held_out(self) -> "GymTask":
        """What a trained agent is scored on: the task itself, unless there are levels kept for that."""
        return self

    @property
    def scored(self) -> str:
        """The name of what a trained agent is scored on."""
        return self.name

    def scale_of(self) -> Scale | None:
        """The mean returns of a random policy and of a human, where they were published."""
        return None

    @property
    def scale(self) -> tuple[float, float] | None:
        """The same two scores as a pair: random, human."""
        scale = self.scale_of()
        return None if scale is None else (scale.random, scale.best)

    def make(self, *, render_mode: str | None = None) -> gymnasium.Env:
        """The environment, with what belongs around it; whatever stops it is said in one line."""
        shown = {} if render_mode is None else {"render_mode": render_mode}
        function = found(self.place) if self.env_fn is None and self.place is not None else self.env_fn
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
            cells = OneHotCells.of(env.observation_space)
            env = env if cells is None else Viewed(env, cells)
        return Viewed(env, WithoutVelocities.of(known)) if self.mask_velocity else env

    def spaces(self) -> Spaces:
        """How an agent sees and acts on it, whether it is given what `make()` shows or what the same environment shows without
        us; makes one environment and closes it again."""
        env = self.make()
        try:
            return Spaces.of(env, previous=self.previous, views=views_of(env), raw=raw_space(env))
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


def _texts(value: Any) -> Iterator[str]:
    """All text in an argument, as deep as it goes."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in [*value, *value.values()] if isinstance(value, dict) else value:
            yield from _texts(part)


def _unpickled(id: str, arguments: tuple, mask_velocity: bool, previous: Previous, env_fn: bytes | None) -> GymTask:
    made = None if env_fn is None else cloudpickle.loads(env_fn)
    return GymTask(id, arguments, mask_velocity=mask_velocity, previous=previous, env_fn=made)
