"""The real DeepMind Lab, where a user has it: `dmlab:rooms_watermaze`, as the paper's agent sees it and acts on it.

A picture (72 x 96 unless `height` and `width` say otherwise) and the instruction; the previous action and its reward are added to
every observation. 15 actions, 5 for arbitrary visuomotor mapping alone, each repeated for 4 frames.

Lab shows nothing after an episode's last action. So that action ends the episode for good (`terminated`), nothing is
bootstrapped, and what is returned with it is the picture before, which no loss counts.

A Lab can end the whole process it lives in (a missing map, a call after `close`). It therefore lives in one that can be started
anew, and a process holds one Lab only.
"""

import contextlib
import dataclasses
import importlib
import os
import sys
import weakref
from types import ModuleType
from typing import Any, ClassVar

import gymnasium
import numpy as np
from jaxtyping import Int

from gtrxl import names
from gtrxl.gym.dmlab import levels as dmlab_levels
from gtrxl.gym.dmlab.level_cache import LevelCache, usual_folder
from gtrxl.gym.dmlab.levels import LAB
from gtrxl.gym.dmlab.settings import DUMMY, SEEDS, LabSettings
from gtrxl.gym.errors import guarded
from gtrxl.gym.spaces import Previous, Spaces
from gtrxl.gym.spaces.hand import Hand
from gtrxl.gym.spaces.lens import Lens
from gtrxl.gym.spelling import Arguments, taken_apart
from gtrxl.gym.task import UNKNOWN, GymTask
from gtrxl.tasks.defaults import TaskDefaults
from gtrxl.tasks.errors import TaskError
from gtrxl.tasks.scale import Scale

REPEAT = 4
"""Frames that an action is repeated for; there are 60 in a second."""
IMAGE, INSTRUCTION = "image", "instruction"
"""The parts of an observation."""
PICTURE, TEXT = "RGB_INTERLEAVED", "INSTR"
"""What Lab calls them."""
DRAWN = 2400
"""Pictures that a dataset has."""
MOST_LETTERS = 255
"""Of an instruction."""
LETTERS = "".join(map(chr, range(32, 127)))
"""What instructions may be written with: questions and spaces too."""
SCORING_SEED = 0x600D5EED
"""Mixed into the seeds of episodes that are scored, as published scores did: none of them was in the training."""
NO_CACHE = "none"
PREVIOUS: Previous = "action+reward"


