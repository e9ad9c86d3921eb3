"""Statistics of many runs against independent ones: SciPy's trimmed mean, formulas worked by hand."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from gtrxl.report.statistics import interquartile_mean, probability_of_improvement, ranked, summary
from gtrxl.report.verdicts import compare, compare_shares, sentence

SCORES = st.lists(st.floats(-100, 100), min_size=1, max_size=40)


@given(st.integers(1, 8).flatmap(lambda n: st.lists(st.floats(-100, 100), min_size=4 * n, max_size=4 * n)))
def test_the_interquartile_mean_is_scipys_where_quarters_are_whole(scores: list[float]):
    assert interquartile_mean(np.array(scores)) == pytest.approx(scipy.stats.trim_mean(scores, 0.25), abs=1e-9)


@given(SCORES)
def test_the_interquartile_mean_of_a_batch_repeated_is_the_same(scores: list[float]):
    assert interquartile_mean(np.repeat(scores, 3)) == pytest.approx(float(interquartile_mean(np.array(scores))), abs=1e-6)


def test_the_standard_error_by_hand():
    made = summary([1.0, 2.0, 3.0, 4.0])
    assert made.mean == 2.5
    assert made.error == pytest.approx(np.sqrt((2.25 + 0.25 + 0.25 + 2.25) / 3 / 4))
    assert made.low <= made.iqm <= made.high


def test_one_run_has_no_standard_error_and_an_interval_of_no_width():
    made = summary([7.0])
    assert np.isnan(made.error)
    assert (made.low, made.iqm, made.high) == (7.0, 7.0, 7.0)


def test_the_interval_has_the_truth_in_it_about_as_often_as_it_says():
    generator = np.random.default_rng(0)
    inside = sum((made := summary(generator.normal(5.0, 1.0, 40).tolist(), seed=i)).low <= 5.0 <= made.high for i in range(200))
    assert 0.86 <= inside / 200 <= 0.99


def test_ranks_go_from_best_to_worst():
    assert ranked([2.0, 3.0, 1.0]) == [3.0, 2.0, 1.0]


def test_improvement_counts_pairs_and_halves_ties():
    assert probability_of_improvement([2.0, 2.0], [1.0, 2.0]) == 0.75


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict"),
    [
        ([9, 10, 11, 10, 9], [1, 2, 1, 2, 1], "holds"),
        ([1, 2, 1, 2, 1], [9, 10, 11, 10, 9], "contradicted"),
        ([1, 9, 2, 8, 5], [2, 8, 1, 9, 5], "open"),
        ([9, 10], [1, 2, 1], "too few"),
    ],
)
def test_a_claim_is_held_against_the_runs(ours: list[float], theirs: list[float], verdict: str):
    made = compare("ours", "theirs", {"ours": [float(x) for x in ours], "theirs": [float(x) for x in theirs]})
    assert made.verdict == verdict
    said = {
        "holds": "Holds: ours above theirs.",
        "contradicted": "The opposite of the claim holds: theirs above ours.",
        "open": "Cannot be told from these runs: ours above theirs.",
        "too few": "Too few runs to say: ours above theirs.",
    }
    assert sentence([made]) == said[verdict]


def test_shares_have_the_interval_of_newcombes_example():
    """56 of 70 against 48 of 80: Newcombe, Statistics in Medicine 17 (1998), table II, method 10."""
    flags = {"ours": [True] * 56 + [False] * 14, "theirs": [True] * 48 + [False] * 32}
    made = compare_shares("ours", "theirs", flags, relation="diverges more often than")
    assert (made.difference, made.low, made.high) == pytest.approx((0.2, 0.0524, 0.3339), abs=1e-4)
    assert str(made).startswith("ours diverges more often than theirs: holds (difference +0.2 [+0.0524, +0.334])")


@pytest.mark.parametrize(("yes", "verdict"), [(4, "open"), (8, "holds"), (0, "open")])
def test_what_happens_to_few_runs_is_seen(yes: int, verdict: str):
    flags = {"ours": [True] * yes + [False] * (25 - yes), "theirs": [False] * 25}
    assert compare_shares("ours", "theirs", flags, relation="more often than").verdict == verdict


def test_shares_of_too_few_runs_say_nothing():
    assert compare_shares("ours", "theirs", {"ours": [True] * 9, "theirs": [False] * 2}, relation="than").verdict == "too few"


def test_a_claim_about_one_of_several_tasks_says_which():
    made = compare("ours", "theirs", {"ours": [5.0, 6.0, 7.0], "theirs": [1.0, 2.0, 3.0]}, where="4 x 4")
    assert sentence([made]) == "Holds: ours above theirs on 4 x 4."
