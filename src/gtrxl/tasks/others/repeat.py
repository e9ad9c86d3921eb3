"""RepeatPrevious and RepeatFirst: name the suit of an earlier card at every step.

N cards, O = 8 numbers in an observation.
"""

import dataclasses
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from gtrxl.tasks.errors import in_range
from gtrxl.tasks.others.deck import SUITS, CardGame, Dealt, paid, suit
from gtrxl.tasks.players.player import Player


class _SuitGame(CardGame):
    """Shows the suit of the card that was just dealt, and asks for a suit."""

    @property
    def answers(self) -> int:
        """A suit."""
        return SUITS

    @property
    def features(self) -> int:
        """A suit."""
        return SUITS

    def _shown(self, state: Dealt) -> Float[Array, " 4"]:
        return jax.nn.one_hot(suit(state.cards[state.elapsed]), SUITS)


@dataclasses.dataclass(frozen=True)
class RepeatPrevious(_SuitGame):
    """Name the suit that was shown k - 1 steps ago, at every step from the k-th card on.

    A right answer pays 1 / (N - k), a wrong one costs as much; the first k - 1 answers count for nothing. POPGym's Easy is 1 deck
    and k = 4, Medium 2 and 32, Hard 3 and 64.
    """

    decks: int = 1
    k: int = 4
    """How many cards one must keep, the one that is shown among them."""

    episode_steps: int = dataclasses.field(init=False, repr=False)
    """N - 1."""

    def __post_init__(self):
        self._check_decks()
        in_range("k", self.k, least=1, most=self.cards - 1, hint="no card is older than the first")
        object.__setattr__(self, "episode_steps", self.cards - 1)

    @property
    def looks_back(self) -> int:
        """As far as the card that is asked for."""
        return self.k

    def player(self) -> "RepeatPreviousPlayer":
        """Remembers the last k suits."""
        return RepeatPreviousPlayer(self)

    def _reward(self, state: Dealt, action: Int[Array, ""]) -> Float[Array, ""]:
        asked = state.elapsed - (self.k - 1)
        right = action == suit(state.cards[jnp.maximum(asked, 0)])
        return jnp.where(asked >= 0, paid(right, self.cards - self.k), 0.0)


@dataclasses.dataclass(frozen=True)
class RepeatFirst(_SuitGame):
    """Name the suit of the first card, at every step.

    A right answer pays 1 / (N - 1), a wrong one costs as much. POPGym's Easy is 1 deck, Medium 8, Hard 16.
    """

    decks: int = 1

    looks_ahead: ClassVar[float] = 0.97
    """An agent is shown its last answer, and can carry the first suit in it: then a right first answer pays to the end."""
    learned_with: ClassVar[str] = "ppo"

    episode_steps: int = dataclasses.field(init=False, repr=False)
    """N - 1."""

    def __post_init__(self):
        self._check_decks()
        object.__setattr__(self, "episode_steps", self.cards - 1)

    @property
    def looks_back(self) -> int:
        """The last answer says it again."""
        return 1

    def player(self) -> "RepeatFirstPlayer":
        """Remembers the first suit."""
        return RepeatFirstPlayer()

    def _reward(self, state: Dealt, action: Int[Array, ""]) -> Float[Array, ""]:
        return paid(action == suit(state.cards[0]), self.cards - 1)


class SuitNotes(eqx.Module):
    """What a player of these games remembers."""

    suits: Int[Array, " K"]
    """The oldest first."""

    seen: Int[Array, ""]


@dataclasses.dataclass(frozen=True)
class RepeatPreviousPlayer(Player):
    """Remembers the last k suits."""

    task: RepeatPrevious

    def begin(self, state: Dealt) -> SuitNotes:
        """Nothing."""
        return SuitNotes(suits=jnp.zeros(self.task.k, jnp.int32), seen=jnp.int32(0))

    def act(self, notes: SuitNotes, observation: Float[Array, " O"], key: PRNGKeyArray) -> tuple[SuitNotes, Int[Array, ""]]:
        """Names the oldest."""
        suits = jnp.append(notes.suits[1:], jnp.argmax(observation[:SUITS]).astype(jnp.int32))
        return SuitNotes(suits=suits, seen=notes.seen + 1), suits[0]


@dataclasses.dataclass(frozen=True)
class RepeatFirstPlayer(Player):
    """Remembers the first suit."""

    def begin(self, state: Dealt) -> SuitNotes:
        """Nothing."""
        return SuitNotes(suits=jnp.zeros(1, jnp.int32), seen=jnp.int32(0))

    def act(self, notes: SuitNotes, observation: Float[Array, " O"], key: PRNGKeyArray) -> tuple[SuitNotes, Int[Array, ""]]:
        """Names it."""
        now = jnp.argmax(observation[:SUITS]).astype(jnp.int32)
        first = jnp.where(notes.seen == 0, now, notes.suits[0])
        return SuitNotes(suits=first[None], seen=notes.seen + 1), first
