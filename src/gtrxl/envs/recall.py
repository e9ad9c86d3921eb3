"""Recall: cards are shown one by one, and later some of them are asked for. Several things to keep at once.

N cards, K kinds of card, A questions, O = K + N numbers in an observation.
"""

import dataclasses
from typing import ClassVar

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from gtrxl.envs.contract import Step, Task
from gtrxl.envs.errors import in_range


class RecallState(eqx.Module):
    """The cards, the questions, and how far the episode is."""

    cards: Int[Array, " N"]
    """The kind of each card."""

    questions: Int[Array, " A"]
    """Which cards are asked for, in this order."""

    elapsed: Int[Array, ""]

    answer: Int[Array, ""]
    """The last action; -1 before the first."""

    right: Int[Array, ""]
    """Right answers so far."""


@dataclasses.dataclass(frozen=True)
class Recall(Task):
    """`items` cards are shown, one a step; `delay` steps show nothing; then `ask` of the cards are asked for, one a step.

    Each right answer pays 1 / ask, so that the return is the share of right answers. The kinds are drawn independently and no
    card is asked for twice: without memory nothing beats 1 / kinds. Sees: the kind of the card that is shown, and which card it
    is; or which card is asked for; or nothing. Actions before the first question do nothing.
    """

    items: int = 4
    """Cards: how much one must keep."""

    ask: int = 2
    """Questions: how many of the cards are asked for, in a random order."""

    kinds: int = 4
    """Kinds of card, and actions."""

    delay: int = 32
    """Steps between the last card and the first question: how far back one must remember."""

    episode_steps: int = dataclasses.field(init=False, repr=False)
    """items + delay + ask."""

    name: ClassVar[str] = "recall"

    def __post_init__(self):
        in_range("items", self.items, least=1, hint="there is at least one card to keep")
        in_range("ask", self.ask, least=1, most=self.items, hint="no card is asked for twice")
        in_range("kinds", self.kinds, least=2, hint="with one kind there is nothing to remember")
        in_range("delay", self.delay, least=0, hint="0 asks as soon as the last card was shown")
        object.__setattr__(self, "episode_steps", self.items + self.delay + self.ask)

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        """Kind of the card that is shown [K], and which card is shown or asked for [N]: one-hot, or all 0."""
        return gymnasium.spaces.Box(0.0, 1.0, (self.kinds + self.items,), np.float32)

    @property
    def action_space(self) -> gymnasium.spaces.Discrete:
        """The kind to answer with."""
        return gymnasium.spaces.Discrete(self.kinds)

    def reset(self, key: PRNGKeyArray) -> tuple[RecallState, Float[Array, " O"]]:
        """Deals the cards, chooses the questions, shows the first card."""
        cards_key, questions_key = jax.random.split(key)
        state = RecallState(
            cards=jax.random.randint(cards_key, (self.items,), 0, self.kinds),
            questions=_shuffled(questions_key, self.items)[: self.ask],
            elapsed=jnp.int32(0),
            answer=jnp.int32(-1),
            right=jnp.int32(0),
        )
        return state, self._observe(state)

    def step(self, state: RecallState, action: Int[Array, ""]) -> tuple[RecallState, Step]:
        """Answers, if a question is open; then the next card, nothing, or the next question."""
        question = state.elapsed - (self.items + self.delay)
        asked = state.questions[jnp.clip(question, 0, self.ask - 1)]
        right = (question >= 0) & (action == state.cards[asked])
        state = RecallState(
            cards=state.cards,
            questions=state.questions,
            elapsed=state.elapsed + 1,
            answer=action.astype(jnp.int32),
            right=state.right + right,
        )
        return state, Step(
            observation=self._observe(state),
            reward=right.astype(jnp.float32) / self.ask,
            terminated=state.elapsed >= self.episode_steps,
            truncated=jnp.zeros((), bool),
        )

    def _observe(self, state: RecallState) -> Float[Array, " O"]:
        question = state.elapsed - (self.items + self.delay)
        showing = state.elapsed < self.items
        asking = (question >= 0) & (question < self.ask)
        asked = state.questions[jnp.clip(question, 0, self.ask - 1)]
        card = jnp.minimum(state.elapsed, self.items - 1)
        kind = (jnp.arange(self.kinds) == state.cards[card]) & showing
        place = ((jnp.arange(self.items) == card) & showing) | ((jnp.arange(self.items) == asked) & asking)
        return jnp.concatenate([kind, place]).astype(jnp.float32)


def _shuffled(key: PRNGKeyArray, count: int) -> Int[Array, " N"]:
    """0 to count - 1 in a random order. By comparing all pairs: for a few numbers that is much faster than to sort them."""
    draws = jax.random.uniform(key, (count,))
    places = jnp.arange(count)
    earlier = (draws[None] < draws[:, None]) | ((draws[None] == draws[:, None]) & (places[None] < places[:, None]))
    rank = jnp.sum(earlier, axis=1)
    return jnp.argmax(rank[None] == places[:, None], axis=1).astype(jnp.int32)