@dataclasses.dataclass(frozen=True)
class LabTask(GymTask):
    """A level of DeepMind Lab; `id` is one of the thirty, or any other level as Lab calls it."""

    prefix: ClassVar[str] = LAB
    alone: ClassVar[bool] = True

    @classmethod
    def named(cls, text: str, *, mask_velocity: bool = False, previous: Previous = "action") -> "LabTask":
        """`dmlab:LEVEL`, `dmlab:LEVEL:height=36,width=48`."""
        id, arguments = taken_apart(text, LAB, example="dmlab:rooms_watermaze:height=36,width=48")
        return cls.checked(id, arguments, mask_velocity=mask_velocity, previous=previous)

    @classmethod
    def checked(
        cls, level: str, arguments: Arguments, *, mask_velocity: bool = False, previous: Previous = "action"
    ) -> "LabTask":
        """A level with arguments, of which those that are the usual ones are left out."""
        if not level or ":" in level:
            raise TaskError(f"a level of DeepMind Lab needs a name, got {LAB + level!r}; for example 'dmlab:rooms_watermaze'")
        dmlab_levels.check(level)
        if mask_velocity:
            raise TaskError(f"mask_velocity is for tasks of classic control, got {LAB + level}; leave it out")
        if previous == "none":
            raise TaskError(f"DeepMind Lab is shown with the previous action and reward, got previous 'none' for {LAB + level}")
        LabSettings.of(level, arguments)
        usual = LabSettings()
        told = tuple((key, value) for key, value in arguments if value != getattr(usual, key))
        return cls(dmlab_levels.short(level), told, previous=PREVIOUS)

    @property
    def foreign(self) -> tuple[str, ...]:
        """Lab itself, if it lies in the working directory; a level outside of Lab's own, which is a program; maps that others
        have compiled. See `GymTask.foreign`."""
        outside = self.id.startswith(("/", "\\")) or ".." in self.id
        return (
            *(["deepmind_lab"] if names.is_here("deepmind_lab") else []),
            *([self.name] if outside or self.settings.cache not in ("", NO_CACHE) else []),
        )

    @property
    def settings(self) -> LabSettings:
        """Its arguments, with the usual ones filled in."""
        return LabSettings(**dict(self.arguments))

    @property
    def actions(self) -> list[Int[np.ndarray, "7"]]:
        """Each action as Lab takes it: look right, look down, strafe right, move forward, fire, jump, crouch."""
        # Imported here, so that names of tasks can be read without waiting for JAX.
        from gtrxl.tasks.first_person.actions import LAB_ACTIONS, MAPPING_ACTIONS

        reduced = self.settings.reduced
        few = self.id == dmlab_levels.MAPPING if reduced is None else bool(reduced)
        # Lab takes C ints alone, and misreads what does not lie in one piece: an array of its own for each.
        return [np.array([*row, 0, 0], np.intc) for row in (MAPPING_ACTIONS if few else LAB_ACTIONS).values()]

    @property
    def observation_space(self) -> gymnasium.spaces.Space:
        """The picture and the instruction."""
        return gymnasium.spaces.Dict(
            {
                IMAGE: gymnasium.spaces.Box(0, 255, (self.settings.height, self.settings.width, 3), np.uint8),
                INSTRUCTION: gymnasium.spaces.Text(min_length=0, max_length=MOST_LETTERS, charset=LETTERS),
            }
        )

    @property
    def action_space(self) -> gymnasium.spaces.Discrete:
        """One of `actions`."""
        return gymnasium.spaces.Discrete(len(self.actions))

    @property
    def config(self) -> dict[str, str]:
        """What Lab is told; it takes text alone."""
        settings = self.settings
        # Lab writes what it does to stdout, some forty lines before its first picture.
        told = {"height": str(settings.height), "width": str(settings.width), "logLevel": "WARN"}
        if self.id in dmlab_levels.WANT_DATA:
            told["datasetPath"] = self.dataset
        if settings.test or self.id.endswith("_test"):
            told |= {"allowHoldOutLevels": "true", "mixerSeed": str(SCORING_SEED)}
        return told

    @property
    def dataset(self) -> str:
        """Where its pictures are."""
        given = self.settings.dataset
        return given if given == DUMMY else os.path.expanduser(given)

    def check_dataset(self) -> None:
        """Raises if the pictures that it shows are not there: Lab itself would begin an episode, and end its process at the first
        of them."""
        if self.id not in dmlab_levels.WANT_DATA or self.dataset == DUMMY:
            return
        there: set[str] = set()
        with contextlib.suppress(OSError):
            there = set(os.listdir(self.dataset))
        missing = [name for name in (f"{number:04d}.png" for number in range(1, DRAWN + 1)) if name not in there]
        if missing:
            raise TaskError(
                f"dataset must be a folder with 0001.png to {DRAWN}.png, got {self.dataset} without {missing[0]} "
                f"({len(missing)} are missing); data/brady_konkle_oliva2008 in Lab's source says how to get them; or leave it out"
            )

    def defaults(self) -> TaskDefaults:
        """V-MPO as for any other task, and the paper's own settings for the paper's preset."""
        return TaskDefaults(steps=500_000, memory=64, vmpo=UNKNOWN, paper="dmlab30")

    def held_out(self) -> "LabTask":
        """The level that is scored, in episodes that no training has."""
        level = dmlab_levels.level_of(self.id)
        told = {**dict(self.arguments), "test": 1}
        told.pop("maps", None)
        return dataclasses.replace(self, id=self.id if level is None else level.test, arguments=tuple(told.items()))

    @property
    def scored(self) -> str:
        """The name of the level that is scored."""
        level = dmlab_levels.level_of(self.id)
        return self.name if level is None else dataclasses.replace(self, id=level.test).name

    def scale_of(self) -> Scale | None:
        """The mean returns of a random policy and of a human, of the thirty."""
        level = dmlab_levels.level_of(self.id)
        return None if level is None else Scale(random=level.random, best=level.human, best_is="human")

    def make(self, *, render_mode: str | None = None) -> gymnasium.Env:
        """A Lab, in this process."""
        return guarded(self.name, lambda: LabEnv(self, render_mode=render_mode))

    def spaces(self) -> Spaces:
        """How an agent sees and acts on it; no Lab is made, but there must be one to make."""
        lab_module(self.name, self.id)
        self.check_dataset()
        hand = Hand.of(self.action_space)
        space = self.observation_space
        return Spaces(lens=Lens.of(space, hand=hand, previous=self.previous, raw=space), hand=hand)

    def __reduce__(self) -> tuple[Any, ...]:
        return LabTask, (self.id, self.arguments, self.mask_velocity, self.previous)


