"""What a scripted player is: it sees what an agent sees, or follows the task itself, and remembers what it likes.

    notes = player.begin(state)                            what it knows before the first step
    notes, action = player.act(notes, observation, key)    sees what an agent sees, and remembers all of it

Each task makes its own: `task.player()` has a perfect memory, `task.told_player()` knows the secret besides.
"""

import abc
from typing import Any, ClassVar

from jaxtyping import PRNGKeyArray, PyTree


class Player(abc.ABC):
    """Plays one stream. Frozen and pure, so that whole episodes compile."""

    looks: ClassVar[bool] = True
    """Whether it needs the observation. For one that does not, no pictures are drawn and `act` is given None."""

    @abc.abstractmethod
    def begin(self, state: Any) -> Any:
        """Notes before the first step. Only a player that is told the secret looks at the state."""

    @abc.abstractmethod
    def act(self, notes: Any, observation: PyTree, key: PRNGKeyArray) -> tuple[Any, PyTree]:
        """An action, and what to remember."""
