"""The compiled card games against POPGym's own: given the same deck, the same observations, rewards and ends, step by step."""

import importlib.util

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.gym.task import GymTask
from gtrxl.tasks.episodes import returns
from gtrxl.tasks.errors import TaskError
from gtrxl.tasks.others.autoencode import Autoencode
from gtrxl.tasks.others.counting import CountRecall, HigherLower
from gtrxl.tasks.others.deck import CARDS, CardGame, Dealt
from gtrxl.tasks.others.repeat import RepeatFirst, RepeatPrevious
from gtrxl.tasks.players.scripted import perfect_memory
from gtrxl.testing import check_task
from tests.tasks.stepping import begin, run

GAMES: dict[str, CardGame] = {
    "RepeatPreviousEasy": RepeatPrevious(),
    "RepeatPreviousMedium": RepeatPrevious(decks=2, k=32),
    "RepeatPreviousHard": RepeatPrevious(decks=3, k=64),
    "RepeatFirstEasy": RepeatFirst(),
    "RepeatFirstMedium": RepeatFirst(decks=8),
    "RepeatFirstHard": RepeatFirst(decks=16),
    "AutoencodeEasy": Autoencode(),
    "AutoencodeMedium": Autoencode(decks=2),
    "AutoencodeHard": Autoencode(decks=3),
    "CountRecallEasy": CountRecall(),
    "CountRecallMedium": CountRecall(decks=2, kinds=4),
    "CountRecallHard": CountRecall(decks=4, kinds=13),
    "HigherLowerEasy": HigherLower(),
    "HigherLowerMedium": HigherLower(decks=2),
    "HigherLowerHard": HigherLower(decks=3),
}
"""POPGym's names, and what they are here."""
SMALL = [RepeatPrevious(), RepeatFirst(), Autoencode(), CountRecall(), HigherLower()]


def named(game: CardGame) -> str:
    return type(game).__name__


def dealt(env) -> np.ndarray:
    """The order in which an environment that was just reset deals its cards: from the end of the deck."""
    env = env.unwrapped
    decks = [env.value_deck, env.query_deck] if hasattr(env, "value_deck") else [env.deck]
    return np.concatenate([deck.idx[::-1] % CARDS for deck in decks]).astype(np.int32)


@pytest.mark.skipif(importlib.util.find_spec("popgym") is None, reason="needs popgym")
@pytest.mark.parametrize("name", GAMES)
@pytest.mark.parametrize("seed", [0, 1])
def test_step_by_step_it_is_popgyms_game(name, seed):
    game, task = GAMES[name], GymTask(f"popgym-{name}-v0")
    env, spaces = task.make(), task.spaces()
    try:
        first, _ = env.reset(seed=seed)
        state = Dealt(cards=jnp.array(dealt(env)), elapsed=jnp.int32(0), action=jnp.int32(-1))
        actions = np.random.default_rng(seed).integers(0, game.answers, game.episode_steps)
        if seed == 0:  # the answers of a perfect memory: each is right
            actions = _perfect(game, state)
        steps = run(game, state, jnp.array(actions, jnp.int32))[1]
        np.testing.assert_array_equal(game._observation(state), spaces.lens(first))
        for t, action in enumerate(actions):
            observation, reward, terminated, truncated, _ = env.step(int(action))
            shown = spaces.lens(observation, action=np.int32(action))
            np.testing.assert_array_equal(np.asarray(steps.observation)[t], shown, err_msg=f"step {t}")
            assert float(steps.reward[t]) == pytest.approx(reward, abs=1e-7), f"step {t}"
            assert (bool(steps.terminated[t]), bool(steps.truncated[t])) == (terminated, truncated), f"step {t}"
            assert terminated == (t == game.episode_steps - 1), "the episode has as many steps as ours"
    finally:
        env.close()


def _perfect(game: CardGame, state: Dealt) -> np.ndarray:
    """What the player with a perfect memory does."""
    player = perfect_memory(game)

    def step(carry, _):
        notes, state, observation = carry
        notes, action = player.act(notes, observation, jax.random.key(0))
        state, step = game.step(state, action)
        return (notes, state, step.observation), action

    return np.asarray(jax.lax.scan(step, (player.begin(state), state, game._observation(state)), None, game.episode_steps)[1])


@pytest.mark.parametrize("game", SMALL, ids=named)
def test_it_is_a_task(game):
    check_task(game)


@pytest.mark.parametrize("game", [GAMES["RepeatPreviousMedium"], RepeatFirst(), Autoencode(), CountRecall(2, 4)], ids=named)
def test_a_perfect_memory_gets_everything(game):
    np.testing.assert_allclose(returns(game, game.player(), jax.random.key(1), episodes=8), 1.0, atol=1e-5)


def test_who_counts_cards_guesses_better_than_who_looks_at_the_last_alone():
    """Without memory the best guess is the half that the card is not in: about 0.47 of a return of at most 48/52."""
    game = HigherLower()
    found = returns(game, game.player(), jax.random.key(1), episodes=512)
    assert 0.5 < found.mean() < 0.6


def test_every_deck_is_whole():
    for game in SMALL:
        state, _ = begin(game, jax.random.key(3))
        cards = np.asarray(state.cards).reshape(-1, CARDS)
        assert (np.sort(cards) == np.arange(CARDS)).all()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: RepeatPrevious(k=52), "k must be from 1 to 51"),
        (lambda: RepeatFirst(decks=0), "decks must be from 1 to 64"),
        (lambda: CountRecall(kinds=3), "kinds must be one of 2, 4, 13"),
    ],
)
def test_what_cannot_be_dealt_is_refused_in_a_line(make, said):
    with pytest.raises(TaskError, match=said) as told:
        make()
    assert "\n" not in str(told.value)
