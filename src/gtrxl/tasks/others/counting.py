"""HigherLower and CountRecall: games for those who count cards.

N cards, M cards of all decks, K kinds of card, F numbers of what is shown of them, O numbers in an observation.
"""

import dataclasses
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from gtrxl.tasks.errors import TaskError
from gtrxl.tasks.others.deck import RANKS, CardGame, Dealt, paid, rank, shuffled
from gtrxl.tasks.players.player import Player

HIGHER, LOWER = 0, 1
"""The actions of HigherLower."""
KINDS = (2, 4, 13)
"""Colours, suits, ranks."""


@dataclasses.dataclass(frozen=True)
class HigherLower(CardGame):
    """Guess whether the next card's rank is higher or lower than the one that is shown.

    A right guess pays 1 / N, a wrong one costs as much, the same rank again is nothing. POPGym's Easy is 1 deck, Medium 2 and
    Hard 3.
    """

    decks: int = 1

    episode_steps: int = dataclasses.field(init=False, repr=False)
    """N - 1."""

    def __post_init__(self):
        self._check_decks()
        object.__setattr__(self, "episode_steps", self.cards - 1)

    @property
    def answers(self) -> int:
        """Higher or lower."""
        return 2

    @property
    def features(self) -> int:
        """A rank."""
        return RANKS

    def player(self) -> "HigherLowerPlayer":
        """Counts."""
        return HigherLowerPlayer(self)

    def _reward(self, state: Dealt, action: Int[Array, ""]) -> Float[Array, ""]:
        now, then = rank(state.cards[state.elapsed]), rank(state.cards[jnp.minimum(state.elapsed + 1, self.cards - 1)])
        return jnp.where(now == then, 0.0, paid((then > now) == (action == HIGHER), self.cards))

    def _shown(self, state: Dealt) -> Float[Array, " 13"]:
        return jax.nn.one_hot(rank(state.cards[state.elapsed]), RANKS)


class Counted(eqx.Module):
    """What was dealt so far, by kind."""

    counts: Int[Array, " K"]


@dataclasses.dataclass(frozen=True)
class HigherLowerPlayer(Player):
    """Knows which ranks are left, and guesses what is more likely."""

    task: HigherLower

    def begin(self, state: Dealt) -> Counted:
        """Nothing was dealt."""
        return Counted(counts=jnp.zeros(RANKS, jnp.int32))

    def act(self, notes: Counted, observation: Float[Array, " O"], key: PRNGKeyArray) -> tuple[Counted, Int[Array, ""]]:
        """Counts the card, then guesses."""
        shown = observation[:RANKS]
        counts = notes.counts + shown.astype(jnp.int32)
        left, now = 4 * self.task.decks - counts, jnp.argmax(shown)
        above = jnp.sum(jnp.where(jnp.arange(RANKS) > now, left, 0))
        below = jnp.sum(jnp.where(jnp.arange(RANKS) < now, left, 0))
        return Counted(counts=counts), jnp.where(above >= below, HIGHER, LOWER).astype(jnp.int32)


@dataclasses.dataclass(frozen=True)
class CountRecall(CardGame):
    """A card and a question at each step: how many of that kind were dealt so far, the card of this step among them?

    Questions come from a second shuffled deck. A right answer pays 1 / (N - 1), a wrong one costs as much. Kinds are colours (2),
    suits (4) or ranks (13). POPGym's Easy is 1 deck and colours, Medium 2 and suits, Hard 4 and ranks.
    """

    decks: int = 1
    kinds: int = 2

    learned_with: ClassVar[str] = "ppo"

    episode_steps: int = dataclasses.field(init=False, repr=False)
    """N - 1."""

    def __post_init__(self):
        self._check_decks()
        if self.kinds not in KINDS:
            raise TaskError(f"kinds must be one of {', '.join(map(str, KINDS))}, got {self.kinds}; colours, suits or ranks")
        object.__setattr__(self, "episode_steps", self.cards - 1)

    @property
    def answers(self) -> int:
        """From none of a kind to all of it."""
        return self.cards // self.kinds + 1

    @property
    def features(self) -> int:
        """The kind that is dealt, and the one that is asked for."""
        return 2 * self.kinds

    def player(self) -> "CountRecallPlayer":
        """Counts."""
        return CountRecallPlayer(self)

    def _shuffle(self, key: PRNGKeyArray) -> Int[Array, " M"]:
        """The cards, then the questions."""
        return jnp.concatenate([shuffled(each, self.decks) for each in jax.random.split(key)])

    def _reward(self, state: Dealt, action: Int[Array, ""]) -> Float[Array, ""]:
        dealt, asked = self._kind(state.cards[: self.cards]), self._kind(state.cards[self.cards + state.elapsed])
        count = jnp.sum((dealt == asked) & (jnp.arange(self.cards) <= state.elapsed))
        return paid(action == count, self.cards - 1)

    def _shown(self, state: Dealt) -> Float[Array, " F"]:
        both = jnp.stack([state.cards[state.elapsed], state.cards[self.cards + state.elapsed]])
        return jax.nn.one_hot(self._kind(both), self.kinds).reshape(-1)

    def _kind(self, card: Int[Array, "*n"]) -> Int[Array, "*n"]:
        return rank(card) if self.kinds == RANKS else card % self.kinds


@dataclasses.dataclass(frozen=True)
class CountRecallPlayer(Player):
    """Counts every kind."""

    task: CountRecall

    def begin(self, state: Dealt) -> Counted:
        """Nothing was dealt."""
        return Counted(counts=jnp.zeros(self.task.kinds, jnp.int32))

    def act(self, notes: Counted, observation: Float[Array, " O"], key: PRNGKeyArray) -> tuple[Counted, Int[Array, ""]]:
        """Counts the card, then answers."""
        kinds = self.task.kinds
        counts = notes.counts + observation[:kinds].astype(jnp.int32)
        return Counted(counts=counts), counts[jnp.argmax(observation[kinds : 2 * kinds])]