def lab_module(name: str, level: str) -> ModuleType:
    """`deepmind_lab`; where it is missing, how to get it and what to use instead of this level or set."""
    instead = f"or `gtrxl train {dmlab_levels.instead(level)}`, the nearest that this package has itself"
    version = ".".join(map(str, sys.version_info[:2]))
    try:
        return importlib.import_module("deepmind_lab")
    except ModuleNotFoundError as error:
        if error.name == "deepmind_lab":
            raise TaskError(
                f"{name} needs DeepMind Lab, got no module deepmind_lab for Python {version}; no registry has it: build it with "
                f"bazel from github.com/google-deepmind/lab for Python 3.11 (docs/dmlab.md); {instead}"
            ) from None
        if error.name != "imp":
            raise TaskError(
                f"{name} needs DeepMind Lab, got one that cannot be imported: {error}; install that; {instead}"
            ) from error
        raise TaskError(
            f"{name} needs DeepMind Lab, got one that cannot be imported by Python {version}: it uses the module imp, "
            f"gone since 3.12; use Python 3.11; {instead}"
        ) from error
    except ImportError as error:
        said = " ".join(str(error).split())
        raise TaskError(
            f"{name} needs DeepMind Lab, got one that cannot be imported: {said}; build it again; {instead}"
        ) from error


class LabEnv(gymnasium.Env):
    """One Lab as a Gymnasium environment. A process holds one at a time: close it before making another."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": 60 // REPEAT}  # pyright: ignore[reportIncompatibleVariableOverride]

    _open: ClassVar["weakref.ref[LabEnv] | None"] = None

    def __init__(self, task: LabTask, *, render_mode: str | None = None):
        if render_mode not in (None, "rgb_array"):
            raise TaskError(f"render_mode must be rgb_array, got {render_mode!r}; DeepMind Lab shows pictures")
        self._check_alone()
        task.check_dataset()
        self.render_mode = render_mode
        self.observation_space = task.observation_space
        self.action_space = task.action_space
        self._actions = task.actions
        settings, module = task.settings, lab_module(task.name, task.id)
        self._seeds = settings.maps or SEEDS
        where = settings.cache or usual_folder()
        cache = None if settings.cache == NO_CACHE else LevelCache(where, megabytes=settings.cache_mb)
        self._lab: Any = module.Lab(
            dmlab_levels.path(task.id), [PICTURE, TEXT], config=task.config, renderer=settings.renderer, level_cache=cache
        )
        self._seen: dict[str, Any] | None = None
        self._runs = False
        LabEnv._open = weakref.ref(self)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """A new episode. Every one has a seed, drawn from the last that was given: Lab's own repeat from process to process."""
        super().reset(seed=seed)
        self._is_open()
        self._lab.reset(seed=int(self.np_random.integers(self._seeds)))  # a Python int: Lab takes no other
        self._runs = True
        return self._look(), {}

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """An action for four frames; the reward is that of all four."""
        self._is_open()
        if not self._runs or self._seen is None:
            raise TaskError("an episode must run when it is stepped, got one that has ended or not begun; call reset")
        reward = float(self._lab.step(self._actions[int(action)], num_steps=REPEAT))
        self._runs = bool(self._lab.is_running())
        return self._look() if self._runs else dict(self._seen), reward, not self._runs, False, {}

    def render(self) -> Any:
        """The last picture."""
        return None if self._seen is None else self._seen[IMAGE]

    def close(self) -> None:
        """Ends the Lab; nothing is asked of it afterwards, which would end the process."""
        lab, self._lab = self._lab, None
        if lab is not None:
            LabEnv._open = None
            lab.close()

    @staticmethod
    def _check_alone() -> None:
        if LabEnv._open is not None and LabEnv._open() is not None:
            raise TaskError("a process holds one DeepMind Lab, got a second; close the first, or use --tasks-per-actor 1")

    def _is_open(self) -> None:
        if self._lab is None:
            raise TaskError("a DeepMind Lab that was closed stays closed, got another call; make a new one")

    def _look(self) -> dict[str, Any]:
        """Once a step: every call draws the picture."""
        shown = self._lab.observations()
        self._seen = {IMAGE: shown[PICTURE], INSTRUCTION: shown[TEXT]}
        return dict(self._seen)
