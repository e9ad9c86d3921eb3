"""Several Gymnasium tasks learned together: `dmlab30`, `dmlab30-memory:height=36,width=48`, `gym:A-v0+gym:B-v0`.

One agent plays all of them, so they must be seen and acted on in the same way.
"""

import dataclasses
from typing import Any

import gymnasium

from gtrxl.gym.dmlab import levels as dmlab_levels
from gtrxl.gym.dmlab.task import LabTask, lab_module
from gtrxl.gym.spaces import Previous, Spaces
from gtrxl.gym.spelling import Arguments, spelled, taken_apart
from gtrxl.gym.task import GymTask
from gtrxl.tasks.defaults import TaskDefaults
from gtrxl.tasks.errors import TaskError


@dataclasses.dataclass(frozen=True)
class GymSet(GymTask):
    """Gymnasium tasks that one agent learns together; `id` is the name of a set, or all names with + between."""

    members: tuple[GymTask, ...] = ()

    def __post_init__(self):
        names = [member.name for member in self.members]
        if len(names) < 2 or len(set(names)) < len(names):
            raise TaskError(
                f"a set has at least two tasks, each once, got {' '.join(names) or 'none'}; leave the repeated one out"
            )

    @classmethod
    def named(cls, text: str, *, mask_velocity: bool = False, previous: Previous = "action") -> "GymSet":
        """The set of this name; arguments after its colon go to every member."""
        shown: dict[str, Any] = {"mask_velocity": mask_velocity, "previous": previous}
        name, arguments = taken_apart(text, "", example="dmlab30:height=36,width=48")
        if name not in dmlab_levels.SETS:
            raise TaskError(f"a set must be one of {', '.join(dmlab_levels.SETS)}, got {text!r}; arguments come after a colon")
        members = tuple(
            LabTask.checked(level, (*arguments, *_like_the_others(level, arguments)), **shown)
            for level in dmlab_levels.SETS[name]
        )
        return cls(name, arguments, members=members, **shown)

    @classmethod
    def together(cls, members: tuple[GymTask, ...], *, mask_velocity: bool = False, previous: Previous = "action") -> "GymSet":
        """Any tasks; their names with + between are its name."""
        name = "+".join(member.name for member in members)
        return cls(name, members=members, mask_velocity=mask_velocity, previous=previous)

    @property
    def name(self) -> str:
        """The text that `by_name.parse` takes back."""
        return self.id + spelled(self.arguments)

    @property
    def tasks(self) -> tuple[GymTask, ...]:
        """Its members."""
        return self.members

    @property
    def alone(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """A process can hold only one of some member."""
        return any(member.alone for member in self.members)

    def defaults(self) -> TaskDefaults:
        """The first member's."""
        return self.members[0].defaults()

    def held_out(self) -> "GymSet":
        """The same set with what each member is scored on."""
        return dataclasses.replace(self, members=tuple(member.held_out() for member in self.members))

    def make(self, *, render_mode: str | None = None) -> gymnasium.Env:
        """Not of a set: its members are made one by one."""
        raise TaskError(f"one task is made at a time, got the {len(self.members)} of {self.id}; make one of its `tasks`")

    def spaces(self) -> Spaces:
        """How an agent sees and acts on all of them."""
        if self.id in dmlab_levels.SETS:
            lab_module(self.name, self.id)
        first, *others = ((member.name, member.spaces()) for member in self.members)
        for name, spaces in others:
            if spaces != first[1]:
                raise TaskError(
                    f"tasks of one run must have the same spaces, got {_sizes(first[1])} in {first[0]} and {_sizes(spaces)} in "
                    f"{name}; wrap them alike, or leave one out"
                )
        return first[1]

    def __reduce__(self) -> tuple[Any, ...]:
        return GymSet, (self.id, self.arguments, self.mask_velocity, self.previous, None, self.members)


def _like_the_others(level: str, arguments: Arguments) -> Arguments:
    """In a set all levels have the same actions."""
    return (("reduced", 0),) if level == dmlab_levels.MAPPING and "reduced" not in dict(arguments) else ()


def _sizes(spaces: Spaces) -> str:
    seen, does = spaces.lens.spec, spaces.hand.spec
    parts = [f"{seen.vector} numbers"] * bool(seen.vector)
    parts += [f"a picture {' x '.join(map(str, shape))}" for _, shape in seen.images] + ["a text" for _ in seen.texts]
    acts = [f"a choice of {count}" for count in does.discrete] + [f"{does.continuous} numbers"] * bool(does.continuous)
    return f"{', '.join(parts)} and {', '.join(acts)} to act with"
