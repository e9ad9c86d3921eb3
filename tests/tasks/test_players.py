"""Players with a perfect memory: they know only what they saw, find every sequence, and score what `scores.json` says."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.tasks import TASKS, GridNumpad, Numpad, Recall, TaskError, TMaze, make_task, reference_scores, spell
from gtrxl.tasks.contract import Task
from gtrxl.tasks.episodes import record, returns
from gtrxl.tasks.numpad.explorer import Explorer, continuations
from gtrxl.tasks.numpad.grid import GridNumpadPlayer
from gtrxl.tasks.numpad.pads import Pads, Sequence
from gtrxl.tasks.numpad.paths import orders, paths
from gtrxl.tasks.players.scripted import RandomPlayer, perfect_memory
from gtrxl.tasks.scores import load
from gtrxl.tasks.sets import VARIANTS


@pytest.mark.parametrize(
    ("name", "who", "episodes"),
    [
        ("grid-numpad", "random", 256),
        ("grid-numpad", "best", 256),
        ("grid-numpad", "told", 256),
        ("numpad-2x2", "best", 32),
        ("t-maze", "random", 256),
        ("recall", "random", 256),
        ("recall", "best", 256),
    ],
)
def test_kept_scores_agree_with_a_fresh_measurement(name, who, episodes):
    """Within five standard errors of the difference; another seed, fewer episodes."""
    task = make_task(name)
    player = {"random": RandomPlayer, "best": perfect_memory, "told": type(task).told_player}[who](task)
    found = returns(task, player, jax.random.key(1), episodes=episodes)
    kept = reference_scores(task)
    error = np.hypot(getattr(kept, f"{who}_error"), found.std(ddof=1) / np.sqrt(episodes))
    assert abs(getattr(kept, who) - found.mean()) <= 5 * error + 1e-6


def test_every_task_of_the_catalogue_has_scores_in_order():
    assert list(load()) == [*TASKS, *VARIANTS]
    for name in TASKS:
        scores = reference_scores(make_task(name))
        assert scores.random < scores.best
        assert scores.told is None or scores.best < scores.told
        assert scores.normalised(scores.random) == 0
        assert scores.normalised(scores.best) == 100
        assert scores.episodes >= (64 if TASKS[name].first_person else 1000)


def test_the_scores_are_those_that_trials_found_or_better():
    """A separate trial had 45.0 and 76.6 for an explorer, 49.8 and 93.5 for one that is told (2 x 2 and 3 x 3)."""
    small, large = reference_scores(make_task("grid-numpad")), reference_scores(make_task("grid-numpad-3x3"))
    assert small.best == pytest.approx(45.0, abs=0.2)
    assert large.best == pytest.approx(76.6, abs=0.4)
    assert small.told == pytest.approx(49.75, abs=0.02)
    assert large.told == pytest.approx(93.5, abs=0.2)


def test_where_the_best_is_known_the_player_reaches_it():
    for name, chance in (("t-maze", 0.5), ("recall", 0.25)):
        scores = reference_scores(make_task(name))
        assert scores.best == pytest.approx(1.0)
        assert scores.random == pytest.approx(chance, abs=5 * scores.random_error + 1e-4)


def test_a_task_outside_the_catalogue_is_measured():
    task = TMaze(corridor=3)
    assert spell(task) not in load()
    assert reference_scores(task).best == 1
    assert reference_scores(task) is reference_scores(TMaze(corridor=3)), "once"
    assert reference_scores(task).told is None


@pytest.mark.parametrize("task", [GridNumpad(), Numpad(), TMaze(), Recall()], ids=lambda task: type(task).__name__)
def test_players_begin_with_nothing_unless_they_are_told(task):
    states = [jax.jit(task.reset)(jax.random.key(seed))[0] for seed in (0, 1)]
    notes = [jax.tree.leaves(perfect_memory(task).begin(state)) for state in states]
    for one, other in zip(*notes, strict=True):
        np.testing.assert_array_equal(one, other)
    insider = task.told_player()
    if insider is not None:
        knows = [insider.begin(state).learnt.known for state in states]
        assert (np.asarray(knows[0]) != np.asarray(knows[1])).any()


def test_the_explorer_finds_every_sequence():
    """All 24 of them on 2 x 2, from the first pad: known in full at the end, and in the right order."""
    task = GridNumpad(episode_steps=40)
    player = GridNumpadPlayer(task)

    def explore(order: jax.Array) -> jax.Array:
        state, observation = task.reset(jax.random.key(0))
        pads = Pads(order=order, lit=jnp.int32(0), paid=jnp.int32(0))
        state = type(state)(pads=pads, row=state.row, column=state.column, elapsed=state.elapsed)

        def body(carry, _):
            state, observation, notes = carry
            notes, action = player.act(notes, observation, jax.random.key(0))
            state, step = task.step(state, action)
            return (state, step.observation, notes), None

        (_, _, notes), _ = jax.lax.scan(body, (state, observation, player.begin(state)), length=40)
        return jnp.where(notes.learnt.count == 4, notes.learnt.known, -1)

    np.testing.assert_array_equal(jax.jit(jax.vmap(explore))(jnp.asarray(orders(2, 4))), paths(2, 4))


@pytest.mark.parametrize(("size", "length"), [(2, 1), (2, 4), (3, 4), (3, 9), (4, 3)])
def test_continuations_count_the_paths(size, length):
    ways = continuations(size, length)
    assert sum(ways[1 << pad, pad] for pad in range(size * size)) == len(paths(size, length))


def test_the_explorer_tries_only_what_can_be():
    """3 x 3, the sequence begins 0, 1, 2: pads 4 and 5 can follow, and going by 5 is possible in more ways."""
    explorer = Explorer(Sequence(size=3, length=9))
    begun = [path for path in paths(3, 9).tolist() if path[:3] == [0, 1, 2]]
    share = {pad: sum(path[3] == pad for path in begun) for pad in (4, 5)}
    next_pad, learn = jax.jit(explorer.next_pad), jax.jit(explorer.learn)
    notes = explorer.begin()
    for number, pad in enumerate((0, 1, 2)):
        lit, reward, pressed = jnp.int32(number), jnp.float32(1), jnp.ones((), bool)
        notes = learn(notes, lit=lit, pad=jnp.int32(pad), pressed=pressed, reward=reward)
    costs = jnp.ones((9, 9))
    first = int(next_pad(notes, lit=jnp.int32(3), costs=costs, here=jnp.int32(2)))
    assert first == max(share, key=lambda pad: share[pad])
    notes = learn(notes, lit=jnp.int32(3), pad=jnp.int32(first), pressed=jnp.ones((), bool), reward=jnp.float32(0))
    assert int(next_pad(notes, lit=jnp.int32(3), costs=costs, here=jnp.int32(2))) == 9 - first
    assert int(next_pad(notes, lit=jnp.int32(0), costs=costs, here=jnp.int32(2))) == 0, "back to the first one"


def test_a_record_is_the_episode_whose_return_is_counted():
    task = TMaze(corridor=4, patience=2)
    episode = record(task, perfect_memory(task), jax.random.key(0))
    assert len(episode.states) == 6
    assert len(episode.actions) == len(episode.rewards) == 5
    assert episode.rewards == [0, 0, 0, 0, 1]
    found = returns(task, perfect_memory(task), jax.random.key(0), episodes=3)
    assert found.tolist() == [1, 1, 1]


def test_no_episodes_and_no_player_are_said():
    with pytest.raises(TaskError, match="episodes must be at least 1, got 0"):
        returns(TMaze(), RandomPlayer(TMaze()), jax.random.key(0), episodes=0)

    other = type("Other", (Task,), dict.fromkeys(("observation_space", "action_space", "reset", "step")))()
    with pytest.raises(TaskError, match="write your own `Player`"):
        perfect_memory(other)
