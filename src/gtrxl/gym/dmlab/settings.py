"""What may follow the name of a level of DeepMind Lab, checked when it is named."""

import dataclasses

from gtrxl.gym.dmlab.level_cache import MEGABYTES
from gtrxl.gym.dmlab.levels import LAB
from gtrxl.gym.spelling import Arguments
from gtrxl.tasks.errors import TaskError, in_range

DUMMY = "dummy"
"""The dataset that Lab makes up."""
SEEDS = 2**31
"""Episodes that there are: a seed is the same number to C."""
SIDE = 4
"""Lab refuses a picture whose height or width is no multiple of it."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabSettings:
    """What may follow a level's name: `dmlab:rooms_watermaze:height=36,width=48`."""

    height: int = 72
    """Of the picture, in pixels."""
    width: int = 96
    dataset: str = DUMMY
    """The folder of the pictures that two psychlab levels show, 0001.png to 2400.png; `dummy` has Lab paint plain ones."""
    cache: str = ""
    """The folder that compiled maps are kept in; `none` keeps none. ~/.cache/gtrxl/dmlab if left out."""
    cache_mb: int = MEGABYTES
    """Megabytes that they may take there; those that were not used for longest go first."""
    maps: int = 0
    """Train on so many seeds of episodes, and so on as many maps at most, which the cache then has; 0 is any of 2**31. What is
    scored is always any."""
    renderer: str = "software"
    """`software`, or `hardware` where Lab was built with it."""
    reduced: int | None = None
    """Take the 5 actions of arbitrary visuomotor mapping instead of the 15; that level alone does unless told not to."""
    test: int = 0
    """Play the episodes that are kept for scoring."""

    def __post_init__(self):
        for name in ("height", "width"):
            side = getattr(self, name)
            in_range(name, side, least=8, most=4096, hint="the paper's pictures are 72 x 96")
            if side % SIDE:
                raise TaskError(
                    f"{name} must be a multiple of {SIDE} in DeepMind Lab, got {side}; take {side // SIDE * SIDE + SIDE}"
                )
        in_range("cache_mb", self.cache_mb, least=1, most=10**9, hint="cache=none keeps no maps")
        in_range("maps", self.maps, least=0, most=SEEDS, hint="0 draws from all")
        if self.renderer not in ("software", "hardware"):
            raise TaskError(f"renderer must be software or hardware, got {self.renderer!r}; software runs everywhere")
        for name in ("reduced", "test"):
            if getattr(self, name) not in (None, 0, 1):
                raise TaskError(f"{name} must be 0 or 1, got {getattr(self, name)!r}; leave it out for the usual")

    @classmethod
    def of(cls, level: str, arguments: Arguments) -> "LabSettings":
        """Arguments as they were written, checked."""
        known = {field.name: field.default for field in dataclasses.fields(cls)}
        for key, value in arguments:
            if key not in known:
                raise TaskError(f"{LAB}{level} takes {', '.join(known)}, got {key!r}; for example '{LAB}{level}:height=36'")
            wanted, kind = (str, "text") if isinstance(known[key], str) else (int, "a whole number")
            if not isinstance(value, wanted):
                raise TaskError(f"{key} must be {kind}, got {value!r}; leave it out for the usual")
        return cls(**dict(arguments))
