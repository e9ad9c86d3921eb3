"""Psychlab's levels with two buttons: a cross begins a trial, a button that is looked at turns green or red and pays when it is
left, and what is right depends on what was shown."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.tasks.errors import TaskError
from gtrxl.tasks.first_person.actions import LAB_ACTIONS
from gtrxl.tasks.first_person.level import LevelState
from gtrxl.tasks.first_person.levels.psychlab import comparison, drawings, recognition, search
from gtrxl.tasks.first_person.levels.psychlab.comparison import SequentialComparison
from gtrxl.tasks.first_person.levels.psychlab.recognition import NEW, OLD, ContinuousRecognition
from gtrxl.tasks.first_person.levels.psychlab.screen import ASIDE, angles_of
from gtrxl.tasks.first_person.levels.psychlab.search import VisualSearch
from gtrxl.tasks.first_person.levels.psychlab.trials import CROSS, LIT, SHOWN, Staircase, TwoButtons
from tests.marks import few
from tests.tasks.first_person.playing import one_step, played, same_alone_and_in_a_batch, start

STILL = jnp.int32(list(LAB_ACTIONS).index("fire"))
SIZE = {"height": 36, "width": 48}
RECOGNITION, COMPARISON = ContinuousRecognition(trials=6, **SIZE), SequentialComparison(trials=6, **SIZE)
SEARCH = VisualSearch(trials=6, **SIZE)
ALL = [RECOGNITION, COMPARISON, SEARCH]
EACH = pytest.mark.parametrize("task", ALL, ids=lambda task: type(task).__name__)
GREEN, RED, INK = (70, 235, 70), (235, 70, 70), (0, 0, 0)
look = jax.jit(lambda task, world: task.picture(world, **SIZE), static_argnums=0)
look_closely = jax.jit(lambda task, world: task.picture(world, height=72, width=96), static_argnums=0)


def gazing(state: LevelState, where) -> LevelState:
    x, y = np.deg2rad(angles_of(jnp.asarray(where, jnp.float32)))
    return eqx.tree_at(lambda of: (of.world.body.heading, of.world.body.pitch), state, (jnp.float32(x), jnp.float32(y)))


def looking(task: TwoButtons, state: LevelState, where) -> tuple[LevelState, float]:
    """A step with the gaze there."""
    state, reward = one_step(task, gazing(state, where), STILL)
    return state, float(reward)


def phase(state: LevelState) -> int:
    return int(state.world.own.phase)


def asked(task: TwoButtons, state: LevelState) -> LevelState:
    """From the cross to the question, through whatever comes between."""
    state, _ = looking(task, state, (0, 0))
    if phase(state) == comparison.STUDY:
        box = comparison.BOXES[int(state.world.own.task.box)]
        for where in (box, -3 * box):
            state, _ = looking(task, state, where)
    for _ in range(70):
        if phase(state) == SHOWN:
            return state
        state, _ = looking(task, state, (12, 12))
    raise AssertionError(phase(state))


def answered(task: TwoButtons, state: LevelState, *, right: bool) -> tuple[LevelState, float]:
    """One whole trial from the cross on."""
    state = asked(task, state)
    number = int(task.is_right(state.world.own.task))
    state, nothing = looking(task, state, task.buttons[number if right else 1 - number])
    assert nothing == 0
    return looking(task, state, (0, 20))


def colour_of_button(task: TwoButtons, state: LevelState, number: int) -> tuple[int, ...]:
    """A pixel of a button beside the mark of the gaze, seen while looking straight at it."""
    picture = np.asarray(look_closely(task, gazing(state, task.buttons[number]).world))
    return tuple(picture[36 - 2, 48 - 1].tolist())


# Trials


@EACH
def test_a_trial_begins_when_the_cross_is_looked_at(task):
    state = start(task, jax.random.key(0))
    for where in ((10, 0), (0, -10), tuple(task.buttons[0])):
        state, reward = looking(task, state, where)
        assert (phase(state), reward) == (CROSS, 0)
    assert phase(looking(task, state, (2, -2))[0]) == task.opening()


@EACH
@pytest.mark.parametrize("right", [True, False])
def test_a_button_is_lit_while_it_is_looked_at_and_pays_when_it_is_left(task, right):
    state = asked(task, start(task, jax.random.key(3)))
    number = int(task.is_right(state.world.own.task))
    chosen = number if right else 1 - number
    assert colour_of_button(task, state, 0) == colour_of_button(task, state, 1) == INK, "nobody is told"
    for where in ((0, 0), (15, 10), (-15, -10)):
        state, reward = looking(task, state, where)
        assert (phase(state), reward) == (SHOWN, 0), "looking at nothing answers nothing"
    for _ in range(3):
        state, reward = looking(task, state, task.buttons[chosen])
        assert (phase(state), reward, int(state.world.own.done)) == (LIT, 0, 0)
        assert colour_of_button(task, state, chosen) == (GREEN if right else RED)
        assert colour_of_button(task, state, 1 - chosen) == INK
    state, reward = looking(task, state, task.buttons[1 - chosen])
    assert (phase(state), reward, int(state.world.own.done)) == (CROSS, float(right), 1), "a second answer does not count"


@EACH
def test_the_episode_ends_when_the_last_button_is_left(task):
    fresh = start(task, jax.random.key(0))
    last = eqx.tree_at(lambda of: of.world.own.done, fresh, jnp.int32(task.trials - 1))
    state = asked(task, last)
    state, _ = looking(task, state, task.buttons[0])
    ends = jax.jit(task.advance)
    assert not bool(ends(state, STILL)[2]), "it is still looked at"
    assert bool(ends(gazing(state, (0, 0)), STILL)[2])


def test_one_looks_beside_the_cross_at_first():
    headings = np.rad2deg(np.asarray(jax.jit(jax.vmap(SEARCH.build))(jax.random.split(jax.random.key(0), 200)).body.heading))
    assert np.abs(headings).max() <= ASIDE
    assert headings.min() < -15 < 15 < headings.max()


@pytest.mark.parametrize("task", few(ALL, keep=lambda number, _: number == 0), ids=lambda task: type(task).__name__)
def test_the_player_knows_every_answer_and_episodes_do_not_depend_on_each_other(task):
    steps = {RECOGNITION: 40, COMPARISON: 420, SEARCH: 130}[task]
    batch = played(task, steps)
    assert (batch.rewards.cumsum(1) >= task.trials).any(1).all()
    same_alone_and_in_a_batch(task, batch, steps=steps)


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        (ContinuousRecognition, {"trials": 2501}, "trials must be from 1 to 2500, got 2501"),
        (SequentialComparison, {"trials": 0}, "trials must be at least 1, got 0"),
        (VisualSearch, {"height": 4}, "height must be from 8"),
    ],
)
def test_bad_settings_are_refused_in_one_line(kind, arguments, message):
    with pytest.raises(TaskError, match=message) as caught:
        kind(**arguments)
    assert "; " in str(caught.value)


# How hard it is


def test_the_staircase_goes_up_after_no_mistake_and_down_after_too_many():
    """Level K lasts K trials. Up after K right ones, down after at most half of them, else the same level again."""
    step = jax.jit(lambda stairs, correct: stairs.after(correct, highest=4))

    def after(*answers: int) -> tuple[int, int]:
        stairs = Staircase.first()
        for answer in answers:
            stairs = step(stairs, jnp.bool_(answer))
        return int(stairs.level), int(stairs.tried)

    assert after(0) == (1, 0)
    assert after(1) == (2, 0)
    assert after(1, 1) == (2, 1)
    assert after(1, 1, 1) == (3, 0)
    assert after(1, 1, 0) == (1, 0), "one of two is half"
    three = (1, 1, 1)
    assert after(*three, 1, 1, 0) == (3, 0), "two of three is more than half"
    assert after(*three, 1, 0, 0) == (2, 0), "one of three is less"
    assert after(*three, 1, 1, 1, 1, 1, 1, 1) == (4, 0), "there is no more"


@pytest.mark.parametrize("task", [COMPARISON, SEARCH], ids=["comparison", "search"])
def test_answers_move_the_staircase(task):
    state = start(task, jax.random.key(1))
    levels = []
    for right in (True, True, True, False, False, False):
        state, reward = answered(task, state, right=right)
        assert reward == float(right)
        levels.append(int(state.world.own.task.stairs.level))
    assert levels == [2, 2, 3, 3, 3, 2]


def draws(task: TwoButtons, level: int, count: int = 3000):
    """So many trials at a level, as NumPy."""
    first = task.first(jax.random.key(0))
    first = dataclasses.replace(first, stairs=dataclasses.replace(first.stairs, level=jnp.int32(level)))
    drawn = jax.jit(jax.vmap(lambda key: task.following(first, key)))(jax.random.split(jax.random.key(level), count))
    return jax.tree.map(np.asarray, drawn)


def near(share: float, expected: float, count: int = 3000) -> bool:
    """Within four standard errors."""
    return abs(share - expected) < 4 * np.sqrt(expected * (1 - expected) / count)


# Recognition


@pytest.fixture(scope="module")
def recognised():
    """What is shown in 400 episodes of 20 trials, whatever is answered."""
    task = ContinuousRecognition(trials=20, **SIZE)

    def one(key):
        first_key, key = jax.random.split(key)

        def step(seen, key):
            seen = task.following(seen, key)
            return seen, (seen.picture, task.is_right(seen))

        return jax.lax.scan(step, task.first(first_key), jax.random.split(key, 20))[1]

    pictures, right = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(0), 400))
    return np.asarray(pictures), np.asarray(right)


def test_a_picture_is_old_when_it_was_shown_before(recognised):
    pictures, right = recognised
    for shown, answers in zip(pictures, right, strict=True):
        assert answers.tolist() == [OLD if picture in shown[:t] else NEW for t, picture in enumerate(shown)]
    assert (right[:, 0] == NEW).all()
    assert near((right[:, 1:] == NEW).mean(), 0.5, right[:, 1:].size)


def test_every_earlier_picture_is_as_likely_to_come_again(recognised):
    """Of the second and third picture that were new, where the fourth is old: each of three a third of the time."""
    pictures, right = recognised
    places = [
        shown[:3].tolist().index(shown[3])
        for shown, answers in zip(pictures, right, strict=True)
        if answers[:3].tolist() == [NEW] * 3 and answers[3] == OLD
    ]
    assert len(places) > 30
    assert all(abs(places.count(place) / len(places) - 1 / 3) < 4 * np.sqrt(2 / 9 / len(places)) for place in range(3))
    assert len({tuple(shown) for shown in pictures}) == len(pictures), "an order of its own for each episode"


def test_no_two_of_the_pictures_are_the_same():
    cells = np.arange(1, drawings.GRAIN, 4)
    row, column = map(jnp.asarray, np.meshgrid(cells, cells, indexing="ij"))
    drawn = np.asarray(jax.jit(jax.vmap(lambda number: drawings.drawing(number, row, column)))(jnp.arange(drawings.POOL)))
    flat = drawn.reshape(drawings.POOL, -1).astype(np.uint8)
    assert drawings.POOL == 2500
    assert len(np.unique(flat, axis=0)) == 2500
    # The least that two differ by: a figure's or a pattern's cells, never a stray pixel.
    some = flat[np.random.default_rng(0).permutation(2500)[:300]].reshape(300, -1, 3)
    apart = (some[:, None] != some[None]).any(-1).sum(-1)
    assert (apart + 1000 * np.eye(300) >= 10).all()


def test_the_picture_is_shown_and_fills_three_quarters_of_the_screen():
    state = asked(RECOGNITION, start(RECOGNITION, jax.random.key(0)))
    picture = np.asarray(look(RECOGNITION, gazing(state, (0, 0)).world))
    other = eqx.tree_at(lambda of: of.world.own.task.pictures, state, state.world.own.task.pictures + 10)
    changed = (np.asarray(look(RECOGNITION, gazing(other, (0, 0)).world)) != picture).any(-1)
    assert changed.sum() > 50, "another number is another picture"
    degrees = 76 / 48
    columns = np.flatnonzero((picture[3] != 255).any(-1) & (np.abs(np.arange(48) - 23.5) * degrees < recognition.EDGE))
    assert abs((columns[-1] - columns[0] + 1) * degrees - 0.75 * 2 * recognition.EDGE) < 2 * degrees


# Comparison


def test_one_object_changes_half_of_the_time_in_what_the_kind_of_trial_allows():
    level = 5
    drawn = draws(COMPARISON, level)
    study, test = drawn.study, drawn.test
    assert (study.there.sum(1) == level).all()
    assert (study.there == test.there).all()
    colour, figure = study.colour != test.colour, study.figure != test.figure
    assert not ((colour | figure) & ~study.there).any()
    assert ((colour.sum(1) + figure.sum(1)) == drawn.changed).all(), "one object, in one thing"
    assert near(drawn.changed.mean(), 0.5)
    there = study.there
    for domain in range(5):
        of = drawn.domain == domain
        assert near(of.mean(), 0.2)
        squares = (study.figure[of] == comparison.SQUARE)[there[of]]
        changes = (colour[of].any(), figure[of].any())
        colours = [len(set(row[here])) for row, here in zip(study.colour[of], there[of], strict=True)]
        figures = [len(set(row[here])) for row, here in zip(study.figure[of], there[of], strict=True)]
        match domain:
            case comparison.LETTERS_VARY:
                assert (squares.any(), changes) == (False, (True, True))
            case comparison.COLOUR_VARIES:
                assert (squares.any(), changes, max(figures)) == (False, (True, False), 1)
            case comparison.DIRECTION_VARIES:
                assert (squares.any(), changes, max(colours)) == (False, (False, True), 1)
            case comparison.SQUARES:
                assert (squares.all(), changes) == (True, (True, False))
            case comparison.BOTH:
                assert near(squares.mean(), 0.2, squares.size)
                kinds = (study.figure[of] == 0) != (test.figure[of] == 0)
                assert (changes, kinds.any()) == ((True, True), True)
    letters = drawn.domain != comparison.BOTH
    assert ((study.figure == 0) == (test.figure == 0))[letters].all(), "a letter stays a letter"
    assert {int(delay): near((drawn.delay == delay).mean(), 1 / 6) for delay in np.unique(drawn.delay)} == dict.fromkeys(
        (2, 4, 8, 16, 32, 64), True
    )


def test_the_study_lasts_until_the_box_is_left_and_the_empty_screen_by_the_clock():
    state, _ = looking(COMPARISON, start(COMPARISON, jax.random.key(5)), (0, 0))
    task = state.world.own.task
    box, delay = comparison.BOXES[int(task.box)], int(task.delay)
    for where in (*(-3 * box,) * 5, (20, 5), COMPARISON.buttons[0], COMPARISON.buttons[1]):
        state, _ = looking(COMPARISON, state, where)
        assert phase(state) == comparison.STUDY, "one may look for as long as one likes"
    for _ in range(3):
        state, _ = looking(COMPARISON, state, box)
        assert phase(state) == comparison.STUDY
    empty, picture = 0, np.zeros(0)
    state, _ = looking(COMPARISON, state, -3 * box)
    while phase(state) == comparison.BLANK:
        picture = np.asarray(look(COMPARISON, gazing(state, (0, 0)).world))
        state, _ = looking(COMPARISON, state, COMPARISON.buttons[0])
        empty += 1
        assert empty < 100
    assert (phase(state), empty) == (SHOWN, delay)
    middle = picture[:, 4:44].reshape(-1, 3)
    assert np.unique(middle, axis=0).tolist() == [[110, 110, 110], [255, 255, 255]], "nothing but the mark of the gaze"


def test_the_question_shows_nothing_of_the_study():
    """What was there must be remembered."""
    state = gazing(asked(COMPARISON, start(COMPARISON, jax.random.key(2))), (0, 0))
    task = state.world.own.task
    other = dataclasses.replace(task.study, colour=(task.study.colour + 1) % 7, figure=(task.study.figure + 1) % 5)
    forged = eqx.tree_at(lambda of: of.world.own.task.study, state, other)
    forged = eqx.tree_at(lambda of: of.world.own.task.changed, forged, ~task.changed)
    np.testing.assert_array_equal(look(COMPARISON, forged.world), look(COMPARISON, state.world))
    forged = eqx.tree_at(lambda of: of.world.own.task.test, state, other)
    assert (np.asarray(look(COMPARISON, forged.world)) != np.asarray(look(COMPARISON, state.world))).any()


# Search


@pytest.mark.parametrize(("level", "count"), [(1, 1), (4, 2), (10, 32)])
def test_there_is_a_magenta_t_half_of_the_time_among_others_of_the_trials_kind(level, count):
    drawn = draws(SEARCH, level)
    assert (drawn.there.sum(1) == count).all()
    target = drawn.there & (drawn.shape == search.T) & (drawn.colour == search.MAGENTA)
    assert (target.sum(1) == drawn.present).all(), "one, and only if it says so"
    assert near(drawn.present.mean(), 0.5)
    others = drawn.there & ~target
    for mode in range(3):
        of = (drawn.mode == mode)[:, None] & others
        shapes, colours = set(drawn.shape[of].tolist()), set(drawn.colour[of].tolist())
        assert near((drawn.mode == mode).mean(), 1 / 3)
        assert (shapes, colours) == [
            (set(range(1, 8)), {search.MAGENTA}),
            ({search.T}, set(range(1, 5))),
            (set(range(8)), set(range(5))),
        ][mode]


def test_the_stages_are_dmlab_s_and_all_shapes_are_in_view_from_the_middle():
    assert search.NUMBERS.tolist() == [1, 1, 1, 2, 2, 4, 8, 16, 24, 32]
    assert search.PLACES >= 32
    state = asked(SEARCH, start(SEARCH, jax.random.key(0)))
    everywhere = eqx.tree_at(
        lambda of: (of.world.own.task.there, of.world.own.task.shape),
        gazing(state, (0, 0)),
        (jnp.ones(search.PLACES, bool), jnp.zeros(search.PLACES, jnp.int32)),
    )
    picture = np.asarray(SEARCH.view(everywhere, height=72, width=96))
    for place in range(search.PLACES):
        colour = search.COLOURS[int(everywhere.world.own.task.colour[place])]
        row, column = divmod(place, search.ROWS)
        x, y = (column + 0.5) * search.CELL - search.GRID, search.GRID - (row + 0.5) * search.CELL
        assert picture[int(36 - y * 96 / 76), int(48 + x * 96 / 76)].tolist() == colour.tolist(), "the stem of a T"


def test_no_two_shapes_are_the_same():
    assert len({shape.tobytes() for shape in search.SHAPES}) == 8
    assert (search.SHAPES[1] == search.SHAPES[0][::-1]).all()
    assert (search.SHAPES[3] == search.SHAPES[2][:, ::-1]).all()
    assert (search.SHAPES[5] == search.SHAPES[4][:, ::-1]).all()
