"""A shuffled deck, and what all of these games share: cards come one by one, and the agent is shown its last action.

N cards, M cards of all decks, A actions, F numbers of what is shown of the cards, O = F + A numbers in an observation.

POPGym numbers the cards of a deck from 0 to 51: the suit is what is left after dividing by 4, the rank the rest. Rewards are of
size 1 / (answers that count), so that returns are between -1 and 1.
"""

import abc
import types
from typing import ClassVar

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from gtrxl.tasks.contract import Step, Task
from gtrxl.tasks.defaults import TaskDefaults
from gtrxl.tasks.errors import in_range

CARDS = 52
"""In a deck."""
SUITS, RANKS = 4, 13
MOST_DECKS = 64

_FAST = types.MappingProxyType({"eps_eta": 0.2, "eps_alpha": 0.02, "alpha_init": 0.3, "learning_rate": 1e-3})
"""V-MPO; at a rate of 3e-4 RepeatPrevious takes more than three times as many frames (docs/log.md)."""

PPO_OF_GAMES = types.MappingProxyType({"learner": types.MappingProxyType({"learning_rate": 5e-4})})
"""PPO, of card games and of MiniGrid's Memory."""


class Dealt(eqx.Module):
    """The deck, and how far the episode is."""

    cards: Int[Array, " M"]
    """From 0 to 51, in the order in which they are dealt; of a game with two decks the second comes after the first."""

    elapsed: Int[Array, ""]

    action: Int[Array, ""]
    """The last one; -1 before the first."""


class CardGame(Task):
    """Shuffled decks of which one card is dealt at the start and one at each step."""

    decks: int
    looks_ahead: ClassVar[float] = 0.5
    """The discount to learn it with. No answer changes what comes, so that a larger one would only add the noise of later
    rewards."""

    learned_with: ClassVar[str] = "vmpo"
    """The algorithm to learn it with: the one that was seen to do better (docs/public.md)."""

    def _check_decks(self) -> None:
        in_range("decks", self.decks, least=1, most=MOST_DECKS, hint="POPGym plays with 1 to 16")

    @property
    def cards(self) -> int:
        """N."""
        return CARDS * self.decks

    @property
    @abc.abstractmethod
    def answers(self) -> int:
        """A."""

    @property
    @abc.abstractmethod
    def features(self) -> int:
        """F."""

    @property
    def looks_back(self) -> int:
        """Steps that a window must hold to answer from: an episode, unless a game needs less."""
        return self.episode_steps

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        """What is shown of the cards, one-hot, and the last action, one-hot: all 0 before the first."""
        return gymnasium.spaces.Box(0.0, 1.0, (self.features + self.answers,), np.float32)

    @property
    def action_space(self) -> gymnasium.spaces.Discrete:
        """The answer."""
        return gymnasium.spaces.Discrete(self.answers)

    def reset(self, key: PRNGKeyArray) -> tuple[Dealt, Float[Array, " O"]]:
        """Shuffles, and deals the first card."""
        state = Dealt(cards=self._shuffle(key), elapsed=jnp.int32(0), action=jnp.int32(-1))
        return state, self._observation(state)

    def step(self, state: Dealt, action: Int[Array, ""]) -> tuple[Dealt, Step]:
        """An answer to what was dealt so far, then the next card."""
        reward = self._reward(state, action)
        state = Dealt(cards=state.cards, elapsed=state.elapsed + 1, action=action.astype(jnp.int32))
        ends = state.elapsed >= self.episode_steps
        never = jnp.zeros((), bool)
        return state, Step(observation=self._observation(state), reward=reward, terminated=ends, truncated=never)

    def defaults(self) -> TaskDefaults:
        """Those that were seen to learn it (docs/log.md)."""
        memory = min(max(64, self.looks_back), 256)
        return TaskDefaults(
            memory=memory,
            steps=3_000_000,
            discount=self.looks_ahead,
            vmpo=_FAST,
            algorithm=self.learned_with,
            with_ppo=PPO_OF_GAMES,
        )

    def _shuffle(self, key: PRNGKeyArray) -> Int[Array, " M"]:
        """All cards of an episode."""
        return shuffled(key, self.decks)

    @abc.abstractmethod
    def _reward(self, state: Dealt, action: Int[Array, ""]) -> Float[Array, ""]:
        """Of an answer."""

    @abc.abstractmethod
    def _shown(self, state: Dealt) -> Float[Array, " F"]:
        """Of the cards."""

    def _observation(self, state: Dealt) -> Float[Array, " O"]:
        return jnp.concatenate([self._shown(state), jax.nn.one_hot(state.action, self.answers)])


def shuffled(key: PRNGKeyArray, decks: int) -> Int[Array, " N"]:
    """The cards of some decks in a random order."""
    return jax.random.permutation(key, jnp.arange(CARDS * decks, dtype=jnp.int32)) % CARDS


def suit(card: Int[Array, "*n"]) -> Int[Array, "*n"]:
    """0 to 3."""
    return card % SUITS


def rank(card: Int[Array, "*n"]) -> Int[Array, "*n"]:
    """0 to 12: ace, 2, ... king."""
    return card // SUITS


def paid(right: Bool[Array, ""], of: int) -> Float[Array, ""]:
    """1 / of for a right answer, as much less for a wrong one."""
    return jnp.where(right, 1.0, -1.0).astype(jnp.float32) / of
