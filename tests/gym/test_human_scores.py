"""Human-normalised scores of DMLab-30, on numbers worked by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gtrxl.gym.dmlab.human import average, normalised, splits
from gtrxl.gym.dmlab.levels import LEVELS, SETS, split_of
from gtrxl.tasks.errors import TaskError


def test_one_level_by_hand():
    """Watermaze: random 4.065, human 54. Halfway is 29.0325; twice the way 103.935."""
    assert normalised("rooms_watermaze", 4.065) == 0.0
    assert normalised("rooms_watermaze", 54.0) == 100.0
    assert normalised("rooms_watermaze", 29.0325) == pytest.approx(50.0)
    assert normalised("rooms_watermaze", 103.935) == pytest.approx(200.0)
    # 100 * (20 - -0.083) / (18.6 - -0.083) = 2008.3 / 18.683
    assert normalised("lasertag_one_opponent_large", 20.0) == pytest.approx(107.4934, abs=1e-4)


def test_an_average_by_hand():
    """Levels at 0, 50, 100 and 200 of 100: 87.5 on average, and (0 + 50 + 100 + 100) / 4 = 62.5 capped."""
    scores = {
        "rooms_watermaze": 103.935,
        "skymaze_irreversible_path_hard": 0.1,
        "skymaze_irreversible_path_varied": 57.2,
        "rooms_collect_good_objects_test": 10.0,
    }
    found = average(scores)
    assert (found.mean, found.capped, found.levels) == (pytest.approx(87.5), pytest.approx(62.5), 4)


def test_a_level_is_scored_on_its_test_level():
    assert normalised("rooms_collect_good_objects_test", 5.0) == normalised("rooms_collect_good_objects_train", 5.0)
    assert [level.test for level in LEVELS.values() if level.test != level.name] == [
        "rooms_collect_good_objects_test",
        "rooms_exploit_deferred_effects_test",
    ]
    with pytest.raises(TaskError, match="counts once"):
        average({"rooms_collect_good_objects_test": 1.0, "rooms_collect_good_objects_train": 1.0})


def test_splits_by_hand():
    """Memory levels at a human's score, reactive ones three times as far from the random one: (8 * 100 + 22 * 300) / 30."""
    three = {name: level.random + 3 * (level.human - level.random) for name, level in LEVELS.items()}
    scores = {name: level.human if level.memory else three[name] for name, level in LEVELS.items()}
    found = splits(scores)
    assert found["memory"].mean == pytest.approx(100.0)
    assert (found["memory"].levels, found["reactive"].levels, found["all"].levels) == (8, 22, 30)
    assert (found["reactive"].mean, found["reactive"].capped) == (pytest.approx(300.0), pytest.approx(100.0))
    assert (found["all"].mean, found["all"].capped) == (pytest.approx(246.66667), pytest.approx(100.0))


def test_a_split_counts_only_when_all_its_levels_are_there():
    scores = dict.fromkeys(SETS["dmlab30-memory"], 1.0)
    assert set(splits(scores)) == {"memory"}
    scores.pop("rooms_watermaze")
    assert splits(scores) == {}
    assert set(splits(scores | {"gym:CartPole-v1": 3.0})) == set()


@given(st.lists(st.floats(-500, 500), min_size=30, max_size=30))
def test_averages_agree_with_numpy(returns):
    """An independent spelling of the same two formulas."""
    scores = dict(zip(LEVELS, returns, strict=True))
    human, random = (np.array([getattr(level, of) for level in LEVELS.values()]) for of in ("human", "random"))
    per_cent = 100 * (np.array(returns) - random) / (human - random)
    found = average(scores)
    np.testing.assert_allclose(found.mean, per_cent.mean(), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.capped, np.minimum(per_cent, 100).mean(), rtol=1e-9, atol=1e-9)
    assert found.capped <= min(found.mean, 100.0) + 1e-9


def test_the_table_is_the_published_one():
    """Sums of the published columns, and a few rows, taken from the source by another way."""
    assert len(LEVELS) == 30
    assert sum(level.human for level in LEVELS.values()) == pytest.approx(SUM_HUMAN)
    assert sum(level.random for level in LEVELS.values()) == pytest.approx(SUM_RANDOM)
    for name, human, random in (("explore_object_rewards_many", 106.7, 2.438), ("language_execute_random_task", 254.05, -5.913)):
        assert (LEVELS[name].human, LEVELS[name].random) == (human, random)


def test_bad_scores_are_one_line():
    for bad, said in ((lambda: normalised("numpad", 1.0), "one of the thirty"), (lambda: average({}), "at least one")):
        with pytest.raises(TaskError, match=said) as caught:
            bad()
        assert "\n" not in str(caught.value)
    with pytest.raises(TaskError, match="finite"):
        normalised("rooms_watermaze", float("nan"))


SUM_HUMAN, SUM_RANDOM = 3110.15, 72.617
"""Of the 30 rows of the source."""


@pytest.mark.parametrize(
    ("task", "split"),
    [
        ("rooms_watermaze:height=24,width=32", "memory"),
        ("dmlab:explore_goal_locations_large", "memory"),
        ("rooms_collect_good_objects", "reactive"),
        ("dmlab:rooms_collect_good_objects_test", "reactive"),
        ("psychlab_arbitrary_visuomotor_mapping:reduced=0", "reactive"),
        ("t-maze:corridor=4", None),
        ("gym:CartPole-v1", None),
    ],
)
def test_the_split_of_a_task_is_its_level_s(task, split):
    assert split_of(task) == split
