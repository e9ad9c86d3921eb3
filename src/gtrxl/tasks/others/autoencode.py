"""Autoencode: watch a deck, then name its suits backwards.

N cards, O = 10 numbers in an observation.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from gtrxl.tasks.others.deck import SUITS, CardGame, Dealt, paid, suit
from gtrxl.tasks.players.player import Player

PLAY, WATCH = 0, 1
"""What the first two numbers of an observation say, one-hot."""


@dataclasses.dataclass(frozen=True)
class Autoencode(CardGame):
    """N cards are shown, one a step; then their suits are asked for, the last card's first.

    A right answer pays 1 / N, a wrong one costs as much. The last card is shown with the word to play. While the agent answers it
    is shown the first suit, whatever the cards were. POPGym's Easy is 1 deck, Medium 2, Hard 3.
    """

    decks: int = 1

    episode_steps: int = dataclasses.field(init=False, repr=False)
    """2 N - 1."""

    def __post_init__(self):
        self._check_decks()
        object.__setattr__(self, "episode_steps", 2 * self.cards - 1)

    @property
    def answers(self) -> int:
        """A suit."""
        return SUITS

    @property
    def features(self) -> int:
        """To play or to watch, and a suit."""
        return 2 + SUITS

    def player(self) -> "AutoencodePlayer":
        """Remembers all suits."""
        return AutoencodePlayer(self)

    def _reward(self, state: Dealt, action: Int[Array, ""]) -> Float[Array, ""]:
        asked = 2 * (self.cards - 1) - state.elapsed
        right = action == suit(state.cards[jnp.clip(asked, 0, self.cards - 1)])
        return jnp.where(state.elapsed >= self.cards - 1, paid(right, self.cards), 0.0)

    def _shown(self, state: Dealt) -> Float[Array, " 6"]:
        mode = jnp.where(state.elapsed < self.cards - 1, WATCH, PLAY)
        dealt = state.elapsed < self.cards
        shown = jnp.where(dealt, suit(state.cards[jnp.minimum(state.elapsed, self.cards - 1)]), 0)
        return jnp.concatenate([jax.nn.one_hot(mode, 2), jax.nn.one_hot(shown, SUITS)])


class DeckNotes(eqx.Module):
    """What a player of Autoencode remembers."""

    suits: Int[Array, " N"]
    seen: Int[Array, ""]


@dataclasses.dataclass(frozen=True)
class AutoencodePlayer(Player):
    """Remembers all suits."""

    task: Autoencode

    def begin(self, state: Dealt) -> DeckNotes:
        """Nothing."""
        return DeckNotes(suits=jnp.zeros(self.task.cards, jnp.int32), seen=jnp.int32(0))

    def act(self, notes: DeckNotes, observation: Float[Array, " O"], key: PRNGKeyArray) -> tuple[DeckNotes, Int[Array, ""]]:
        """Notes what is dealt; then names it backwards."""
        now = jnp.argmax(observation[2 : 2 + SUITS]).astype(jnp.int32)
        suits = notes.suits.at[notes.seen].set(now, mode="drop")
        asked = jnp.clip(2 * (self.task.cards - 1) - notes.seen, 0, self.task.cards - 1)
        return DeckNotes(suits=suits, seen=notes.seen + 1), suits[asked]
