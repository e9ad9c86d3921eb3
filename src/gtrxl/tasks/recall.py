"""Recall: cards are shown one by one, and later some of them are asked for. Several things to keep at once.

N cards, K kinds of card, A questions, O = K + N numbers in an observation, H rows and W columns of a picture.
"""

import dataclasses

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree, UInt8

from gtrxl.tasks.contract import Step, Task
from gtrxl.tasks.controls import ChoiceControls, numbered
from gtrxl.tasks.drawing import canvas as c
from gtrxl.tasks.drawing.canvas import SIDE, Canvas, symbol
from gtrxl.tasks.errors import in_range
from gtrxl.tasks.players.player import Player


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

    def __post_init__(self):
        in_range("items", self.items, least=1, most=4096, hint="there is at least one card to keep")
        in_range("ask", self.ask, least=1, most=self.items, hint="no card is asked for twice")
        in_range("kinds", self.kinds, least=2, most=4096, hint="with one kind there is nothing to remember")
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

    def player(self) -> "RecallPlayer":
        """Remembers the cards."""
        return RecallPlayer(self)

    def controls(self) -> ChoiceControls:
        """A number for each kind."""
        return numbered(self.action_space, word="answer")

    def interest(self, state: RecallState) -> float:
        """A question, when some are answered."""
        return float(state.elapsed == self.items + self.delay + self.ask // 2)

    def draw(self, state: RecallState, *, observation: PyTree = None, secret: bool = False) -> UInt8[np.ndarray, "H W 3"]:
        """The cards, the one that is shown or asked for lit, and below them the answers."""
        canvas = Canvas(SIDE, SIDE)
        columns = min(self.items, 4) if self.items <= 8 else -(-self.items // 3)
        rows = -(-self.items // columns)
        across = min(62.0, (SIDE - 16) / columns)
        width, tall = 0.84 * across, min(1.15 * across, 130 / rows)
        elapsed, question = int(state.elapsed), int(state.elapsed) - self.items - self.delay
        asked = int(state.questions[question]) if 0 <= question < self.ask else None
        answered = int(state.questions[question - 1]) if 1 <= question <= self.ask else None
        done = {int(card) for card in state.questions[: max(question, 0)]}
        centres = [
            (SIDE / 2 + across * (card % columns - (columns - 1) / 2), 88 + 1.2 * tall * (card // columns - (rows - 1) / 2))
            for card in range(self.items)
        ]
        looked_at = elapsed if elapsed < self.items else asked
        if looked_at is not None:
            canvas.glow(centres[looked_at], 0.6 * tall, fill=c.LIGHT, strength=0.75)
        for card, centre in enumerate(centres):
            kind = int(state.cards[card])
            shown = card == elapsed or card in done
            edge = c.EDGE
            if card == answered:
                edge = c.RIGHT if int(state.answer) == kind else c.WRONG
            if card == looked_at:
                edge = c.LIGHT_EDGE
            canvas.box(centre, (width, tall * 1.05), fill="#fffdf8" if shown else "#5f7fa8", edge=edge, line=3, round=8)
            if shown or secret:
                symbol(canvas, kind, centre, 0.3 * width, fill=None if shown else "#9fb4cf")
            elif card == asked:
                canvas.text(centre, "?", size=0.5 * tall, fill="#ffffff")
            else:
                canvas.box(centre, (0.72 * width, 0.8 * tall), fill=None, edge="#86a1c4", line=1.5, round=5)

        if elapsed < self.items:
            words = f"card {elapsed + 1} of {self.items}"
        elif question < 0:
            words = f"wait: {-question}"
        elif asked is not None:
            words = f"question {question + 1} of {self.ask}: which kind was this?"
        else:
            words = f"{int(state.right)} of {self.ask} right"
        canvas.text((SIDE / 2, 178), words, size=14)

        step = min(46.0, (SIDE - 20) / self.kinds)
        for kind in range(self.kinds):
            centre = (SIDE / 2 + step * (kind - (self.kinds - 1) / 2), 220)
            chosen = question >= 1 and int(state.answer) == kind
            canvas.disc(
                centre,
                0.45 * step,
                fill="#ffffff" if chosen else c.PAPER,
                edge=c.AGENT if chosen else c.EDGE,
                line=3 if chosen else 1.5,
            )
            symbol(canvas, kind, centre, 0.24 * step)
        return canvas.pixels()

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


class CardNotes(eqx.Module):
    """What a player of Recall remembers."""

    cards: Int[Array, " N"]
    """The kind of each card that was shown."""


@dataclasses.dataclass(frozen=True)
class RecallPlayer(Player):
    """Remembers the cards."""

    task: Recall

    def begin(self, state: RecallState) -> CardNotes:
        """Nothing."""
        return CardNotes(cards=jnp.zeros(self.task.items, jnp.int32))

    def act(self, notes: CardNotes, observation: Float[Array, " O"], key: PRNGKeyArray) -> tuple[CardNotes, Int[Array, ""]]:
        """Names the card that is asked for."""
        kind, place = observation[: self.task.kinds], observation[self.task.kinds :]
        shown: Bool[Array, ""] = jnp.any(kind > 0)
        cards = jnp.where((place > 0) & shown, jnp.argmax(kind), notes.cards)
        return CardNotes(cards=cards), cards[jnp.argmax(place)]
