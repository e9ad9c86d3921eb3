"""Recall: what is shown, what is asked, what pays, and that nothing shown later tells the cards."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.tasks.errors import TaskError
from gtrxl.tasks.recall import Recall, RecallState
from tests.tasks.stepping import begin, run

TASK = Recall(items=3, ask=2, kinds=4, delay=2)
CARDS, QUESTIONS = [3, 0, 2], [2, 0]


def start() -> RecallState:
    zero = jnp.int32(0)
    return RecallState(
        cards=jnp.array(CARDS, jnp.int32), questions=jnp.array(QUESTIONS, jnp.int32), elapsed=zero, answer=zero - 1, right=zero
    )


def answer(actions: list[int], state: RecallState | None = None):
    return run(TASK, start() if state is None else state, jnp.array(actions, jnp.int32))


def test_cards_then_nothing_then_questions():
    seen = np.asarray(answer([0] * 7)[1].observation)
    kind, place = seen[:, :4], seen[:, 4:]
    assert kind[:2].argmax(axis=1).tolist() == CARDS[1:], "the first card is in the first observation"
    assert place[:2].argmax(axis=1).tolist() == [1, 2]
    assert not seen[2:4].any(), "the delay shows nothing"
    assert not kind[4:].any(), "questions show no kind"
    assert place[4:6].argmax(axis=1).tolist() == QUESTIONS
    assert place[4:6].sum(axis=1).tolist() == [1, 1]
    assert not seen[6].any()


def test_the_first_observation_is_the_first_card():
    state, observation = begin(TASK, jax.random.key(0))
    assert np.flatnonzero(observation).tolist() == [int(state.cards[0]), 4]


@pytest.mark.parametrize(("answers", "rewards"), [([2, 3], [0.5, 0.5]), ([2, 2], [0.5, 0]), ([3, 2], [0, 0]), ([0, 3], [0, 0.5])])
def test_each_right_answer_pays_its_share(answers, rewards):
    states, steps = answer([1, 1, 1, 1, 1, *answers])
    assert np.asarray(steps.reward).tolist() == [0, 0, 0, 0, 0, *rewards]
    assert np.asarray(steps.terminated).tolist() == [False] * 6 + [True]
    assert not np.asarray(steps.truncated).any()
    assert int(states.right[-1]) == sum(reward > 0 for reward in rewards)


def test_naming_the_right_kind_too_early_pays_nothing():
    for kind in range(4):
        assert not np.asarray(answer([kind] * 7)[1].reward)[:5].any()


def test_nothing_that_is_seen_after_the_cards_depends_on_them_or_on_what_was_done():
    other = eqx.tree_at(lambda state: state.cards, start(), jnp.array([1, 1, 1], jnp.int32))
    reference = np.asarray(answer([0] * 7)[1].observation)[2:]
    for state, actions in ((start(), [3, 1, 2, 0, 3, 2, 3]), (other, [0] * 7), (other, [2, 2, 1, 3, 0, 1, 1])):
        np.testing.assert_array_equal(np.asarray(answer(actions, state)[1].observation)[2:], reference)


def test_cards_and_questions_are_drawn_fairly():
    states, _ = jax.jit(jax.vmap(TASK.reset))(jax.random.split(jax.random.key(0), 2000))
    cards, questions = np.asarray(states.cards), np.asarray(states.questions)
    assert (questions[:, 0] != questions[:, 1]).all(), "no card is asked for twice"
    pairs, counts = np.unique(questions, axis=0, return_counts=True)
    assert len(pairs) == 6
    assert counts.min() > 260
    assert np.bincount(cards.ravel(), minlength=4).min() > 1350
    assert abs(np.corrcoef(cards.T)[np.triu_indices(3, 1)]).max() < 0.08, "a card tells nothing about another"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"items": 0}, "items must be from 1 to 4096, got 0"),
        ({"ask": 5}, "ask must be from 1 to 4, got 5"),
        ({"kinds": 1}, "kinds must be from 2 to 4096, got 1"),
        ({"delay": -1}, "delay must be at least 0"),
    ],
)
def test_tasks_that_cannot_be(arguments, message):
    with pytest.raises(TaskError, match=message):
        Recall(**arguments)
