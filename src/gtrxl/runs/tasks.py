"""What a run learns: one task or several, compiled with the agent or stepped by actors. N tasks.

    run_tasks("t-maze+t-maze:corridor=20")     compiled: ours, anyone's class, JAX tasks of others
    run_tasks("gym:CartPole-v1")               stepped by actors: Gymnasium and DeepMind Lab

Both kinds answer the same questions, so that nobody has to ask which it is but the two places that must: what trains a run
(`training.session`), and what plays its agent (`evaluation.stage`).
"""

import abc
import dataclasses
import functools
import re
from collections.abc import Mapping
from typing import Any, ClassVar

from gtrxl import names
from gtrxl.gym import by_name, jax_tasks
from gtrxl.gym.dmlab.human import splits
from gtrxl.gym.spaces import Previous, Spaces
from gtrxl.gym.task import GymTask
from gtrxl.runs.scores import TaskScales
from gtrxl.tasks.contract import Task
from gtrxl.tasks.defaults import TaskDefaults
from gtrxl.tasks.making import spell, split
from gtrxl.tasks.scores import scale_of
from gtrxl.tasks.sets import alike, make_tasks, spell_tasks


class RunTasks(abc.ABC):
    """The tasks of a run."""

    compiled: ClassVar[bool]
    """Whether they are part of the compiled program; the others are stepped by actors."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """The text that `run_tasks` takes back."""

    @property
    @abc.abstractmethod
    def names(self) -> tuple[str, ...]:
        """Each task's."""

    @property
    @abc.abstractmethod
    def defaults(self) -> TaskDefaults:
        """The settings they are known to be learned with; of several tasks, the first one's."""

    @property
    @abc.abstractmethod
    def shown(self) -> Task | Spaces:
        """What the agent sees and does. Of a Gymnasium task one environment is made for the answer, and closed again."""

    @property
    def alone(self) -> bool:
        """Whether a process can hold only one of them."""
        return False

    @property
    def compiles_long(self) -> bool:
        """Whether compiling takes a minute or more: what is seen is drawn in the program."""
        return False

    @property
    @abc.abstractmethod
    def scales(self) -> TaskScales:
        """What their returns are compared with."""

    def beside(self, returns: Mapping[str, float]) -> dict[str, Any]:
        """What else a report says of several tasks' mean returns, by name."""
        return {}

    def __len__(self) -> int:
        return len(self.names)


@dataclasses.dataclass(frozen=True)
class CompiledTasks(RunTasks):
    """Tasks as pure functions."""

    tasks: tuple[Task, ...]

    compiled: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """The text that `run_tasks` takes back."""
        return spell_tasks(self.tasks)

    @property
    def names(self) -> tuple[str, ...]:
        """Each task's."""
        return tuple(map(spell, self.tasks))

    @property
    def defaults(self) -> TaskDefaults:
        """Of the first task."""
        return self.tasks[0].defaults()

    @property
    def shown(self) -> Task:
        """The first task: all are seen and acted on alike."""
        return self.tasks[0]

    @property
    def compiles_long(self) -> bool:
        """Whether what is seen is drawn in the program."""
        return self.tasks[0].costly_observation

    @property
    def scales(self) -> TaskScales:
        """0 for the random policy, 100 for a perfect memory."""
        return TaskScales({spell(task): scale_of(task) for task in self.tasks})


@dataclasses.dataclass(frozen=True)
class GymTasks(RunTasks):
    """Gymnasium tasks, and DeepMind Lab's levels."""

    task: GymTask
    """One of them, or a set."""

    compiled: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """The text that `run_tasks` takes back."""
        return self.task.name

    @property
    def names(self) -> tuple[str, ...]:
        """Each task's."""
        return tuple(task.name for task in self.task.tasks)

    @property
    def defaults(self) -> TaskDefaults:
        """For tasks that nothing is known about."""
        return self.task.defaults()

    @property
    def shown(self) -> Spaces:
        """What the agent sees and does."""
        return self._spaces

    @functools.cached_property
    def _spaces(self) -> Spaces:
        return self.task.spaces()

    @property
    def alone(self) -> bool:
        """Whether a process can hold only one of them."""
        return self.task.alone

    @property
    def scales(self) -> TaskScales:
        """0 for the random policy, 100 for a human, where somebody has published both."""
        return TaskScales({task.name: task.scale_of() for task in self.task.tasks})

    def beside(self, returns: Mapping[str, float]) -> dict[str, Any]:
        """Of DMLab-30 the human-normalised means, for each of the paper's splits that is whole."""
        lab = {task.id: returns[task.name] for task in self.task.tasks if task.scale_of() is not None and task.name in returns}
        human = {split: dataclasses.asdict(found) for split, found in splits(lab).items()}
        return {"human_normalised": human} if human else {}


_BETWEEN = re.compile(r"\+(?!reward(?:,|$))")
"""The plus between two tasks; the one in `previous=action+reward` is an argument's."""
_given: dict[str, Task] = {}
"""Tasks that this process was handed as objects, by name."""


def give(task: Task) -> str:
    """The name of a task, under which `run_tasks` finds it in this process."""
    name = spell(task)
    _given[name] = task
    return name


@functools.lru_cache(maxsize=64)
def run_tasks(text: str, *, mask_velocity: bool = False, previous: Previous = "action") -> RunTasks:
    """The tasks of a name: of one, of a set, or of several with a plus between them."""
    if by_name.is_gym(text):
        return GymTasks(by_name.parse(text, mask_velocity=mask_velocity, previous=previous))
    tasks = tuple(task for part in _BETWEEN.split(text) for task in _compiled(part))
    return CompiledTasks(alike(tasks))


def _compiled(text: str) -> tuple[Task, ...]:
    if text.strip() in _given:
        return (_given[text.strip()],)
    return (jax_tasks.JaxTask.parse(text),) if jax_tasks.is_jax(text) else make_tasks(text)


def foreign(text: str) -> tuple[str, ...]:
    """What a task's name would have us import from outside of this package, and this process was not given. Nothing is imported
    to find out."""
    if by_name.is_gym(text):
        return by_name.foreign(text)
    found: list[str] = []
    for part in _BETWEEN.split(text):
        if jax_tasks.is_jax(part):
            package = jax_tasks.JaxTask.parse(part).package
            found += [package] if names.is_here(package) else []
        else:
            places = [split(each)[0] for each in part.split("+")]  # as `make_tasks` does
            found += [place for place in places if ":" in place and not names.is_given(place)]
    return tuple(dict.fromkeys(found))
